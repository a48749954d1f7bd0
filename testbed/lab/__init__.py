"""The life of a lab: up, down, status, repair; its state file and lock; ways into a running one."""
