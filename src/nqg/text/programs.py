"""Programs split into tokens, and tokens written as programs, as training data spells them.

A program is words, numbers, quotation marks and other marks (its *atoms*) with white space between
them (its *gaps*). Where gaps stand is learned from programs: `f(a, b)`, `f( a,b )` and `(f a b)`
have conventions of their own, and SQL writes `count(` but `IN (`. A gap that is not the expected
one becomes a token itself, so that nothing is ever lost:

    play(song="Hey  Jude")  →  play ( song = " Hey ␣␣ Jude " )

Quoted text is split too, lest a value in it be one symbol that no other program has.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Literal, NamedTuple

import regex

from nqg.text.brackets import CODE_QUOTES
from nqg.text.escapes import escape, signs, unescape
from nqg.text.json_calls import JsonCalls, WrittenToken
from nqg.text.positions import Positions
from nqg.text.sentences import TOLERATED
from nqg.text.traces import Traces

ProgramScheme = Literal["code", "spaces"]
Pair = tuple[str, str]

# They stand beside words in programs, and apart in those that are tokenised already.
STRUCTURE = frozenset('()[]{},;="')

# Classes of atoms; any other mark is its own class. No atom has a space in it, so that none is
# taken for a class.
WORD = "a word"
QUOTED_WORD = "quoted word"
QUOTED = "quoted "
OPENING = "opening "
CLOSING = "closing "
START, LINE_END, ANY_TOKEN = "the start", "the end", "any atom"

# JSON has no strings with these. White space is never part of a token.
_NOT_IN_JSON = re.compile("[\x00-\x1f]")
# White space as `str.split` has it.
_CHUNK = re.compile(r"(\s*)(\S+)")
# The rest of don't; not inside of '…'.
_APOSTROPHE = r"(?:['’](?=\p{L})[\w\p{M}]+)*"
_ATOMS = r"""
      \d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?(?!\w) | \d\d?:\d\d(?::\d\d)?(?!\w)  # dates, times
    | (?:(?<![\w)\]}])-)?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w)                      # -20.5
    | (?<![^(\[]):[\p{L}_]\w* | (?<!\w)[@$?\#]\w+                                  # :key ?x @name
    | [\w\p{M}]+%s                                                                 # words
    | \\. | [=!<>:+*/-]= | <> | -> | => | && | \|\| | :: | \*\* | \.\.\.?           # operators
    | .(?:[\p{M}\p{Emoji_Modifier}]|\u200d.)*                                      # marks, emoji
"""
_FLAGS = regex.VERBOSE | regex.V1 | regex.DOTALL
_ATOM = regex.compile(_ATOMS % _APOSTROPHE, _FLAGS)
_ATOM_IN_APOSTROPHES = regex.compile(_ATOMS % "", _FLAGS)
_WORD_CHARACTER = re.compile(r"\w")
# White space, or its absence, as a token.
_GAP = re.compile(r"(?:[␣⇥⏎]|⟨[0-9a-f]+⟩)+|⁀")
_VISIBLE = {" ": "␣", "\t": "⇥", "\n": "⏎"}
_CONTROL_PICTURES = str.maketrans("␣⇥⏎", " \t\n")
# Signs of gaps, for which an atom could be taken.
_PROGRAM_SIGNS = signs("[␣⇥⏎⟨⁀].*")


class Atom(NamedTuple):
    """A word or mark of a program, its class, and the white space before it."""

    text: str
    kind: str
    gap: str = ""


BEGIN = Atom("", START)


def atoms(program: str, quote: str = "") -> Iterator[Atom]:
    """The atoms of a program, and one for its end; with `quote`, of a text in such quotes.

    >>> [atom.text for atom in atoms("f(x='a b')")]
    ['f', '(', 'x', '=', "'", 'a', 'b', "'", ')', '']
    """
    end, closing = 0, LINE_END
    if quote:
        closing = CLOSING + quote
    for chunk in _CHUNK.finditer(program):
        gap, text = chunk.groups()
        end, position = chunk.end(), 0
        while position < len(text):
            pattern = _ATOM_IN_APOSTROPHES if quote == "'" else _ATOM
            atom = pattern.match(text, position)[0]
            kind, quote = kind_of(atom, quote)
            yield Atom(atom, kind, gap)
            gap, position = "", position + len(atom)
    yield Atom("", closing, program[end:])


def kind_of(text: str, quote: str) -> tuple[str, str]:
    """The class of an atom inside of a `quote`, or outside, and the quote that is open then."""
    is_word = text[0] != "\\" and _WORD_CHARACTER.search(text)
    if not quote:
        if text in CODE_QUOTES:
            return OPENING + text, text
        return (WORD if is_word else text), ""
    if text == quote:
        return CLOSING + text, ""
    return (QUOTED_WORD if is_word else QUOTED + text), quote


def gap_of_token(token: str) -> str | None:
    """The white space that a token stands for; None if it stands for an atom.

    >>> gap_of_token("␣␣"), gap_of_token("⁀"), gap_of_token("lamp")
    ('  ', '', None)
    """
    if not _GAP.fullmatch(token):
        return None
    # The sign for no white space is followed by nothing.
    gap = re.sub("⟨(.*?)⟩", lambda code: chr(int(code[1], 16)), token.strip("⁀"))
    return gap.translate(_CONTROL_PICTURES)


def token_text(token: str) -> str:
    """The atom that a token stands for."""
    return unescape(token, _PROGRAM_SIGNS)


@dataclass(frozen=True, slots=True)
class ProgramTokenizer:
    """How programs are split into tokens and written again.

    `gaps` has what stands between atoms, by word or class.


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
    traces: Traces | None = None
    positions: Positions | None = None
    calls: JsonCalls | None = None

    def tokenize(self, program: str, quote: str = "") -> tuple[str, ...]:
        """All of a program, or with `quote` of a text between such quotes; `render` inverts it."""
        return tuple(self._tokens(program, quote))

    @property
    def is_encoded(self) -> bool:
        """Whether a grammar learns other tokens than programs have."""
        return bool(self.traces or self.positions or self.calls)

    def normalized(self, program: str, words: Sequence[str] = ()) -> tuple[str, ...]:
        """The tokens that a grammar learns, without those for spaces outside of quotes; line breaks
        and tabs are kept.

        Variables that are positions need the `words` of the sentence.
        """
        return self.encoded(tuple(self._tokens(program, keeps_spaces=False)), words)

    def encoded(
        self, tokens: tuple[str, ...], words: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The tokens of a program, or of a part of one, as a grammar learns them."""
        if self.positions:
            tokens = self.positions.encode(tokens, words)
        if self.calls:
            tokens = self.calls.encode(tokens)
        if self.traces:
            tokens = self.traces.encode(tokens)
        return tokens

    def decoded(self, tokens: Iterable[str], words: Sequence[str] = ()) -> list[str]:
        """The tokens of a program for a sentence of `words`; `encoded` inverts it."""
        return [token.symbol for token in self.written(tokens, words)]

    def written(
        self, tokens: Iterable[str], words: Sequence[str] = ()
    ) -> list[WrittenToken[str]]:
        """The same, with the number of the token that each comes from, as far as that is known."""
        tokens = tuple(tokens)
        if self.traces:
            tokens = self.traces.decode(tokens)
        if self.calls:
            return self.calls.written(tokens)
        if self.positions:
            tokens = self.positions.decode(tokens, words)
        return [WrittenToken(token, number) for number, token in enumerate(tokens)]

    def _tokens(
        self, program: str, quote: str = "", keeps_spaces: bool = True
    ) -> Iterator[str]:
        if self.scheme == "spaces":
            yield from program.split()
            return
        left = BEGIN
        if quote:
            left = Atom(quote, OPENING + quote)
        for atom in atoms(program, quote):
            is_quoted = atom.kind.startswith((QUOTED, CLOSING))
            counts = keeps_spaces or is_quoted or "\n" in atom.gap or "\t" in atom.gap
            if counts and atom.gap != self.gap(left, atom):
                spaces = [
                    _VISIBLE.get(space) or f"⟨{ord(space):x}⟩" for space in atom.gap
                ]
                yield "".join(spaces) or "⁀"
            if atom.text:
                yield escape(atom.text, _PROGRAM_SIGNS)
            left = atom

    def render(self, tokens: Iterable[str], words: Sequence[str] = ()) -> str:
        """The program of tokens for a sentence of `words`, as training data would write it."""
        if self.is_encoded:
            tokens = self.decoded(tokens, words)
        if self.scheme == "spaces":
            return " ".join(tokens)
        program, left, quote, gap = "", BEGIN, "", None
        for token in tokens:
            gap_token = gap_of_token(token)
            if gap_token is not None:
                gap = gap_token
                continue
            text = token_text(token)
            kind, quote = kind_of(text, quote)
            atom = Atom(text, kind)
            if gap is None:
                gap = self.gap(left, atom)
            program += gap + text
            left, gap = atom, None
        if gap is None:
            gap = self.gap(left, Atom("", LINE_END))
        return program + gap

    def problem(self, program: str, words: Sequence[str] = ()) -> str:
        """Why a program is not like those of the training data, as far as no grammar says it; with
        the `words` of its sentence, also why it is none for these.
        """
        keyword = None
        if not self.keywords_repeat:
            keyword = repeated_keyword(program)
        if keyword:
            return f"'{keyword}' is there twice"
        tokens = tuple(self._tokens(program, keeps_spaces=False))
        reason = ""
        if self.positions:
            reason = self.positions.problem(tokens)
        if self.calls:
            control = _NOT_IN_JSON.search("".join(tokens))
            if control:
                return f"JSON cannot hold the control character U+{ord(control[0]):04X}"
            reason = reason or self.calls.problem(tokens)
            tokens = self.calls.encode(tokens)
        if self.traces:
            reason = reason or self.traces.problem(tokens, words)
        return reason

    def gap(self, left: Atom, right: Atom) -> str:
        """The white space that is expected between two atoms."""
        after_left, by_word = self.gaps.get(left.kind, {}), None
        if left.kind == WORD:
            by_word = self.gaps.get(left.text, {}).get(right.kind)
        for gap in (by_word, after_left.get(right.text), after_left.get(right.kind)):
            if gap is not None:
                return gap
        if left.kind == right.kind and left.kind in (WORD, QUOTED_WORD):
            return " "
        # Atoms that never met: what follows the left one is what precedes the right one, or
        # nothing.
        after, before = (
            after_left.get(ANY_TOKEN),
            self.gaps.get(ANY_TOKEN, {}).get(right.kind),
        )
        if after is None or after != before:
            return ""
        return after


def fit_programs(
    programs: Iterable[str], scheme: ProgramScheme | None = None
) -> ProgramTokenizer:
    """The tokenizer for programs that are written like these; the scheme may be detected."""
    programs = list(programs)
    if (scheme or detected_scheme(programs)) == "spaces":
        return ProgramTokenizer()
    # Count the gaps between classes of atoms, and between a word and a class.
    of_classes: dict[Pair, Counter[str]] = defaultdict(Counter)
    of_words: dict[tuple[Pair, Pair], Counter[str]] = defaultdict(Counter)
    for program in programs:
        for left, right in pairwise((BEGIN, *atoms(program))):
            classes = left.kind, right.kind
            of_classes[classes][right.gap] += 1
            if not any(
                kind.startswith((START, LINE_END, OPENING, CLOSING)) for kind in classes
            ):
                of_classes[left.kind, ANY_TOKEN][right.gap] += 1
                of_classes[ANY_TOKEN, right.kind][right.gap] += 1
            if left.kind == WORD:
                of_words[(left.text, right.kind), classes][right.gap] += 1
            if right.kind == WORD:
                of_words[(left.kind, right.text), classes][right.gap] += 1
    # Words are listed where they differ from their class.
    usual = {pair: _most_common(counts) for pair, counts in of_classes.items()}
    expected = dict(usual)
    for (pair, classes), counts in of_words.items():
        gap = _most_common(counts)
        if gap != usual[classes]:
            expected[pair] = gap
    gaps: dict[str, dict[str, str]] = defaultdict(dict)
    for (left_name, right_name), gap in sorted(expected.items()):
        gaps[left_name][right_name] = gap
    repeating = sum(repeated_keyword(program) is not None for program in programs)
    return ProgramTokenizer("code", dict(gaps), repeating > TOLERATED * len(programs))


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
    """Spaces where nearly all brackets, commas and quotes are tokens of their own; else code.

    >>> detected_scheme(["answer ( loc_1 ( m0 ) )"]), detected_scheme(["I_JUMP I_WALK"])
    ('spaces', 'spaces')
    >>> detected_scheme(["on(lamp)"])
    'code'
    """
    counts = Counter(chain.from_iterable(program.split() for program in programs))
    apart = glued = 0
    for token, times in counts.items():
        if token in STRUCTURE:
            apart += times
        elif len(token) > 1:
            marks = sum(character in STRUCTURE for character in token)
            if token.startswith("'"):
                marks += 1
            glued += times * marks
    if apart >= glued:
        return "spaces"
    return "code"
