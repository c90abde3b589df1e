"""Grammar induction by minimum description length: the smallest grammar that explains
the training pairs.
"""
