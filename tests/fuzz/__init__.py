"""Bad input for every reader: the table of readers, and how valid files are damaged."""
