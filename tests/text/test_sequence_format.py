"""Sequences of commands in text: where sentences are divided, and how programs write several calls."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import SettingsError
from nqg.text.sequences import (
    MAX_CLAUSES,
    SequenceFormat,
    code_calls,
    detected_language,
    fit_sequences,
    json_calls,
)


def clauses(sentence: str, language: str = "en") -> list[str]:
    spans = SequenceFormat(language=language).clauses(sentence)
    return [sentence[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("en", "lights off and blinds down", ["lights off", "blinds down"]),
        ("en", "lights off, then blinds down", ["lights off", "blinds down"]),
        ("en", "lights off AND THEN blinds down", ["lights off", "blinds down"]),
        ("en", "lights off; blinds down", ["lights off", "blinds down"]),
        ("en", "lights off;blinds down", ["lights off", "blinds down"]),
        ("en", "Lights off. Blinds down.", ["Lights off", "Blinds down."]),
        ("en", "lights off , and blinds down", ["lights off", "blinds down"]),
        (
            "en",
            "lights off, and after that, blinds down",
            ["lights off", "blinds down"],
        ),
        (
            "en",
            "lights off. , and then, also blinds down",
            ["lights off", "blinds down"],
        ),
        ("de", "Licht aus und dann Rollo runter", ["Licht aus", "Rollo runter"]),
        ("fr", "éteins la lampe puis ferme", ["éteins la lampe", "ferme"]),
        ("es", "apaga la luz y luego cierra", ["apaga la luz", "cierra"]),
        ("it", "spegni la luce e chiudi", ["spegni la luce", "chiudi"]),
        ("nl", "licht uit en gordijn dicht", ["licht uit", "gordijn dicht"]),
        ("pt", "apaga a luz e fecha", ["apaga a luz", "fecha"]),
    ],
)
def test_connectives_and_marks_divide_a_sentence(
    language: str, sentence: str, expected: list[str]
) -> None:
    assert clauses(sentence, language) == expected


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "turn off the lights"),
        ("en", "turn on the light and not the fan"),
        ("en", "close the blinds, unless it is dark"),
        ("en", "if it rains, close the windows and turn on the light"),
        ("en", "turn on the light and don't open the door"),
        ("en", "turn on the light and after dinner close the door"),
        ("de", "Licht an und nicht der Lüfter"),
        ("de", "mach das Licht aus, wenn ich gehe"),
        ("fr", "ferme la porte, sauf la nuit"),
        # Another language's connective.
        ("fr", "mets la chanson en pause"),
        ("es", "enciende la luz en la cocina"),
        # No word of its own, or nothing around it.
        ("en", "turn on the sandwich maker at 1,000 watts"),
        ("en", "turn off the lights and"),
        ("en", "Turn off the lights. "),
        ("en", 'say "come down, and hurry"'),
        ("de", "sag „komm runter und iss“"),
        ("en", ""),
        ("en", "and turn off the lights"),
        ("en", " " * 100_000 + "on"),
        ("en", "." * 100_000 + "on"),
        ("en", "„" * 100_000),
        ("en", " and ".join("abcdefgh")),
    ],
)
def test_a_sentence_without_a_boundary_or_with_a_guard_is_one_clause(
    language: str, sentence: str
) -> None:
    assert clauses(sentence, language) == [sentence]


def test_as_many_clauses_are_found_as_the_bound_says() -> None:
    assert len(clauses(" and ".join("abcdefg"))) == MAX_CLAUSES


@given(st.text("ab ,;.and\"'", max_size=40))
def test_clauses_are_texts_of_the_sentence_from_left_to_right(sentence: str) -> None:
    spans = SequenceFormat().clauses(sentence)
    places = [place for span in spans for place in span]
    assert places == sorted(places)
    assert spans
    if len(spans) > 1:
        assert all(sentence[start:end].strip() for start, end in spans)


@pytest.mark.parametrize(
    ("program", "calls"),
    [
        ("on(lamp)", ["on(lamp)"]),
        ("light.turn_on ( area , 5 )", ["light.turn_on ( area , 5 )"]),
        ("light . on ( area )", ["light . on ( area )"]),
        ("on(lamp); off(fan)", ["on(lamp)", "off(fan)"]),
        ("on(lamp);\noff(fan);", ["on(lamp)", "off(fan)"]),
        ("on(lamp) && off(fan)", ["on(lamp)", "off(fan)"]),
        ("a(b(c), d[1]) ; e ( )", ["a(b(c), d[1])", "e ( )"]),
        ("say(text='a); b(c')", ["say(text='a); b(c')"]),
        ("lamp", []),
        ("a(x) > b(y)", []),
        ("a(x) b(y)", []),
        ("; a(x)", []),
        ("a(x", []),
        ("a(x)) b(y)", []),
        ("(a b)", []),
        ("SELECT count(*) FROM t", []),
        ("I_JUMP I_WALK", []),
        ("", []),
    ],
)
def test_a_program_is_read_as_calls_only_if_it_is_nothing_else(
    program: str, calls: list[str]
) -> None:
    assert list(code_calls(program).calls) == calls


@pytest.mark.parametrize(
    "program", ["[]", "[1]", "{", "[{}, 1]", "5", '"a"', "on(lamp)", "[" * 100_000]
)
def test_what_is_not_an_object_or_a_list_of_objects_has_no_json_calls(
    program: str,
) -> None:
    assert json_calls(program).calls == ()


objects = st.dictionaries(st.text(max_size=3), st.text('{}[],"a', max_size=5))


@given(st.lists(st.lists(objects, min_size=1, max_size=3), min_size=2, max_size=3))
def test_json_programs_become_one_array_of_all_their_objects(
    programs: list[list[dict[str, str]]],
) -> None:
    written = []
    for program in programs:
        content = program[0] if len(program) == 1 else program
        written.append(json.dumps(content))
    form = SequenceFormat("[", ", ", "]")
    assert all(map(form.is_command, written))
    expected = [element for program in programs for element in program]
    assert json.loads(form.join(written)) == expected


@pytest.mark.parametrize(
    ("programs", "setting", "expected"),
    [
        (["on(a)"], "auto", None),
        (["on(a)", "on(a); off(b)"], "auto", SequenceFormat()),
        (["on(a)", "on(a); off(b)"], "forbid", None),
        (["on(a)\noff(b)"], "auto", SequenceFormat(separator="\n")),
        (["loc(a), state(b)"], "auto", None),
        (["loc(a), state(b)"], "allow", SequenceFormat(separator=", ")),
        (["on(a)"], "allow", SequenceFormat()),
        (['{"name": "on"}'], "allow", SequenceFormat("[", ", ", "]")),
        (['[{"a": 1},{"b": 2}]'], "auto", SequenceFormat("[", ",", "]")),
        (["I_JUMP"], "auto", None),
        ([], "allow", SequenceFormat()),
    ],
)
def test_the_format_is_that_of_the_programs(
    programs: list[str], setting: str, expected: SequenceFormat | None
) -> None:
    assert fit_sequences(["the lamp"], programs, setting) == expected  # type: ignore[arg-type]


def test_programs_with_spaces_between_tokens_are_joined_with_spaces() -> None:
    form = fit_sequences(["lamp"], ["on ( a )"], "allow", is_spaced=True)
    assert form is not None
    assert form.join(["on ( a )", "off ( b )"]) == "on ( a ) ; off ( b )"


def test_sequences_of_what_is_not_a_call_are_refused() -> None:
    with pytest.raises(
        SettingsError, match="no program of the training data is a call"
    ):
        fit_sequences(["jump"], ["I_JUMP"], "allow")


def test_an_unknown_language_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError, match="'xx'; expected one of en, de"):
        SequenceFormat(language="xx")


@pytest.mark.parametrize(
    ("sentence", "language"),
    [
        ("turn on the lamp", "en"),
        ("mach das Licht im Bad an", "de"),
        ("allume les lampes dans la cuisine", "fr"),
        ("enciende las luces del salón", "es"),
        ("accendi la luce della cucina", "it"),
        ("doe het licht van de keuken aan", "nl"),
        ("liga a luz do quarto", "pt"),
        ("xyz", "en"),
    ],
)
def test_the_language_is_told_by_frequent_words(sentence: str, language: str) -> None:
    assert detected_language([sentence]) == language
