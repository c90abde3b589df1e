"""Keywords belong to functions: which ones they take, in every notation."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.types.inference import (
    Coarseness,
    InferredTypes,
    infer_target_grammar,
    infer_types,
    shared_keywords,
)
from nqg.types.positions import Head
from nqg.types.program_trees import Form
from nqg.types.target_grammar import TargetGrammar
from strategies import programs

HOME = [
    ("wake", ("time",)),
    ("wake", ("time", "day")),
    ("play", ("genre",)),
    ("play", ("artist", "genre")),
    ("dim", ("room", "percent")),
    ("lights", ("room", "state")),
    ("lights", ("state",)),
]
# Seven of nine verbs have both roles; `melt` and `bless` are seen with one of them.
VERBS = ["see", "eat", "help", "hold", "like", "draw", "find"]
ROLES = [
    *[(verb, ("agent", "theme")) for verb in VERBS],
    ("give", ("agent", "theme", "recipient")),
    ("melt", ("agent",)),
    ("bless", ("theme",)),
]
Call = tuple[str, tuple[str, ...]]
Write = Callable[[str, Sequence[str]], str]


def as_call(name: str, keywords: Sequence[str]) -> str:
    inside = " , ".join(f"{key} = v_{key}" for key in keywords)
    return f"{name} ( {inside} )" if inside else f"{name} ( )"


def as_s_expression(name: str, keywords: Sequence[str]) -> str:
    inside = " ".join(f":{key} v_{key}" for key in keywords)
    return f"( {name} {inside} )"


def as_method(name: str, keywords: Sequence[str]) -> str:
    return f"house . {as_call(name, keywords)}"


def as_pipe(name: str, keywords: Sequence[str]) -> str:
    return f"start ( ) | {as_call(name, keywords)}"


def behind_an_argument(name: str, keywords: Sequence[str]) -> str:
    inside = " , ".join(["me", *(f"{key} = v_{key}" for key in keywords)])
    return f"{name} ( {inside} )"


def before_an_argument(name: str, keywords: Sequence[str]) -> str:
    inside = " , ".join([*(f"{key} = v_{key}" for key in keywords), "me"])
    return f"{name} ( {inside} )"


def as_json_call(name: str, keywords: Sequence[str]) -> str:
    inside = " , ".join(f'" {key} " : " v_{key} "' for key in keywords)
    return f'{{ " name " : " {name} " , " arguments " : {{ {inside} }} }}'


def as_plain_object(name: str, keywords: Sequence[str]) -> str:
    members = [f'" intent " : " {name} "']
    members += [f'" {key} " : " v_{key} "' for key in keywords]
    return f"{{ {' , '.join(members)} }}"


NOTATIONS = [
    as_call,
    as_s_expression,
    as_method,
    as_pipe,
    behind_an_argument,
    before_an_argument,
    as_json_call,
    as_plain_object,
]
in_all_notations = pytest.mark.parametrize(
    "write", NOTATIONS, ids=[write.__name__ for write in NOTATIONS]
)


def inferred(lines: Iterable[str]) -> InferredTypes:
    return infer_types([line.split() for line in lines])


def grammar_of(lines: Iterable[str]) -> TargetGrammar:
    return inferred(lines).grammar


# Keywords stay with their functions


@in_all_notations
def test_a_function_takes_the_keywords_that_it_was_seen_with(write: Write) -> None:
    grammar = grammar_of([write(*call) for call in HOME * 2])
    for name, keywords in [
        ("wake", ("day", "time")),
        ("play", ("artist",)),
        ("lights", ("room",)),
    ]:
        assert grammar.accepts(write(name, keywords).split())


@in_all_notations
def test_a_function_does_not_take_the_keywords_of_others(write: Write) -> None:
    grammar = grammar_of([write(*call) for call in HOME * 2])
    for name, keywords in [
        ("wake", ("genre",)),
        ("wake", ("time", "artist")),
        ("play", ("genre", "state")),
        ("dim", ("room", "state")),
        ("lights", ("percent",)),
    ]:
        assert not grammar.accepts(write(name, keywords).split())


@in_all_notations
def test_keywords_that_most_functions_have_cross_to_the_others(write: Write) -> None:
    grammar = grammar_of([write(*call) for call in ROLES * 2])
    assert grammar.accepts(write("melt", ("agent", "theme")).split())
    assert grammar.accepts(write("bless", ("agent", "theme")).split())
    assert not grammar.accepts(write("melt", ("agent", "recipient")).split())


def test_a_word_that_is_called_without_keywords_does_not_take_those_of_others() -> None:
    grammar = grammar_of(["pause ( )", "off ( )", "off ( device = lamp )"])
    assert not grammar.accepts(["pause", "(", "device", "=", "lamp", ")"])


def test_a_bare_word_is_modified_like_the_others() -> None:
    nouns = ["cat", "dog", "hen", "cow"]
    lines = [f"see ( {noun} )" for noun in [*nouns, "owl"]]
    lines += [f"see ( {noun} ( on = mat , in = hat ) )" for noun in nouns]
    grammar = grammar_of(lines)
    assert grammar.accepts(["see", "(", "owl", "(", "on", "=", "mat", ")", ")"])


def test_the_forms_of_a_call_share_its_keywords() -> None:
    lines = [
        "dim ( room = hall , percent = 10 )",
        "dim ( lamp , room = attic )",
        "play ( song = africa )",
    ]
    grammar = grammar_of(lines)
    assert grammar.accepts(["dim", "(", "lamp", ",", "percent", "=", "10", ")"])
    assert not grammar.accepts(["dim", "(", "lamp", ",", "song", "=", "africa", ")"])


# Objects


def test_a_call_without_arguments_is_an_object_with_an_empty_one() -> None:
    lines = [as_json_call(*call) for call in [*HOME, ("stop", ())] * 2]
    grammar = grammar_of(lines)
    assert grammar.accepts(as_json_call("stop", ()).split())
    assert not grammar.accepts(as_json_call("stop", ("genre",)).split())


def test_calls_in_a_list_have_the_same_signatures() -> None:
    calls = [as_json_call(*call) for call in HOME * 2]
    grammar = grammar_of([*calls, f"[ {calls[0]} , {calls[2]} ]"])
    legal, illegal = as_json_call("dim", ("room",)), as_json_call("dim", ("time",))
    assert grammar.accepts(f"[ {calls[0]} , {legal} ]".split())
    assert not grammar.accepts(f"[ {calls[0]} , {illegal} ]".split())


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        (["Ada", "Bob", "Eve", "Kim"], "names that are seen once are values"),
        (["@name", "@name-2"], "slots are values"),
    ],
)
def test_a_value_does_not_decide_which_keys_stand_beside_it(
    objects: list[str], why: str
) -> None:
    keys = ["phone", "mail"]
    lines = []
    for number, value in enumerate(objects):
        key = keys[number % 2]
        lines.append(f'{{ " name " : " {value} " , " {key} " : " x " }}')
    grammar = grammar_of(lines)
    other = f'{{ " name " : " {objects[0]} " , " mail " : " x " }}'
    assert grammar.accepts(other.split()), why


# What signatures say


def test_signatures_say_what_is_required_what_repeats_and_the_usual_order() -> None:
    lines = [
        "add ( list = todo , item = milk , item = tea )",
        "add ( list = todo , item = rice )",
        "add ( item = tea , list = shop , day = monday )",
        "go ( hall )",
        "go ( attic , 3 )",
        "stop ( )",
    ]
    signatures = {each.function: str(each) for each in inferred(lines).signatures}
    assert signatures == {
        "add": "add ( list = <list> item = <item> … [ day = <day> ] )",
        "go": "go ( <go_argument_1> [ <go_argument_2> ] )",
        "stop": "stop ( )",
    }


def test_a_keyword_that_crossed_was_seen_in_no_call() -> None:
    signatures = {
        each.function: each
        for each in inferred(as_call(*call) for call in ROLES).signatures
    }
    counts = {each.name: each.calls for each in signatures["melt"].keywords}
    assert counts == {"agent =": 1, "theme =": 0}


# Any programs

FUNCTIONS = st.sampled_from(["f", "g", "h"])
KEYS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
CALLS = st.lists(st.tuples(FUNCTIONS, KEYS.map(tuple)), min_size=1, max_size=9)


@given(CALLS, st.sampled_from(NOTATIONS[:4]), st.sampled_from([None, *Coarseness]))
def test_a_keyword_crosses_if_and_only_if_most_functions_have_it(
    calls: list[Call],
    write: Write,
    coarseness: Coarseness | None,
) -> None:
    grammar = infer_target_grammar([write(*call).split() for call in calls], coarseness)
    # The naive rule, by counting.
    seen = defaultdict[str, set[str]](set)
    for name, keys in calls:
        seen[name].update(keys)
    counts = Counter(key for keys in seen.values() for key in keys)
    for name, own in seen.items():
        for key, count in counts.items():
            is_legal = key in own or 2 * count > len(seen)
            assert grammar.accepts(write(name, (key,)).split()) == is_legal


@given(CALLS, st.randoms(), st.sampled_from(NOTATIONS))
def test_the_order_of_calls_decides_nothing(
    calls: list[Call],
    rng: random.Random,
    write: Write,
) -> None:
    shuffled = list(calls)
    rng.shuffle(shuffled)
    one = grammar_of(write(*call) for call in calls)
    other = grammar_of(write(*call) for call in shuffled)
    for name in ("f", "g", "h"):
        for key in "abcd":
            program = write(name, (key,)).split()
            assert one.accepts(program) == other.accepts(program)


@given(CALLS, st.sampled_from(NOTATIONS), st.sampled_from([None, *Coarseness]))
def test_all_calls_are_accepted(
    calls: list[Call],
    write: Write,
    coarseness: Coarseness | None,
) -> None:
    lines = [write(*call).split() for call in calls]
    grammar = infer_target_grammar(lines, coarseness)
    assert all(map(grammar.accepts, lines))


@given(st.lists(programs(), min_size=1, max_size=8))
def test_signatures_mention_categories_of_the_grammar(written: list[list[str]]) -> None:
    types = infer_types(written)
    categories = {production.left for production in types.grammar.productions}
    for signature in types.signatures:
        values = {keyword.type for keyword in signature.keywords}
        assert categories.issuperset(values.union(signature.places))


@given(st.lists(st.lists(st.sampled_from("abc"), unique=True), max_size=6))
def test_shared_keywords_are_those_of_more_than_half(sets: list[list[str]]) -> None:
    functions = [[Head(Form(), (word,)) for word in each] for each in sets]
    shared = {head.word[0] for head in shared_keywords(functions)}
    expected = set()
    for word in "abc":
        holders = [each for each in sets if word in each]
        if 2 * len(holders) > len(sets):
            expected.add(word)
    assert shared == expected
