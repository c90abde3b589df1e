"""Programs split into tokens, and tokens written as programs again, in the spelling of the training data.

A program is words, numbers, quotation marks and other marks (its *atoms*) with white space between them (its *gaps*).
Where gaps stand is learned from programs: `f(a, b)`, `f( a,b )` and `(f a b)` have conventions of their own, and SQL
writes `count(` but `IN (`. A gap that is not the expected one becomes a token itself, so that nothing is ever lost:

    play(song="Hey  Jude")  →  play ( song = " Hey ␣␣ Jude " )

Quoted text is split too, lest a value in it be one symbol that no other program has.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import regex

from nqg.text.brackets import CODE_QUOTES
from nqg.text.escapes import escape, signs, unescape

ProgramScheme = Literal["code", "spaces"]
Pair = tuple[str, str]

STRUCTURE = frozenset(
    '()[]{},;="'
)  # stand beside words in programs, and apart in those that are tokenised already
TOKENISED = 0.9  # of these marks stand apart
TOLERATED_PROGRAMS = 0.01  # of programs that may have a keyword twice, by mistake

# Classes of atoms; any other mark is its own class. No atom has a space in it, so that none is taken for a class.
WORD, QUOTED_WORD, QUOTED, OPENING, CLOSING = (
    "a word",
    "quoted word",
    "quoted ",
    "opening ",
    "closing ",
)
START, LINE_END, ANY_TOKEN = "the start", "the end", "any atom"

_CHUNK = re.compile(r"(\s*)(\S+)")  # white space as `str.split` has it
_APOSTROPHE = r"(?:['’](?=\p{L})[\w\p{M}]+)*"  # don't; but not inside of '…'
_ATOMS = r"""
      \d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?(?!\w) | \d\d?:\d\d(?::\d\d)?(?!\w)  # dates, times
    | (?:(?<![\w)\]}])-)?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w)                      # -20.5
    | (?<![^(\[]):[\p{L}_]\w* | (?<!\w)[@$?\#]\w+                                  # :key ?x @name
    | [\w\p{M}]+%s                                                                 # words
    | \\. | [=!<>:+*/-]= | <> | -> | => | && | \|\| | :: | \*\* | \.\.\.?           # operators of several characters
    | .(?:[\p{M}\p{Emoji_Modifier}]|\u200d.)*                                      # other marks, emoji
"""
_FLAGS = regex.VERBOSE | regex.V1 | regex.DOTALL
_ATOM, _ATOM_IN_APOSTROPHES = (regex.compile(_ATOMS % more, _FLAGS) for more in (_APOSTROPHE, ""))
_GAP = re.compile(r"(?:[␣⇥⏎]|⟨[0-9a-f]+⟩)+|⁀")  # white space, or its absence, as a token
_SHOWN = {" ": "␣", "\t": "⇥", "\n": "⏎"}
_SIGNS = signs("[␣⇥⏎⟨⁀].*")  # of gaps, for which an atom could be taken


class Atom(NamedTuple):
    """A part of a program, its class, and the white space before it."""

    text: str
    kind: str
    gap: str = ""


BEGIN = Atom("", START)


def atoms(program: str, quote: str = "") -> Iterator[Atom]:
    """The atoms of a program, and one for its end; with `quote`, of a text that stands between such quotes.

    >>> [atom.text for atom in atoms("f(x='a b')")]
    ['f', '(', 'x', '=', "'", 'a', 'b', "'", ')', '']
    """
    end, first = 0, quote
    for chunk in _CHUNK.finditer(program):
        gap, text, place, end = chunk[1], chunk[2], 0, chunk.end()
        while place < len(text):
            found = (_ATOM_IN_APOSTROPHES if quote == "'" else _ATOM).match(text, place)[0]
            kind, quote = kind_of(found, quote)
            yield Atom(found, kind, gap)
            gap, place = "", place + len(found)
    yield Atom("", CLOSING + first if first else LINE_END, program[end:])


def kind_of(text: str, quote: str) -> tuple[str, str]:
    """The class of an atom after an opening `quote`, or none, and the quote that is open after it."""
    is_word = text.isalnum() or (
        text[0] != "\\" and any(each.isalnum() or each == "_" for each in text)
    )
    if quote:
        return (
            (CLOSING + text, "")
            if text == quote
            else (QUOTED_WORD if is_word else QUOTED + text, quote)
        )
    return (OPENING + text, text) if text in CODE_QUOTES else (WORD if is_word else text, "")


@dataclass(frozen=True, slots=True)
class ProgramTokenizer:
    """How programs are split into tokens and written again; `gaps` has what stands between atoms, by word or class.

    >>> tokenizer = fit_programs(['dim(room="living room", percent=40)'])
    >>> tokens = tokenizer.tokenize('dim(room="attic", percent=15)')
    >>> " ".join(tokens)
    'dim ( room = " attic " , percent = 15 )'
    >>> tokenizer.render(tokens)
    'dim(room="attic", percent=15)'
    """

    scheme: ProgramScheme = "spaces"
    gaps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keywords_repeat: bool = True  # a call may have a keyword twice

    def tokenize(self, program: str, quote: str = "") -> tuple[str, ...]:
        """All of a program, or with `quote` of a text between such quotes: what `render` makes it of again."""
        return (
            tuple(program.split())
            if self.scheme == "spaces"
            else tuple(self._tokens(program, quote))
        )

    def normalized(self, program: str) -> tuple[str, ...]:
        """The tokens without those for spaces outside of quotes, which mean nothing; line breaks and tabs are kept."""
        if self.scheme == "spaces":
            return tuple(program.split())
        return tuple(self._tokens(program, keeps_spaces=False))

    def _tokens(self, program: str, quote: str = "", keeps_spaces: bool = True) -> Iterator[str]:
        left = Atom(quote, OPENING + quote) if quote else BEGIN
        for atom in atoms(program, quote):
            is_kept = (
                keeps_spaces
                or atom.kind.startswith((QUOTED, CLOSING))
                or not {"\n", "\t"}.isdisjoint(atom.gap)
            )
            if is_kept and atom.gap != self.gap(left, atom):
                yield "".join(_SHOWN.get(each) or f"⟨{ord(each):x}⟩" for each in atom.gap) or "⁀"
            if atom.text:
                yield escape(atom.text, _SIGNS)
            left = atom

    def render(self, tokens: Iterable[str]) -> str:
        """The program of tokens, as training data would write it."""
        if self.scheme == "spaces":
            return " ".join(tokens)
        written, left, quote, gap = [], BEGIN, "", None
        for token in tokens:
            if _GAP.fullmatch(token):
                gap = re.sub("⟨(.*?)⟩", lambda code: chr(int(code[1], 16)), token.strip("⁀"))
                gap = gap.translate({ord(shown): each for each, shown in _SHOWN.items()})
                continue
            text = unescape(token, _SIGNS)
            kind, quote = kind_of(text, quote)
            atom = Atom(text, kind)
            written += [self.gap(left, atom) if gap is None else gap, text]
            left, gap = atom, None
        return "".join([*written, self.gap(left, Atom("", LINE_END)) if gap is None else gap])

    def problem(self, program: str) -> str:
        """Why a program is none like those of the training data, as far as no grammar says it."""
        keyword = None if self.keywords_repeat else repeated_keyword(program)
        return f"'{keyword}' is there twice" if keyword else ""

    def gap(self, left: Atom, right: Atom) -> str:
        """The white space that is expected between two atoms."""
        after_left = self.gaps.get(left.kind, {})
        by_word = self.gaps.get(left.text, {}).get(right.kind) if left.kind == WORD else None
        for found in (by_word, after_left.get(right.text), after_left.get(right.kind)):
            if found is not None:
                return found
        if left.kind == right.kind and left.kind in (WORD, QUOTED_WORD):
            return " "
        after, before = after_left.get(ANY_TOKEN), self.gaps.get(ANY_TOKEN, {}).get(right.kind)
        return after if after is not None and after == before else ""


def fit_programs(programs: Iterable[str], scheme: ProgramScheme | None = None) -> ProgramTokenizer:
    """The tokenizer for programs that are written like these; its scheme is detected unless it is given."""
    programs = list(programs)
    if (scheme or detected_scheme(programs)) == "spaces":
        return ProgramTokenizer()
    of_classes: dict[Pair, Counter[str]] = defaultdict(Counter)
    of_words: dict[tuple[Pair, Pair], Counter[str]] = defaultdict(Counter)
    for program in programs:
        for left, right in pairwise((BEGIN, *atoms(program))):
            classes = left.kind, right.kind
            of_classes[classes][right.gap] += 1
            if not any(kind.startswith((START, LINE_END, OPENING, CLOSING)) for kind in classes):
                of_classes[left.kind, ANY_TOKEN][right.gap] += 1
                of_classes[ANY_TOKEN, right.kind][right.gap] += 1
            if left.kind == WORD:
                of_words[(left.text, right.kind), classes][right.gap] += 1
            if right.kind == WORD:
                of_words[(left.kind, right.text), classes][right.gap] += 1
    usual = {pair: _most_common(found) for pair, found in of_classes.items()}
    odd = {
        pair: gap
        for (pair, of), found in of_words.items()
        if (gap := _most_common(found)) != usual[of]
    }
    gaps: dict[str, dict[str, str]] = defaultdict(dict)
    for (left_name, right_name), gap in sorted((usual | odd).items()):
        gaps[left_name][right_name] = gap
    repeating = sum(repeated_keyword(program) is not None for program in programs)
    return ProgramTokenizer("code", dict(gaps), repeating > TOLERATED_PROGRAMS * len(programs))


def repeated_keyword(program: str) -> str | None:
    """The first keyword that stands twice in one pair of brackets.

    >>> repeated_keyword('dim(room="a = b", room="c")'), repeated_keyword('[{"a": 1}, {"a": 2}]')
    ('room', None)
    """
    calls, before = [set[str]()], ""
    for atom in atoms(program):
        if atom.kind in ("(", "[", "{"):
            calls.append(set())
        elif atom.kind in (")", "]", "}") and len(calls) > 1:
            calls.pop()
        elif atom.kind in ("=", ":"):
            if before in calls[-1]:
                return before
            calls[-1].add(before)
        if atom.kind in (WORD, QUOTED_WORD):
            before = atom.text
    return None


def _most_common(gaps: Counter[str]) -> str:
    return min(gaps, key=lambda gap: (-gaps[gap], gap))


def detected_scheme(programs: Iterable[str]) -> ProgramScheme:
    """Spaces where nearly all brackets, commas and quotes are tokens of their own, or there are none; else code.

    >>> detected_scheme(["answer ( loc_1 ( m0 ) )"]), detected_scheme(["I_JUMP I_WALK"]), detected_scheme(["on(lamp)"])
    ('spaces', 'spaces', 'code')
    """
    apart = glued = 0
    for token, times in Counter(token for program in programs for token in program.split()).items():
        marks = sum(character in STRUCTURE for character in token) + (token[0] == "'" != token)
        apart += times * (len(token) == marks == 1)
        glued += times * (marks if len(token) > 1 else 0)
    return "spaces" if apart >= TOKENISED * (apart + glued) else "code"
