"""The target languages that splits know: how each is taken apart, and what its templates are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nqg.data.example import Example
from nqg.data.sql import sql_template
from nqg.errors import SettingsError, UnknownName
from nqg.splits.brackets import PAIRS
from nqg.splits.compounds import BracketDecomposition, Decomposition, SqlDecomposition, TokenDecomposition
from nqg.splits.template import Template, constants_template, funql_template


@dataclass(frozen=True, slots=True)
class Language:
    """A target language, as splits and audits need it."""

    name: str
    decomposition: Decomposition
    template: Template


LANGUAGES = {
    language.name: language
    for language in (
        Language("funql", BracketDecomposition(), funql_template),
        Language("sql", SqlDecomposition(), sql_template),
        Language("brackets", BracketDecomposition(), constants_template),
        Language("tokens", TokenDecomposition(), constants_template),
    )
}


def language_named(name: str) -> Language:
    """The language called `name`.

    >>> language_named("sql").template("select a from b limit 3")
    'select a from b limit INTEGER'
    """
    if name not in LANGUAGES:
        raise UnknownName("target language", name, LANGUAGES)
    return LANGUAGES[name]


def likely_language(examples: Sequence[Example]) -> Language:
    """The language that most targets look like, by their first words and brackets.

    >>> likely_language([Example("jump twice", "I_JUMP I_JUMP")]).name
    'tokens'
    """
    if not examples:
        raise SettingsError("there are no examples; a split needs at least 2")
    looks = [_look(example.target) for example in examples]
    return LANGUAGES[max(LANGUAGES, key=looks.count)]


def _look(target: str) -> str:
    words = target.lower().split(maxsplit=1)
    if words and words[0] == "select":
        return "sql"
    if target.startswith("answer ( "):
        return "funql"
    return "brackets" if any(bracket in target for bracket in PAIRS) else "tokens"
