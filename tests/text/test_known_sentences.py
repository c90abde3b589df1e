"""The nearest known sentence is that of comparing a sentence with all of them."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.text.known_sentences import KnownSentences

sentences = st.lists(st.sampled_from("ABabcde"), max_size=5).map(" ".join)


def likeness(known: list[str], sentence: str, other: str) -> float:
    """Of two sentences: twice the weight of the words of both, over those of each."""
    bags = [set(text.casefold().split()) for text in (*known, sentence)]
    counts = Counter(word for bag in bags for word in bag)

    def weight(words: set[str]) -> float:
        return sum(math.log1p(len(known) / (1 + counts[word])) for word in words)

    wanted, bag = bags[-1], set(other.casefold().split())
    return 2 * weight(wanted & bag) / (weight(wanted) + weight(bag) or 1.0)


@given(st.lists(sentences, max_size=6), sentences)
def test_the_nearest_sentence_is_the_likest_of_all(
    known: list[str], sentence: str
) -> None:
    nearest = KnownSentences(known, str.split).nearest(sentence)
    most = max((likeness(known, sentence, other) for other in known), default=0.0)
    if nearest is None:
        assert most == 0
    else:
        assert likeness(known, sentence, nearest) == pytest.approx(most)


def test_each_known_sentence_is_tokenised_once() -> None:
    tokenized = []

    def tokenize(sentence: str) -> list[str]:
        tokenized.append(sentence)
        return sentence.split()

    known = KnownSentences(["lamp on", "fan off"], tokenize)
    assert [known.nearest("the fan"), known.nearest("swim")] == ["fan off", None]
    assert tokenized == ["lamp on", "fan off", "the fan", "swim"]
