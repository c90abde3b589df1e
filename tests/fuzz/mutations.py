"""Damage to valid files: bytes flipped, cut, doubled and joined, words and JSON values replaced by odd ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

ODD_WORDS = """
    NT_1 NT_2 NT_3 NT_9999 \\NT_1 ### # \\### <query> <.> <...> <#> <'> ::= | < > ( ) , ' " '' "" -1 0 007 1979-05-27
    1e999 NaN Infinity
    null true [ ] { } [] {} : ; = . .. ../x /etc/passwd m0 m99 _ select from where and not all stateid cityid answer
    <!ENTITY &lt; &a; <![CDATA[ ]]> <example <nl <?xml % /* */ \\ \\u0000 \\ud800 🏳️‍🌈 é\u0301
    \u202e \u2028 \u200b \ufeff
"""
WORDS = [word.encode() for word in ODD_WORDS.split()] + [
    b"\0",
    b"\t",
    b"\n",
    b"\r\n",
    b"\xff",
    b"\xed\xa0\x80",
    b"9" * 5000,
    b"[" * 3000,
    b'{"a":' * 3000,
    b"(" * 300,
    b"a" * 10000,
]
VALUES: Sequence[Any] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, 1e-320),
    *("", " ", "\0", "\ud800", "../x", "NT_1", "a" * 5000, "nqg", "1"),
    *([], {}, [[]], {"": None}, [0] * 1000, [None], ["x", 1]),
)

LONGEST = 1 << 16  # bytes of a case

Mutation = Callable[[bytes, bytes, random.Random], bytes]


def damaged(seed: bytes, other: bytes, rng: random.Random) -> bytes:
    """`seed` with one to four mishaps; `other` is another valid file of the same kind, to join it with."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        seed = rng.choice(MUTATIONS)(seed, other, rng)[:LONGEST]
    return seed


def _flipped(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(min(len(raw), rng.choice((1, 2, 8)))):
        changed[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(changed)


def _cut(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    start, end = _range(raw, rng)
    return rng.choice((raw[:start], raw[start:], raw[:start] + raw[end:]))


def _doubled(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    start, end = _range(raw, rng)
    return raw[:end] + raw[start:end] * rng.choice((1, 2, 50)) + raw[end:]


def _joined(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    return raw[: _range(raw, rng)[0]] + other[_range(other, rng)[0] :]


def _with_word(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    start, end = _range(raw, rng)
    return raw[:start] + rng.choice(WORDS) + raw[rng.choice((start, end)) :]


def _with_words_moved(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    words = raw.split(b" ")
    at, to = rng.randrange(len(words)), rng.randrange(len(words))
    words[at] = rng.choice((words[to], rng.choice(WORDS), b""))
    return b" ".join(words)


def _with_value(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    """A JSON value somewhere in a line, or in the whole file, replaced; other files are given back as they are."""
    lines = raw.split(b"\n")
    at = rng.randrange(len(lines))
    for whole in (raw, lines[at]):
        try:
            value = json.loads(whole)
        except (ValueError, RecursionError):
            continue
        text = json.dumps(changed_json(value, rng)).encode()
        return (
            text if whole is raw else b"\n".join([*lines[:at], text, *lines[at + 1 :]])
        )
    return raw


def changed_json(value: Any, rng: random.Random) -> Any:
    """A JSON value with something in it replaced, left out, added or renamed."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(VALUES)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        kept = rng.choice(([], [changed_json(value[at], rng)], [value[at], value[at]]))
        return [*value[:at], *kept, *value[at + 1 :]]
    key = rng.choice(list(value))
    rest = {name: each for name, each in value.items() if name != key}
    return rng.choice(
        (
            rest,
            {**value, "odd": None},
            {**rest, "odd": value[key]},
            *[{**value, key: changed_json(value[key], rng)}] * 5,
        )
    )


def _range(raw: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(raw) + 1)
    return start, min(len(raw), start + rng.choice((1, 4, 16, 64, len(raw))))


MUTATIONS: Sequence[Mutation] = (
    _flipped,
    _cut,
    _doubled,
    _joined,
    _with_word,
    _with_words_moved,
    _with_value,
    _with_value,
)
