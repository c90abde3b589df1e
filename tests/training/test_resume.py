"""Training that is interrupted anywhere ends with the very weights of training that is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from nqg import __version__
from nqg.data.example import Example
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.forest_crf import batch_loss
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.run_config import RunConfig
from nqg.training.parser_training import ParserTraining
from nqg.training.processes import Processes
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import STATE_KIND, restore, save_state, saved_steps
from nqg.training.trainer import Diverged, Trainer
from nqg.types.target_grammar import TargetGrammar
from typed_commands import one_thread

GRAMMAR = Grammar.parse(
    "jump ### J\nwalk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 after NT_2 ### NT_2 NT_1"
)
EXAMPLES = [
    Example("jump", "J"),
    Example("walk twice", "W W"),
    Example("jump after walk twice", "W W J"),
    Example("walk after jump after walk", "W J W"),
    Example("jump twice after walk", "W J J"),
]
MODEL = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16)
)
SETTINGS = TrainingSettings(steps=7, batch_size=3, warm_up=2, learning_rate=0.01)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def new_training(
    settings: TrainingSettings = SETTINGS,
    *,
    grammar: Grammar = GRAMMAR,
    examples: list[Example] = EXAMPLES,
    model: ModelSettings = MODEL,
    **more: Any,
) -> ParserTraining:
    return ParserTraining(
        grammar, examples, Parser, model=model, training=settings, device="cpu", **more
    )


def new_trainer(settings: TrainingSettings = SETTINGS) -> Trainer:
    return new_training(settings).trainer


def records_in(path: Path) -> list[TrainingStep]:
    trainer = new_trainer()
    restore(path, trainer)
    return trainer.records


def weights(trainer: Trainer) -> dict[str, list[float]]:
    return {
        name: tensor.flatten().tolist()
        for name, tensor in trainer.objective.model.state_dict().items()
    }


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[TrainingStep], dict[str, list[float]]]:
    torch.set_num_threads(1)
    training = new_trainer()
    return list(training.steps()), weights(training)


@pytest.mark.parametrize("made", range(1, 8))
def test_a_training_that_stops_after_any_step_goes_on_as_if_it_had_not(
    tmp_path: Path,
    made: int,
    undisturbed: tuple[list[TrainingStep], dict[str, list[float]]],
) -> None:
    path = tmp_path / "state.safetensors"
    first = new_trainer()
    list(islice(first.steps(), made))
    save_state(path, first)
    torch.rand(made)  # randomness of others must not matter
    second = new_trainer()
    restore(path, second)
    assert second.made == made
    assert list(second.steps()) == undisturbed[0][made:]
    assert (second.records, weights(second)) == undisturbed


TRIED = replace(SETTINGS, steps=20, evaluate_every=2, patience=3)
SHARES = (
    0.1,
    0.4,
    0.6,
    0.3,
    0.6,
    0.5,
    0.9,
    0.9,
)  # so that it ends after 12 steps, with the weights of the sixth


def tried_training() -> Trainer:
    """A training with trials whose outcome depends on nothing but the step."""
    found = new_trainer(TRIED)
    found.evaluate = lambda: DevScores(SHARES[found.made // 2], 0.5)
    return found


@pytest.mark.parametrize("made", [1, 5, 6, 7, 11, 12])
def test_the_best_weights_survive_a_stop_after_any_step(
    tmp_path: Path, made: int
) -> None:
    path, whole, first, second = (
        tmp_path / "state.safetensors",
        *(tried_training() for _ in range(3)),
    )
    list(whole.steps())
    assert (whole.made, whole.best and whole.best.step) == (12, 6)
    list(islice(saved_steps(first, path, save_every=1), made))
    restore(path, second)
    list(saved_steps(second, path, save_every=1))
    assert second.records == whole.records
    assert weights(second) == weights(whole)


def test_the_state_is_written_where_training_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    list(saved_steps(tried_training(), path, save_every=5))
    again = tried_training()
    restore(path, again)
    assert again.made == 12
    assert list(again.steps()) == []


@pytest.mark.parametrize(
    ("fails_after", "kept"),
    [
        (5, "the last good state, after step 4, is in {path}"),
        (1, "no state was saved yet"),
    ],
)
def test_a_loss_that_is_no_number_names_the_last_good_state(
    tmp_path: Path, fails_after: int, kept: str
) -> None:
    path, training = tmp_path / "state.safetensors", new_trainer()
    steps = saved_steps(training, path, save_every=2)
    list(islice(steps, fails_after))
    before = path.read_bytes() if path.exists() else None
    with torch.no_grad():
        training.objective.model.rules.fill_(torch.nan)
    with pytest.raises(
        Diverged,
        match=f"the loss of step {fails_after + 1} is nan, .*; {kept.format(path=path)}$",
    ):
        next(steps)
    assert (path.read_bytes() if path.exists() else None) == before


def test_training_without_a_state_gives_the_same_weights(
    undisturbed: tuple[list[TrainingStep], dict[str, list[float]]],
) -> None:
    training = ParserTraining(
        GRAMMAR, EXAMPLES, Parser, model=MODEL, training=SETTINGS, device="cpu"
    )
    assert (list(training.steps()), weights(training.trainer)) == undisturbed


def test_parsing_between_steps_changes_nothing(
    undisturbed: tuple[list[TrainingStep], dict[str, list[float]]],
) -> None:
    training = new_training()
    steps = []
    for step in training.steps():
        Parser(training.model).parse("jump twice")
        steps.append(step)
    assert steps == undisturbed[0]


def test_sums_are_made_in_order_during_a_step_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def watched(*arguments: Any) -> Tensor:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return batch_loss(*arguments)

    monkeypatch.setattr("nqg.training.parser_training.batch_loss", watched)
    next(new_trainer().steps())
    assert seen == [True]
    assert not torch.are_deterministic_algorithms_enabled()


def test_dropout_differs_from_step_to_step_and_from_seed_to_seed() -> None:
    everything = replace(SETTINGS, batch_size=len(EXAMPLES), steps=2)
    seen = set()
    for seed in (0, 1, 2**32):
        training = new_trainer(replace(everything, seed=seed))
        training.rate = replace(
            training.rate, peak=0.0
        )  # the weights stay, so only dropout can change the loss
        training.optimizer.param_groups[0]["weight_decay"] = 0.0
        training.objective.model.load_state_dict(
            new_trainer().objective.model.state_dict()
        )
        seen |= {round(step.loss, 6) for step in training.steps()}
    assert len(seen) == 6


def test_the_state_is_written_after_every_few_steps_and_after_the_last(
    tmp_path: Path,
) -> None:
    path, training, written = tmp_path / "state.safetensors", new_trainer(), []
    for step in saved_steps(training, path, save_every=3):
        written.append(len(records_in(path)) if path.exists() else 0)
        assert training.made == step.number
    assert written == [0, 0, 3, 3, 3, 6, 7]
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.safetensors"]


def test_steps_of_before_are_kept_in_later_states(tmp_path: Path) -> None:
    path, first, second = tmp_path / "state.safetensors", new_trainer(), new_trainer()
    list(islice(saved_steps(first, path, save_every=2), 5))
    restore(path, second)
    assert [step.number for step in second.records] == [1, 2, 3, 4]
    steps = [*second.records, *saved_steps(second, path, save_every=2)]
    assert records_in(path) == steps == second.records


def test_a_state_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, training = tmp_path / "state.safetensors", new_trainer()
    steps = saved_steps(training, path, save_every=1)
    next(steps)
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nqg.files.os.fsync", full_disk)
    with pytest.raises(
        NqgError, match=r"state\.safetensors: cannot be written \(No space left"
    ):
        next(steps)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"examples": EXAMPLES[1:]}, "the examples differ: 5 with SHA-256"),
        ({"grammar": Grammar(GRAMMAR.rules[:-1])}, "grammar was "),
        ({"model": replace(MODEL, dimension=4)}, "dimension was 8 there and is 4 here"),
        ({"settings": replace(SETTINGS, seed=5)}, "seed was 0 there and is 5 here"),
        ({"dev": EXAMPLES}, "dev_examples was "),
        ({"processes": Processes(count=2)}, "processes was 1 there and is 2 here"),
        ({"target_grammar": TargetGrammar.parse("<s> ::= J")}, "target_grammar was "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_state_of_another_training_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "state.safetensors"
    save_state(path, new_trainer())
    with pytest.raises(NqgError) as caught:
        restore(path, new_training(**change).trainer)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(
        f"{path}: this unfinished training cannot be continued, "
    )
    assert str(caught.value).endswith(f"or delete {path} to start over")


def test_the_state_of_another_version_of_nqg_is_refused(tmp_path: Path) -> None:
    path, trainer = tmp_path / "state.safetensors", new_trainer()
    save_state(path, trainer)
    trainer.config = replace(trainer.config, nqg_version="9")
    with pytest.raises(
        NqgError, match=f"made by nqg {re.escape(__version__)}, this is nqg 9"
    ):
        restore(path, trainer)


def test_a_damaged_state_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path, training = tmp_path / "state.safetensors", new_trainer()
    save_state(path, training)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        FormatError, match=r"state\.safetensors: damaged: .*; delete .* to start over"
    ):
        restore(path, training)


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_file({"weights": torch.zeros(1)}, path, {"kind": "picture"})
    with pytest.raises(
        FormatError,
        match=r"expected the state of a training, found kind 'picture'; delete .* to start over",
    ):
        restore(path, new_trainer())


def test_a_state_says_in_its_header_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    trainer = new_trainer()
    save_state(path, trainer)
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    assert header["kind"] == STATE_KIND
    assert RunConfig.from_dict(json.loads(header["config"])) == trainer.config
