"""The pipeline of `nqg.train`: text, types, grammar, parser, second reader, confidence."""
