"""SQL cut into words exactly as Spider's official metric cuts it, accidents included.

This is not `nqg.data.sql`, which reads SQL as one should: here `a=5` stays one word, because the verdicts depend on it.
"""

from __future__ import annotations

import re

from nqg.errors import FormatError

_MARK = r"[()\[\]{}<>;@#$%&?!*]|`+|--|\.{2,}|[,:](?!\d)|\.(?=[)\]}>\s]*$)"
_STRING = r'"[^"]*"'
_WORD = re.compile(rf'{_MARK}|(?:{_STRING}|(?!{_MARK})[^\s"])+')
_ONE_STRING = re.compile(_STRING)


def spider_words(sql: str) -> tuple[str, ...]:
    r"""The words of a query in lower case; a quoted string is one word and keeps its case.

    >>> spider_words("SELECT max(T1.Age) FROM t WHERE a> =5 AND b = 'X y'")
    ('select', 'max', '(', 't1.age', ')', 'from', 't', 'where', 'a', '>', '=5', 'and', 'b', '=', '"X y"')
    """
    text = sql.replace("'", '"')
    if text.count('"') % 2:
        raise FormatError("expected quotes in pairs, found an odd number of them")
    words: list[str] = []
    for word in _WORD.findall(text):
        if word == "=" and words and words[-1] in ("!", ">", "<"):
            words[-1] += "="
        else:
            words.append(word if is_string(word) else word.lower())
    return tuple(words)


def is_string(word: str) -> bool:
    """Whether a word is a whole quoted string, and nothing is glued to it.

    >>> is_string('"a b"'), is_string('"a""b"'), is_string('name="a"')
    (True, False, False)
    """
    return _ONE_STRING.fullmatch(word) is not None
