"""Sentences as tokens: words, numbers and marks of any script, what was typed, and how the tokenizer is chosen."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.grammar import is_token
from nqg.text.sentences import (
    AS_IS,
    Casing,
    SentenceTokenizer,
    fit_and_tokenize,
    with_other_contractions,
)

WORDS = SentenceTokenizer()
EVERYTHING = SentenceTokenizer("words", "keep", "keep")


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("Turn on the lamp!", "turn on the lamp"),
        ("What's Anna's number?", "what 's anna 's number"),
        ("I'll be late, don’t wait", "i 'll be late don't wait"),
        ("wake me at 7:30am or 8 a.m.", "wake me at 7:30 am or 8 a.m."),
        ("it costs $1,000.50, or 20%", "it costs $ 1,000.50 or 20 %"),
        ("a 20-minute timer at -5°C", "a 20 minute timer at -5 ° c"),
        (
            "on 2027-03-12, 12/03/2027 or the 21st",
            "on 2027-03-12 12/03/2027 or the 21st",
        ),
        (
            "am 3. Mai um 18:30 Uhr auf 20,5 Grad",
            "am 3. mai um 18:30 uhr auf 20,5 grad",
        ),
        ("à l'heure d'été, s'il te plaît", "à l' heure d' été s' il te plaît"),
        ("¿Podrías encender la luz?", "podrías encender la luz"),
        ("say “hi” at 5 o'clock via wi-fi", 'say " hi " at 5 o\'clock via wi-fi'),
        (
            "mail bob@ex-ample.co.uk https://a.b/c?d=e.",
            "mail bob@ex-ample.co.uk https://a.b/c?d=e",
        ),
        ("\u200fשלום, עולם؟", "שלום עולם"),
        ("मौसम कैसा है।", "मौसम कैसा है"),
        ("播放音乐。", "播 放 音 乐"),
        ("เปิดไฟที่ห้อง", "เ ปิ ด ไ ฟ ที่ ห้ อ ง"),
        ("👩‍👩‍👧 and 👍🏽", "👩‍👩‍👧 and 👍🏽"),
        ("Wohn\u00adzimmer e\u0301te\u0301", "wohnzimmer été"),
        ("m0 and state_name0", "m0 and state_name0"),
        ("?!", "? !"),
    ],
)
def test_sentences_are_cut_into_words(sentence: str, tokens: str) -> None:
    assert " ".join(WORDS.tokenize(sentence)) == tokens


def texts() -> st.SearchStrategy[str]:
    return st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30
    )


@given(text=texts(), tokenizer=st.sampled_from([WORDS, EVERYTHING, AS_IS]))
def test_tokens_are_in_order_and_know_where_they_stand(
    text: str, tokenizer: SentenceTokenizer
) -> None:
    tokens = tokenizer.tokens(text)
    assert all(is_token(token.text) for token in tokens)
    places = [place for token in tokens for place in (token.start, token.end)]
    assert places == sorted(places)
    assert all(text[token.start : token.end].strip() for token in tokens)
    assert bool(tokens) == bool(text.split())


@given(text=texts())
def test_only_white_space_and_invisible_characters_are_left_out(text: str) -> None:
    covered = "".join(
        text[token.start : token.end] for token in EVERYTHING.tokens(text)
    )

    def visible(string: str) -> str:
        return "".join(
            each
            for each in string
            if not each.isspace() and unicodedata.category(each) != "Cf"
        )

    assert visible(covered) == visible(text)


@given(text=texts())
def test_cutting_at_spaces_is_what_split_does(text: str) -> None:
    assert AS_IS.tokenize(text) == tuple(text.split())


def test_a_run_of_words_can_be_had_as_it_was_typed() -> None:
    sentence = "Play  Don’t Stop, Believin' by JOURNEY!"
    tokens = WORDS.tokens(sentence)
    assert [token.text for token in tokens[1:4]] == ["don't", "stop", "believin"]
    assert sentence[tokens[1].start : tokens[2].end] == "Don’t Stop"


@pytest.mark.parametrize(
    ("sentences", "tokenizer"),
    [
        (["A rose was helped by a dog .", "Emma ran ."], AS_IS),
        (["give me the cities in m0", "name the rivers in m0"], WORDS),
        (["Schalte das Licht ein", "wie spät ist es?"], WORDS),
        (["Turn on the lamp", "Turn it off"], WORDS),
    ],
    ids=["tokenised", "bare", "German", "capitals"],
)
def test_what_is_tokenised_stays_so(
    sentences: list[str], tokenizer: SentenceTokenizer
) -> None:
    assert fit_and_tokenize(sentences, range(len(sentences)))[0] == tokenizer


def fitted(
    pairs: list[tuple[str, str]], casing: Casing | None = None
) -> SentenceTokenizer:
    sentences, meanings = zip(*pairs)
    return fit_and_tokenize(sentences, meanings, casing=casing)[0]


def test_casing_that_makes_a_difference_is_kept() -> None:
    pairs = [("play us", "play(us)"), ("play US", "play(usa)"), ("Stop.", "stop()")]
    assert fitted(pairs) == SentenceTokenizer("words", "keep", "drop")
    assert fitted(pairs, casing="lower") == WORDS


def test_punctuation_that_makes_a_difference_is_kept() -> None:
    pairs = [
        ("Lamp on?", "is_on(lamp)"),
        ("lamp on", "turn_on(lamp)"),
        ("Fan on.", "turn_on(fan)"),
    ]
    assert fitted(pairs) == SentenceTokenizer("words", "lower", "keep")


def test_one_odd_annotation_among_many_is_no_difference() -> None:
    pairs = [(f"Sentence number {number}.", f"n({number})") for number in range(500)]
    assert fitted([*pairs, ("which us", "a"), ("which US", "b")]) == WORDS


def test_a_long_sentence_takes_no_more_than_its_length() -> None:
    for piece in ("a.", "1", "a-", "'", "x@", "https://", "a.b@c."):
        assert WORDS.tokenize(piece * 50_000)


@given(
    st.text(max_size=40),
    st.sampled_from(["lower", "keep"]),
    st.sampled_from(["drop", "keep"]),
)
def test_tokens_with_casing_and_marks_tell_all_others(
    text: str, casing: Literal["lower", "keep"], punctuation: Literal["drop", "keep"]
) -> None:
    tokenizer = SentenceTokenizer("words", casing, punctuation)
    rich = SentenceTokenizer("words", "keep", "keep")
    assert tokenizer.reduced(rich.tokens(text)) == tokenizer.tokens(text)


@pytest.mark.parametrize(
    ("sentence", "spelled"),
    [
        ("where's the ferry", "where is the ferry"),
        ("Where is the ferry?", "where 's the ferry"),
        ("who're they and who'll win", "who are they and who will win"),
        ("what is anna's number", "what 's anna 's number"),
        ("is it open", "is it open"),
    ],
)
def test_verbs_behind_pronouns_have_another_spelling(
    sentence: str, spelled: str
) -> None:
    tokens = with_other_contractions(WORDS.tokens(sentence))
    assert " ".join(token.text for token in tokens) == spelled
    # Values are written as the sentence has them.
    assert [token[1:] for token in tokens] == [
        token[1:] for token in WORDS.tokens(sentence)
    ]
