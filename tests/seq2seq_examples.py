"""Pairs and settings that the tests of the sequence-to-sequence model share."""

from __future__ import annotations

from nqg.data.example import Example
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings

EXAMPLES = [
    Example("jump", "I_JUMP"),
    Example("jump twice", "I_JUMP I_JUMP"),
    Example("walk", "I_WALK"),
    Example("walk  twice", "I_WALK  I_WALK"),
    Example("turn left and jump", "( I_LTURN , I_JUMP )"),
    Example("turn left and walk twice", "( I_LTURN , I_WALK I_WALK )"),
]
SMALL = Seq2seqSettings(
    longest_target=16,
    embedded=SmallT5Settings(width=32, layers=1, heads=2, dropout=0.0),
)
BRIEF = FineTuningSettings(steps=6, batch_size=4, learning_rate=0.01)
