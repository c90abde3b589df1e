"""Languages whose programs are not just token sequences of the data, such as SQL over the schema of
a database.

The core knows this interface alone. A file in the model folder says which language it is, and how
it is written there; `PROGRAM_LANGUAGES` names the extension that reads the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nqg.extensions import load_extension
from nqg.progress import Progress, silent

if TYPE_CHECKING:
    from nqg.types.target_grammar import TargetGrammar

PROGRAM_LANGUAGES = {"sql.json": "nqg.sql.programs:SqlPrograms"}


class ProgramLanguage(Protocol):
    """How programs of a language are written."""

    @property
    def file_name(self) -> str:
        """The key of `PROGRAM_LANGUAGES` under which a model folder has it."""
        ...

    def target_grammar(self, programs: Iterable[Iterable[str]]) -> TargetGrammar:
        """The grammar of legal programs, as `tokenize` writes them; what no token of `programs`
        names may be left out.
        """
        ...

    def tokenize(self, program: str) -> tuple[str, ...]:
        """The tokens of a program as users write it."""
        ...

    def render(self, tokens: Iterable[str]) -> str:
        """The program that tokens make, as users write it."""
        ...

    def problem(self, program: str) -> str:
        """Why a program means nothing, in words; "" if all is well."""
        ...

    def column_slots(
        self,
        database: Path | str,
        pairs: Iterable[tuple[str, str]],
        progress: Progress = silent,
    ) -> tuple[dict[str, dict[str, str]], list[str]]:
        """The slots that pairs of a sentence and its program show, as a settings file would
        name them, and what of the database could not be read.
        """
        ...

    def write(self, path: Path) -> None: ...


def read_language(folder: Path) -> ProgramLanguage | None:
    """The language of the programs of a model folder, if they have one."""
    for name, extension in PROGRAM_LANGUAGES.items():
        if (folder / name).exists():
            language: ProgramLanguage = load_extension(extension).read(folder / name)
            return language
    return None
