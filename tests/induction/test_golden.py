"""Grammars worth reading: pairs, `=>`, and what is induced from them; NQG_REWRITE_GOLDEN=1 rewrites the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "induction"
ARROW = "\n=>\n"


@pytest.mark.parametrize(
    "file", sorted(FOLDER.glob("*.txt")), ids=lambda file: str(file.stem)
)
def test_the_induced_grammar_is_the_one_on_file(file: Path) -> None:
    given, arrow, expected = file.read_text().partition(ARROW)
    found = f"{induced(given)}\n"
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        file.write_text(given.rstrip("\n") + ARROW + found)
    else:
        assert arrow, f"{file} has no line '=>'"
        assert found == expected


def induced(given: str) -> str:
    """The grammar of the pairs; the settings' name is the last word of the first line."""
    title, *lines = given.splitlines()
    pairs = [
        line.split("->") for line in lines if line.strip() and not line.startswith("#")
    ]
    examples = [Example(source.strip(), target.strip()) for source, target in pairs]
    return str(induce(examples, InductionSettings.named(title.split()[-1])))
