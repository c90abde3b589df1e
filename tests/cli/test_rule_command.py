"""`nqg rule`, and rules by hand in `nqg train`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from typed_commands import one_thread, typed

TRAIN = [
    Example("turn on the lamp in the hall", "on ( hall , lamp )"),
    Example("turn off the fan in the hall", "off ( hall , fan )"),
    Example("turn on the fan in the attic", "on ( attic , fan )"),
    Example("turn off the lamp in the attic", "off ( attic , lamp )"),
]
RULES = """\
turn NT_1 the NT_2 in the NT_3 ### NT_1 ( NT_3 , NT_2 )
on ### on
off ### off
lamp ### lamp
fan ### fan
hall ### hall
attic ### attic
"""
NIGHT, DARK = "good night ### off ( hall , lamp )", "dark NT_1 ### off ( NT_1 , lamp )"
BRIEF = (
    "--steps",
    "2",
    "--set",
    "training.batch_size=4",
    "--set",
    "confidence.folds=0",
    "--device",
    "cpu",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rule")
    write_examples(folder / "train.tsv", TRAIN)
    (folder / "grammar.txt").write_text(RULES)
    with one_thread():
        typed(
            "train",
            f"{folder}/train.tsv",
            "-o",
            f"{folder}/model",
            "--grammar",
            f"{folder}/grammar.txt",
            *BRIEF,
        )
    return folder


@pytest.fixture(autouse=True)
def _own_folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    Parser.load(trained / "model", "cpu").save("model")
    for name in ("train.tsv", "grammar.txt"):
        Path(name).write_text((trained / name).read_text())


def test_a_name_in_a_template_that_is_no_slot_is_noted() -> None:
    template = "(dim|darken) {room} ### off ( {room} , lamp )"
    added = typed("rule", "test", "model", "train.tsv", template)
    note = "note: 'room' is not a slot of this model (it has none)."
    assert note in added.stderr
    assert "{room} stands for what other rules read" in added.stderr
    plain = typed("rule", "test", "model", "train.tsv", NIGHT)
    assert "note" not in plain.stderr


def test_a_rule_is_added_used_listed_and_removed() -> None:
    assert typed("parse", "model", "good night").stdout.startswith(
        "abstained: no derivation"
    )
    added = typed("rule", "add", "model", NIGHT, DARK)
    assert added.stdout.split("\n") == [
        f"{NIGHT}\tby hand\t<program>",
        f"{DARK}\tby hand\t<program> from <on_argument_1>",
        "9 rules, 2 of them written by hand",
        "",
    ]
    assert added.stderr == "wrote model\n"
    assert (
        typed("parse", "model", "good night").stdout.split("\n")[0]
        == "off ( hall , lamp )"
    )
    assert typed("check-model", "model").stdout.startswith("model is undamaged")
    rows = typed("check-model", "model").stdout.splitlines()
    assert ["by", "hand", "2"] in [row.split() for row in rows]
    assert typed("rule", "list", "model").stdout == added.stdout
    assert (
        typed("rule", "remove", "model", NIGHT).stdout.split("\n")[0]
        == f"{DARK}\tby hand\t<program> from <on_argument_1>"
    )
    assert typed("parse", "model", "good night").stdout.startswith("abstained")


def test_all_rules_are_listed_for_people_and_programs() -> None:
    typed("rule", "add", "model", NIGHT)
    lines = typed("rule", "list", "model", "--all").stdout.split("\n")
    assert lines[3] == "lamp ### lamp\ttrained\t<on_argument_2>"
    assert lines[-2] == "8 rules, 1 of them written by hand"
    found = json.loads(typed("rule", "list", "model", "--json").stdout)
    assert found == [
        {"rule": NIGHT, "by_hand": True, "trained": False, "types": ["<program>"]}
    ]


def test_a_file_of_rules_is_added_as_a_whole_or_not_at_all() -> None:
    Path("mine.txt").write_text(
        f"# mine\n{NIGHT}\n{DARK}\nbye ### off ( hall , hall )\n"
    )
    with pytest.raises(
        FormatError,
        match=r"mine.txt:4: rule 'bye ### .*': 'hall' is not a <on_argument_2>",
    ):
        typed("rule", "add", "model", "--file", "mine.txt")
    assert not Path("model/rules.txt").exists()
    Path("mine.txt").write_text(f"# mine\n{NIGHT}\n{DARK}\n")
    typed("rule", "add", "model", "--file", "mine.txt")
    assert Path("model/rules.txt").read_text().endswith(f"{NIGHT}\n{DARK}\n")
    typed("rule", "remove", "model", "--file", "mine.txt")
    assert not Path("model/rules.txt").exists()


def test_a_trial_tells_what_a_rule_would_answer_and_break_and_writes_nothing() -> None:
    source, target = Path("train.tsv").read_text().split("\n")[0].split("\t")
    Path("try.tsv").write_text(f"{source}\t{target}\ngood night\toff ( hall , lamp )\n")
    tried = typed("rule", "test", "model", "try.tsv", NIGHT)
    assert tried.stdout.split("\n")[:2] == [
        "answered: good night",
        "    now      off ( hall , lamp )",
    ]
    assert (
        "1 rule; 2 sentences tried: 1 newly answered (1 right, 0 wrong)" in tried.stdout
    )
    assert not Path("model/rules.txt").exists()
    broken = typed(
        "rule", "test", "model", "try.tsv", f"{source} ### off ( hall , fan )"
    )
    assert broken.exit_code == 1
    assert broken.stdout.startswith(f"broken: {source}\n    before   {target}\n")
    found = json.loads(
        typed("rule", "test", "model", "try.tsv", NIGHT, "--json").stdout
    )
    assert found["changes"][0]["change"] == "answered"


def test_no_rule_no_file_and_no_model_are_refused() -> None:
    assert (
        "expected a rule, or a --file with rules"
        in typed("rule", "add", "model").output
    )
    with pytest.raises(NqgError, match="nowhere: no such folder"):
        typed("rule", "add", "nowhere", NIGHT)
    with pytest.raises(NqgError, match=r"mine.txt: no such file"):
        typed("rule", "add", "model", "--file", "mine.txt")


def test_training_again_keeps_the_rules_of_the_model_that_it_replaces() -> None:
    typed("rule", "add", "model", NIGHT)
    with one_thread():
        again = typed(
            "train", "train.tsv", "-o", "model", "--grammar", "grammar.txt", *BRIEF
        )
        assert (
            "model/rules.txt: rules by hand are kept; --rules none drops them"
            in again.stderr
        )
        assert (
            typed("parse", "model", "good night").stdout.split("\n")[0]
            == "off ( hall , lamp )"
        )
        typed(
            "train",
            "train.tsv",
            "-o",
            "model",
            "--grammar",
            "grammar.txt",
            "--rules",
            "none",
            *BRIEF,
        )
    assert not Path("model/rules.txt").exists()


def test_rules_of_a_file_begin_the_search_and_those_that_no_example_needs_are_kept() -> (
    None
):
    write_examples(
        "steps.tsv",
        [
            Example("jump", "J"),
            Example("jump twice", "J J"),
            Example("walk twice", "W W"),
        ],
    )
    Path("mine.txt").write_text(
        "NT_1 thrice ### NT_1 NT_1 NT_1\nNT_1 twice ### NT_1 NT_1\nstroll ### W\n"
    )
    with one_thread():
        typed(
            "train",
            "steps.tsv",
            "-o",
            "new",
            "--preset",
            "scan",
            "--rules",
            "mine.txt",
            *BRIEF,
        )
    parser = Parser.load("new", "cpu")
    assert parser.model.by_hand == Grammar.read("mine.txt").rules
    assert list(map(str, parser.model.untrained_rules)) == [
        "NT_1 thrice ### NT_1 NT_1 NT_1",
        "stroll ### W",
    ]
    assert "NT_1 twice ### NT_1 NT_1" in map(str, Grammar.read("new/grammar.txt"))
    assert parser.parse("stroll twice").target == "W W"


def test_a_rule_that_is_illegal_is_refused_before_training() -> None:
    Path("mine.txt").write_text("bye ### off ( hall , hall )\n")
    with pytest.raises(
        FormatError,
        match=r"mine.txt:1: rule 'bye .*': 'hall' is not a <on_argument_2>; see the setting types.target",
    ):
        typed("train", "train.tsv", "-o", "new", "--rules", "mine.txt", *BRIEF)


def test_a_rule_that_no_program_can_use_is_kept_with_a_warning() -> None:
    Path("mine.txt").write_text("top floor ### attic\n")
    Path("whole.txt").write_text(
        "".join(f"{each.source} ### {each.target}\n" for each in TRAIN)
    )
    with one_thread():
        said = typed(
            "train",
            "train.tsv",
            "-o",
            "new",
            "--grammar",
            "whole.txt",
            "--rules",
            "mine.txt",
            *BRIEF,
        ).stderr
    assert (
        "rule 'top floor ### attic' is kept, but cannot be used: its target is a <on_argument_1>, which"
        in said
    )
    assert list(map(str, Parser.load("new", "cpu").model.by_hand)) == [
        "top floor ### attic"
    ]
