"""SQL as a language of splits: its atoms, compounds and templates (appendix B.3 of the paper)."""

from __future__ import annotations

from nqg.paper.sql_tree import sql_atoms, sql_compounds, sql_template
from nqg.splits.compounds import Decomposition, Language

SQL = Language("sql", Decomposition(sql_atoms, sql_compounds), sql_template)
