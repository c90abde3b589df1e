"""The steps of a training, read from a model folder's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError
from nqg.training.records import DevScores, TrainingStep, read_steps

STEPS = [
    TrainingStep(1, 2.0, 1e-4),
    TrainingStep(2, 1.0, 2e-4, DevScores(0.25, 1.5)),
    TrainingStep(3, 0.5, 1e-4, DevScores(0.75, None)),
]


def written(folder: Path, *records: object) -> Path:
    path = folder / "training.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def test_steps_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_steps(written(tmp_path, *(step.to_dict() for step in STEPS))) == STEPS


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (
            {"step": 1, "learning_rate": 0.1},
            r"training\.jsonl:2: expected a number as 'loss', found None",
        ),
        (
            {"step": "1", "loss": 0.5, "learning_rate": 0.1},
            "expected a number as 'step', found '1'",
        ),
        (
            {"step": 1.5, "loss": 0.5, "learning_rate": 0.1},
            "expected a number as 'step', found 1.5",
        ),
        (
            {"step": True, "loss": 0.5, "learning_rate": 0.1},
            "expected a number as 'step', found True",
        ),
        (
            {**STEPS[1].to_dict(), "dev_exact_match": "high"},
            "expected numbers as 'dev_exact_match' and 'dev_loss'",
        ),
    ],
)
def test_a_line_that_is_no_step_is_refused_with_its_place(
    tmp_path: Path, record: object, complaint: str
) -> None:
    with pytest.raises(FormatError, match=complaint):
        read_steps(written(tmp_path, STEPS[0].to_dict(), record))


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        NqgError, match=r"training\.jsonl: no such file; `nqg train` writes one"
    ):
        read_steps(tmp_path / "training.jsonl")
    with pytest.raises(NqgError, match=r"training\.jsonl: no step is recorded there"):
        read_steps(written(tmp_path))
