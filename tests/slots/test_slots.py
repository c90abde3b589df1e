"""Which slots training pairs show, in which forms programs write them, and what a sentence mentions."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError, LimitExceeded, NqgError
from nqg.slots.delexicalize import Pair, delexicalize_pairs
from nqg.slots.fit import fit_slots, infer_free_text_slots
from nqg.slots.matcher import Mention, SlotMatcher
from nqg.slots.slot import Slot, read_slots
from nqg.text.programs import CLOSING, OPENING, atoms, fit_programs
from nqg.text.sentences import SentenceTokenizer, Token, TokenizedSentence


def pairs(*lines: str) -> list[Pair]:
    return [
        (source.split(), target.split())
        for source, _, target in (line.partition(" ### ") for line in lines)
    ]


def fitted(
    *lines: str, slots: dict[str, Any] | None = None, today: date | None = None
) -> SlotMatcher:
    return fit_slots(pairs(*lines), read_slots(slots or {}), today=today)


def values(slots: SlotMatcher, sentence: str, **options: Any) -> dict[str, str]:
    words = sentence.split()
    return {
        f"{mention.slot}: {' '.join(words[mention.start : mention.end])}": " ".join(
            mention.value
        )
        for mention in slots.mentions(words, **options)
    }


LIGHTS = (
    "dim the lights to 20 percent ### dim ( 20 )",
    "dim to forty percent ### dim ( 40 )",
)
ALARMS = (
    'wake me at 7:30 am ### alarm ( " 7:30 am " )',
    'wake me at 6 pm ### alarm ( " 6:00 pm " )',
    'alarm for half past nine ### alarm ( " 9:30 " )',
)


def test_a_kind_that_both_sides_show_is_used_unasked() -> None:
    slots = fitted(*LIGHTS)
    assert slots.slots == (Slot("number", "number", ("{number}",)),)
    assert values(slots, "dim the lights to thirty five percent") == {
        "number: thirty five": "35"
    }


def test_a_kind_that_one_side_shows_is_not_used() -> None:
    assert fitted("the one in 20 minutes ### lamp", "the two ### lamps").slots == ()


def test_without_slots_the_language_does_not_matter() -> None:
    assert (
        fitted("wie ist das wetter in der stadt ### weather").to_dict()
        == SlotMatcher().to_dict()
    )


def test_what_a_value_lacks_is_left_out_where_programs_leave_it_out() -> None:
    slots = fitted(*ALARMS)
    assert values(slots, "at quarter to eight pm") == {
        "time: quarter to eight pm": "7:45 pm",
        "time: eight pm": "8:00 pm",
    }
    assert values(slots, "at quarter to eight") == {"time: quarter to eight": "7:45"}


@pytest.mark.parametrize(
    ("pair", "other", "sentence", "value"),
    [
        (
            "at 7 am ### at ( 07:00 )",
            "at 6:30 pm ### at ( 18:30 )",
            "quarter to nine",
            "08:45",
        ),
        ("set 5 ### set ( 5.0 )", "set two ### set ( 2.0 )", "set thirty", "30.0"),
        (
            "set five ### set ( five )",
            "set two ### set ( two )",
            "set thirty",
            "thirty",
        ),
        (
            "for 2 minutes ### for ( 120 )",
            "for an hour ### for ( 3600 )",
            "for half an hour",
            "1800",
        ),
        (
            "on monday ### on ( monday )",
            "for tomorrow ### on ( tomorrow )",
            "next friday",
            "next friday",
        ),
        (
            "on mon ### on ( monday )",
            "on tuesday ### on ( tuesday )",
            "on fri",
            "friday",
        ),
        (
            "the first ### item ( 0 )",
            "the 3rd ### item ( 2 )",
            "the twenty second",
            "21",
        ),
    ],
)
def test_a_form_is_learned_from_the_programs(
    pair: str, other: str, sentence: str, value: str
) -> None:
    assert value in values(fitted(pair, other), sentence).values()


def test_relative_dates_are_resolved_only_where_programs_do(tmp_path: Path) -> None:
    monday = date(2026, 11, 16)
    slots = fitted(
        "for tomorrow ### on ( 2026-11-17 )",
        "on friday ### on ( 2026-11-20 )",
        today=monday,
    )
    assert values(slots, "on sunday", today=date(2027, 1, 1)) == {
        "date: sunday": "2027-01-03"
    }
    assert values(slots, "on sunday") == {
        "date: sunday": "2026-11-22"
    }  # as in training
    assert SlotMatcher.from_dict(slots.to_dict(), tmp_path).today == monday
    assert values(
        fitted("for tomorrow ### on ( tomorrow )", "on friday ### on ( friday )"),
        "on sunday",
        today=monday,
    ) == {"date: sunday": "sunday"}


def test_two_ways_to_write_one_kind_are_two_slots() -> None:
    lines = [f"wait {n} minutes ### wait ( {60 * n} )" for n in (2, 3, 4)]
    lines += [f"timer {n} minutes ### timer ( {n} minutes )" for n in (5, 6)]
    slots = fitted(*lines)
    assert {
        slot.name: slot.forms[0] for slot in slots.slots if slot.kind == "duration"
    } == {
        "duration": "{count} {unit}",
        "duration-2": "{seconds}",
    }
    assert [" ".join(pair.target) for pair in delexicalize_pairs(slots, pairs(*lines))][
        2:4
    ] == [
        "wait ( @duration-2_1 )",
        "timer ( @duration_1 )",
    ]


def test_a_value_in_a_quoted_text_is_cut_like_quoted_text() -> None:
    def cut(value: str, quote: str) -> list[str]:
        return value.split() if quote else value.replace(" ", " _ ").split()

    slots = fit_slots(pairs(*ALARMS), tokenize_value=cut)
    assert slots.mentions(["at", "5", "am"])[-1].value == ("5:00", "am")


def test_where_values_are_alike_the_place_in_the_program_decides() -> None:
    lines = [
        *LIGHTS,
        "dim the lights to 7 at 6 ### dim ( 7 ) at 6",
        "dim at 8 ### at 8",
        "go at 9 ### at 9",
        "go by 5 ### at 5",
    ]
    slots = fitted(*lines)
    marked = [
        " ".join(pair.target) for pair in delexicalize_pairs(slots, pairs(*lines))
    ]
    assert marked[2:4] == ["dim ( @number_1 ) at @time_1", "at @time_1"]


def test_declared_slots_read_expressions_names_and_columns(tmp_path: Path) -> None:
    (tmp_path / "cities.tsv").write_text("New York\tnyc\nRome\trom\n")
    with sqlite3.connect(tmp_path / "air.sqlite") as connection:
        connection.execute("CREATE TABLE airline (name TEXT)")
        connection.execute("INSERT INTO airline VALUES ('Lufthansa')")
    connection.close()
    declared = read_slots(
        {
            "city": {"gazetteer": "cities.tsv"},
            "airline": {"column": "airline.name", "database": "air.sqlite"},
            "flight": {"regex": "(?:flight )?([A-Z]{2}[0-9]+)"},
            "title": "quoted",
            "room": {"gazetteer": ["Attic"]},
            "currency": {"gazetteer": {"euros": "EUR"}},
        },
        tmp_path / "nqg.toml",
    )
    slots = fit_slots([], declared)
    assert values(slots, "9 euros in the attic") == {
        "room: attic": "Attic",
        "currency: euros": "EUR",
    }
    assert values(slots, 'flight LH401 of lufthansa to New York , " New York "') == {
        "flight: LH401": "LH401",
        "flight: flight LH401": "LH401",
        "airline: lufthansa": "Lufthansa",
        "city: New York": "nyc",
        'title: " New York "': "New York",
    }


def test_the_typed_text_is_what_expressions_and_verbatim_forms_see() -> None:
    sentence = TokenizedSentence(
        "Play AC/DC!", (Token("play", 0, 4), Token("ac", 5, 7), Token("dc", 8, 10))
    )
    slots = fit_slots(
        [], read_slots({"band": {"regex": "[A-Z]+/[A-Z]+"}, "song": {"text": 3}})
    )
    assert slots.mentions(sentence) == (Mention(1, 3, "band", ("AC/DC",)),)
    assert slots.text_value(sentence, "song", 1, 3) == ("AC/DC",)


SONGS = (
    'play hey jude by queen ### play ( song = " Hey Jude " , artist = " Queen " )',
    'play africa loudly ### play ( song = " Africa " , volume = " loudly " )',
)


def test_free_text_is_marked_where_its_key_has_it() -> None:
    slots = fitted(
        *[line.lower() for line in SONGS],
        slots={"song": {"text": 4}, "artist": {"text": 4}},
    )
    assert slots.free_text == {"song": 4, "artist": 4}
    assert slots.mentions(["play", "hey", "jude"]) == ()
    marked = delexicalize_pairs(slots, pairs(*[line.lower() for line in SONGS]))
    assert [(" ".join(pair.source), " ".join(pair.target)) for pair in marked] == [
        (
            "play @song_1 by @artist_1",
            'play ( song = " @song_1 " , artist = " @artist_1 " )',
        ),
        ("play @song_1 loudly", 'play ( song = " @song_1 " , volume = " loudly " )'),
    ]


def test_free_text_that_no_key_is_called_after_takes_every_text() -> None:
    slots = fitted(*[line.lower() for line in SONGS], slots={"words": {"text": 4}})
    (_, pair) = delexicalize_pairs(slots, pairs(*[line.lower() for line in SONGS]))
    assert (
        " ".join(pair.target) == 'play ( song = " @words_1 " , volume = " @words_2 " )'
    )


def test_free_text_in_programs_without_quotes_stands_between_marks() -> None:
    lines = ["play hey jude by queen ### play ( song = hey jude , artist = queen )"]
    slots = fitted(*lines, slots={"words": {"text": 4}})
    (pair,) = delexicalize_pairs(slots, pairs(*lines))
    assert " ".join(pair.target) == "play ( song = @words_1 , artist = @words_2 )"


def test_slots_survive_a_round_trip(tmp_path: Path) -> None:
    (tmp_path / "cities.tsv").write_text("New York\tnyc\n")
    declared = read_slots(
        {
            "city": {"gazetteer": "cities.tsv"},
            "code": {"regex": "[a-z][0-9]"},
            "note": {"text": 5},
        },
        tmp_path / "nqg.toml",
    )
    slots = fit_slots(pairs(*ALARMS, *LIGHTS), declared)
    slots.write_names(tmp_path)
    again = SlotMatcher.from_dict(slots.to_dict(), tmp_path)
    assert again == slots
    assert again.to_dict() == slots.to_dict()
    sentence = ["new", "york", "b2", "at", "6:15", "pm", "20"]
    assert again.mentions(sentence) == slots.mentions(sentence) != ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "nummer",
            "slot 'x': no kind of slot 'nummer'; did you mean 'number'? Known: date, duration, number, ordinal",
        ),
        (7, "expected an object as slot 'x', found 7"),
        (
            {},
            "slot 'x': expected one of kind, regex, gazetteer, column or text, found neither",
        ),
        (
            {"regex": "a", "text": 3},
            "slot 'x': expected one of kind, regex, gazetteer, column or text, found regex and text",
        ),
        ({"regexp": "a"}, "no key of slot 'x' 'regexp'; did you mean 'regex'? Known: "),
        (
            {"regex": "(a"},
            "slot 'x': '(a' is not a regular expression: missing ) at position 2",
        ),
        (
            {"regex": "(a{1,999}){999}"},
            "slot 'x': '(a{1,999}){999}' repeats up to 998,001 times, expected at most 10,000",
        ),
        (
            {"gazetteer": []},
            "slot 'x': expected names as gazetteer, found ()",
        ),
        (
            {"gazetteer": {"euros": " "}},
            "slot 'x': expected names as gazetteer, found {'euros': ' '}",
        ),
        ({"gazetteer": 3}, "expected a string or a list or an object as 'gazetteer'"),
        (
            {"text": 0},
            "slot 'x': expected a number of words, at least 1, as text, found 0",
        ),
        ({"column": "a.b"}, "slot 'x': expected column and database together"),
        (
            {"kind": "time", "form": "{h.x}"},
            "slot 'x': '{h.x}' is not a form, expected one like '{h12}:{m:02}{ am}'",
        ),
    ],
)
def test_a_bad_declaration_is_refused_with_its_place(
    tmp_path: Path, value: object, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        read_slots({"x": value}, tmp_path / "nqg.toml")
    found = str(caught.value)
    assert (
        found.removeprefix(f"{tmp_path}/nqg.toml: ")
        .replace("a table", "an object")
        .startswith(message)
    )
    assert found.startswith(f"{tmp_path}/nqg.toml: ")


@pytest.mark.parametrize("name", ["", "a b", "number_1", "@x", "7up"])
def test_a_name_that_a_placeholder_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(
        FormatError,
        match=f"expected letters, digits and '-' as the name of a slot, found '{name}'",
    ):
        read_slots({name: "time"})


def test_a_hostile_expression_is_stopped() -> None:
    slots = [Slot("x", "regex", expression=r"(?:(?:a|a)+)+b")]
    sentence = ["a" * 5000]
    assert SlotMatcher("en", tuple(slots)).mentions(sentence) == ()
    with pytest.raises(
        LimitExceeded,
        match=r"slot 'x': the expression '.*' was stopped after 0.05 s on 'aaaa",
    ):
        fit_slots([(sentence, ["b"])], slots)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"language": "en"}, "the key 'slots' of slots is missing; expected a list"),
        ({"language": "xx", "slots": []}, "no language 'xx'. Known: de, en, es"),
        (
            {"language": "en", "slots": [{"name": "x", "kind": "y"}]},
            "expected one of number, ordinal",
        ),
        (
            {"language": "en", "slots": [], "today": "monday"},
            "expected a day such as 2026-11-16 as today, found 'monday'",
        ),
        (
            {"language": "en", "slots": [{"name": "x", "kind": "gazetteer"}]},
            "slot-x.tsv.gz: no such file",
        ),
        (
            {
                "language": "en",
                "slots": [{"name": "x", "kind": "time", "forms": ["{m:99}"]}],
            },
            "'{m:99}' is not a form",
        ),
    ],
)
def test_a_damaged_description_is_refused(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(NqgError) as caught:
        SlotMatcher.from_dict(values, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert message in str(caught.value)


@given(st.text(alphabet="abC1é, .-'\"", max_size=20))
def test_free_text_is_what_was_typed_however_it_is_found(raw: str) -> None:
    tokenizer, programs = (
        SentenceTokenizer(),
        fit_programs(['play(song="Hey Jude", by="The B")']),
    )
    slots = SlotMatcher(
        "en",
        tuple(
            Slot(name, "text", ("{verbatim}",), '"', length=3)
            for name in ("song", "by")
        ),
        programs.tokenize,
    )
    sentence = TokenizedSentence(raw, tokenizer.tokens(raw))
    spans = [
        (start, end)
        for start in range(len(sentence.tokens))
        for end in range(start + 1, min(start + 3, len(sentence.tokens)) + 1)
    ]
    for span in spans:
        for name in ("song", "by"):
            expected = programs.tokenize(sentence.as_written(*span), '"')
            assert slots.text_value(sentence, name, *span) == expected


def inferred(pairs: Sequence[Pair]) -> list[Slot]:
    """The slots of free text that pairs show."""
    slots = SlotMatcher()
    return infer_free_text_slots(pairs, delexicalize_pairs(slots, pairs), slots)


def test_words_that_programs_do_not_quote_are_no_free_text() -> None:
    rooms = ("attic", "hall", "cellar", "garage")
    bare = [
        ((f"how warm is the {room}").split(), ("degrees", "(", room, ")"))
        for room in rooms
    ]
    quoted = [
        (source, ("degrees", "(", "room", "=", '"', room, '"', ")"))
        for (source, _), room in zip(bare, rooms, strict=True)
    ]
    assert inferred(bare) == []
    assert [slot.name for slot in inferred(quoted)] == ["room"]


def test_values_that_sentences_mostly_say_in_other_words_are_no_free_text() -> None:
    rooms = ("attic", "hall", "cellar", "garage")

    def pair(said: str, room: str) -> Pair:
        return (
            f"how warm is the {said}".split(),
            ("degrees", "(", "room", "=", '"', room, '"', ")"),
        )

    copied = [pair(room, room) for room in rooms]
    reworded = [
        pair(said, "loft") for said in ("roof", "top", "upstairs", "studio", "den")
    ]
    assert [slot.name for slot in inferred(copied + reworded[:4])] == ["room"]
    assert inferred(copied + reworded) == []


@pytest.mark.parametrize(
    ("sentence", "is_open"),
    [
        ("please call {} now", True),  # names, however often the same few are seen
        (
            "Bitte ruf {} von der Straße im Haus an",
            False,
        ),  # nouns have capital letters, too
    ],
)
def test_names_with_capital_letters_are_free_text_where_other_words_have_none(
    sentence: str, is_open: bool
) -> None:
    tokenizer = SentenceTokenizer(casing="lower")
    raw = [
        sentence.format(name)
        for name in ("Anna", "Bob", "Carla Jones")
        for _ in range(5)
    ]
    names = [name for name in ("Anna", "Bob", "Carla Jones") for _ in range(5)]
    pairs = [
        (
            TokenizedSentence(text, tokenizer.tokens(text)),
            ("call", "(", '"', *name.split(), '"', ")"),
        )
        for text, name in zip(raw, names, strict=True)
    ]
    assert [slot.name for slot in inferred(pairs)] == ["call"] * is_open
    lowered = [
        (TokenizedSentence(each.raw.lower(), each.tokens), target)
        for each, target in pairs
    ]
    assert inferred(lowered) == []


@given(st.text("ab \\\"'`(),;=", max_size=8), st.sampled_from("\"'`"))
def test_a_contained_value_ends_where_its_quotes_do(value: str, quote: str) -> None:
    slots = SlotMatcher(slots=(Slot("who", "text"),))
    if not slots.is_safely_quoted("who", value.split(" "), quote):
        return
    kinds = [atom.kind for atom in atoms(f"call(who={quote}{value}{quote})")]
    assert [kinds.index(OPENING + quote), kinds.index(CLOSING + quote)] == [
        4,
        len(kinds) - 3,
    ]


@given(
    st.text("ab ", max_size=8),
    st.sampled_from('()[]{},;="'),
    st.text("ab ", max_size=8),
)
def test_free_text_without_quotes_has_no_mark_of_a_program(
    before: str, mark: str, after: str
) -> None:
    slots = SlotMatcher(slots=(Slot("who", "text"), Slot("when", "time")))
    assert slots.is_safely_quoted("who", (before + after).split(), "")
    assert not slots.is_safely_quoted("who", (before + mark + after).split(), "")
    assert slots.is_safely_quoted("when", (before + mark + after).split(), "")
