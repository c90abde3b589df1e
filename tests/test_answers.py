"""One exact match: wherever a program is compared with the right one, white space around its marks does not count."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nqg import Answer, Example, Grammar, Parser, Seq2seq, System, exact_match
from nqg.calls import Call, NotACall
from nqg.inference.hybrid import Hybrid
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.confidence import trials
from nqg.pipeline.parser import fit_parser
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from nqg.training.parser_training import DevSet, ParserTraining
from nqg.web.app import create_app
from nqg.web.service import Service
from typed_commands import typed

GLUED, SPACED = "turn_off(kitchen.lamp)", "turn_off ( kitchen . lamp )"
GOLD = [Example("lamp off", GLUED)]
LEARNED = [Example("lamp off", SPACED)]
TINY = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16)
)
TINY_T5 = Seq2seqSettings(
    longest_target=8, embedded=SmallT5Settings(width=16, layers=1, heads=2)
)


class Dictionary:
    """A user's own system."""

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [Answer(sentence, SPACED) for sentence in sentences]


@pytest.fixture(scope="module")
def parser() -> Parser:
    grammar = Grammar.parse(f"lamp off ### {SPACED}")
    return fit_parser(
        grammar,
        LEARNED,
        model=TINY,
        training=TrainingSettings(steps=1, batch_size=1),
        device="cpu",
    )


def test_the_command_evaluate_counts_it(parser: Parser, tmp_path: Path) -> None:
    parser.save(tmp_path / "model")
    (tmp_path / "test.tsv").write_text(f"lamp off\t{GLUED}\n")
    shown = typed(
        "evaluate",
        str(tmp_path / "model"),
        str(tmp_path / "test.tsv"),
        "--json",
        "--device",
        "cpu",
    )
    assert json.loads(shown.stdout)["systems"]["grammar"]["right"] == 1


def test_a_batch_of_the_api_counts_it(parser: Parser) -> None:
    with TestClient(
        create_app(Service("lamps", parser)), base_url="http://localhost"
    ) as client:
        batch = client.post("/api/batch", json={"text": f"lamp off\t{GLUED}"}).json()
    assert (batch["right"], batch["rows"][0]["is_right"]) == (1, True)


def test_training_counts_it_for_the_dev_score_and_so_for_stopping_early(
    parser: Parser,
) -> None:
    training = ParserTraining(
        parser.model.grammar, LEARNED, Parser, model=TINY, device="cpu"
    )
    dev_set = DevSet.of(parser.model, training.scorer, GOLD, parser)
    assert dev_set.scores().exact_match == 1.0


def test_fine_tuning_counts_it_for_the_dev_score_and_so_for_stopping_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seq2seq = Seq2seq.train(
        LEARNED, TINY_T5, FineTuningSettings(steps=1, batch_size=1), device="cpu"
    )
    monkeypatch.setattr(
        Seq2seq, "predict", lambda self, sources: [SPACED for _ in sources]
    )
    assert seq2seq.exact_match(GOLD) == 1.0


def test_the_calibration_of_confidence_counts_it(parser: Parser) -> None:
    tried = trials(parser, LEARNED, GOLD, random.Random(0))
    (sentence,) = (each for each in tried if each.is_in_scope)
    assert [trial.is_right for trial in sentence.candidates] == [True]


def test_a_parser_a_hybrid_and_an_object_of_ones_own_are_systems(
    parser: Parser,
) -> None:
    systems: list[System] = [parser, Dictionary(), Hybrid(parser, Dictionary())]
    for system in systems:
        (answer,) = system.answers(["lamp off"])
        assert exact_match(answer.target, GLUED)


def test_an_abstention_matches_nothing() -> None:
    assert not exact_match(None, "")


def test_the_program_of_an_answer_is_a_call_or_calls() -> None:
    one = Answer("lamp on", "on(lamp)")
    two = Answer("lamp on and fan off", "on(lamp); off(fan)")
    assert one.call == Call("on", {}, ("lamp",))
    assert two.calls == (Call("on", {}, ("lamp",)), Call("off", {}, ("fan",)))
    with pytest.raises(NotACall, match=r"expected one call, found 2 in 'on\(lamp\); "):
        _ = two.call


def test_an_abstention_has_no_call() -> None:
    abstention = Answer("fly", reason="no derivation")
    assert abstention.call is None
    assert abstention.calls == ()


def test_a_program_that_is_not_a_call_has_none() -> None:
    with pytest.raises(NotACall, match=r"expected '\(' after the name 'I_JUMP'"):
        _ = Answer("jump", "I_JUMP").call
