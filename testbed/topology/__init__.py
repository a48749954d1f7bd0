"""Lab files, the Clos they describe, its names, and what it can carry. Pure: no kernel, no clock."""
