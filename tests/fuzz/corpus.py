"""The stored corpus: for each reader, damaged files that it refused in different words, from which fuzzing goes on.

`benchmarks/fuzzing.py --keep N` adds to it.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

FILE = Path(__file__).parent / "corpus.json"
LARGEST = 2_000  # bytes of a case that is stored


def stored(name: str) -> tuple[bytes, ...]:
    """The cases of a reader."""
    cases = json.loads(FILE.read_text()).get(name, {}) if FILE.exists() else {}
    return tuple(map(base64.b64decode, cases.values()))


def kind(reason: str) -> str:
    """A reason without what is quoted or counted in it, and without its place.

    >>> kind("/tmp/x/train.tsv:17: expected 'a', found 3 columns")
    'expected _, found _ columns'
    """
    place = re.compile(r"^(/\S*: )+")
    return re.sub(
        r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|U\+[0-9A-F]+|\d[\d,.]*",
        "_",
        place.sub("", reason),
    )[:100]


def keep(name: str, found: dict[str, bytes], most: int) -> None:
    """Store cases by their kinds, as many as there is room for."""
    everything = json.loads(FILE.read_text()) if FILE.exists() else {}
    cases = everything.setdefault(name, {})
    for reason, case in sorted(found.items()):
        if reason not in cases and len(cases) < most and len(case) <= LARGEST:
            cases[reason] = base64.b64encode(case).decode()
    FILE.write_text(
        json.dumps(everything, indent=0, sort_keys=True, ensure_ascii=False) + "\n"
    )
