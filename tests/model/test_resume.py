"""Training that is interrupted anywhere ends with the very weights of training that is not."""

from __future__ import annotations

import json
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

from nqg.data.examples import Example
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.fitting import Fitting
from nqg.model.forest_crf import batch_loss
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.training.records import DevScores, TrainingStep
from nqg.training.resume import KIND, TrainingOrigin, restore, save_state, saved_steps
from nqg.training.trainer import Diverged, Training

GRAMMAR = Grammar.parse("jump ### J\nwalk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 after NT_2 ### NT_2 NT_1")
EXAMPLES = [
    Example("jump", "J"),
    Example("walk twice", "W W"),
    Example("jump after walk twice", "W W J"),
    Example("walk after jump after walk", "W J W"),
    Example("jump twice after walk", "W J J"),
]
MODEL = ModelSettings(dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16))
SETTINGS = TrainingSettings(steps=7, batch_size=3, warm_up=2, learning_rate=0.01)
ORIGIN = TrainingOrigin.of(GRAMMAR, EXAMPLES, MODEL, SETTINGS)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def new_training(settings: TrainingSettings = SETTINGS) -> Training:
    fitting = Fitting(GRAMMAR, EXAMPLES, model=MODEL, training=settings, device="cpu")
    return Training(fitting.parser.model.scorer, fitting.data, settings, 0.01)


def records_in(path: Path) -> list[TrainingStep]:
    training = new_training()
    restore(path, training, ORIGIN)
    return training.records


def weights(training: Training) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in training.scorer.state_dict().items()}


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[TrainingStep], dict[str, list[float]]]:
    torch.set_num_threads(1)
    training = new_training()
    return list(training.steps()), weights(training)


@pytest.mark.parametrize("made", range(1, 8))
def test_a_training_that_stops_after_any_step_goes_on_as_if_it_had_not(
    tmp_path: Path, made: int, undisturbed: tuple[list[TrainingStep], dict[str, list[float]]]
) -> None:
    path = tmp_path / "state.safetensors"
    first = new_training()
    list(islice(first.steps(), made))
    save_state(path, first, ORIGIN)
    torch.rand(made)  # randomness of others must not matter
    second = new_training()
    restore(path, second, ORIGIN)
    assert second.made == made
    assert list(second.steps()) == undisturbed[0][made:]
    assert (second.records, weights(second)) == undisturbed


TRIED = replace(SETTINGS, steps=20, evaluate_every=2, patience=3)
SHARES = (0.1, 0.4, 0.6, 0.3, 0.6, 0.5, 0.9, 0.9)  # so that it ends after 12 steps, with the weights of the sixth


