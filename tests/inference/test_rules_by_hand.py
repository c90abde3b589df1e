"""Rules by hand: what they change, what they leave as it was, what is refused, and the folder that keeps them."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nqg.data.example import Example
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar, Rule
from nqg.inference.parser import Parser
from nqg.inference.rules_by_hand import read_rules, tokenized_rule, with_rules
from nqg.model.checkpoint import load_model, save_rules
from nqg.model.confidence import PRIORS, Calibrator, RulePairs
from nqg.model.numpy_scorer import NumpyScorer
from nqg.model.rule_scorer import MANUAL_RULE_BONUS, untrained_bonuses
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.text.programs import fit_programs
from nqg.text.sentences import SentenceTokenizer
from nqg.types.target_grammar import TargetGrammar

GRAMMAR = Grammar.parse("""
turn on the NT_1 ### on ( NT_1 )
turn off the NT_1 ### off ( NT_1 )
NT_1 in the NT_2 ### NT_2 . NT_1
lamp ### lamp
fan ### fan
hall ### hall
attic ### attic
""")
TYPES = TargetGrammar.parse("""
<command> ::= <switch> ( <room> . <thing> ) | at ( <time> , <command> )
<switch> ::= on | off
<room> ::= hall | attic
<thing> ::= lamp | fan
<time> ::= 7 | 8
""")
EXAMPLES = [
    Example("turn on the lamp in the hall", "on ( hall . lamp )"),
    Example("turn off the fan in the attic", "off ( attic . fan )"),
]
TINY = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)
NIGHT = "good night ### off ( hall . lamp )"
DARK = "no light in the NT_1 ### off ( NT_1 . lamp )"


@pytest.fixture(scope="module")
def parser() -> Parser:
    training = TrainingSettings(steps=2, batch_size=2)
    return fit_parser(
        GRAMMAR,
        EXAMPLES,
        target_grammar=TYPES,
        model=TINY,
        training=training,
        device="cpu",
    )


@pytest.fixture
def folder(parser: Parser, tmp_path: Path) -> Path:
    parser.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_rule_answers_what_had_no_answer_and_other_answers_stay(
    parser: Parser,
) -> None:
    more = parser.with_rules([DARK, NIGHT])
    assert more.parse("no light in the attic").target == "off ( attic . lamp )"
    assert more.parse("good night").target == "off ( hall . lamp )"
    assert parser.parse("good night").target is None
    for sentence in (
        "turn on the fan in the hall",
        "turn off the lamp in the attic",
        "turn on the hall",
    ):
        assert replace(more.parse(sentence), chart=None) == parser.parse(sentence)


def test_a_rule_for_a_whole_sentence_wins_over_what_was_learned(parser: Parser) -> None:
    sentence = "turn on the lamp in the hall"
    more = parser.with_rules([f"{sentence} ### off ( attic . fan )"])
    assert parser.parse(sentence).target == "on ( hall . lamp )"
    assert more.parse(sentence).target == "off ( attic . fan )"


def test_an_untrained_rule_has_the_score_of_its_span_and_a_bonus_for_words(
    parser: Parser,
) -> None:
    rules = [NIGHT, DARK, "dark ### off ( hall . lamp )"]
    assert untrained_bonuses(map(Rule.parse, rules)) == [
        MANUAL_RULE_BONUS,
        3 * MANUAL_RULE_BONUS / 2,
        0.0,
    ]
    same = "good night ### on ( hall . fan )"  # trained, with an embedding of zeros
    scorer = parser.model.scorer
    assert isinstance(scorer, NumpyScorer)
    zeros = np.zeros((1, TINY.dimension), dtype=np.float32)
    vectors = np.concatenate([scorer.rules, zeros])
    scorer = NumpyScorer(scorer.encoder.config, {**scorer.weights(), "rules": vectors})
    grammar = replace(parser.model.grammar, rules=(*GRAMMAR.rules, Rule.parse(same)))
    answer = (
        Parser(replace(parser.model, scorer=scorer, grammar=grammar))
        .with_rules([NIGHT])
        .parse("good night", readings=2)
    )
    (by_hand,), (trained,) = (reading.scores for reading in answer.readings)
    assert answer.target == "off ( hall . lamp )"
    assert by_hand - trained == pytest.approx(MANUAL_RULE_BONUS, abs=1e-4)


def test_rules_that_need_each_other_are_added_together(parser: Parser) -> None:
    later, seven = "NT_1 at NT_2 ### at ( NT_2 , NT_1 )", "seven ### 7"
    with pytest.raises(
        FormatError,
        match=r"'NT_1 at NT_2 .*: no rule derives a <time>, which NT_2 has to be",
    ):
        parser.with_rules([later])
    with pytest.raises(
        FormatError,
        match=r"'seven ### 7': its target is a <time>, which stands in no program",
    ):
        parser.with_rules([seven])
    more = parser.with_rules([later, seven])
    assert (
        more.parse("turn on the lamp in the hall at seven").target
        == "at ( 7 , on ( hall . lamp ) )"
    )
    assert more.parse("turn on the lamp in the seven").target is None


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (str(GRAMMAR[0]), "the model has it already: it was learned"),
        (
            "bye ### off ( lamp . hall )",
            "'off ( lamp . hall )' is part of no legal program",
        ),
        (
            "bye ### off ( hall . attic )",
            "'attic' is not a <thing>; `nqg types` shows what is legal",
        ),
        ("cellar ### cellar", "no legal program has 'cellar'; `nqg types`"),
        ("NT_1 later ### at ( hall , NT_1 )", "'hall' is not a <time>"),
        (
            "NT_1 twice ### NT_1 NT_1",
            "no rule derives what its non-terminals have to be",
        ),
    ],
)
def test_a_rule_is_refused_with_the_reason(
    parser: Parser, rule: str, reason: str
) -> None:
    with pytest.raises(FormatError) as error:
        parser.with_rules([rule])
    assert str(error.value).startswith(f"rule '{rule}': {reason}")


def test_what_is_not_a_rule_and_what_is_there_already_is_refused(
    parser: Parser,
) -> None:
    with pytest.raises(
        FormatError, match=r"expected 'source ### target', found '###' 0 times"
    ):
        parser.with_rules(["good night"])
    with pytest.raises(FormatError, match="it was given twice"):
        parser.with_rules([NIGHT, NIGHT])
    with pytest.raises(FormatError, match="it was written by hand"):
        parser.with_rules([NIGHT]).with_rules([NIGHT])
    with pytest.raises(
        FormatError, match="not written by hand: it is learned from examples, and stays"
    ):
        parser.without_rules([str(GRAMMAR[0])])
    with pytest.raises(
        FormatError, match="not written by hand: it is not a rule of the model"
    ):
        parser.without_rules([NIGHT])


def test_a_rule_that_is_removed_leaves_the_model_as_it_was(parser: Parser) -> None:
    more = parser.with_rules([NIGHT, DARK])
    assert more.without_rules([NIGHT]).model.by_hand == (Rule.parse(DARK),)
    assert more.without_rules([DARK, NIGHT]).model.grammar == parser.model.grammar


def test_without_types_any_rule_may_be_added(parser: Parser) -> None:
    untyped = Parser(replace(parser.model, target_grammar=None, grammar=GRAMMAR))
    assert (
        untyped.with_rules(["hello NT_1 ### hi hi NT_1"]).parse("hello lamp").target
        == "hi hi lamp"
    )


RAW = Preprocessor(
    SentenceTokenizer(),
    fit_programs(['alarm(time="7:30 am")', "on(hall.lamp)", "off(attic.fan)"]),
)


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("Good night! ### off(hall.lamp)", "good night ### off ( hall . lamp )"),
        ("Good night ### off ( hall . lamp )", "good night ### off ( hall . lamp )"),
        ("NT_1, and NT_2 ### at(NT_2, NT_1)", "NT_1 and NT_2 ### at ( NT_2 , NT_1 )"),
        (
            'Wake me ### alarm(time="7:30 am")',
            'wake me ### alarm ( time = " 7:30 am " )',
        ),
        (
            'wake me ### alarm ( time = " 7:30 am " )',
            'wake me ### alarm ( time = " 7:30 am " )',
        ),
        ("# A comment ### of mine", "# A comment ### of mine"),
        ("Good night", "Good night"),
    ],
)
def test_a_rule_may_be_written_as_raw_text(written: str, rule: str) -> None:
    assert tokenized_rule(written, RAW) == rule
    assert tokenized_rule(rule, RAW) == rule
    assert tokenized_rule(written, Preprocessor()) == written


def test_raw_rules_are_added_and_removed(parser: Parser) -> None:
    raw = Parser(replace(parser.model, text=RAW))
    more = raw.with_rules(["Good night! ### off(hall.lamp)"])
    assert more.parse("good night?").target == "off(hall.lamp)"
    assert more.without_rules(["Good Night ### off(hall.lamp)"]).model.by_hand == ()


def test_saved_and_loaded_rules_answer_alike_and_keep_their_mark(
    parser: Parser, folder: Path
) -> None:
    more = parser.with_rules([NIGHT, DARK])
    more.save(folder)
    loaded = Parser.load(folder, "cpu")
    assert loaded.model.by_hand == more.model.by_hand
    assert loaded.model.trained_rules == GRAMMAR.rules
    assert Grammar.read(folder / "grammar.txt").rules == GRAMMAR.rules
    sentences = [
        "good night",
        "no light in the hall",
        "turn on the fan in the hall",
        "bye",
    ]
    assert list(loaded.answers(sentences)) == list(more.answers(sentences))


def test_only_the_rules_of_a_folder_change(parser: Parser, folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "seq2seq").mkdir()
    (folder / "seq2seq" / "nqg.json").write_text("{}")
    save_rules(folder, with_rules(load_model(folder, "cpu"), [NIGHT]).by_hand)
    assert (
        Parser.load(folder, "cpu").parse("good night").target == "off ( hall . lamp )"
    )
    assert (folder / "rules.txt").read_text().split("\n")[1:] == [NIGHT, ""]
    assert (folder / "seq2seq" / "nqg.json").exists()
    (folder / "seq2seq" / "nqg.json").unlink()
    (folder / "seq2seq").rmdir()
    save_rules(folder, ())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_changes_meanwhile_and_a_full_disk_leave_it_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / "nqg.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("nqg.model_folder.index_bytes", lambda folder: b"{}")
        with pytest.raises(
            NqgError,
            match="another process changed the model meanwhile; run the command again",
        ):
            save_rules(folder, [Rule.parse(NIGHT)])
    with monkeypatch.context() as patch:

        def full(*paths: object, **options: object) -> None:
            raise OSError(28, os.strerror(28))

        patch.setattr(shutil, "copytree", full)
        with pytest.raises(
            NqgError, match=r"the model cannot be written \(No space left on device\)"
        ):
            save_rules(folder, [Rule.parse(NIGHT)])
    assert (folder / "nqg.json").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# fine\n\nbye ###\n", "mine.txt:3: the target of the rule is empty"),
        ("bye\n", "mine.txt:1: expected 'source ### target', found '###' 0 times"),
        (
            "bye NT_2 ### off\n",
            "mine.txt:1: the source has NT_2; expected NT_1, NT_2, … once each and in order",
        ),
        (f"{NIGHT}\n{NIGHT}\n", f"mine.txt:2: rule '{NIGHT}' was already on line 1"),
    ],
)
def test_a_bad_line_of_a_file_is_refused_with_its_place(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(FormatError) as error:
        read_rules(path, Preprocessor())
    assert str(error.value).endswith(reason)


def test_a_rule_of_a_file_that_does_not_fit_is_named_with_its_line(
    parser: Parser, tmp_path: Path
) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(f"{NIGHT}\n# next\nbye ### off ( hall . hall )\n")
    rules = read_rules(path, Preprocessor())
    with pytest.raises(
        FormatError, match=r"mine.txt:3: rule 'bye ### .*': 'hall' is not a <thing>"
    ):
        with_rules(parser.model, rules, rules)


def test_pairs_of_rules_by_hand_do_not_lower_the_confidence(parser: Parser) -> None:
    calibrator = Calibrator(
        PRIORS[False], RulePairs(((-1, 0, 0, 5),)), vocabulary=("good", "night")
    )
    more = Parser(replace(parser.model, calibrator=calibrator)).with_rules([NIGHT])
    answer = more.parse("good night")
    assert answer.reading
    assert answer.reading.evidence
    evidence = answer.reading.evidence
    assert (evidence.unseen, evidence.unknown) == (0, 0)
    # The rule is the only one by hand that reads the sentence.
    assert answer.confidence == 1.0 > calibrator.weights.confidence(evidence)


def test_the_index_names_the_file_of_rules(parser: Parser, folder: Path) -> None:
    assert "rules.txt" not in json.loads((folder / "nqg.json").read_text())["files"]
    save_rules(folder, [Rule.parse(NIGHT)])
    assert "rules.txt" in json.loads((folder / "nqg.json").read_text())["files"]
    (folder / "rules.txt").write_text(f"{DARK}\n")
    with pytest.raises(
        NqgError, match=r"rules.txt is damaged: it is not the file that was saved"
    ):
        Parser.load(folder, "cpu")
