"""From a sentence to its program, with the derivation that explains it, or to an abstention."""
