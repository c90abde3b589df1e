"""`--engine` and `--workers`, as a user types them: the same bytes, whoever does the work."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest
import torch

from nqg import Example, Grammar
from nqg.cli.terminal import Workers
from nqg.data.example_files import write_examples
from nqg.errors import NqgError, SettingsError
from nqg.inference.parser import WINDOW
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.parallel import Engine
from nqg.pipeline.parser import fit_parser
from typed_commands import one_thread
from typed_commands import typed as nqg

GRAMMAR = Grammar.parse(
    "walk ### W\njump ### J\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2"
)
VERBS = [
    " ".join(words) for words in product(("walk", "jump"), ("", "twice", "twice twice"))
]
SENTENCES = [
    *(
        " ".join(f"{one} and {two} and {three}".split())
        for one, two, three in product(VERBS, repeat=3)
    ),
    "hop and walk",
] * 10
TESTS = str(Path(__file__).parent.parent)


@pytest.fixture(autouse=True)
def _one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    settings = ModelSettings(
        dimension=8,
        embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16),
    )
    training = TrainingSettings(steps=3, batch_size=3, warm_up=1)
    folder = tmp_path_factory.mktemp("models") / "mine"
    fit_parser(
        GRAMMAR,
        [Example("walk twice", "W W")],
        model=settings,
        training=training,
        device="cpu",
    ).save(folder)
    return str(folder)


def test_two_processes_and_ray_print_what_one_process_prints(model: str) -> None:
    assert len(SENTENCES) > 2 * WINDOW
    write_examples("big.tsv", [Example(sentence, "any") for sentence in SENTENCES])
    alone = nqg("parse", model, "big.tsv", "--device", "cpu").stdout
    rows = [row.split("\t") for row in alone.splitlines()]
    assert [row[0] for row in rows] == SENTENCES
    assert {row[2].partition(":")[0] for row in rows if not row[1]} == {"abstained"}
    assert (
        nqg("parse", model, "big.tsv", "--device", "cpu", "--workers", "2").stdout
        == alone
    )
    if find_spec("ray") is None:
        pytest.skip("ray is not installed")
    assert (
        nqg(
            "parse",
            model,
            "big.tsv",
            "--device",
            "cpu",
            "--engine",
            "ray",
            "--workers",
            "2",
        ).stdout
        == alone
    )


def test_ids_come_back_with_the_answers(model: str) -> None:
    write_examples(
        "some.jsonl",
        [
            Example("walk", "any", "first"),
            Example("hop", "any", "second"),
            Example("jump", "y"),
        ],
    )
    lines = [
        json.loads(line)
        for line in nqg("parse", model, "some.jsonl", "--json").stdout.splitlines()
    ]
    assert [line.get("id") for line in lines] == ["first", "second", None]
    assert [line["target"] for line in lines] == ["W", None, "J"]


def test_a_bad_line_in_a_file_of_examples_is_refused_with_its_place(model: str) -> None:
    Path("bad.tsv").write_text("walk\tW\njump\n")
    with pytest.raises(
        NqgError, match=r"bad.tsv:2: expected 'source<TAB>target', found 1 column"
    ):
        nqg("parse", model, "bad.tsv")


def test_workers_do_not_draw(model: str) -> None:
    refused = nqg("parse", model, "walk", "--explain", "--workers", "2")
    assert refused.exit_code == 2
    assert "workers cannot draw" in refused.stderr


def test_an_unknown_engine_is_refused(model: str) -> None:
    with pytest.raises(
        SettingsError, match="no engine 'cloud'; expected local, ray, or"
    ):
        nqg("parse", model, "walk", "--engine", "cloud")


@pytest.mark.parametrize(
    ("engine", "workers", "device", "gpu_here", "expected"),
    [
        ("local", None, None, False, Workers(Engine(), None)),
        ("local", 3, "cpu", False, Workers(Engine("local", 3), "cpu")),
        ("ray", 3, None, False, Workers(Engine("ray", 3), "cpu")),
        ("ray", None, None, True, Workers(Engine("ray", None, 1), "cuda")),
        ("ray", None, "cpu", True, Workers(Engine("ray"), "cpu")),
        (
            "ray://head:1",
            8,
            "cuda",
            False,
            Workers(Engine("ray://head:1", 8, 1), "cuda"),
        ),
    ],
)
def test_on_ray_every_worker_gets_a_gpu_or_none(
    engine: str,
    workers: int | None,
    device: str | None,
    gpu_here: bool,
    expected: Workers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu_here)
    assert Workers.chosen(engine, workers, device) == expected
