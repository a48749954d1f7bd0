"""What a run recorded, and what follows from it: series, machine load, and the cost of each fault."""
