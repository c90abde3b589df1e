"""What training shows of free text, and the signs that a free text is none."""

from __future__ import annotations

import pytest

from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Rule, SlotInstance
from nqg.grammar.hypergraph import Span
from nqg.model.free_text import FreeText, KnownTexts, TextUse
from nqg.text.sentences import SentenceTokenizer, TokenizedSentence


def instance(slot: str, *words: str) -> SlotInstance:
    return SlotInstance(words, words, Rule.parse(f"@{slot} ### @{slot}"))


def sentence(raw: str) -> TokenizedSentence:
    return TokenizedSentence(raw, SentenceTokenizer().tokens(raw))


ORDER = Derivation(
    (
        Hyperedge(Rule.parse("add NT_1 NT_2 now ### add ( NT_1 , NT_2 )"), Span(0, 6)),
        Hyperedge(instance("number", "two"), Span(1, 2)),
        Hyperedge(instance("item", "oat", "milk", "bread"), Span(2, 5)),
    )
)


@pytest.mark.parametrize(
    ("raw", "has_mark"),
    [
        ("Add two oat milk bread now!", False),
        ("add two oat milk, bread now", True),
        ("add two, oat milk bread, now", False),
        ("add two oat milk - bread now", True),
    ],
    ids=["no mark", "comma", "commas around it", "dash"],
)
def test_a_text_has_a_place_words_and_perhaps_a_mark(raw: str, has_mark: bool) -> None:
    use = TextUse.of(ORDER, {"item"}, sentence(raw))
    words = ("oat", "milk", "bread")
    assert use.texts == (FreeText("item", "@number", words, has_mark),)
    assert use.other_words == ("add", "now")


def test_a_text_at_the_beginning_has_no_word_before_it() -> None:
    rule = Rule.parse("NT_1 please ### say ( NT_1 )")
    edges = Hyperedge(rule, Span(0, 2)), Hyperedge(instance("text", "hi"), Span(0, 1))
    (text,) = TextUse.of(Derivation(edges), {"text"}).texts
    assert text == FreeText("text", "", ("hi",))


TRAINING = [
    TextUse((FreeText("song", "play", ("hey", "jude")),), ("play", "now")),
    TextUse((FreeText("song", "play", ("play", "it")),), ("play",)),
    TextUse((FreeText("item", "add", ("milk", "bread"), True),), ("add",)),
]
KNOWN = KnownTexts.of(TRAINING)


def test_what_is_known_is_sorted_and_has_no_word_that_is_in_texts() -> None:
    assert (
        KnownTexts(
            (("add", "item"), ("play", "song")),
            (("item", 2), ("song", 2)),
            ("item",),
            ("add", "now"),
        )
        == KNOWN
    )


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        (FreeText("song", "play", ("africa",)), 0),
        (FreeText("song", "play", ("play", "africa")), 0),
        (FreeText("item", "add", ("eggs", "flour"), True), 0),
        (FreeText("song", "", ("africa",)), 1),
        (FreeText("song", "add", ("africa",)), 1),
        (FreeText("song", "play", ("hey", "hey", "hey")), 1),
        (FreeText("song", "play", ("no", "jude"), True), 1),
        (FreeText("song", "play", ("africa", "now")), 1),
        (FreeText("song", "", ("do", "not", "add"), True), 4),
        (FreeText("note", "play", ("africa",)), 2),
    ],
    ids=[
        "as in training",
        "a word that texts have",
        "a mark that texts have",
        "at the beginning",
        "behind a word of another slot",
        "longer",
        "with a mark",
        "with a word from elsewhere",
        "everything",
        "of a slot without texts",
    ],
)
def test_signs_are_counted(text: FreeText, signs: int) -> None:
    assert KNOWN.signs([text]) == signs


def test_a_sign_of_several_texts_counts_once() -> None:
    misplaced = FreeText("song", "", ("africa",))
    long = FreeText("item", "add", ("a", "b", "c"))
    assert KNOWN.signs([misplaced, misplaced]) == 1
    assert KNOWN.signs([misplaced, long]) == 2
