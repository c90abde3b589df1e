"""SQL as strings of symbols: the words of a query, the tokens that a grammar sees, and the way back to text.

Two views of the same query. In its *words* a quoted string is one unit; they are the atoms of the splits. In its
*tokens* a quoted string is opened up, so that rules can reach inside: `name = " NT_2 "`. White space between words
is not part of a query: `sql_text` writes it in one way. Inside strings it counts, and is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nqg.errors import FormatError

SPACE = "▁"
"""The token for white space inside a string where one would not expect it: beside a punctuation mark, or repeated."""

_RESERVED = """
    all and as asc between by cross desc distinct except exists from full group having in inner intersect is join left
    like limit natural not null on or order outer right select union where
"""
RESERVED = frozenset(_RESERVED.split())
"""Words (in lower case) that cannot be a name, unless a dot stands before them."""

QUOTES = ('"', "'")
_NUMBER = r"\d+(?:\.\d+)?(?!\w)"
_PLAIN = rf"{_NUMBER}|\w+|[^\w\s]"
_PLAIN_TOKEN = re.compile(_PLAIN)
_WORD = re.compile(rf""""(?:[^"]|"")*"|'(?:[^']|'')*'|-{_NUMBER}|<>|[<>!=]=|\|\||{_PLAIN}""")
_INSIDE = {quote: re.compile(rf"{quote}{quote}|{_PLAIN}|\s") for quote in QUOTES}
_SIGNED = re.compile(r"-?\d+(\.\d+)?")
_NAME = re.compile(r"[^\W\d]\w*")


def text_tokens(text: str) -> tuple[str, ...]:
    """Words, numbers and single punctuation marks of plain text, cut as the inside of a SQL string is.

    >>> text_tokens("voter_1: who called on 2018-03-17?")
    ('voter_1', ':', 'who', 'called', 'on', '2018', '-', '03', '-', '17', '?')
    """
    return tuple(_PLAIN_TOKEN.findall(text))


def sql_words(text: str) -> tuple[str, ...]:
    """The words of a query: names, numbers, operators, punctuation marks and whole quoted strings, as they are written.

    >>> sql_words("select t1.name from t as t1 where x >= -1.5 and y = 'a b'")[-8:]
    ('where', 'x', '>=', '-1.5', 'and', 'y', '=', "'a b'")
    """
    found = _WORD.findall(text)
    for quote in QUOTES:
        if quote in found:
            raise FormatError(f"a string is opened by {quote} and never closed in the query {text!r}")
    return tuple(_with_minus_signs_apart(found))


def _with_minus_signs_apart(words: Sequence[str]) -> Iterator[str]:
    """In `a -1` the sign is an operator; in `= -1` it belongs to the number."""
    previous = ""
    for word in words:
        if len(word) > 1 and word[0] == "-" and _is_operand_end(previous):
            yield from ("-", word[1:])
        else:
            yield word
        previous = word


def _is_operand_end(word: str) -> bool:
    return word != "" and (word[-1].isalnum() or word[-1] in "_)\"'") and word.lower() not in RESERVED


def sql_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a query: its words, with quotes, words and punctuation marks of strings apart.

    >>> sql_tokens("where name like '%St. John%'")
    ('where', 'name', 'like', "'", '%', 'St', '.', '▁', 'John', '%', "'")
    """
    tokens: list[str] = []
    for word in sql_words(text):
        if word[0] in QUOTES:
            tokens += [word[0], *_tokens_inside(word[1:-1], word[0]), word[0]]
        else:
            tokens.append(word)
    return tuple(tokens)


def _tokens_inside(content: str, quote: str) -> Iterator[str]:
    """The tokens of a string; a single space between two words goes without saying."""
    pieces = [SPACE if piece.isspace() else piece for piece in _INSIDE[quote].findall(content.replace(SPACE, " "))]
    for before, piece, after in zip(["", *pieces], pieces, [*pieces[1:], ""], strict=False):
        if not (piece == SPACE and _is_word(before) and _is_word(after)):
            yield piece


def _is_word(token: str) -> bool:
    return token[-1:].isalnum() or token[-1:] == "_"


def sql_text(tokens: Iterable[str]) -> str:
    """The query that `tokens` make, in one fixed spacing; `sql_tokens` gives the tokens back.

    >>> sql_text("select count ( * ) , t1 . name from t as t1 where name = ' St . ▁ John ' ;".split())
    "select count(*) , t1.name from t as t1 where name = 'St. John';"
    """
    words = ["", "", *_words_of(tokens)]
    neighbours = zip(words, words[1:], words[2:], strict=False)
    return "".join(
        word if _stand_close(left, word, before=earlier) else f" {word}" for earlier, left, word in neighbours
    )


def _stand_close(left: str, right: str, before: str) -> bool:
    """Whether two words are written without a space between them, given the word before them."""
    if left in ("", "(") or right in (")", ";"):
        return True
    if right == "(":
        return _is_name(left) and left.lower() not in RESERVED
    # Only after a name does a dot stand close: "1 . 5" must not become a decimal number.
    return (right == "." and _is_name(left)) or (left == "." and _is_name(before))


def _is_name(word: str) -> bool:
    return _NAME.fullmatch(word) is not None


def _words_of(tokens: Iterable[str]) -> Iterator[str]:
    """The words, strings put together again."""
    waiting = iter(tokens)
    for token in waiting:
        yield _string(token, waiting) if token in QUOTES else token


def _string(quote: str, tokens: Iterator[str]) -> str:
    """The string that was opened by `quote`, up to its closing quote."""
    content = [""]
    for token in tokens:
        if token == quote:
            return quote + "".join(content) + quote
        if _is_word(content[-1]) and _is_word(token):
            content.append(" ")
        content.append(" " if token == SPACE else token)
    raise FormatError(f"a string is opened by {quote} and never closed, before {''.join(content)!r}")


def sql_atoms(text: str) -> Counter[str]:
    """The atoms of a query, counted: its words, a quoted string being one.

    >>> sql_atoms("select a from t where a = 'x y'")["'x y'"]
    1
    """
    return Counter(sql_words(text))


def is_number(word: str) -> bool:
    """Whether a word is a number.

    >>> is_number("-1.5"), is_number("t1"), is_number("'7'")
    (True, False, False)
    """
    return _SIGNED.fullmatch(word) is not None


def sql_template(text: str) -> str:
    """The query with its integers and quoted strings blanked out.

    >>> sql_template("select a from t1 where b = 'x y' limit 3")
    'select a from t1 where b = STRING limit INTEGER'
    """
    return " ".join(map(_anonymised, sql_words(text)))


def _anonymised(word: str) -> str:
    if word[0] in QUOTES:
        return "STRING"
    return "INTEGER" if is_number(word) and "." not in word else word
