"""`nqg check-split`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from nqg.data.dataset import Split, write_split
from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.errors import FormatError, NqgError, UnknownName
from typed_commands import typed

TRAIN = [
    Example("the longest river", "longest ( river )"),
    Example("rivers in m0", "river ( m0 )"),
]
TEST = [
    Example("rivers in m1", "river ( m1 )"),
    Example("the longest state of all", "longest ( state )"),
]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    for name, examples in (("train", TRAIN), ("test", TEST), ("all", TRAIN + TEST)):
        write_examples(tmp_path / f"{name}.tsv", examples)
    for name, split in (
        ("halves", Split((0, 1), (2, 3))),
        ("thirds", Split((0, 1), (3,), (2,))),
    ):
        write_split(tmp_path / f"{name}.json", split)


def nqg(*words: str) -> Result:
    return typed("check-split", *words)


def test_two_files_are_compared() -> None:
    lines = nqg("train.tsv", "test.tsv", "--language", "funql").stdout.splitlines()
    header = "split train dev test unseen atoms compound divergence atom divergence shared templates"
    assert " ".join(lines[0].split()) == header
    assert (
        " ".join(lines[1].split())
        == "train / test 2 0 2 2 (100.00%) 1.0000 0.3964 1 of 2"
    )
    assert any(line.startswith("train / test: source tokens, test ") for line in lines)


def test_several_splits_of_a_dataset_stand_in_one_table() -> None:
    lines = nqg(
        "--data", "all.tsv", "--split", "halves.json", "--split", "thirds.json"
    ).stdout.splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["halves", "2", "0", "2"],
        ["thirds", "2", "1", "1"],
    ]


def test_split_files_of_nqg_split_are_called_after_their_folders(
    tmp_path: Path,
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_split(tmp_path / folder / "split.json", Split((0, 1), (2, 3)))
    words = ("--data", "all.tsv", "--split", "a/split.json", "--split", "b/split.json")
    assert [each["name"] for each in json.loads(nqg(*words, "--json").stdout)] == [
        "a",
        "b",
    ]


def test_split_files_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    write_split(tmp_path / "old" / "halves.json", Split((0, 2), (1, 3)))
    words = (
        "--data",
        "all.tsv",
        "--split",
        "halves.json",
        "--split",
        "old/halves.json",
    )
    assert [each["name"] for each in json.loads(nqg(*words, "--json").stdout)] == [
        "halves",
        "old/halves",
    ]


def test_both_ways_of_asking_give_the_same_figures() -> None:
    by_files = json.loads(nqg("train.tsv", "test.tsv", "--json").stdout)[0]
    by_split = json.loads(
        nqg("--data", "all.tsv", "--split", "halves.json", "--json").stdout
    )[0]
    assert by_files | {"name": ""} == by_split | {"name": ""}


def test_dev_examples_can_be_given_beside_train_and_test(tmp_path: Path) -> None:
    write_examples(tmp_path / "dev.tsv", TEST[:1])
    write_examples(tmp_path / "rest.tsv", TEST[1:])
    by_files = json.loads(nqg("train.tsv", "rest.tsv", "dev.tsv", "--json").stdout)[0]
    by_split = json.loads(
        nqg("--data", "all.tsv", "--split", "thirds.json", "--json").stdout
    )[0]
    assert by_files["dev"] == 1
    assert by_files | {"name": ""} == by_split | {"name": ""}


def test_the_language_is_recognised_or_given() -> None:
    assert (
        json.loads(nqg("train.tsv", "test.tsv", "--json").stdout)[0]["language"]
        == "brackets"
    )
    flat = json.loads(
        nqg("train.tsv", "test.tsv", "--language", "tokens", "--json").stdout
    )[0]
    assert (flat["language"], flat["compound_divergence"] < 1) == ("tokens", True)


def test_templates_can_be_made_by_a_regular_expression() -> None:
    found = json.loads(
        nqg("train.tsv", "test.tsv", "--blank", "[a-z0-9]+", "--json").stdout
    )[0]
    assert (found["shared_templates"], found["test_templates"]) == (1, 1)


def geoquery_audit(real_data: Path) -> list[dict[str, object]]:
    folder = real_data / "geoquery"
    names = ("standard", "template_1", "length_1", "tmcd_1")
    splits = [
        word
        for name in names
        for word in ("--split", str(folder / "splits" / f"{name}.json"))
    ]
    found: list[dict[str, object]] = json.loads(
        nqg("--data", str(folder / "expected_dataset.tsv"), *splits, "--json").stdout
    )
    return found


def test_every_published_figure_of_geoquery_is_reproduced(real_data: Path) -> None:
    rows = [
        (
            each["name"],
            each["train"],
            each["test"],
            each["unseen_atom_examples"],
            f"{each['compound_divergence']:.4f}",
        )
        for each in geoquery_audit(real_data)
    ]
    assert rows == [
        ("standard", 600, 280, 1, "0.0274"),
        ("template_1", 441, 439, 4, "0.0747"),
        ("length_1", 440, 440, 19, "0.1703"),
        ("tmcd_1", 440, 440, 0, "0.1902"),
    ]


def test_every_published_count_of_spider_is_reproduced(real_data: Path) -> None:
    folder = real_data / "spider"
    names = ("random_1", "template_1", "length_1", "tmcd_1")
    splits = [
        word
        for name in names
        for word in ("--split", str(folder / "splits" / f"{name}.json"))
    ]
    lines = nqg(
        "--data", str(folder / "expected_dataset.tsv"), *splits
    ).stdout.splitlines()[1:5]
    assert [line.split()[:6] for line in lines] == [
        ["random_1", "3282", "0", "1094", "68", "(6.22%)"],
        ["template_1", "3280", "0", "1096", "332", "(30.29%)"],
        ["length_1", "3282", "0", "1094", "300", "(27.42%)"],
        ["tmcd_1", "3282", "0", "1094", "0", "(0.00%)"],
    ]
    assert lines[1].endswith("19 of 537")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give the files of train and test, or --data and --split"),
        (("train.tsv",), "give the files of train and test, or --data and --split"),
        (("--data", "all.tsv"), "give at least one split file of the dataset"),
        (
            ("train.tsv", "test.tsv", "--data", "all.tsv", "--split", "halves.json"),
            "not both",
        ),
        (("train.tsv", "test.tsv", "--split", "halves.json"), "give --data with it"),
    ],
    ids=str,
)
def test_misuse_is_refused_with_exit_code_2(
    words: tuple[str, ...], message: str
) -> None:
    result = nqg(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("train.tsv", "none.tsv"), NqgError, "none.tsv: no such file"),
        (
            ("train.tsv", "empty.tsv"),
            FormatError,
            "empty.tsv: expected at least one example",
        ),
        (
            ("empty.tsv", "empty.tsv"),
            FormatError,
            "empty.tsv: expected at least one example",
        ),
        (
            ("train.tsv", "test.tsv", "--language", "lisp"),
            UnknownName,
            "no target language 'lisp'",
        ),
        (
            ("--data", "train.tsv", "--split", "halves.json"),
            FormatError,
            "position 3 lies outside a dataset of 2",
        ),
    ],
    ids=str,
)
def test_mistakes_are_said_in_words(
    tmp_path: Path, words: tuple[str, ...], error: type[NqgError], message: str
) -> None:
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(error) as caught:
        nqg(*words)
    assert message in str(caught.value)
