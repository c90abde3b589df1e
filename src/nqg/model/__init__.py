"""The neural parsing model: an encoder, a scorer of anchored rules, and a CRF over
parse forests.
"""
