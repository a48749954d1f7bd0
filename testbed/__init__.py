"""The testbed: lab files, the fabric in the kernel, faults, measurement, reports, the command line."""
