"""SCAN from its grammar: the published commands, the published actions, the published splits."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nqg.data.dataset import Parts
from nqg.data.example import Example
from nqg.data.scan import RULES, mcd_split, read_scan_file, scan_examples, simple_split
from nqg.errors import FormatError

EXAMPLES = scan_examples()
ACTIONS = {example.source: example.target for example in EXAMPLES}


def parts(split: str) -> Parts:
    return RULES[split](EXAMPLES).parts(EXAMPLES)


def pairs(examples: list[Example]) -> set[tuple[str, str]]:
    return {(example.source, example.target) for example in examples}


def test_there_are_20910_different_commands() -> None:
    assert len(EXAMPLES) == len(ACTIONS) == 20_910


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ("jump", "I_JUMP"),
        ("jump left", "I_TURN_LEFT I_JUMP"),
        ("turn right", "I_TURN_RIGHT"),
        ("turn opposite left", "I_TURN_LEFT I_TURN_LEFT"),
        ("run opposite left", "I_TURN_LEFT I_TURN_LEFT I_RUN"),
        (
            "look around right",
            "I_TURN_RIGHT I_LOOK I_TURN_RIGHT I_LOOK I_TURN_RIGHT I_LOOK I_TURN_RIGHT I_LOOK",
        ),
        ("turn around left", "I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT"),
        ("walk twice and jump thrice", "I_WALK I_WALK I_JUMP I_JUMP I_JUMP"),
        ("walk right after jump twice", "I_JUMP I_JUMP I_TURN_RIGHT I_WALK"),
    ],
)
def test_commands_mean_what_the_paper_says(command: str, actions: str) -> None:
    assert ACTIONS[command] == actions


def test_the_commands_are_those_of_the_published_file(real_data: Path) -> None:
    published = read_scan_file(real_data / "scan/tasks.txt")
    assert len(published) == 20_910
    assert pairs(published) == pairs(EXAMPLES)


@pytest.mark.parametrize(
    ("split", "name"),
    [
        ("length", "length"),
        ("jump", "addprim_jump"),
        ("turn-left", "addprim_turn_left"),
    ],
)
def test_the_splits_are_the_published_ones_repetitions_included(
    real_data: Path, split: str, name: str
) -> None:
    ours = parts(split)
    assert Counter(ours.train) == Counter(
        read_scan_file(real_data / f"scan/tasks_train_{name}.txt")
    )
    assert Counter(ours.test) == Counter(
        read_scan_file(real_data / f"scan/tasks_test_{name}.txt")
    )


@pytest.mark.parametrize(
    ("split", "lines", "distinct", "test"),
    [
        ("simple", 16_728, 16_728, 4_182),
        ("length", 16_990, 16_990, 3_920),
        ("jump", 14_670, 13_204, 7_706),
        ("turn-left", 21_890, 19_702, 1_208),
        ("around-right", 15_225, 15_225, 4_476),
        ("jump-around-right", 18_528, 18_528, 1_173),
        ("opposite-right", 15_225, 15_225, 4_476),
        ("right", 15_225, 15_225, 4_476),
    ],
)
def test_every_rule_gives_a_split_of_the_known_size(
    split: str, lines: int, distinct: int, test: int
) -> None:
    ours = parts(split)
    assert (len(ours.train), len(set(ours.train)), len(ours.test)) == (
        lines,
        distinct,
        test,
    )


def test_the_bare_primitive_is_a_tenth_of_the_training_lines() -> None:
    commands = Counter(example.source for example in parts("jump").train)
    assert commands["jump"] == 1_467
    assert [command for command in commands if "jump" in command] == ["jump"]
    assert (
        Counter(example.source for example in parts("turn-left").train)["turn left"]
        == 2_189
    )


@pytest.mark.parametrize("split", ["around-right", "opposite-right", "right"])
def test_a_template_is_tested_with_verbs_that_training_never_saw_in_it(
    split: str,
) -> None:
    template = split.replace("-", " ")
    verbs = ("walk", "look", "run", "jump")
    for example in parts(split).test:
        assert any(f"{verb} {template}" in example.source for verb in verbs)
    for example in parts(split).train:
        assert not any(
            f"{verb} {template}" in example.source for verb in (*verbs, "turn")
        )


def test_jump_around_right_is_unseen_but_other_verbs_are_seen_around_right() -> None:
    ours = parts("jump-around-right")
    assert all("jump around right" in example.source for example in ours.test)
    seen = {
        verb
        for verb in ("walk", "look", "run", "jump", "turn")
        for e in ours.train
        if f"{verb} around right" in e.source
    }
    assert seen == {"walk", "look", "run"}


def test_no_split_shares_a_command_between_its_parts() -> None:
    for split in RULES:
        assert not set(parts(split).train) & set(parts(split).test)


def test_the_simple_split_follows_its_seed() -> None:
    assert simple_split(EXAMPLES, seed=1) == simple_split(EXAMPLES, seed=1)
    assert simple_split(EXAMPLES, seed=1).test != simple_split(EXAMPLES, seed=2).test
    assert simple_split(EXAMPLES, seed=1).made_by["seed"] == 1


def test_every_split_says_how_it_was_made() -> None:
    assert {name: RULES[name](EXAMPLES).made_by["split"] for name in RULES} == {
        name: name for name in RULES
    }


def test_the_order_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from nqg.data.scan import *; e = scan_examples(); import hashlib;"
        "print(hashlib.sha256(repr([e, [rule(e) for rule in RULES.values()]]).encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert len(runs[0].stdout.strip()) == 64
    assert runs[0].stdout == runs[1].stdout


def test_mcd1_points_at_the_commands_of_the_published_lines(real_data: Path) -> None:
    published = read_scan_file(real_data / "scan/tasks.txt")
    ours = mcd_split(
        EXAMPLES, real_data / "scan/mcd1.json", real_data / "scan/tasks.txt"
    ).parts(EXAMPLES)
    assert (len(ours.train), len(ours.dev), len(ours.test)) == (8_365, 1_046, 1_045)
    assert [ours.train[0], ours.dev[0], ours.test[0]] == [
        published[16862],
        published[7938],
        published[9251],
    ]


def test_mcd_indices_go_through_the_order_of_the_tasks_file(tmp_path: Path) -> None:
    tasks, indices = tmp_path / "tasks.txt", tmp_path / "mcd9.json"
    tasks.write_text(
        "IN: run OUT: I_RUN\nIN: jump twice OUT: I_JUMP I_JUMP\nIN: walk OUT: I_WALK\n"
    )
    indices.write_text('{"trainIdxs": [2], "devIdxs": [0], "testIdxs": [1]}')
    split = mcd_split(EXAMPLES, indices, tasks)
    assert [example.source for example in split.parts(EXAMPLES).train] == ["walk"]
    assert [example.source for example in split.parts(EXAMPLES).dev] == ["run"]
    assert [example.source for example in split.parts(EXAMPLES).test] == ["jump twice"]
    assert split.made_by["split"] == "mcd9"


def test_files_that_are_not_scan_are_refused_with_the_line(tmp_path: Path) -> None:
    tasks, indices = tmp_path / "tasks.txt", tmp_path / "mcd1.json"
    indices.write_text('{"trainIdxs": [0], "devIdxs": [], "testIdxs": [3]}')
    tasks.write_text("IN: run OUT: I_RUN\nrun I_RUN\n")
    with pytest.raises(
        FormatError,
        match=r"tasks\.txt:2: expected 'IN: command OUT: actions', found 'run I_RUN'",
    ):
        mcd_split(EXAMPLES, indices, tasks)
    tasks.write_text("IN: run OUT: I_RUN\nIN: run OUT: I_WALK\n")
    with pytest.raises(
        FormatError, match=r"tasks\.txt:2: not an example of SCAN: 'run' → 'I_WALK'"
    ):
        mcd_split(EXAMPLES, indices, tasks)
    tasks.write_text("IN: run OUT: I_RUN\n")
    with pytest.raises(
        FormatError,
        match=r"mcd1\.json: position 3 lies outside a dataset of 1 examples",
    ):
        mcd_split(EXAMPLES, indices, tasks)
