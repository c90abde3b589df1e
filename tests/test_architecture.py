"""The folders are the flow: a stage imports itself and what lies to its left, and heavy modules load late."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nqg
from nqg.extensions import load_extension

SOURCE = Path(nqg.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "architecture.md"
STAGES = [
    "text",
    "grammar",
    "types",
    "slots",
    "data",
    "preprocessing",
    "splits",
    "induction",
    "model",
    "training",
    "seq2seq",
    "inference",
    "evaluation",
    "pipeline",
    "cli",
]
EXTENSIONS = [
    "sql",
    "paper",
    "web",
]  # they stand on the core, which names them in strings alone


def stage_of(module: str) -> str | None:
    parts = module.split(".")
    return (
        parts[1]
        if len(parts) > 1 and parts[0] == "nqg" and parts[1] in [*STAGES, *EXTENSIONS]
        else None
    )


def imports(file: Path) -> Iterator[str]:
    """The modules that a file imports when it runs, not those of which it only names types."""
    tree = ast.parse(file.read_text())
    for statement in tree.body:
        if (
            isinstance(statement, ast.If)
            and ast.unparse(statement.test) == "TYPE_CHECKING"
        ):
            statement.body.clear()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


NAMED = sorted(
    {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r'"(nqg[\w.]*:\w+)"', file.read_text())
    }
)


@pytest.mark.parametrize("name", NAMED)
def test_what_a_table_names_can_be_loaded(name: str) -> None:
    assert load_extension(name)


def test_every_folder_is_a_stage() -> None:
    folders = {
        path.name
        for path in SOURCE.iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    assert folders <= {*STAGES, *EXTENSIONS}


def test_no_stage_imports_what_lies_to_its_right() -> None:
    offenders = [
        f"{file.relative_to(SOURCE)} imports {module}"
        for stage in STAGES
        for file in sorted((SOURCE / stage).rglob("*.py"))
        for module in imports(file)
        if (other := stage_of(module))
        and other not in STAGES[: STAGES.index(stage) + 1]
        if (file.name, other) != ("serve.py", "web")
    ]
    assert not offenders


def test_only_the_command_line_prints() -> None:
    offenders = [
        str(file.relative_to(SOURCE))
        for file in sorted(SOURCE.rglob("*.py"))
        if "cli" not in file.parts
        and re.search(r"^\s*print\(", file.read_text(), flags=re.MULTILINE)
    ]
    assert not offenders


def test_importing_the_package_or_its_nouns_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'numba', 'torch', 'transformers', 'pooch', 'requests', 'matplotlib', 'typer'}"
    for what in ("nqg", "nqg.Example"):
        program = f"import nqg, sys; {what}; print(sorted({heavy} & set(sys.modules)))"
        shown = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        assert shown.strip() == "[]", what


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(nqg, name) is not None for name in nqg.__all__)


def test_each_way_through_the_system_is_a_dozen_hops_over_files_that_exist() -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    ways = {
        section.splitlines()[0]: section
        for section in sections
        if section.startswith("The way of")
    }
    assert len(ways) == 3
    for title, way in ways.items():
        hops = re.findall(r"^\d+\. (.*)$", way, flags=re.MULTILINE)
        assert 1 < len(hops) <= 12, title
        assert all(re.match(r"`[\w/]+\.py`", hop) for hop in hops), title
        missing = [
            name
            for name in re.findall(r"`([\w/]+\.py)`", way)
            if not (SOURCE / name).is_file()
        ]
        assert not missing, title


@pytest.mark.parametrize("path", ["train", "parse"])
def test_the_pictures_of_paths_show_as_many_modules_as_the_page_says_and_all_exist(
    path: str,
) -> None:
    drawn = (PAGE.parent / "images" / f"path-{path}.svg").read_text()
    numbers = [int(number) for number in re.findall(r">(\d+)\. \w+\.py<", drawn)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    block = PAGE.read_text().partition("<!-- paths:")[2]
    said = dict(
        re.findall(
            r"passes (\d+) modules in \d+ folders:\n\n!\[[^]]*\]\(images/path-(\w+)\.svg\)",
            block,
        )
    )
    assert {name: int(count) for count, name in said.items()}[path] == len(numbers)
    names = {file.name for file in SOURCE.rglob("*.py")}
    assert set(re.findall(r">\d+\. (\w+\.py)<", drawn)) <= names
