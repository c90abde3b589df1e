"""The pipeline that makes a model: text, types, grammar, parser, second reader, confidence (`nqg.train`)."""
