"""What nqg is installed with: every import is declared, every pin has a hash, a place in the bill, and a licence."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from conftest import PROJECT

LINE = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+) --hash=sha256:[0-9a-f]{64}")
BUILD_ONLY = {"editables": "0.5"}
STARTED = {
    "pytest-xdist",
    "ruff",
    "mypy",
    "httpx",
    "mkdocs-material",
    "psycopg-binary",
}  # by name, or by what starlette's test client needs


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    """The pins; those of long fuzzing runs are in no lock."""
    lines = (PROJECT / "constraints.txt").read_text().split()
    return {
        normal(name): version
        for name, version in (line.split("==") for line in lines)
        if name != "atheris"
    }


def imported(folder: str) -> set[str]:
    """The distributions whose modules a folder imports; its own modules and Python's are left out."""
    own = {path.stem for path in (PROJECT / "tests").rglob("*.py")} | {
        path.stem for path in Path(PROJECT).iterdir()
    }
    known, found = packages_distributions(), set[str]()
    for path in (PROJECT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [each.name for each in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for top in {name.partition(".")[0] for name in names} - set(
                sys.stdlib_module_names
            ):
                if top in known and top not in own:
                    found |= {normal(name) for name in known[top]}
    return found - {"nqg"}


def declared() -> dict[str, str]:
    """For every distribution that pyproject.toml names its range."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    found = (
        re.fullmatch(r"([\w-]+)(\S*)", line)
        for lines in lists
        for line in lines
        if not line.startswith("nqg[")
    )
    return {normal(match[1]): match[2] for match in found if match}


def test_what_the_package_imports_is_declared_and_what_is_declared_is_used() -> None:
    everywhere = imported("src") | imported("tests") | imported("benchmarks")
    assert imported("src") - declared().keys() == set()
    assert everywhere - declared().keys() == set()
    assert declared().keys() - everywhere - STARTED - {"atheris"} == set()


def test_every_range_has_an_upper_bound_and_holds_the_pin() -> None:
    for name, bounds in declared().items():
        assert re.fullmatch(r">=[\d.]+,<[\d.]+", bounds), f"{name}{bounds}"
        if name == "atheris":
            continue
        bound = bounds.rpartition("<")[2].split(".")
        pin = pins()[name].split(".")[: len(bound)]
        assert [int(part) for part in pin] < [int(part) for part in bound]


def test_the_lock_has_every_pin_with_a_hash() -> None:
    head, *lines = (PROJECT / "requirements.lock").read_text().splitlines()
    assert head.startswith("#")
    found = {
        match["name"]: match["version"] for match in map(LINE.fullmatch, lines) if match
    }
    assert len(found) == len(lines)
    assert found == {**pins(), **BUILD_ONLY}, "run: python deploy/supply_chain.py"


@pytest.mark.parametrize("word", ["AGPL", "not stated"])
def test_the_bill_of_materials_and_the_licences_name_the_same_packages(
    word: str,
) -> None:
    bill = json.loads((PROJECT / "deploy" / "bom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {each["name"]: each["version"] for each in bill["components"]}
    assert listed == {**pins(), **BUILD_ONLY}
    table = (PROJECT / "deploy" / "licences.md").read_text()
    for each in bill["components"]:
        licence = each["licenses"][0]["license"]["name"]
        assert f"| {each['name']} | {each['version']} | {licence} |\n" in table
        assert word not in licence, each["name"]
