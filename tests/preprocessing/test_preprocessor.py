"""Text before and after parsing: polite frames, pairs for training, and the file in a model folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError, SettingsError
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings
from nqg.text.sentences import (
    ASSISTANTS,
    GREETINGS,
    SentenceTokenizer,
    strip_politeness,
)
from nqg.text.sequences import SequenceFormat

RAW = [
    ("Turn on the lamp.", "on(lamp)"),
    ("Play Africa by Toto", 'play(song="Africa", artist="Toto")'),
]
BARE = [
    ("turn on the lamp", "on ( lamp )"),
    ("could you turn it off please", "off ( it )"),
]
MEANINGFUL = """
    not no never none nothing nobody neither nor without don't dont doesn't won't can't cannot shouldn't nicht nie pas
    stop cancel undo wait quit avoid do does is are was should must may might can could would will if unless when until
    before after while because only just also and or but then the a an all every some any both this that there here it
    i we you he she they my your in on at to for from by with what which who where why how
"""


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("please turn on the lamp", "turn on the lamp"),
        ("Could you please turn on the lamp, thank you?", "turn on the lamp"),
        ("hey jarvis turn on the lamp", "turn on the lamp"),
        ("Hey Alexa, turn on the lamp", "turn on the lamp"),
        ("OK Google, could you turn on the lamp, please?", "turn on the lamp"),
        ("hey turn on the lamp", "turn on the lamp"),
        ("hey could you turn on the lamp", "turn on the lamp"),
        ("Hey, can you turn on the lamp?", "turn on the lamp"),
        ("ok can you please turn on the lamp", "turn on the lamp"),
        ("hey don't turn on the lamp", "don't turn on the lamp"),
        ("Hey, DON’T turn on the lamp", "don't turn on the lamp"),
        ("hi never turn on the lamp", "never turn on the lamp"),
        ("hey could you not turn on the lamp", "not turn on the lamp"),
        ("hey jarvis don't turn on the lamp", "don't turn on the lamp"),
        ("Hello Anna, turn on the lamp", "anna turn on the lamp"),
        ("hey jarvis", "hey jarvis"),
        ("Könntest du bitte das Licht anmachen", "das licht anmachen"),
        ("weck mich bitte um 7", "weck mich um 7"),
        ("por favor, ¿puedes poner música?", "poner música"),
        ("Allume la lampe s'il te plaît", "allume la lampe"),
        ("I'd like you to stop", "stop"),
        ("can you", "can you"),
        ("thanks", "thanks"),
        ("can you can you", "can you can you"),
    ],
)
def test_polite_frames_are_taken_off(sentence: str, left: str) -> None:
    tokens = strip_politeness(SentenceTokenizer().tokens(sentence))
    assert " ".join(token.text for token in tokens) == left


@given(
    greeting=st.sampled_from(GREETINGS),
    name=st.sampled_from(("", *ASSISTANTS)),
    mark=st.sampled_from(["", ",", "!"]),
    word=st.sampled_from(MEANINGFUL.split()),
    spelled=st.sampled_from([str.lower, str.capitalize, str.upper]),
    comma=st.sampled_from(["", ","]),
)
def test_a_word_with_a_meaning_stays_after_any_greeting(
    greeting: str,
    name: str,
    mark: str,
    word: str,
    spelled: Callable[[str], str],
    comma: str,
) -> None:
    sentence = f"{greeting} {name}{mark} {spelled(word)}{comma} turn off the lamp"
    tokens = strip_politeness(SentenceTokenizer().tokens(sentence))
    assert [token.text for token in tokens] == [word, "turn", "off", "the", "lamp"]


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Hey Siri, turn on the lamp", "turn on the lamp"),
        ("hey could you stop the lamp", "stop the lamp"),
        ("ok never dim the lamp", "never dim the lamp"),
    ],
)
def test_training_and_parsing_see_the_same_words_after_a_greeting(
    sentence: str, words: str
) -> None:
    text = Preprocessor.fit(RAW)
    assert text.training_pair(sentence, "on(light)")[0] == words
    assert " ".join(text.tokenized(sentence)[0].words) == words


def test_sentences_that_need_no_change_keep_their_polite_frames_in_training() -> None:
    text = Preprocessor.fit(BARE)
    assert [text.training_pair(*pair) for pair in BARE] == BARE
    assert [each.words for each in text.tokenized("Please stop!")] == [
        ("please", "stop"),
        ("stop",),
    ]


def test_raw_sentences_lose_them_unless_the_program_needs_them() -> None:
    text = Preprocessor.fit(RAW)
    assert text.training_pair("Could you play Africa please?", "play(Africa)") == (
        "play africa",
        "play ( Africa )",
    )
    assert text.training_pair("Say please", 'say("please")') == (
        "say please",
        'say ( " please " )',
    )
    assert [each.words for each in text.tokenized("Please stop!")] == [
        ("stop",),
        ("please", "stop"),
    ]


def test_what_was_typed_can_be_had_again() -> None:
    (sentence,) = Preprocessor.fit(RAW).tokenized("Play  AC/DC's T.N.T., now")
    assert sentence.words == ("play", "ac", "/", "dc", "'s", "t.n.t.", "now")
    assert sentence.as_written(1, 6) == "AC/DC's T.N.T."
    assert sentence.as_written(1, 1) == ""


@pytest.mark.parametrize(
    ("program", "scheme"), [("city ( m0 )", "spaces"), ("city(m0)", "words")]
)
def test_sentences_are_tokenised_already_only_if_programs_are(
    program: str, scheme: str
) -> None:
    assert (
        Preprocessor.fit([("Give me the cities in M0 .", program)]).sentences.scheme
        == scheme
    )


def test_settings_win_over_what_the_data_shows() -> None:
    settings = TextSettings(
        sentences="spaces", casing="lower", programs="spaces", courtesy="keep"
    )
    text = Preprocessor.fit(RAW, settings)
    assert text.training_pair(*RAW[0]) == ("turn on the lamp.", "on(lamp)")


def texts() -> st.SearchStrategy[str]:
    return st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
    ).filter(str.strip)


@given(
    pairs=st.lists(st.tuples(texts(), texts()), min_size=1, max_size=5),
    sentence=texts(),
)
def test_training_pairs_are_never_empty_and_the_file_keeps_everything(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[str, str]],
    sentence: str,
) -> None:
    text = Preprocessor.fit(pairs)
    assert all(side.split() for pair in pairs for side in text.training_pair(*pair))
    path = tmp_path_factory.mktemp("text") / "text.json"
    text.write(path)
    assert Preprocessor.read(path) == text
    assert all(way.words for way in text.tokenized(sentence))


def test_how_sequences_are_written_is_kept_with_the_text(tmp_path: Path) -> None:
    text = Preprocessor.fit(RAW, TextSettings(sequence="allow"))
    assert text.sequence is not None
    text.write(tmp_path / "text.json")
    assert Preprocessor.read(tmp_path / "text.json") == text


def test_a_file_that_knows_nothing_of_sequences_has_none(tmp_path: Path) -> None:
    text = Preprocessor.fit(RAW)
    text.write(tmp_path / "text.json")
    assert "sequence" not in json.loads((tmp_path / "text.json").read_text())
    assert Preprocessor.read(tmp_path / "text.json").sequence is None


def test_text_that_is_tokenised_already_stays_plain_with_sequences() -> None:
    text = Preprocessor(sequence=SequenceFormat())
    assert text.is_plain
    assert text != Preprocessor()


def test_an_unknown_way_of_sequences_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError, match="expected auto, allow, forbid"):
        TextSettings(sequence="always")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {
                "sentences": {
                    "scheme": "letters",
                    "casing": "keep",
                    "punctuation": "keep",
                }
            },
            "expected one of words, spaces",
        ),
        (
            {"programs": {"scheme": "code", "gaps": {"(": {")": 3}}}},
            "expected a string",
        ),
        (
            {"courtesy": "rude"},
            "expected one of drop, keep as 'courtesy' of the text settings, found 'rude'",
        ),
        ({"case": "keep"}, "no key of the text settings 'case'"),
        ({"sequence": {"separator": "; "}}, "'opening' of the sequences is missing"),
        ({"sequence": "allow"}, "the sequences"),
    ],
    ids=["scheme", "gap", "courtesy", "key", "sequence key", "sequence"],
)
def test_a_file_that_is_not_one_is_refused(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    path = tmp_path / "text.json"
    Preprocessor.fit(RAW).write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=r"text\.json") as error:
        Preprocessor.read(path)
    assert reason in str(error.value)
