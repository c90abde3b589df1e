"""Two processes, with all weights or a part of them each, make the steps and the model of one that has them all."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import seq2seq_sharded
from launched_processes import launched
from nqg.errors import SettingsError
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import Seq2seq, small_t5
from nqg.seq2seq.settings import SmallT5Settings
from nqg.seq2seq.sharding import check_divisible, with_weights
from nqg.training.processes import Processes
from seq2seq_examples import EXAMPLES
from seq2seq_sharded import (
    CASES,
    KILLED,
    SAVED,
    UNEVEN,
    gradient_size,
    new_fitting,
    own_numbers,
)

pytest_plugins = ["seq2seq_fixtures"]
pytestmark = pytest.mark.usefixtures("one_thread")

PROGRAM = Path(seq2seq_sharded.__file__)
ROUNDING = {"bf16": 0.05}  # of losses; of others 1e-5


@pytest.fixture(scope="module")
def calm_folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pre-trained model without dropout, which every process would draw on its own."""
    folder = Path(shutil.copytree(tiny_folder, tmp_path_factory.mktemp("calm") / "t5"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dropout_rate": 0.0}))
    return str(folder)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory, calm_folder: str) -> Path:
    """What two processes wrote; some of the trainings were killed first, and went on."""
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip(
            "this torch is built without gloo, by which processes on CPUs tell each other their numbers"
        )
    folder = tmp_path_factory.mktemp("sharded")
    assert launched(PROGRAM, "be killed", str(folder), calm_folder).returncode != 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{case}.state" for case in KILLED
    )
    result = launched(PROGRAM, "train", str(folder), calm_folder)
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    return folder


def outcomes(folder: Path, case: str) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{case}.{rank}.json").read_text()) for rank in (0, 1)]


@dataclass(frozen=True, slots=True)
class Alone:
    """What one process made of a case; the counts are from before adapters are merged into the weights."""

    fitting: FineTuning
    losses: dict[int, float]
    weights: int
    learned: int
    gradient: float


@cache
def trained_alone(case: str, pretrained: str) -> Alone:
    fitting = new_fitting(case, pretrained, shard=False)
    losses = {step.number: step.loss for step in fitting.steps()}
    weights, learned = (
        own_numbers(fitting.model.parameters()),
        own_numbers(fitting.trainer.weights.values()),
    )
    return Alone(fitting, losses, weights, learned, gradient_size(fitting))


@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_losses_and_end_with_the_weights_of_one(
    together: Path, calm_folder: str, case: str
) -> None:
    alone = trained_alone(case, calm_folder)
    made = range(SAVED + 1 if case in KILLED else 1, len(alone.losses) + 1)
    finished, loaded = alone.fitting.seq2seq, Seq2seq.load(together / case, "cpu")
    for found in outcomes(together, case):
        numbers, losses = zip(*found["steps"], strict=True)
        assert found["processes"] == 2
        assert numbers == tuple(made)
        assert losses == pytest.approx(
            [alone.losses[number] for number in made], rel=ROUNDING.get(case, 1e-5)
        )
        assert found["predicted"] == loaded.predict(
            [example.source for example in EXAMPLES]
        )
    if case not in ROUNDING:
        weights = dict(loaded.model.named_parameters())
        assert weights.keys() == dict(finished.model.named_parameters()).keys()
        for name, weight in finished.model.named_parameters():
            torch.testing.assert_close(weights[name], weight, rtol=1e-4, atol=1e-4)


def test_bf16_is_not_float32(together: Path) -> None:
    rounded, exact = (
        dict(outcomes(together, case)[0]["steps"]) for case in ("bf16", "adafactor")
    )
    assert rounded[SAVED + 1] != exact[SAVED + 1]


@pytest.mark.parametrize("case", ["in parts, recomputed", "lora"])
def test_gradients_are_added_up_and_not_averaged(
    together: Path, calm_folder: str, case: str
) -> None:
    alone = trained_alone(case, calm_folder)
    for found in outcomes(together, case):
        assert found["gradient"] == pytest.approx(alone.gradient, rel=1e-3)


@pytest.mark.parametrize("case", ["adafactor", "adamw, clipped", "lora"])
def test_each_process_holds_half_of_everything(
    together: Path, calm_folder: str, case: str
) -> None:
    alone = trained_alone(case, calm_folder)
    whole = {
        "weights": alone.weights,
        "gradients": alone.learned,
        "moments": 2 * alone.learned,
    }
    for found in outcomes(together, case):
        held = found["held"]
        if case == "adafactor":
            assert held.pop("moments") < 0.15 * alone.learned
        assert held == {name: pytest.approx(whole[name] / 2, rel=0.1) for name in held}


def test_every_block_is_gathered_on_its_own_and_the_rest_together(
    together: Path,
) -> None:
    blocks = 2 * UNEVEN.embedded.layers
    assert [found["units"] for found in outcomes(together, "adafactor")] == [
        blocks + 1
    ] * 2


def test_a_process_alone_keeps_all_weights_whatever_the_setting() -> None:
    sharded, plain = (
        new_fitting("adafactor", "", shard=shard) for shard in (True, False)
    )
    assert not sharded.trainer.is_sharded
    assert [step.loss for step in sharded.steps()] == [
        step.loss for step in plain.steps()
    ]


def test_a_step_with_too_few_examples_for_all_processes_is_refused() -> None:
    check_divisible(6, 3, Processes(count=2))
    with pytest.raises(
        SettingsError,
        match=r"a step of 6 examples .* 8 parts, accumulate \(4\) times .* \(2\)",
    ):
        check_divisible(6, 4, Processes(count=2))


def test_a_copy_with_other_weights_has_the_ties_of_the_first() -> None:
    model = small_t5(SmallT5Settings(width=4, layers=1, heads=1), 9, seed=0)
    empty = with_weights(
        model, (weight.detach().to("meta") for weight in model.parameters())
    )
    assert all(weight.is_meta for weight in empty.parameters())
    filled = with_weights(empty, (weight.detach() + 1 for weight in model.parameters()))
    assert filled.lm_head.weight is filled.shared.weight
    assert torch.equal(filled.shared.weight, model.shared.weight + 1)
