"""Faults from outside: kills, full disks, folders that cannot be written, and processes that do the same work."""
