"""The call reader: calls in sentences that no rule derives, and what it refuses."""

from pathlib import Path

import pytest

from nqg.errors import FormatError
from nqg.files import write_text
from nqg.model.call_reader import CallReader, CallReading, resembles
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings
from nqg.training.call_alignment import fit_call_reader

ANIMALS = ("cows", "pigs", "hens", "sheep", "goats")
FIELDS = ("north", "south", "orchard", "meadow")
PAIRS = [
    *((f"feed the {name}", f'feed(animals="{name}")') for name in ANIMALS),
    *(
        (f"give the {name} hay", f'feed(animals="{name}", feed="hay")')
        for name in ANIMALS
    ),
    *(
        (
            f"feed the {name} at {hour} pm",
            f'feed(animals="{name}", time="{hour + 12}:00")',
        )
        for hour, name in enumerate(ANIMALS, start=1)
    ),
    *(
        (f"remind me to {task}", f'remind(task="{task}")')
        for task in ("fix the fence", "call Tom", "buy diesel", "clean up")
    ),
    *((f"water the {name} field", f'water(field="{name}")') for name in FIELDS),
    *(
        (
            f"water the {name} field for {minutes} minutes",
            f'water(field="{name}", minutes={minutes})',
        )
        for name, minutes in zip(FIELDS, (10, 15, 20, 45))
    ),
    ("stop everything", "stop_all()"),
    ("stop it all now", "stop_all()"),
]
TEXT = Preprocessor.fit(PAIRS)


def reader_of(
    pairs: list[tuple[str, str]], text: Preprocessor = TEXT
) -> CallReader | None:
    return fit_call_reader(text.tokenized_pairs(pairs), text.slots.free_text)


READER = reader_of(PAIRS)


def readings(sentence: str) -> list[CallReading]:
    assert READER
    tokenized = TEXT.tokenized(sentence)[0]
    return READER.readings(
        tokenized.words,
        tokenized.words_as_written,
        TEXT.slots.mentions(tokenized),
        TEXT.slots.free_text,
    )


def program(sentence: str) -> str:
    return TEXT.program(readings(sentence)[0].tokens)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("feed cows", 'feed(animals="cows")'),
        (
            "at 7 am the pigs must be fed: feed them",
            'feed(animals="pigs", time="7:00")',
        ),
        ("the meadow field wants water", 'water(field="meadow")'),
        ("for 30 minutes water the south field", 'water(field="south", minutes=30)'),
        ("stop all of it", "stop_all()"),
        # A form of a known word.
        ("start watering the north field", 'water(field="north")'),
    ],
)
def test_words_may_be_new_missing_or_in_another_order(
    sentence: str, expected: str
) -> None:
    assert program(sentence) == expected


def test_a_new_value_is_told_from_other_words() -> None:
    first = readings("please remind me to paint tractors")[0]
    assert TEXT.program(first.tokens) == 'remind(task="paint tractors")'
    assert first.new_values == 1
    assert readings("remind me to buy diesel")[0].new_values == 0


def test_values_that_are_left_out_are_counted() -> None:
    # Each animal may be read, but there is one argument for both.
    first = readings("feed the cows and the sheep")[0]
    assert TEXT.program(first.tokens).startswith("feed(")
    assert first.unread == 1
    assert readings("feed the sheep")[0].unread == 0


def test_probabilities_compare_readings_and_fit_compares_sentences() -> None:
    known, odd = readings("feed the cows"), readings("who was the king of france")
    assert known[0].probability > 0.9
    assert sum(reading.probability for reading in known) <= 1 + 1e-9
    assert known[0].fit > odd[0].fit


@pytest.mark.parametrize("sentence", ["do not feed the cows", "feed the cows never"])
def test_a_negation_that_the_function_never_had_is_no_reading(sentence: str) -> None:
    assert readings(sentence) == []


def test_a_negation_that_training_has_is_a_word_like_any_other() -> None:
    pairs = [*PAIRS, ("do not water the north field", 'close(field="north")')]
    text = Preprocessor.fit(pairs)
    reader = reader_of(pairs, text)
    assert reader
    tokenized = text.tokenized("do not water the south field")[0]
    found = reader.readings(
        tokenized.words, tokenized.words_as_written, [], text.slots.free_text
    )
    assert text.program(found[0].tokens) == 'close(field="south")'


def test_an_empty_sentence_and_a_very_long_one_have_no_reading() -> None:
    assert readings("") == []
    assert readings("feed the cows " * 30) == []


def test_words_for_values_that_do_not_resemble_them_are_found() -> None:
    pairs = [
        (f"{word} the lights in the {room}", f'light(room="{room}", level={level})')
        for word, level in (("dim", 20), ("brighten", 90))
        for room in ("den", "attic", "hall", "study")
    ]
    text = Preprocessor.fit(pairs)
    reader = reader_of(pairs[:3] + pairs[4:], text)
    assert reader
    tokenized = text.tokenized("in the study, dim the lights")[0]
    (first, *_) = reader.readings(
        tokenized.words, tokenized.words_as_written, [], text.slots.free_text
    )
    assert text.program(first.tokens) == 'light(room="study", level=20)'


