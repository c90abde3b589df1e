"""SQL as strings of symbols: the words of a query, the tokens that a grammar sees, and the way back
to text.

Two views of the same query. In its *words* a quoted string is one unit. In its *tokens* a quoted
string is opened up, so that rules can reach inside: `name = " NT_2 "`. White space between words is
not part of a query: `sql_text` writes it in one way. Inside strings it counts, and is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nqg.errors import FormatError

SPACE = "▁"
"""The token for white space inside a string where one would not expect it: beside a punctuation mark, or repeated."""

# Words (in lower case) that cannot be a name, unless a dot stands before them.
_RESERVED = """
    all and as asc between by cross desc distinct except exists from full group having in inner intersect is join left
    like limit natural not null on or order outer right select union using where
"""
RESERVED = frozenset(_RESERVED.split())

SQL_QUOTES = ('"', "'")
_SQL_NUMBER = r"\d+(?:\.\d+)?(?!\w)"
_PLAIN_SQL = rf"{_SQL_NUMBER}|\w+|[^\w\s]"
_PLAIN_TOKEN = re.compile(_PLAIN_SQL)
_SQL_WORD = re.compile(
    rf""""(?:[^"]|"")*"|'(?:[^']|'')*'|-{_SQL_NUMBER}|<>|[<>!=]=|\|\||{_PLAIN_SQL}"""
)
_INSIDE = {
    quote: re.compile(rf"{quote}{quote}|{_PLAIN_SQL}|\s") for quote in SQL_QUOTES
}
_SIGNED = re.compile(r"-?\d+(\.\d+)?")
NAME = re.compile(r"[^\W\d]\w*")


def text_tokens(text: str) -> tuple[str, ...]:
    """Words, numbers and single punctuation marks of plain text, cut as the inside of a SQL string
    is.

    >>> text_tokens("voter_1: who called on 2018-03-17?")
    ('voter_1', ':', 'who', 'called', 'on', '2018', '-', '03', '-', '17', '?')
    """
    return tuple(_PLAIN_TOKEN.findall(text))


def sql_words(text: str) -> tuple[str, ...]:
    """The words of a query: names, numbers, operators, punctuation marks and whole quoted strings,
    as they are written.

    >>> sql_words("select t1.name from t as t1 where x >= -1.5 and y = 'a b'")[-8:]
    ('where', 'x', '>=', '-1.5', 'and', 'y', '=', "'a b'")
    """
    spelled = _SQL_WORD.findall(text)
    for quote in SQL_QUOTES:
        if quote in spelled:
            raise FormatError(
                f"a string is opened by {quote} and never closed in the query {text!r}"
            )
    words: list[str] = []
    for word in spelled:
        # In `a -1` the sign is an operator, in `= -1` it belongs to the number.
        if word[0] == "-" != word and words:
            left = words[-1]
            if (
                _is_word(left) or left[-1] in (")", *SQL_QUOTES)
            ) and left.lower() not in RESERVED:
                words.append("-")
                word = word[1:]
        words.append(word)
    return tuple(words)


def sql_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a query: its words, with quotes, words and punctuation marks of strings apart.

    >>> sql_tokens("where name like '%St. John%'")
    ('where', 'name', 'like', "'", '%', 'St', '.', '▁', 'John', '%', "'")
    """
    tokens: list[str] = []
    for word in sql_words(text):
        if word[0] not in SQL_QUOTES:
            tokens.append(word)
            continue
        quote = word[0]
        inside = _INSIDE[quote].findall(word[1:-1].replace(SPACE, " "))
        tokens.append(quote)
        for before, token, after in zip(["", *inside], inside, [*inside[1:], ""]):
            if not token.isspace():
                tokens.append(token)
            # One space between two words goes without saying.
            elif not (_is_word(before) and _is_word(after)):
                tokens.append(SPACE)
        tokens.append(quote)
    return tuple(tokens)


def _is_word(token: str) -> bool:
    return token[-1:].isalnum() or token[-1:] == "_"


def sql_text(tokens: Iterable[str]) -> str:
    """The query that `tokens` make, in one fixed spacing; `sql_tokens` gives the tokens back.

    >>> sql_text("select count ( * ) , t1 . name from t as t1 where name = ' St . ▁ John ' ;".split())
    "select count(*) , t1.name from t as t1 where name = 'St. John';"
    """
    text, before, left = "", "", ""
    for word in _words_of(iter(tokens)):
        if left in ("", "(") or word in (")", ";"):
            is_close = True
        elif word == "(":
            is_close = NAME.fullmatch(left) is not None and left.lower() not in RESERVED
        else:
            # Only after a name does a dot stand close: "1 . 5" must not become a decimal number.
            is_close = any(
                dot == "." and NAME.fullmatch(name)
                for dot, name in ((word, left), (left, before))
            )
        text += word if is_close else f" {word}"
        before, left = left, word
    return text


def _words_of(tokens: Iterator[str]) -> Iterator[str]:
    """The words, strings put together again."""
    for quote in tokens:
        if quote not in SQL_QUOTES:
            yield quote
            continue
        # Both loops share one iterator, so this one goes on after the opening quote.
        content = [""]
        for token in tokens:
            if token == quote:
                break
            # Two words next to each other were separated by a space.
            if _is_word(content[-1]) and _is_word(token):
                content.append(" ")
            content.append(" " if token == SPACE else token)
        else:
            raise FormatError(
                f"a string is opened by {quote} and never closed, before {''.join(content)!r}"
            )
        yield quote + "".join(content) + quote


def as_sql(text: str) -> str:
    """A query in SQL's own spelling; tokens as a grammar writes them are put together.

    >>> as_sql("select t1 . name from t as t1 where x = ' a b '"), as_sql("select t1.name from t as t1 where x = 'a b'")
    ("select t1.name from t as t1 where x = 'a b'", "select t1.name from t as t1 where x = 'a b'")
    """
    try:
        return sql_text(text.split())
    except FormatError:
        # A quote that stands alone opens no string in SQL proper: the metric may know
        # what it is.
        return text


def is_string(word: str) -> bool:
    """Whether a word is a quoted string."""
    return word[0] in SQL_QUOTES


def quoted(word: str, quote: str) -> str:
    """A string in these quotation marks instead of its own; other words stay as they are.

    >>> print(quoted('"Joe s"', "'"), quoted("'a''b'", '"'), quoted("from", "'"))
    'Joe s' "a'b" from
    """
    if not is_string(word):
        return word
    inside = word[1:-1].replace(2 * word[0], word[0])
    return f"{quote}{inside.replace(quote, 2 * quote)}{quote}"


def is_number(word: str) -> bool:
    """Whether a word is a number.

    >>> is_number("-1.5"), is_number("t1"), is_number("'7'")
    (True, False, False)
    """
    return _SIGNED.fullmatch(word) is not None
