"""What nqg is installed with: `requirements.lock` (pins with hashes), `bom.json` (CycloneDX) and `licences.md`.

    python deploy/supply_chain.py

Asks pip, without installing anything, which files the pins of `constraints.txt` are on Linux with Python 3.11. Licences
are those of the packages that are installed here (older versions of pip do not tell them of others).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
BUILD = "editables==0.5"  # with which hatchling makes an editable install
LEFT_OUT = ("atheris",)  # for long fuzzing runs alone
HEAD = "# Made by deploy/supply_chain.py from constraints.txt for Linux (x86_64), Python 3.11: pip install --no-deps\n"
CLASSIFIER = "License :: OSI Approved :: "
LONGEST = 60  # characters of the name of a licence; some packages have its text instead


def report(pins: str) -> list[dict[str, Any]]:
    """What pip would install, in alphabetical order."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pins.txt").write_text(pins)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--no-deps",
            "--ignore-installed",
        ]
        subprocess.run(
            [*pip, "--report", f"{folder}/report.json", "-r", f"{folder}/pins.txt"],
            check=True,
        )
        found: list[dict[str, Any]] = json.loads(
            (Path(folder) / "report.json").read_text()
        )["install"]
    return sorted(
        (each for each in found if name_of(each) not in LEFT_OUT), key=name_of
    )


def name_of(package: dict[str, Any]) -> str:
    return re.sub(r"[-_.]+", "-", package["metadata"]["name"]).lower()


def version_of(package: dict[str, Any]) -> str:
    return str(package["metadata"]["version"]).partition("+")[0]


def hash_of(package: dict[str, Any]) -> str:
    return str(package["download_info"]["archive_info"]["hashes"]["sha256"])


def licence_of(package: dict[str, Any]) -> str:
    """The licence as the package names it: an expression, classifiers, or a short text."""
    try:
        metadata = distribution(package["metadata"]["name"]).metadata.json
    except PackageNotFoundError:
        metadata = package["metadata"]
    classifiers = [
        each.removeprefix(CLASSIFIER)
        for each in metadata.get("classifier", ())
        if CLASSIFIER in each
    ]
    text = str(metadata.get("license") or "").strip().split("\n")[0]
    return str(
        metadata.get("license_expression")
        or " and ".join(classifiers)
        or text[:LONGEST]
        or "not stated"
    )


def lock(packages: list[dict[str, Any]]) -> str:
    lines = (
        f"{name_of(each)}=={version_of(each)} --hash=sha256:{hash_of(each)}\n"
        for each in packages
    )
    return HEAD + "".join(lines)


def bill_of_materials(packages: list[dict[str, Any]]) -> str:
    components = [
        {
            "type": "library",
            "name": name_of(each),
            "version": version_of(each),
            "purl": f"pkg:pypi/{name_of(each)}@{version_of(each)}",
            "hashes": [{"alg": "SHA-256", "content": hash_of(each)}],
            "licenses": [{"license": {"name": licence_of(each)}}],
        }
        for each in packages
    ]
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    about = {
        "component": {
            "type": "application",
            "name": "nqg",
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }
    }
    lines = ",\n".join(json.dumps(each) for each in components)
    return (
        json.dumps({**head, "metadata": about, "components": []})[:-2]
        + f"\n{lines}\n]}}\n"
    )


def licences(packages: list[dict[str, Any]]) -> str:
    rows = (
        f"| {name_of(each)} | {version_of(each)} | {licence_of(each)} |\n"
        for each in packages
    )
    head = "# Licences of the packages that nqg is tested with\n\nAs they name them; nqg itself is Apache-2.0.\n"
    return f"{head}\n| package | version | licence |\n|---|---|---|\n{''.join(rows)}"


def main() -> None:
    packages = report(f"{BUILD}\n{(PROJECT / 'constraints.txt').read_text()}")
    for path, text in (
        ("requirements.lock", lock(packages)),
        ("deploy/bom.json", bill_of_materials(packages)),
        ("deploy/licences.md", licences(packages)),
    ):
        (PROJECT / path).write_text(text)
        sys.stderr.write(f"wrote {path}: {len(packages)} packages\n")


if __name__ == "__main__":
    main()
