"""Parse forests: every derivation of a source, or of a (source, target) pair, as arrays."""
