"""`nqg init`: a small project to begin with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import typer

from nqg.cli.terminal import out
from nqg.errors import NqgError
from nqg.files import write_text

FILES = ("README.md", "nqg.toml", "test.tsv", "train.tsv")

FOLDER = typer.Argument(metavar="FOLDER", help="A new folder, or an empty one.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON.")


def init(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Write a starter project: example pairs, settings, commands to type next.

    Example: nqg init mine

    The pairs are commands for a home assistant and their programs: 150 to learn from, 60 to try. Replace them by yours.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NqgError(f"{folder} is there already and not empty; choose another name for the project")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NqgError(f"{folder}: cannot be made ({error.strerror})") from error
    for name in FILES:
        write_text(folder / name, resources.files("nqg.data").joinpath("starter", name).read_text(encoding="utf-8"))
    if as_json:
        out.print_json(data={"folder": str(folder), "files": list(FILES), "commands": commands(folder)})
        return
    out.print(f"wrote {folder} with {', '.join(FILES)}; to go on:\n")
    for line in commands(folder):
        out.print(f"  {line}")


def commands(folder: Path) -> list[str]:
    """What a newcomer types next."""
    return [
        f"nqg train {folder}/train.tsv --settings {folder}/nqg.toml -o {folder}/model",
        f"nqg evaluate {folder}/model {folder}/test.tsv --breakdown",
        f'nqg parse {folder}/model "could you turn off the lamp in the attic at midnight" --explain',
    ]
