"""JSON that is learned as calls: nothing is lost, and what is no call stays JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.preprocessing.preprocessor import Preprocessor, TextSettings
from nqg.slots.target_grammars import decoded_grammar, encoded_grammar
from nqg.text.argument_order import ArgumentOrder
from nqg.text.json_calls import (
    ARGUMENT_KEYS,
    DEEPEST,
    NAME_KEYS,
    JsonCalls,
    fit_json_calls,
)
from nqg.text.programs import ProgramTokenizer, fit_programs
from nqg.types.target_grammar import TargetGrammar

NESTED = JsonCalls("name", "arguments")
FLAT = JsonCalls("intent")
STYLES = [
    NESTED,
    FLAT,
    JsonCalls("function", "parameters"),
    JsonCalls("tool", "args", has_name_last=True),
    JsonCalls("name", "params", omits_empty=True),
]
# How JSON is spaced, and whether it has other letters than ASCII.
SPACINGS: dict[str, dict[str, Any]] = {
    "usual": {},
    "compact": {"separators": (",", ":")},
    "wide": {"separators": (" , ", " : ")},
    "letters": {"ensure_ascii": False},
}

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
NAMES = st.from_regex(r"[a-z_]{1,6}(\.[a-z]{1,4})?", fullmatch=True) | TEXTS
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ATOMS = st.none() | st.booleans() | NUMBERS | TEXTS


def split(tokens: str) -> tuple[str, ...]:
    return tuple(tokens.split())


def written_call(
    style: JsonCalls, name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    if not style.arguments_key:
        return {style.name_key: name, **arguments}
    members: dict[str, Any] = {style.name_key: name}
    if arguments or not style.omits_empty:
        members[style.arguments_key] = arguments
    if style.has_name_last:
        return dict(reversed(members.items()))
    return members


def calls(style: JsonCalls) -> st.SearchStrategy[Any]:
    """Calls with any values: numbers, texts, lists, objects, and calls once more."""

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        members = st.dictionaries(NAMES, inner, max_size=3)
        return (
            st.lists(inner, max_size=3)
            | members
            | st.builds(
                lambda name, given: written_call(style, name, given), NAMES, members
            )
        )

    values = st.recursive(ATOMS, larger, max_leaves=6)
    arguments = st.dictionaries(NAMES, values, max_size=4)
    return st.builds(
        lambda name, given: written_call(style, name, given), NAMES, arguments
    )


def programs(style: JsonCalls) -> st.SearchStrategy[Any]:
    return calls(style) | st.lists(calls(style), max_size=3) | ATOMS


@pytest.mark.parametrize("style", STYLES, ids=repr)
@pytest.mark.parametrize("spacing", SPACINGS)
@given(data=st.data())
def test_any_json_survives_the_round_trip_to_the_byte(
    style: JsonCalls, spacing: str, data: st.DataObject
) -> None:
    drawn = data.draw(programs(style))
    program = json.dumps(drawn, **SPACINGS[spacing])
    usual = json.dumps(
        written_call(style, "f", {"a": "b", "c": 1}), **SPACINGS[spacing]
    )
    plain = fit_programs([usual, program], "code")
    tokenizer = replace(plain, calls=style)
    tokens = tokenizer.tokenize(program)
    assert style.decode(style.encode(tokens)) == tokens
    assert tokenizer.problem(program) == plain.problem(program)
    # With all white space in its place, the program comes back as it was.
    assert tokenizer.render(tokenizer.encoded(tokens)) == program


@given(
    st.lists(st.sampled_from([*'"{}[](),:=', "name", "arguments", "x"]), max_size=14)
)
def test_any_tokens_can_be_encoded_and_decoded(tokens: list[str]) -> None:
    for style in (NESTED, FLAT):
        encoded = style.encode(tokens)
        assert style.encode(encoded) == encoded
        # What is no JSON of training is told from what is.
        survives = style.decode(encoded) == tuple(tokens)
        assert bool(style.problem(tokens)) != survives


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ('{"name": "stop", "arguments": {}}', "stop ( )"),
        ('{"name": "stop"}', '{ name = " stop " }'),
        (
            '{"name": "light.on", "arguments": {"rooms": ["attic", 2], "all": null}}',
            'light . on ( rooms = [ " attic " , 2 ] , all = null )',
        ),
        (
            '{"name": "at", "arguments": {"do": {"name": "stop", "arguments": {}}}}',
            "at ( do = stop ( ) )",
        ),
        (
            '[{"name": "f", "arguments": {"a": {"b": true}}}, {"name": "g", "arguments": {}}]',
            "[ f ( a = { b = true } ) , g ( ) ]",
        ),
        (
            '{"name": "f", "arguments": {"zip-code": -2.5e3, "": "x: \\"y\\""}}',
            'f ( " zip - code " : -2.5e3 , " " : " x : \\" y \\" " )',
        ),
        (
            '{"name": "no name", "arguments": {}}',
            '{ name = " no name " , arguments = { } }',
        ),
        ('{"name": "f", "arguments": []}', '{ name = " f " , arguments = [ ] }'),
        (
            '{"name": "f", "id": 3, "arguments": {}}',
            '{ name = " f " , id = 3 , arguments = { } }',
        ),
        ('{"name": "f", "arguments": {}', '{ " name " : " f " , " arguments " : { }'),
        ('{"name": "f, "arguments": {}}', '{ " name " : " f , " arguments " : { } }'),
        ("null", "null"),
    ],
)
def test_calls_lose_their_braces_and_keys_their_quotes(
    program: str, expected: str
) -> None:
    tokenizer = ProgramTokenizer("code", calls=NESTED)
    encoded = tokenizer.normalized(program)
    written = [token for token in encoded if token not in ("⁀", "␣")]
    assert " ".join(written) == expected
    assert tuple(tokenizer.decoded(encoded)) == replace(
        tokenizer, calls=None
    ).normalized(program)


def test_calls_inside_of_calls_stay_objects_where_arguments_stand_beside_the_name() -> (
    None
):
    tokens = split('{ " intent " : " f " , " who " : { " intent " : " x " } }')
    assert " ".join(FLAT.encode(tokens)) == 'f ( who = { intent = " x " } )'


def test_a_calls_own_notation_is_not_json() -> None:
    tokenizer = replace(fit_programs(['{"name": "f"}']), calls=NESTED)
    assert "expected JSON as in training" in tokenizer.problem('f(a="b")')
    assert tokenizer.problem('{"name": "f", "arguments": {"a": "b"}}') == ""


@pytest.mark.parametrize("control", ["\0", "\x01", "\x1b"])
def test_a_control_character_is_a_problem_of_json_alone(control: str) -> None:
    plain = fit_programs(['{"name": "f", "arguments": {"a": "b"}}'])
    tokenizer = replace(plain, calls=NESTED)
    program = f'{{"name": "f", "arguments": {{"a": "b{control}c"}}}}'
    code = f"U+{ord(control):04X}"
    assert tokenizer.problem(program).endswith(f"the control character {code}")
    assert fit_programs(['f(a="b")']).problem(f'f(a="b{control}c")') == ""


@pytest.mark.parametrize("name_key", NAME_KEYS)
@pytest.mark.parametrize("arguments_key", ["", *ARGUMENT_KEYS])
def test_the_keys_are_those_of_training(name_key: str, arguments_key: str) -> None:
    style = JsonCalls(name_key, arguments_key)
    texts = [written_call(style, name, {"a": 1}) for name in ("f", "g")]
    tokenizer = ProgramTokenizer("code")
    tokens = [tokenizer.normalized(json.dumps(text)) for text in texts]
    if arguments_key:
        backwards = [
            tokenizer.normalized(json.dumps(dict(reversed(text.items()))))
            for text in texts
        ]
        assert fit_json_calls(backwards) == replace(style, has_name_last=True)
    assert fit_json_calls(tokens) == style


def test_calls_without_arguments_may_lack_the_key() -> None:
    tokenizer = ProgramTokenizer("code")
    texts = ['{"name": "stop"}', '{"name": "dim", "arguments": {"percent": 20}}']
    tokens = [tokenizer.normalized(text) for text in texts]
    fitted = fit_json_calls(tokens)
    assert fitted == JsonCalls("name", "arguments", omits_empty=True)
    assert " ".join(fitted.encode(tokens[0])) == "stop ( )"
    assert fit_json_calls(tokens[:1]) == JsonCalls("name")


def test_most_programs_must_be_calls_and_all_must_survive() -> None:
    call = tuple(split('{ " name " : " f " , " arguments " : { } }'))
    other, code = ("null",), split("f ( a = 1 )")
    assert fit_json_calls([call] * 5 + [other] * 5) == NESTED
    assert fit_json_calls([call] * 4 + [other] * 5) is None
    assert fit_json_calls([call] * 19 + [code]) is None
    assert fit_json_calls([]) is None


def test_brackets_may_be_as_deep_as_they_like() -> None:
    deep = ["[", *["["] * DEEPEST, *["]"] * DEEPEST, "]"]
    assert NESTED.encode(deep) == tuple(deep)
    assert NESTED.decode(deep) == tuple(deep)


def test_tokens_of_the_json_know_where_they_come_from() -> None:
    tokens = split('f ( a = " x " , b = 2 )')
    written = NESTED.written(tokens)
    for token in written:
        if token.symbol in ("f", "a", "x", "b", "2"):
            assert tokens[token.origin] == token.symbol
    assert sorted({token.origin for token in written}) == list(range(len(tokens)))


PAIRS = [
    ("dim the attic", '{"name": "dim", "arguments": {"room": "attic", "percent": 20}}'),
    ("stop", '{"name": "stop", "arguments": {}}'),
]


def test_a_preprocessor_with_calls_is_written_and_read(tmp_path: Path) -> None:
    text = Preprocessor.fit(PAIRS)
    assert text.programs.calls == NESTED
    text.write(tmp_path / "text.json")
    assert Preprocessor.read(tmp_path / "text.json") == text
    assert text.training_pair(*PAIRS[1]) == ("stop", "stop ( )")


def test_calls_can_be_left_alone() -> None:
    text = Preprocessor.fit(PAIRS, TextSettings(calls="none"))
    assert text.programs.calls is None
    assert '" name "' in text.training_pair(*PAIRS[0])[1]


def test_arguments_are_in_the_order_of_training_and_keep_their_origins() -> None:
    text = Preprocessor.fit(PAIRS)
    assert text.arguments == ArgumentOrder((("dim", "room", "percent"),))
    tokens = split('dim ( percent = 20 , room = " attic " )')
    assert text.program(tokens) == PAIRS[0][1]
    written = text.written(tokens)
    places = {token.symbol: token.origin for token in written}
    assert [tokens[places[word]] for word in ("room", "attic", "percent", "20")] == [
        "room",
        "attic",
        "percent",
        "20",
    ]
    # Programs that are learned as they are written have nothing to tell.
    assert Preprocessor().written(tokens) == []


GRAMMAR = """\
<program> ::= { " name " : " dim " , " arguments " : { <dim_list> } } | { " name " : " stop " , " arguments " : { } }
<dim_list> ::= " room " : <room> | " percent " : <#> | <dim_list> , <dim_list>
<room> ::= " <'> "
"""


def test_grammars_are_encoded_like_programs() -> None:
    programs = ProgramTokenizer("code", calls=NESTED)
    given = TargetGrammar.parse(GRAMMAR)
    encoded = encoded_grammar(given, programs)
    for _, program in PAIRS:
        assert encoded.accepts(programs.normalized(program))
    assert not encoded.accepts(split("stop ( percent = 20 )"))
    decoded, writing = decoded_grammar(encoded, programs)
    assert decoded == given
    assert writing == ProgramTokenizer("code")
    # Nothing changes a second time, nor where programs are not JSON.
    assert encoded_grammar(encoded, programs) == encoded
    assert encoded_grammar(given, writing) == given
