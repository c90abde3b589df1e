"""FunQL and SQL as languages of splits: their atoms, compounds and templates (appendix B.3 of the paper)."""

from __future__ import annotations

from nqg.paper.sql_tree import sql_atoms, sql_compounds, sql_template
from nqg.splits.compounds import BRACKET_TREES, CONSTANTS, Decomposition, Language, regex_template


def is_select(target: str) -> bool:
    """Whether a target begins like a query of SQL; one of SPARQL has no `from`."""
    words = target.lower().split()
    return words[:1] == ["select"] and "from" in words


funql_template = regex_template(rf"(?<!\S)m[0-9]+(?!\S)|{CONSTANTS}")
FUNQL = Language(
    "funql", BRACKET_TREES, funql_template, is_likely=lambda target: target.startswith("answer ( ")
)
SQL = Language("sql", Decomposition(sql_atoms, sql_compounds), sql_template, is_select)
