"""What a query may say at a database that has no authorizer: words and forms that are known to be
harmless, and names that are columns of the tables of the query.

SQLite asks us about everything that a query reads; other databases do not. And they read more into a
query than it seems: PostgreSQL takes `t.f` and `(t).f` for the call `f(t)` where `t` has no column
`f`, and a name before a string for a type.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise

from sqlglot import exp

from nqg.errors import FormatError
from nqg.sql.names import ROW_IDS, name_problem, parse_query
from nqg.sql.reader_protocol import MOST_BYTES
from nqg.sql.schema import Schema
from nqg.sql.tokens import NAME, RESERVED, is_number, is_string, sql_text

# What SQLite would refuse by bounds of its own.
MOST_WORDS = 5_000
MOST_DEPTH = 100
MOST_SELECTS = 50
# Each may double the length of a value; at a server, memory is not ours to bound.
MOST_CONCATENATIONS = 8

_ALLOWED_OPERATORS = "( ) , . * + - / = <> < > <= >= != ||"
ALLOWED_OPERATORS = frozenset(_ALLOWED_OPERATORS.split())
_SQL_KEYWORDS = "case when then else end offset escape true false"
SQL_KEYWORDS = RESERVED.union(_SQL_KEYWORDS.split())
# Forbidden even where a column is called so: they write, or tell of the server.
_FORBIDDEN = """
    into for procedure with returning current_catalog current_date current_role current_schema current_time
    current_timestamp current_user localtime localtimestamp session_user system_user user
"""
FORBIDDEN = frozenset(_FORBIDDEN.split())
# None of them makes a value much longer than its arguments, or is a name that PostgreSQL
# leaves to functions of others.
_COMMON_FUNCTIONS = """
    abs avg ceil ceiling coalesce count date floor length lower ltrim max min nullif round rtrim sign substr substring
    sum trim upper
"""
COMMON_FUNCTIONS = frozenset(_COMMON_FUNCTIONS.split())
_SQLITE_FUNCTIONS = "datetime ifnull iif instr julianday strftime time total typeof"
SQLITE_FUNCTIONS = COMMON_FUNCTIONS.union(_SQLITE_FUNCTIONS.split())
# The forms of a query, by the names that sqlglot gives its nodes.
_ALLOWED_FORMS = """
    Select Union Intersect Except Subquery From Where Group Having Order Ordered Limit Offset Join Table TableAlias
    Column Identifier Star Alias Literal Paren Tuple Boolean Null Neg Not And Or EQ NEQ LT LTE GT GTE Is In Between Like
    Escape Exists All Any Distinct Add Sub Mul Div DPipe Case If Anonymous
    Abs Avg Ceil Coalesce Count Date Floor Length Lower Max Min Nullif Round Sign Substring Sum Trim Upper
    StrPosition TimeToStr TsOrDsToTimestamp Typeof
"""
ALLOWED_FORMS = frozenset(_ALLOWED_FORMS.split())


def checked_words(words: Sequence[str], schema: Schema, url: str) -> list[str]:
    """The words of a query, without a final semicolon; one that might do harm is a `FormatError`."""
    words = list(words)
    if words[-1] == ";":
        words.pop()
    backend = url.partition(":")[0].partition("+")[0]
    functions = COMMON_FUNCTIONS if backend == "postgresql" else SQLITE_FUNCTIONS
    row_ids = ROW_IDS if backend == "sqlite" else frozenset[str]()
    try:
        _check_size(words)
        _check_words(words, schema, functions)
        _check_forms(sql_text(words), schema, row_ids)
    except FormatError as error:
        raise FormatError(f"the query does not run: {error}") from None
    return words


def _check_size(words: Sequence[str]) -> None:
    depth = max(accumulate((word == "(") - (word == ")") for word in words))
    if depth > MOST_DEPTH or sum(map(len, words)) > MOST_BYTES:
        raise FormatError("it is too long, or too deep")
    selects = sum(word.lower() == "select" for word in words)
    if selects > MOST_SELECTS or len(words) > MOST_WORDS:
        raise FormatError("it is too long, or selects too often")
    if words.count("||") > MOST_CONCATENATIONS:
        raise FormatError(f"it has more than {MOST_CONCATENATIONS} times '||'")


def _check_words(
    words: Sequence[str], schema: Schema, functions: Collection[str]
) -> None:
    """Refuse a word that is not a keyword, a name of the schema, an alias, or a function of the
    list.
    """
    lower = list(map(str.lower, words))
    tables = schema.columns_of_tables
    names = {*SQL_KEYWORDS, *tables}.union(*tables.values())
    # A name behind `as` or behind a table is an alias.
    for before, word in pairwise(lower):
        if before == "as" or before in tables:
            names.add(word)
    names -= FORBIDDEN
    for word, after in zip(lower, [*lower[1:], ""], strict=True):
        if is_string(word):
            is_allowed = "\\" not in word
        elif not NAME.fullmatch(word):
            is_allowed = word in ALLOWED_OPERATORS or is_number(word)
        elif after == "(" and word not in SQL_KEYWORDS:
            is_allowed = word in functions
        else:
            is_allowed = word in names
        if not is_allowed:
            raise FormatError(f"{word!r:.80} is not allowed in it")
    for before, word in pairwise(lower):
        is_type = (
            is_string(word) and NAME.fullmatch(before) and before not in SQL_KEYWORDS
        )
        if is_type or (before, word) == (")", "."):
            raise FormatError(f"{word!r:.80} is not allowed after {before!r:.80}")


def _check_forms(query: str, schema: Schema, row_ids: frozenset[str]) -> None:
    """Refuse forms that are not on the list, and names that are not columns of the tables of the
    query.
    """
    tree, selects = parse_query(query)
    problem = name_problem(selects, schema, row_ids)
    if problem:
        raise FormatError(problem)
    # Every column must be one that the problem was looked for in.
    resolved = set[int]()
    for select in selects:
        resolved.update(map(id, select.columns))
    for node in tree.walk():
        form = type(node).__name__
        is_allowed = form in ALLOWED_FORMS
        if isinstance(node, exp.Column):
            is_allowed = id(node) in resolved and not node.args.get("db")
        elif isinstance(node, exp.Table):
            is_name = isinstance(node.this, exp.Identifier)
            is_allowed = is_name and not node.args.get("db")
        elif isinstance(node, exp.Trim):
            # The time for other characters than spaces grows with their number.
            is_allowed = node.expression is None
        if not is_allowed:
            raise FormatError(f"{node.sql()!r:.80} is not allowed in it")
