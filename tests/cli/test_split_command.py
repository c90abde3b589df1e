"""`nqg split`, as a user types it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import Result

from nqg.cli import terminal
from nqg.data.dataset import read_split
from nqg.data.example import Example
from nqg.data.example_files import read_examples, write_examples
from nqg.errors import FormatError, NqgError, SettingsError, UnknownName
from nqg.preprocessing.preprocessor import TextSettings
from nqg.preprocessing.training_text import fit_text, tokenized
from typed_commands import typed

EXAMPLES = [
    Example(f"{f} {g} {x}", f"answer ( {f} ( {g} ( {x} ) ) )", id=f"{f}{g}{x}")
    for f in "abcd"
    for g in "abcd"
    for x in ("m0", "m1", "all")
]
RAW = [
    Example(
        f"Turn {state} the {device}, the {room} one!",
        f'set(device={device}, room="{room}", state={state})',
    )
    for device in ("lamp", "fan", "heater")
    for room in ("hall", "home office", "attic")
    for state in ("on", "off")
] + [
    Example(
        f"{verb} the {device} to {level}",
        f"{verb}({device}, {level}{', slow=yes' * (level > 20)})",
    )
    for device in ("lamp", "fan", "heater")
    for verb in ("dim", "raise")
    for level in (10, 20, 30)
]
QUICK = ("--set", "moves=3000", "--set", "restarts=2")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path / "mine.tsv", EXAMPLES)
    write_examples(tmp_path / "mine.jsonl.gz", EXAMPLES)


def nqg(*words: str) -> Result:
    return typed("split", *words)


@pytest.mark.parametrize(
    "words",
    [("random",), ("length",), ("template",), ("tmcd", *QUICK)],
    ids=["random", "length", "template", "tmcd"],
)
def test_every_method_writes_the_split_and_its_parts(words: tuple[str, ...]) -> None:
    result = nqg(
        *words, "mine.tsv", "-o", "out", "--test-size", "12", "--dev-size", "6"
    )
    split = read_split(Path("out/split.json"), len(EXAMPLES))
    data = read_examples(Path("mine.tsv"))
    parts = split.parts(data)
    for name, part in (
        ("train", parts.train),
        ("dev", parts.dev),
        ("test", parts.test),
    ):
        assert read_examples(Path(f"out/{name}.tsv")) == part
    assert sorted(split.train + split.dev + split.test) == list(range(len(EXAMPLES)))
    assert (len(split.train), len(split.dev), len(split.test)) == (30, 6, 12)
    assert split.made_by["method"] == words[0]
    assert split.made_by["data"] == "mine.tsv"
    assert result.stdout.startswith("30 train, 6 dev, 12 test")
    assert result.stderr.splitlines() == ["wrote out/split.json"] + [
        f"wrote out/{name}.tsv" for name in ("train", "dev", "test")
    ]


def test_the_folder_is_named_after_data_and_method_and_the_format_is_kept() -> None:
    nqg("random", "mine.jsonl.gz")
    assert sorted(path.name for path in Path("mine-random").iterdir()) == [
        "split.json",
        "test.jsonl.gz",
        "train.jsonl.gz",
    ]
    assert read_examples(Path("mine-random/train.jsonl.gz"))[0].id is not None


def test_sizes_are_numbers_or_shares() -> None:
    shares = json.loads(
        nqg("random", "mine.tsv", "--test-size", "0.5", "--json").stdout
    )
    assert shares["sizes"] == {"train": 24, "test": 24}
    numbers = json.loads(
        nqg("random", "mine.tsv", "--train-size", "40", "--json").stdout
    )
    assert numbers["sizes"] == {"train": 40, "test": 8}


def test_json_says_what_was_made() -> None:
    facts = json.loads(
        nqg("tmcd", "mine.tsv", "-o", "out", "--seed", "3", *QUICK, "--json").stdout
    )
    assert facts["files"] == ["out/train.tsv", "out/test.tsv"]
    made_by = facts["made_by"]
    assert (made_by["seed"], made_by["language"], made_by["moves"]) == (
        3,
        "funql",
        3000,
    )
    assert made_by["compound_divergence"] > 0.2
    assert dict(read_split(Path("out/split.json")).made_by) == made_by
    assert len(made_by["data_sha256"]) == 64


def test_the_same_seed_writes_the_same_bytes() -> None:
    for folder, seed in (("first", "1"), ("again", "1"), ("other", "2")):
        nqg("tmcd", "mine.tsv", "-o", folder, "--seed", seed, *QUICK)
    first, again, other = (
        Path(folder, "split.json").read_bytes()
        for folder in ("first", "again", "other")
    )
    assert first == again
    assert first != other


def test_the_hash_seed_of_python_does_not_matter(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from nqg.cli.main import main; main()",
                "split",
                "template",
                "mine.tsv",
                "-o",
                seed,
            ],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
    assert Path("1/split.json").read_bytes() == Path("2/split.json").read_bytes()


def test_a_length_split_can_go_by_target() -> None:
    facts = json.loads(nqg("length", "mine.tsv", "--by", "target", "--json").stdout)
    assert facts["made_by"]["by"] == "target"


def test_templates_can_be_made_by_a_regular_expression() -> None:
    nqg("template", "mine.tsv", "--test-size", "12", "--blank", "[b-d] [(]")
    train, test = (
        read_examples(Path(f"mine-template/{part}.tsv")) for part in ("train", "test")
    )
    assert read_split(Path("mine-template/split.json")).made_by["blank"] == "[b-d] [(]"
    blanked = [
        {
            example.target.replace("b (", "_").replace("c (", "_").replace("d (", "_")
            for example in part
        }
        for part in (train, test)
    ]
    assert not blanked[0] & blanked[1]


def test_a_chosen_divergence_and_a_bound_are_passed_on() -> None:
    words = (
        "--target-divergence",
        "0.15",
        "--set",
        "tolerance=0.02",
        "--set",
        "max_atom_divergence=0.1",
        *QUICK,
    )
    made_by = json.loads(nqg("tmcd", "mine.tsv", *words, "--json").stdout)["made_by"]
    assert made_by["compound_divergence"] == pytest.approx(0.15, abs=0.02)
    assert made_by["atom_divergence"] <= 0.1
    assert made_by["tolerance"] == 0.02


def test_the_search_of_the_paper_is_an_option() -> None:
    made_by = json.loads(
        nqg("tmcd", "mine.tsv", "--set", "method=greedy", "--json").stdout
    )["made_by"]
    assert made_by["search"] == "greedy"


def test_a_time_budget_is_an_option() -> None:
    made_by = json.loads(
        nqg(
            "tmcd", "mine.tsv", "--set", "seconds=0.2", "--set", "moves=1000", "--json"
        ).stdout
    )["made_by"]
    assert made_by["seconds"] == 0.2


def test_progress_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "divergence" not in nqg("tmcd", "mine.tsv", *QUICK).stderr
    drawn = io.StringIO()
    screen = Console(force_terminal=True, width=120, file=drawn)
    monkeypatch.setattr(terminal, "err", screen)
    nqg("tmcd", "mine.tsv", *QUICK)
    assert "compound divergence 0." in drawn.getvalue()


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("random", "none.tsv"), NqgError, "none.tsv: no such file"),
        (
            ("random", "mine.tsv", "--test-size", "49"),
            SettingsError,
            "test size 49: expected between 0 and 48",
        ),
        (
            ("tmcd", "mine.tsv", "--language", "sqll"),
            UnknownName,
            "no target language 'sqll'; did you mean 'sql'",
        ),
        (
            ("tmcd", "mine.tsv", "--language", "sql"),
            FormatError,
            "the target of example 1, 'answer (",
        ),
        (
            ("tmcd", "mine.tsv", "--train-size", "1"),
            SettingsError,
            "train is to have 1 example, but",
        ),
        (
            ("tmcd", "mine.tsv", "--set", "moves=0"),
            SettingsError,
            "moves is 0; expected more than 0",
        ),
        (
            ("template", "mine.tsv", "--blank", "("),
            SettingsError,
            "'(' is not a regular expression",
        ),
        (
            ("random", "mine.tsv", "-o", "mine.tsv"),
            NqgError,
            "mine.tsv: cannot be created",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_said_in_words(
    words: tuple[str, ...], error: type[NqgError], message: str
) -> None:
    with pytest.raises(error) as caught:
        nqg(*words)
    assert message in str(caught.value)


def test_the_data_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").rename(tmp_path / "train.tsv")
    before = (tmp_path / "train.tsv").read_bytes()
    with pytest.raises(
        NqgError,
        match=r"train\.tsv: a part would overwrite the data; choose another folder",
    ):
        nqg("random", "train.tsv", "-o", str(tmp_path))
    assert (tmp_path / "train.tsv").read_bytes() == before


def test_dots_in_the_name_of_the_data_are_no_extension(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").rename(tmp_path / "mine.v2.tsv")
    nqg("length", "mine.v2.tsv")
    assert sorted(path.name for path in Path("mine.v2-length").iterdir()) == [
        "split.json",
        "test.tsv",
        "train.tsv",
    ]


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(
        FormatError, match=r"empty\.tsv: expected at least one example, found none"
    ):
        nqg("tmcd", "empty.tsv")


def test_a_size_that_is_no_number_is_a_misuse() -> None:
    result = nqg("random", "mine.tsv", "--test-size", "many")
    assert result.exit_code == 2
    assert (
        "'many' is neither a number of examples nor a share such as 0.25"
        in result.stderr
    )


def test_a_file_in_the_place_of_the_method_is_told_the_methods() -> None:
    result = nqg("mine.tsv")
    assert result.exit_code == 2
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "'mine.tsv' is not one of 'random', 'length', 'template', 'tmcd'" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("random", "mine.tsv", "--by", "target"),
            "--by: is for length; omit it with random",
        ),
        (
            ("length", "mine.tsv", "--seed", "0"),
            "--seed: is for random and template and tmcd; omit it with length",
        ),
        (("template", "mine.tsv", *QUICK), "--set: is for tmcd; omit it with template"),
    ],
    ids=str,
)
def test_an_option_of_another_method_is_refused(
    words: tuple[str, ...], said: str
) -> None:
    result = nqg(*words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_nothing_is_written_when_the_search_fails() -> None:
    with pytest.raises(
        NqgError, match=r"no split with a compound divergence of 0\.99 was found"
    ):
        nqg("tmcd", "mine.tsv", "-o", "out", "--target-divergence", "0.99", *QUICK)
    assert not Path("out").exists()


@pytest.fixture
def _raw_data() -> None:
    write_examples("raw.tsv", RAW)
    tokens = tokenized(RAW, fit_text(RAW, TextSettings(slots="given")))
    write_examples("tokens.tsv", tokens)


def measured(folder: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(
        typed(
            "check-split", f"{folder}/train.tsv", f"{folder}/test.tsv", "--json"
        ).stdout
    )
    return found[0]


@pytest.mark.usefixtures("_raw_data")
def test_the_divergence_of_raw_programs_is_what_an_audit_finds() -> None:
    made_by = json.loads(
        nqg("tmcd", "raw.tsv", "-o", "out", "--test-size", "8", *QUICK, "--json").stdout
    )["made_by"]
    found = measured("out")
    assert made_by["compound_divergence"] == pytest.approx(
        found["compound_divergence"], abs=1e-6
    )
    assert made_by["atom_divergence"] == pytest.approx(
        found["atom_divergence"], abs=1e-6
    )
    assert found["unseen_atom_examples"] == 0


@pytest.mark.usefixtures("_raw_data")
@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_no_template_of_raw_programs_is_on_two_sides(seed: str) -> None:
    nqg("template", "raw.tsv", "-o", "out", "--seed", seed)
    assert measured("out")["shared_templates"] == 0


@pytest.mark.usefixtures("_raw_data")
def test_the_length_of_raw_programs_is_counted_in_tokens() -> None:
    nqg("length", "raw.tsv", "-o", "out", "--by", "target")
    lengths = measured("out")["lengths"]
    assert max(map(int, lengths["train"]["target"])) <= min(
        map(int, lengths["test"]["target"])
    )


@pytest.mark.usefixtures("_raw_data")
@pytest.mark.parametrize(
    "words",
    [
        ("length", "--by", "target"),
        ("template",),
        ("template", "--blank", "= o[nf]+"),
        ("tmcd", *QUICK),
    ],
    ids=["length", "template", "blank", "tmcd"],
)
def test_raw_programs_are_split_like_tokenised_ones_and_stay_as_they_are(
    words: tuple[str, ...],
) -> None:
    for data in ("raw", "tokens"):
        nqg(*words, f"{data}.tsv", "-o", data)
    raw, tokens = (read_split(Path(data, "split.json")) for data in ("raw", "tokens"))
    assert (raw.train, raw.test) == (tokens.train, tokens.test)
    lines = Path("raw.tsv").read_text().splitlines()
    assert Path("raw/test.tsv").read_text().splitlines() == [
        lines[position] for position in raw.test
    ]


@pytest.mark.parametrize("name", ["geoquery", "spider"])
def test_the_published_length_splits_are_reproduced_by_the_command(
    real_data: Path, name: str
) -> None:
    published = read_split(real_data / name / "splits" / "length_1.json")
    data = real_data / name / "expected_dataset.tsv"
    nqg("length", str(data), "-o", "out", "--train-size", str(len(published.train)))
    ours = read_split(Path("out/split.json"))
    assert (set(ours.train), set(ours.test)) == (
        set(published.train),
        set(published.test),
    )
    assert (
        read_examples(Path("out/train.tsv"))
        == published.parts(read_examples(data)).train
    )


def test_a_dataset_of_one_template_cannot_be_split_by_template(tmp_path: Path) -> None:
    write_examples(
        tmp_path / "same.tsv",
        [Example(f"rivers in m{number}", f"river ( {number} )") for number in range(9)],
    )
    with pytest.raises(
        SettingsError,
        match="1 template cannot fill two parts of a split; there must be at least 2",
    ):
        nqg("template", "same.tsv")
