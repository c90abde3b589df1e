"""Fine-tuning that is interrupted anywhere, or killed, ends with the very weights of one that is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from conftest import PROJECT
from nqg.errors import FormatError, NqgError
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.settings import FineTuningSettings
from nqg.training.records import TrainingStep
from nqg.training.trainer import Diverged
from seq2seq_examples import EXAMPLES, SMALL

pytest_plugins = ["seq2seq_fixtures"]
pytestmark = pytest.mark.usefixtures("one_thread")

TRAINING = FineTuningSettings(
    steps=7, batch_size=4, learning_rate=0.01, evaluate_every=3, patience=9
)
DROPPING = replace(SMALL, embedded=replace(SMALL.embedded, dropout=0.3))
Result = tuple[list[TrainingStep], dict[str, list[float]]]


def new_fitting(training: FineTuningSettings = TRAINING) -> FineTuning:
    return FineTuning(EXAMPLES, DROPPING, training, dev=EXAMPLES[:1], device="cpu")


def weights(fitting: FineTuning) -> dict[str, list[float]]:
    return {
        name: weight.flatten().tolist()
        for name, weight in fitting.trainer.weights.items()
    }


@pytest.fixture(scope="module")
def undisturbed() -> Result:
    torch.set_num_threads(1)
    fitting = new_fitting()
    return list(fitting.steps()), weights(fitting)


@pytest.mark.parametrize("optimizer", ["adafactor", "adamw"])
@pytest.mark.parametrize("made", [1, 4, 7])
def test_a_training_that_stops_goes_on_as_if_it_had_not(
    tmp_path: Path, made: int, optimizer: str
) -> None:
    training = replace(TRAINING, optimizer=optimizer)  # type: ignore[arg-type]
    whole = new_fitting(training)
    expected = list(whole.steps()), weights(whole)
    state = tmp_path / "state.safetensors"
    first = new_fitting(training)
    past = list(islice(first.steps(state, save_every=1), made))
    torch.rand(made)  # randomness of others must not matter
    second = new_fitting(training)
    later = list(second.steps(state, save_every=1))
    assert ([*past, *later], weights(second)) == expected


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[2])
from seq2seq.test_fine_tuning_resume import new_fitting
for step in new_fitting().steps(Path(sys.argv[1]), save_every=2):
    if step.number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_training_goes_on_to_the_same_weights(
    tmp_path: Path, undisturbed: Result
) -> None:
    state = tmp_path / "state.safetensors"
    command = [sys.executable, "-c", KILLED, str(state), str(PROJECT / "tests")]
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT / 'tests'}"}
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == [state.name]
    fitting = new_fitting()
    later = list(fitting.steps(state))
    assert [step.number for step in later] == [5, 6, 7]
    assert (fitting.trainer.records, weights(fitting)) == undisturbed


def test_a_training_that_was_finished_makes_no_step_and_has_its_weights(
    tmp_path: Path, undisturbed: Result
) -> None:
    state = tmp_path / "state.safetensors"
    list(new_fitting().steps(state))
    again = new_fitting()
    assert list(again.steps(state)) == []
    assert weights(again) == undisturbed[1]


def test_states_are_written_every_few_steps_and_at_the_end(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    steps = new_fitting().steps(state, save_every=3)
    written = [
        load_file(state)["records"].tolist().count(ord("\n")) if state.exists() else 0
        for _ in steps
    ]
    assert written == [0, 0, 3, 3, 3, 6, 7]


def test_the_best_weights_so_far_are_kept_too(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    list(islice(new_fitting().steps(state, save_every=1), 4))
    second = new_fitting()
    next(second.steps(state))
    assert second.trainer.best is not None
    assert second.trainer.best.step == 3
    assert second.trainer.best.weights.keys() == second.trainer.weights.keys()


def test_the_state_of_another_training_is_refused_with_the_difference(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state.safetensors"
    list(new_fitting().steps(state))
    with pytest.raises(
        NqgError,
        match="cannot be continued, seed was 0 there and is 3 here; repeat the command that began it",
    ):
        new_fitting(replace(TRAINING, seed=3)).steps(state)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    state.write_bytes(b"no tensors")
    with pytest.raises(FormatError, match=r"damaged: .*; delete .* to start over"):
        new_fitting().steps(state)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    save_file({"a": torch.zeros(1)}, state, {"kind": "a picture"})
    with pytest.raises(
        FormatError, match="expected the state of a training, found kind 'a picture'"
    ):
        new_fitting().steps(state)


def test_the_header_says_what_the_training_began_with(tmp_path: Path) -> None:
    state = tmp_path / "state.safetensors"
    list(new_fitting().steps(state))
    with safe_open(state, framework="pt") as file:
        config = json.loads(file.metadata()["config"])
    assert (
        config["settings"]["steps"],
        config["settings"]["model"],
        config["extra"]["processes"],
    ) == (
        7,
        "embedded",
        1,
    )


@pytest.mark.parametrize(
    ("fails_after", "kept"),
    [
        (5, "the last good state, after step 4, is in {path}"),
        (1, "no state was saved yet"),
    ],
)
def test_a_loss_that_is_no_number_names_the_last_state(
    tmp_path: Path, fails_after: int, kept: str
) -> None:
    path, fitting = tmp_path / "state.safetensors", new_fitting()
    steps = fitting.steps(path, save_every=2)
    list(islice(steps, fails_after))
    with torch.no_grad():
        fitting.trainer.weights["shared.weight"].fill_(torch.nan)
    with pytest.raises(
        Diverged,
        match=f"the loss of step {fails_after + 1} is nan, .*; {kept.format(path=path)}$",
    ):
        next(steps)
