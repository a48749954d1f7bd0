"""The Clos in the kernel: desired state as data, its application, its read-back, and what faults do to it."""