@pytest.mark.parametrize(
    "pairs",
    [
        [("turn on the lamp", "on(lamp)"), ("turn off the fan", "off(fan)")],
        [("list all", "SELECT * FROM t"), ("count", "SELECT count(*) FROM t")],
        [("go", "go()"), ("stop", "stop()")],
        [("both", "and(a=f(x=1))"), ("more", "and(a=g(x=2))")],
    ],
)
def test_programs_that_are_no_flat_calls_have_no_reader(
    pairs: list[tuple[str, str]],
) -> None:
    assert reader_of(pairs, Preprocessor.fit(pairs)) is None


def test_arguments_come_in_the_order_of_training() -> None:
    pairs = [("a 1 b 2", "f(b=2, a=1)"), ("c 3 a 4", "f(a=4, c=3)")]
    text = Preprocessor.fit(pairs, TextSettings(arguments="keep"))
    reader = reader_of(pairs, text)
    assert reader
    assert reader.functions["f"].order == ("b", "a", "c")


def test_each_argument_stands_where_its_neighbours_in_training_say() -> None:
    # Format never stands beside topic and title together, and audience only beside format.
    pairs = [
        ("dune on tape", 'search(title="dune", format="tape")'),
        ("about cats for kids", 'search(topic="cats", audience="kids")'),
        ("by ann about cats", 'search(author="ann", topic="cats")'),
        ("tape for kids", 'search(format="tape", audience="kids")'),
    ]
    reader = reader_of(pairs, Preprocessor.fit(pairs))
    assert reader
    order = reader.functions["search"].order
    assert set(order) == {"title", "format", "topic", "audience", "author"}
    for before, behind in (
        ("title", "format"),
        ("topic", "audience"),
        ("author", "topic"),
        ("format", "audience"),
    ):
        assert order.index(before) < order.index(behind)


def test_arguments_follow_the_sentence_where_training_programs_do() -> None:
    pairs = [
        ("rain in Oslo on monday", 'weather(sky="rain", city="Oslo", day="monday")'),
        ("on friday in Rome", 'weather(day="friday", city="Rome")'),
        ("in Lima on sunday", 'weather(city="Lima", day="sunday")'),
        ("Bonn monday rain", 'weather(city="Bonn", day="monday", sky="rain")'),
    ]
    text = Preprocessor.fit(pairs)
    reader = reader_of(pairs, text)
    assert reader
    assert reader.in_sentence_order
    for sentence, expected in (
        ("friday in Lima", 'weather(day="friday", city="Lima")'),
        ("in Lima friday", 'weather(city="Lima", day="friday")'),
    ):
        tokenized = text.tokenized(sentence)[0]
        mentions = text.slots.mentions(tokenized)
        found = reader.readings(
            tokenized.words,
            tokenized.words_as_written,
            mentions,
            text.slots.free_text,
        )
        assert text.program(found[0].tokens, tokenized.words) == expected


def test_words_that_the_function_never_had_are_not_read() -> None:
    first = readings("yesterday somebody did water the north field")[0]
    assert TEXT.program(first.tokens) == 'water(field="north")'
    assert first.unread_words == (0, 1, 2)
    assert readings("water the north field")[0].unread_words == ()
    # A form of a known word is read.
    assert readings("watering the north field")[0].unread_words == ()


def test_what_all_calls_of_a_function_have_may_not_be_missing() -> None:
    for sentence in ("water", "water it all for 10 minutes"):
        for reading in readings(sentence):
            if reading.tokens[0] == "water":
                assert "field" in reading.tokens


def test_a_reader_that_was_written_is_the_same(tmp_path: Path) -> None:
    assert READER
    READER.write(tmp_path / "calls.json")
    again = CallReader.read(tmp_path / "calls.json")
    assert again == READER


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"count": 15', '"count": 0'),
        ('"count": 15', '"count": "15"'),
        ('"function": "feed"', '"function": "fly"'),
        ('"verbatim": 15', '"verbatim": -1'),
        ('"lengths": {"1"', '"lengths": {"one"'),
        ('"arguments": {"animals"', '"arguments": {"beasts"'),
    ],
)
def test_a_damaged_reader_is_refused(before: str, after: str, tmp_path: Path) -> None:
    assert READER
    path = tmp_path / "calls.json"
    READER.write(path)
    text = path.read_text(encoding="utf-8")
    assert before in text
    write_text(path, text.replace(before, after, 1))
    with pytest.raises(FormatError):
        CallReader.read(path)


def test_words_resemble_their_forms_alone() -> None:
    assert resembles("reservation", "reserve")
    assert not resembles("on", "off")
    assert not resembles("monday", "month")
