"""A sequence-to-sequence model, pre-trained or small and from scratch, fine-tuned on (source,
target) pairs.
"""
