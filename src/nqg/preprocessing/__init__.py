"""From raw text to tokens and values, and back: the one description that training, parsing and the
web share.
"""
