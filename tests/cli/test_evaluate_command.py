"""`nqg evaluate`, as a user types it: a model, or another system's predictions, on examples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from nqg import Example, Grammar, Parser
from nqg.data.example_files import write_examples
from nqg.errors import FormatError, NqgError, UnknownName
from nqg.inference.hybrid import Hybrid
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.paper.datasets import load_dataset
from nqg.pipeline.parser import fit_parser
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from typed_commands import one_thread, typed

GRAMMAR = Grammar.parse("walk ### W\njump ### J\nNT_1 twice ### NT_1 NT_1")
EXAMPLES = [Example("walk twice", "W W"), Example("jump", "J")]
MODEL = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16)
)
TEST = "walk\tW\njump twice\tJ J\nwalk twice\tW\nhop\tH\n"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("test.tsv").write_text(TEST)
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    training = TrainingSettings(steps=1, batch_size=2)
    folder = tmp_path_factory.mktemp("models") / "mine"
    fit_parser(GRAMMAR, EXAMPLES, model=MODEL, training=training, device="cpu").save(
        folder
    )
    return str(folder)


def nqg(*words: str) -> Result:
    return typed("evaluate", *words)


def shown(*words: str) -> list[str]:
    return [" ".join(line.split()) for line in nqg(*words).stdout.splitlines()]


def facts(*words: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(nqg(*words, "--json").stdout)
    return read


def test_a_model_is_scored_with_intervals(model: str) -> None:
    assert shown(model, "test.tsv") == [
        "4 examples accuracy coverage precision",
        "grammar 50.0 % (15.0–85.0) 75.0 % (30.1–95.4) 66.7 % (20.8–93.9)",
    ]


def test_json_has_counts_shares_and_intervals(model: str) -> None:
    read = facts(model, "test.tsv")
    assert read["metric"] == "exact"
    scores = read["systems"]["grammar"]
    assert (
        scores["examples"],
        scores["answered"],
        scores["right"],
        scores["coverage"],
    ) == (
        4,
        3,
        2,
        0.75,
    )
    assert scores["accuracy_95"] == pytest.approx([0.15003899, 0.84996101])


def test_every_prediction_is_written_down_and_can_be_scored_again(model: str) -> None:
    result = nqg(model, "test.tsv", "--write-predictions", "said.jsonl")
    lines = [json.loads(line) for line in Path("said.jsonl").read_text().splitlines()]
    assert result.stderr == "wrote said.jsonl\n"
    assert [(line["prediction"], line["right"]) for line in lines] == [
        ("W", True),
        ("J J", True),
        ("W W", False),
        (None, None),
    ]
    assert [line["reason"] for line in lines] == ["", "", "", "no derivation"]
    assert 0 < lines[0]["probability"] <= 1
    again = facts("test.tsv", "--score", "said.jsonl")
    assert again["systems"] == {
        "said.jsonl": facts(model, "test.tsv")["systems"]["grammar"]
    }


def test_a_fallback_answers_where_the_model_abstains(model: str) -> None:
    Path("t5.tsv").write_text("walk\tJ\njump twice\tJ J\nwalk twice\tW\nhop\tH\n")
    lines = shown(model, "test.tsv", "--fallback", "t5.tsv")
    assert [line.split(" %")[0] for line in lines[1:4]] == [
        "grammar 50.0",
        "t5.tsv 75.0",
        "grammar, else t5.tsv 75.0",
    ]
    assert lines[5] == "both minus the second alone: -75.0–75.0 points of accuracy"


def test_of_a_model_with_a_fallback_both_parts_are_tried_on_all_examples(
    model: str,
) -> None:
    tiny = Seq2seqSettings(
        longest_target=8, embedded=SmallT5Settings(width=16, layers=1, heads=2)
    )
    seq2seq = Seq2seq.train(EXAMPLES, tiny, FineTuningSettings(steps=1), device="cpu")
    Hybrid(Parser.load(model, "cpu"), seq2seq).save("hybrid")
    systems = facts("hybrid", "test.tsv")["systems"]
    assert list(systems) == ["grammar", "fallback", "grammar, else fallback"]
    assert systems["grammar"] == facts(model, "test.tsv")["systems"]["grammar"]
    Path("t5.tsv").write_text(TEST)
    assert (
        list(facts("hybrid", "test.tsv", "--fallback", "t5.tsv")["systems"])[1]
        == "t5.tsv"
    )


def test_a_system_that_never_answers_has_an_undefined_precision() -> None:
    Path("silent.tsv").write_text("walk\t\njump twice\t\nwalk twice\t\nhop\t\n")
    lines = shown("test.tsv", "--score", "silent.tsv")
    assert lines[1] == "silent.tsv 0.0 % (0.0–49.0) 0.0 % (0.0–49.0) undefined"


def test_spiders_metric_has_tables_of_its_own(
    real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NQG_DATA_MIRROR", str(real_data))
    _, dev = load_dataset("spider-xsp", real_data).split("standard")
    write_examples("dev.tsv", dev[:40])
    write_examples("said.tsv", [Example(dev[0].source, "select 1"), *dev[1:40]])
    words = ("dev.tsv", "--score", "said.tsv", "--metric", "spider")
    lines = shown(*words)
    assert lines[1].startswith("said.tsv 97.5 %")
    assert "hardness examples accuracy" in lines
    read = facts(*words)
    assert set(read) == {"metric", "systems", "gain_95", "hardness", "functions"}


def test_denotations_are_a_metric_too(
    real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NQG_DATA_MIRROR", str(real_data))
    _, test = load_dataset("geoquery", real_data).split("standard")
    write_examples("geo.jsonl", test[:20])
    read = facts("geo.jsonl", "--score", "geo.jsonl", "--metric", "denotation")
    assert read["systems"]["geo.jsonl"]["accuracy"] == 1.0


def test_predictions_must_be_there_for_every_example() -> None:
    Path("some.tsv").write_text("walk\tW\n")
    with pytest.raises(NqgError, match=r"some\.tsv: no prediction for 'jump twice'"):
        nqg("test.tsv", "--score", "some.tsv")


def test_a_test_without_examples_is_refused() -> None:
    Path("empty.tsv").write_text("")
    with pytest.raises(
        NqgError, match=r"empty\.tsv: expected at least one example, found none"
    ):
        nqg("empty.tsv", "--score", "test.tsv")


def test_a_bad_line_is_named(model: str) -> None:
    Path("bad.tsv").write_text("walk\tW\nwalk\n")
    with pytest.raises(
        FormatError, match=r"bad\.tsv:2: expected 'source<TAB>target', found 1 column"
    ):
        nqg(model, "bad.tsv")


def test_an_unknown_metric_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no metric 'spyder'; did you mean 'spider'"):
        nqg("test.tsv", "--score", "test.tsv", "--metric", "spyder")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("test.tsv",), "expected MODEL and TEST, found 1 path"),
        (
            ("mine", "test.tsv", "--score", "said.tsv"),
            "expected TEST alone beside --score",
        ),
        (("mine", "test.tsv", "--device", "tpu"), "'tpu' is neither 'cpu' nor 'cuda'"),
        ((), "Missing argument"),
    ],
)
def test_misuse_has_exit_code_2(words: tuple[str, ...], message: str) -> None:
    result = nqg(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
