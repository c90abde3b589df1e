"""Types of programs: grammars of legal ones, inferred or given, and which derivations
yield them.
"""
