"""Every page: its commands and its Python run, from top to bottom, in a folder with what the pages speak of.

A console block that needs what a test has not says so in its title. Where a page shows what a command prints, that is
compared, up to an ellipsis, unless training before it was cut short here.
"""

from __future__ import annotations

import doctest
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from conftest import PROJECT
from nqg.data.example import Example
from nqg.data.example_files import read_examples, write_examples
from nqg.data.scan import scan_examples
from pages import (
    BLOCK,
    PAGES,
    QuickTerminal,
    Terminal,
    assert_same,
    conversations,
    page_name,
)
from typed_commands import one_thread, typed

OWN_TESTS = {
    "docs/tutorial.md",
    "docs/induction.md",
    *map(page_name, (PROJECT / "examples").rglob("*.md")),
}
BRIEF = " --settings brief.toml --set confidence.folds=0\n"
SHORTENED = re.compile(r"^nqg train (?!.*--settings)")
BRIEF_SETTINGS = "[training]\nsteps = 2\n[fine_tuning]\nsteps = 2\n"
PERCENT = 2.5  # that a confidence may differ
LOCK = (
    Example(
        "In the evening dim the kitchen lights to 20 percent",
        "schedule(19:00, set_level(kitchen.lights, 20))",
    ),
    Example("Lock the door in the garage!", "secure(garage.door)"),
    Example("lock the hallway door", "secure(hallway.door)"),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader has it after the tutorial, with a few files of the names that pages use."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch, one_thread():
        patch.chdir(folder)
        typed("init", "mine")
        write_examples("mine/train.tsv", [*read_examples("mine/train.tsv"), *LOCK])
        typed(
            "train", "mine/train.tsv", "--settings", "mine/nqg.toml", "-o", "mine/model"
        )
    shutil.copytree(folder / "mine" / "model", folder / "models" / "mine")
    for part in ("train", "test"):
        shutil.copy(folder / "mine" / f"{part}.tsv", folder)
    test = read_examples(folder / "test.tsv")
    write_examples(
        folder / "t5.tsv",
        [
            *test[:40],
            *(Example(each.source, "is_on(attic.lamp)") for each in test[40:]),
        ],
    )
    shutil.copy(folder / "test.tsv", folder / "big.tsv")
    (folder / "asked.txt").write_text(
        "paint the kitchen blue\nopen the garage door\nturn on the lamp in the attic\n"
    )
    (folder / "brief.toml").write_text(BRIEF_SETTINGS)
    (folder / "results").symlink_to(PROJECT / "results")
    return folder


def shop() -> None:
    shutil.copy(PROJECT / "examples" / "shop" / "train.tsv", "pairs.tsv")
    shutil.copy(PROJECT / "examples" / "shop" / "test.tsv", "test.tsv")
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript(
            (PROJECT / "examples" / "shop" / "shop.sql").read_text()
        )


def short_commands() -> None:
    write_examples(
        "train.tsv",
        [example for example in scan_examples() if len(example.source_tokens) <= 4],
    )


def reduced_grammar() -> None:
    page = (PROJECT / "docs" / "target-grammars.md").read_text()
    Path("reduced.grammar").write_text(
        next(text for kind, _, text in BLOCK.findall(page) if kind == "text")
    )


def empty() -> None:
    shutil.rmtree("mine")


PREPARED: dict[str, Callable[[], None]] = {
    "README.md": empty,
    "docs/index.md": empty,
    "docs/python.md": empty,
    "docs/databases.md": shop,
    "docs/scale.md": short_commands,
    "docs/target-grammars.md": reduced_grammar,
}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page_name(page) not in OWN_TESTS], ids=page_name
)
def test_what_a_page_shows_runs(
    page: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, folder = page.read_text(), tmp_path / "folder"
    found = [
        (kind, block)
        for kind, title, block in BLOCK.findall(text)
        if not title.startswith("needs")
    ]
    if re.search(
        r"NQG_DATA_MIRROR|data prepare (geo|spider)|load_dataset",
        "".join(block for _, block in found),
    ):
        monkeypatch.setenv("NQG_DATA_MIRROR", str(request.getfixturevalue("real_data")))
    if any(kind == "console" for kind, _ in found):
        shutil.copytree(request.getfixturevalue("world"), folder, symlinks=True)
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    PREPARED.get(page_name(page), lambda: None)()
    names: dict[str, Any] = {}
    with ExitStack() as servers, one_thread():
        terminal, is_brief = QuickTerminal(folder, servers), False
        for kind, block in found:
            if kind == "console":
                is_brief = typed_in(block, terminal, is_brief)
            elif kind == "python" and ">>> " in block:
                run_doctest(block, names, page)
            elif kind == "python":
                exec(compile(block, page.name, "exec"), names)


def typed_in(block: str, terminal: Terminal, is_brief: bool) -> bool:
    """Type the commands of a block; whether a training was cut short, in it or before."""
    for command, shown in conversations(block):
        if command.startswith("make "):
            continue  # a target, see below
        if SHORTENED.match(command):
            command, is_brief = command.partition("  #")[0].rstrip() + BRIEF, True
        printed, shown = terminal.typed(command), shown.rstrip()
        if shown.endswith("…"):
            shown = shown.removesuffix("…").rstrip()
            printed = "\n".join(printed.split("\n")[: len(shown.split("\n"))])
        if shown and not is_brief:
            assert_same(shown, printed.rstrip(), PERCENT)
    return is_brief


def run_doctest(block: str, names: dict[str, Any], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
    runner, report = doctest.DocTestRunner(verbose=False), list[str]()
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_stand_after_a_prompt_and_targets_of_make_exist(page: Path) -> None:
    targets = set(
        re.findall(r"^(\w+):", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE)
    )
    for kind, _, block in BLOCK.findall(page.read_text()):
        assert kind != "sh", "a block of commands is `console`, each command after `$ `"
        if kind == "console":
            assert block.startswith("$ ")
            assert (
                set(re.findall(r"^\$ make (\w+)", block, flags=re.MULTILINE)) <= targets
            )
        elif kind == "text":
            assert not re.search(
                r"^(nqg|python|pip|make) ", block, flags=re.MULTILINE
            ), f"commands in a text block: {block}"