def tried_training() -> Training:
    """A training with trials whose outcome depends on nothing but the step."""
    found = new_training(TRIED)
    found.evaluate = lambda: DevScores(SHARES[found.made // 2], 0.5)
    return found


@pytest.mark.parametrize("made", [1, 5, 6, 7, 11, 12])
def test_the_best_weights_survive_a_stop_after_any_step(tmp_path: Path, made: int) -> None:
    path, whole, first, second = tmp_path / "state.safetensors", *(tried_training() for _ in range(3))
    list(whole.steps())
    assert (whole.made, whole.best and whole.best.number) == (12, 6)
    list(islice(saved_steps(first, path, ORIGIN, save_every=1), made))
    restore(path, second, ORIGIN)
    list(saved_steps(second, path, ORIGIN, save_every=1))
    assert second.records == whole.records
    assert weights(second) == weights(whole)


def test_the_state_is_written_where_training_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    list(saved_steps(tried_training(), path, ORIGIN, save_every=5))
    assert len(records_in(path)) == 12
    again = tried_training()
    restore(path, again, ORIGIN)
    assert list(again.steps()) == []


@pytest.mark.parametrize(
    ("fails_after", "kept"), [(5, "the last good state, after step 4, is in {path}"), (1, "no state was saved yet")]
)
def test_a_loss_that_is_no_number_names_the_last_good_state(tmp_path: Path, fails_after: int, kept: str) -> None:
    path, training = tmp_path / "state.safetensors", new_training()
    steps = saved_steps(training, path, ORIGIN, save_every=2)
    list(islice(steps, fails_after))
    before = path.read_bytes() if path.exists() else None
    with torch.no_grad():
        training.scorer.rules.fill_(torch.nan)
    with pytest.raises(Diverged, match=f"the loss of step {fails_after + 1} is nan, .*; {kept.format(path=path)}$"):
        next(steps)
    assert (path.read_bytes() if path.exists() else None) == before


def test_training_without_a_state_gives_the_same_weights(
    undisturbed: tuple[list[TrainingStep], dict[str, list[float]]],
) -> None:
    training = new_training()
    steps = list(Training(training.scorer, training.data, SETTINGS, 0.01).steps())
    assert (steps, weights(training)) == undisturbed


def test_parsing_between_steps_changes_nothing(
    undisturbed: tuple[list[TrainingStep], dict[str, list[float]]],
) -> None:
    fitting = Fitting(GRAMMAR, EXAMPLES, model=MODEL, training=SETTINGS, device="cpu")
    steps = []
    for step in fitting.steps():
        fitting.parser.parse("jump twice")
        steps.append(step)
    assert steps == undisturbed[0]


def test_sums_are_made_in_order_during_a_step_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(*arguments: Any) -> Tensor:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return batch_loss(*arguments)

    monkeypatch.setattr("nqg.training.trainer.batch_loss", watched)
    next(new_training().steps())
    assert seen == [True]
    assert not torch.are_deterministic_algorithms_enabled()


def test_dropout_differs_from_step_to_step_and_from_seed_to_seed() -> None:
    everything = replace(SETTINGS, batch_size=len(EXAMPLES), steps=2)
    seen = set()
    for seed in (0, 1, 2**32):
        training = new_training(replace(everything, seed=seed))
        training.rate = 0.0  # the weights stay, so only dropout can change the loss
        training.optimizer.param_groups[0]["weight_decay"] = 0.0
        training.scorer.load_state_dict(new_training().scorer.state_dict())
        seen |= {round(step.loss, 6) for step in training.steps()}
    assert len(seen) == 6


def test_the_state_is_written_after_every_few_steps_and_after_the_last(tmp_path: Path) -> None:
    path, training, written = tmp_path / "state.safetensors", new_training(), []
    for step in saved_steps(training, path, ORIGIN, save_every=3):
        written.append(len(records_in(path)) if path.exists() else 0)
        assert training.made == step.number
    assert written == [0, 0, 3, 3, 3, 6, 7]
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.safetensors"]


def test_steps_of_before_are_kept_in_later_states(tmp_path: Path) -> None:
    path, first, second = tmp_path / "state.safetensors", new_training(), new_training()
    list(islice(saved_steps(first, path, ORIGIN, save_every=2), 5))
    restore(path, second, ORIGIN)
    assert [step.number for step in second.records] == [1, 2, 3, 4]
    steps = [*second.records, *saved_steps(second, path, ORIGIN, save_every=2)]
    assert records_in(path) == steps == second.records


def test_a_state_that_cannot_be_written_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, training = tmp_path / "state.safetensors", new_training()
    steps = saved_steps(training, path, ORIGIN, save_every=1)
    next(steps)
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nqg.files.os.fsync", full_disk)
    with pytest.raises(NqgError, match=r"state\.safetensors: cannot be written \(No space left"):
        next(steps)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (TrainingOrigin.of(GRAMMAR, EXAMPLES[1:], MODEL, SETTINGS), "the fingerprint of the examples was "),
        (TrainingOrigin.of(Grammar(GRAMMAR.rules[1:]), EXAMPLES, MODEL, SETTINGS), "the fingerprint of the grammar"),
        (TrainingOrigin.of(GRAMMAR, EXAMPLES, replace(MODEL, dimension=4), SETTINGS), "dimension was 8 there and is 4"),
        (TrainingOrigin.of(GRAMMAR, EXAMPLES, MODEL, replace(SETTINGS, seed=5)), "seed was 0 there and is 5 here"),
        (TrainingOrigin({**ORIGIN.facts, "the version of nqg": "9"}), "the version of nqg was 0.1.0 there and is 9"),
        (TrainingOrigin.of(GRAMMAR, EXAMPLES, MODEL, SETTINGS, dev=EXAMPLES), "the fingerprint of the dev examples"),
        (TrainingOrigin.of(GRAMMAR, EXAMPLES, MODEL, SETTINGS, processes=2), "processes was 1 there and is 2 here"),
        (
            TrainingOrigin.of(GRAMMAR, EXAMPLES, MODEL, SETTINGS, target_grammar=TargetGrammar.parse("<s> ::= J")),
            "the fingerprint of the target grammar",
        ),
        (TrainingOrigin({**ORIGIN.facts, "new": 1}), "new was unknown there and is 1 here"),
    ],
)
def test_the_state_of_another_training_is_refused(tmp_path: Path, origin: TrainingOrigin, reason: str) -> None:
    path, training = tmp_path / "mine.training" / "state.safetensors", new_training()
    path.parent.mkdir()
    save_state(path, training, ORIGIN)
    with pytest.raises(NqgError) as caught:
        restore(path, training, origin)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{path}: this unfinished training cannot be continued, ")
    assert str(caught.value).endswith(f"or delete {path.parent} to begin anew")


def test_a_damaged_state_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path, training = tmp_path / "state.safetensors", new_training()
    save_state(path, training, ORIGIN)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"state\.safetensors: damaged: .*; delete .* to begin the training anew"):
        restore(path, training, ORIGIN)


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_file({"weights": torch.zeros(1)}, path, {"kind": "picture"})
    with pytest.raises(FormatError, match="expected the state of a training, found kind 'picture'"):
        restore(path, new_training(), ORIGIN)


def test_a_state_says_in_its_header_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    save_state(path, new_training(), ORIGIN)
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    assert header["kind"] == KIND
    assert TrainingOrigin(json.loads(header["origin"])) == ORIGIN
