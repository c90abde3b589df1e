"""The command line: one file per verb, and the only place that prints."""
