"""Templates by hand: slots in programs of any notation, and answers that are believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.evaluation.rule_trial import Change, rule_trial
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.inference.rules_by_hand import (
    read_rules,
    with_rules,
    without_rules,
    written_rules,
)
from nqg.model.confidence import PRIORS, Calibrator, RulePairs
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.types.target_grammar import TargetGrammar

PAIRS = [
    ("Play Hey Jude", 'play(song="Hey Jude")'),
    ("play Blue Train twice", 'play(song="Blue Train", times=2)'),
    ("play Africa three times", 'play(song="Africa", times=3)'),
    ("stop", "stop()"),
    ("Play Hello 4 times", 'play(song="Hello", times=4)'),
    ("please play Roxanne", 'play(song="Roxanne")'),
]
JSON_PAIRS = [
    (
        f"tell robot {number} that {text}",
        f'{{"name": "tell", "arguments": {{"robot": {number}, "message": "{text}"}}}}',
    )
    for number, text in enumerate(
        ("the dock is full", "lunch is ready", "door 4 is stuck", "we close now"), 2
    )
]
TEMPLATE = '[please] (put on|spin) {song} [{number:times} times] ### play(song="{song}", times={times})'


@pytest.fixture(scope="module")
def text() -> Preprocessor:
    return Preprocessor.fit(PAIRS)


@pytest.fixture(scope="module")
def parser(text: Preprocessor) -> Parser:
    """A parser that is never sure of anything."""
    grammar = Grammar.parse(
        'play NT_1 ### play ( NT_1 )\n@song ### song = " @song "\nstop ### stop ( )\n'
        "@number ### times = @number"
    )
    types = TargetGrammar.parse(
        "<program> ::= play ( <song> ) | play ( <song> , <times> ) | stop ( )\n"
        '<song> ::= song = " @song "\n<times> ::= times = @number'
    )
    examples = [Example("stop", "stop ( )")]
    fitted = fit_parser(
        grammar,
        examples,
        target_grammar=types,
        model=ModelSettings(
            dimension=8, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
        ),
        training=TrainingSettings(steps=2, batch_size=1),
        device="cpu",
    )
    weights = replace(PRIORS[False], bias=-5.0)
    calibrator = Calibrator(weights, RulePairs(()), threshold=0.6, least_precision=0.95)
    slotted = replace(fitted.model.grammar, slots=text.slots)
    return Parser(
        replace(fitted.model, text=text, grammar=slotted, calibrator=calibrator)
    )


def test_a_template_becomes_a_rule_for_each_sentence_and_each_slot(
    text: Preprocessor,
) -> None:
    rules = list(map(str, written_rules(TEMPLATE, text)))
    assert 'spin NT_1 NT_2 times ### play ( song = " NT_1 " , times = NT_2 )' in rules
    assert 'put on NT_1 ### play ( song = " NT_1 " )' in rules
    assert rules[-2:] == ["@number ### @number", "@song ### @song"]


def test_slots_stand_in_rules_of_json_programs() -> None:
    text = Preprocessor.fit(JSON_PAIRS)
    program = '{"name": "tell", "arguments": {"robot": NT_1, "message": "%s"}}'
    source = "let robot NT_1 know that "
    for mark in ("@message", "{message}"):
        line = f"{source}{mark} ### {program % mark}".replace("NT_1", "{number}")
        rules = list(map(str, written_rules(line, text)))
        assert rules[0].startswith("let robot NT_1 know that NT_2 ### tell (")
        assert 'message = " NT_2 "' in rules[0]
        assert "@message ### @message" in rules


def test_a_rule_by_hand_is_believed_where_the_model_is_not_sure(parser: Parser) -> None:
    assert parser.parse("spin Hey Jude").target is None
    more = parser.with_rules([TEMPLATE])
    answer = more.parse("Please spin Take Five 3 times")
    assert answer.target == 'play(song="Take Five", times=3)'
    assert answer.confidence == pytest.approx(1.0, abs=1e-3)
    # What no rule by hand reads is as doubtful as before.
    assert more.parse("play Take Five").target is None


def test_rules_that_read_a_sentence_in_two_ways_are_not_sure(parser: Parser) -> None:
    more = parser.with_rules(
        ['spin {song} ### play(song="{song}")', "spin it ### stop()"]
    )
    # More words of its own make a rule the better one; equally many do not.
    assert more.parse("spin it").target == "stop()"
    both = parser.with_rules(
        [
            'spin {song} ### play(song="{song}")',
            '{song} spin ### play(song="{song}", times=2)',
        ]
    )
    assert both.parse("spin spin").target is None


def test_a_file_has_parts_and_lists(tmp_path: Path, text: Preprocessor) -> None:
    path = tmp_path / "rules.txt"
    path.write_text(
        "# mine\n<polite> = (please|kindly)\n{hit} = africa | jude:Hey Jude\n"
        '[<polite>] spin {hit} ### play(song="{hit}")\n'
    )
    rules = list(map(str, read_rules(path, text)))
    assert rules[:2] == ["africa ### africa", "jude ### Hey Jude"]
    assert len(rules) == 5
    path.write_text('spin {song} ### play(song="x")\n')
    with pytest.raises(
        FormatError,
        match=r"rules.txt:1: \{song\} is in the sentence, but not in the program",
    ):
        read_rules(path, text)


def test_a_template_is_removed_with_its_slots(parser: Parser) -> None:
    model = with_rules(parser.model, [TEMPLATE])
    assert without_rules(model, [TEMPLATE]).by_hand == ()
    with pytest.raises(FormatError, match="the model has it already"):
        with_rules(model, [TEMPLATE])


def test_a_trial_tells_what_a_rule_answers_and_breaks(parser: Parser) -> None:
    after = parser.with_rules([TEMPLATE, 'stop ### play(song="Stop")'])
    loose = replace(parser.options, least_confidence=0.0)
    trial = rule_trial(
        parser.with_options(loose),
        after.with_options(loose),
        [
            ("stop", "stop()"),
            ("spin Africa", 'play(song="Africa")'),
            ("play Africa", None),
        ],
    )
    assert [answer.change for answer in trial.answers] in (
        [Change.BROKEN, Change.ANSWERED],
        [Change.ANSWERED],
    )
    assert "1 newly answered (1 right, 0 wrong)" in str(trial)
