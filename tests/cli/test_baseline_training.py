"""`nqg train --system`: a baseline without a grammar, in a folder that other commands read like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nqg.answers import exact_match
from nqg.errors import NqgError, UnknownName
from nqg.inference.hybrid import TokenSystem, load_model, load_system
from nqg.seq2seq.fine_tuning import SAVE_EVERY, FineTuning
from nqg.training.records import TrainingStep
from training_command import EXAMPLES, nqg
from typed_commands import typed

BRIEF = ("train.tsv", "-o", "model", "--system", "cgps", "--steps", "30", "--batch-size", "16", "--device", "cpu")


pytest_plugins = ("training_fixtures",)
pytestmark = pytest.mark.usefixtures("training_folder")


def test_a_trained_baseline_parses_is_evaluated_and_verified_like_other_models() -> None:
    result = nqg(*BRIEF, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["system"], facts["steps"], facts["examples"]) == ("cgps", 30, len(EXAMPLES))
    assert not Path("model.training").exists()
    assert len(Path("model/training.jsonl").read_text().splitlines()) == 30
    parsed = typed("parse", "model", "train.tsv", "--json", "--device", "cpu")
    assert parsed.exit_code == 0, parsed.output
    lines = [json.loads(line) for line in parsed.stdout.splitlines()]
    system = load_system("model", "cpu")
    assert isinstance(system, TokenSystem)
    answers = list(system.answers(example.source for example in EXAMPLES))
    assert [line["target"] for line in lines] == [answer.target for answer in answers]
    assert all(0 < line["probability"] <= 1 for line in lines)
    evaluated = typed("evaluate", "model", "train.tsv", "--json", "--device", "cpu")
    right = sum(exact_match(answer.target, each.target) for answer, each in zip(answers, EXAMPLES, strict=True))
    (scores,) = json.loads(evaluated.stdout)["systems"].values()
    assert scores["accuracy"] == pytest.approx(right / len(EXAMPLES))
    verified = typed("verify", "model", "--json")
    assert json.loads(verified.stdout)["system"] == "cgps"


def test_raw_text_is_read_as_the_training_data_is() -> None:
    pairs = [
        ("Turn on the lamp!", "on(lamp)"),
        ("Turn off the lamp!", "off(lamp)"),
        ("Turn on the radio!", "on(radio)"),
    ]
    Path("raw.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs * 4))
    result = nqg("raw.tsv", *BRIEF[1:])
    assert result.exit_code == 0, result.output
    answer = next(iter(load_system("model", "cpu").answers(["Turn on the lamp!"])))
    assert answer.words is not None
    assert all(word == word.lower() for word in answer.words)


def test_dev_examples_choose_the_best_weights() -> None:
    result = nqg(*BRIEF, "--dev", "train.tsv", "--evaluate-every", "10")
    assert result.exit_code == 0, result.output
    assert "dev examples, best after step" in result.stdout


def test_a_baseline_is_a_fallback_too() -> None:
    words = ("train.tsv", "-o", "both", "--grammar", "rules.txt", "--steps", "3", "--folds", "0", "--device", "cpu")
    result = nqg(*words, "--seq2seq", "cgps", "--seq2seq-steps", "3")
    assert result.exit_code == 0, result.output
    walk, swim = load_model("both", "cpu").answers(["walk twice", "walk thrice"])
    assert (walk.target, walk.system) == ("I_WALK I_WALK", "grammar")
    assert swim.answered_by in ("fallback", None)


def test_what_does_not_fit_a_baseline_is_refused_by_name() -> None:
    with pytest.raises(UnknownName, match=r"no system 'crf'\. Known: cgps, syntactic-attention"):
        nqg(*BRIEF[:4], "crf")
    refused = nqg(*BRIEF, "--grammar", "rules.txt")
    assert refused.exit_code == 2
    assert "--grammar" in refused.output
    assert "is for models with a grammar; omit it with --system cgps" in refused.output
    assert not Path("model").exists()


@pytest.mark.parametrize("words", [("--no-cache",), ("--hold-out", "template"), ("--least-precision", "0.8")])
def test_what_only_a_grammar_can_use_is_refused_also_where_it_says_the_default(words: tuple[str, ...]) -> None:
    refused = nqg(*BRIEF, *words)
    assert refused.exit_code == 2
    assert words[0] in refused.output
    assert "is for models with a grammar; omit it with --system cgps" in refused.output


@pytest.mark.parametrize(("words", "kept"), [((), 500), (("--save-every", "4"), 4)])
def test_as_many_steps_as_the_user_says_can_be_lost(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], kept: int
) -> None:
    assert intervals(monkeypatch, *BRIEF, *words) == [kept]


def test_a_fallback_is_saved_as_often_as_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    both = ("train.tsv", "-o", "both", "--grammar", "rules.txt", "--steps", "3", "--folds", "2", "--device", "cpu")
    fallback = ("--seq2seq", "cgps", "--seq2seq-steps", "3", "--gate")
    assert intervals(monkeypatch, *both, *fallback, "--save-every", "4") == [4, 4, 4]


def intervals(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[int]:
    """After how many steps each fine-tuning of a training is saved."""
    found: list[int] = []
    steps = FineTuning.steps

    def watched(self: FineTuning, state: Path, save_every: int = SAVE_EVERY) -> Iterator[TrainingStep]:
        found.append(save_every)
        return steps(self, state, save_every)

    monkeypatch.setattr(FineTuning, "steps", watched)
    result = nqg(*words)
    assert result.exit_code == 0, result.output
    return found


def test_a_command_that_needs_rules_says_that_there_are_none() -> None:
    assert nqg(*BRIEF).exit_code == 0
    with pytest.raises(NqgError, match="holds a system without a grammar"):
        load_model("model", "cpu")
