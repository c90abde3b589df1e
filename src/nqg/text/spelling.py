"""Programs written token by token: a finite-state transducer from tokens to strings.

`ProgramTokenizer.render` writes a whole program. Here a state holds what the next token needs to
know: the atom on the left, the quotation that is open, and white space that a token stands for.

A first pass over a grammar notes which tokens follow each state. From then on, white space that is
the same before all of them is written at once, as in `, `, and states that no token tells apart are
one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nqg.text.brackets import QUOTES
from nqg.text.programs import (
    BEGIN,
    LINE_END,
    WORD,
    Atom,
    ProgramTokenizer,
    gap_of_token,
    kind_of,
    token_text,
)

END_OF_PROGRAM = ""  # what follows the last token


@dataclass(frozen=True)
class SpellingState:
    """What has been written, as far as the next token needs to know it."""

    left: Atom
    quote: str = ""
    gap: str | None = None


class Spelled(NamedTuple):
    """Tokens as a string, the white space before it and behind it, and the state that follows."""

    gap: str
    text: str
    gap_behind: str
    state: SpellingState

    def __str__(self) -> str:
        return self.gap + self.text + self.gap_behind


@dataclass
class Spelling:
    """How tokens are written one after the other."""

    programs: ProgramTokenizer
    # The white space before the tokens that were seen behind a state.
    gaps: dict[SpellingState, dict[str, str]] = field(default_factory=dict)
    # The second pass: the state that stands for another, and what is written at once.
    merged: dict[SpellingState, SpellingState] = field(default_factory=dict)
    gaps_behind: dict[SpellingState, str] = field(default_factory=dict)

    @property
    def begin(self) -> SpellingState:
        return self._arrived(SpellingState(BEGIN))[1]

    def write(self, state: SpellingState, tokens: Sequence[str]) -> Spelled:
        """Tokens behind a state.

        >>> from nqg.text.programs import fit_programs
        >>> spelling = Spelling(fit_programs(["set(fan, 20)"]))
        >>> str(spelling.write(spelling.begin, ["set", "(", "fan", ","]))
        'set(fan,'
        """
        gap, text, after = self._next(state, tokens[0])
        # In the second pass, a state stands for others that know other tokens.
        gap = self.gaps.setdefault(state, {}).setdefault(tokens[0], gap)
        for token in tokens[1:]:
            inner, more, after = self._next(after, token)
            text += inner + more
        gap_behind, after = self._arrived(after)
        return Spelled(gap, text, gap_behind, after)

    def end(self, state: SpellingState) -> str:
        """What is written behind the last token."""
        return self.gaps.setdefault(state, {}).setdefault(
            END_OF_PROGRAM, self._end(state)
        )

    def merge_states(self) -> None:
        """End the first pass: join states that the tokens behind them do not tell apart."""
        kept: list[SpellingState] = []
        for state, gaps in self.gaps.items():
            if len(set(gaps.values())) == 1 and state.left != BEGIN:
                self.gaps_behind[state] = next(iter(gaps.values()))
                gaps = self.gaps[state] = dict.fromkeys(gaps, "")
            for earlier in kept:
                earlier_gaps = self.gaps[earlier]
                is_alike = all(
                    earlier_gaps.get(token, gap) == gap for token, gap in gaps.items()
                )
                if is_alike and earlier.quote == state.quote:
                    self.merged[state] = earlier
                    earlier_gaps.update(gaps)
                    break
            else:
                self.merged[state] = state
                kept.append(state)

    def _next(self, state: SpellingState, token: str) -> tuple[str, str, SpellingState]:
        """The white space before a token, its text, and the state behind it."""
        if self.programs.scheme == "spaces":
            gap = "" if state.left == BEGIN else " "
            quote = state.quote
            if token in QUOTES and quote in ("", token):
                quote = "" if quote else token
            return gap, token, SpellingState(Atom("", "token"), quote)
        gap_token = gap_of_token(token)
        if gap_token is not None:
            # What stands before white space has no say in what follows it.
            return (
                "",
                "",
                SpellingState(Atom("", "white space"), state.quote, gap_token),
            )
        text = token_text(token)
        kind, quote = kind_of(text, state.quote)
        atom = Atom(text, kind)
        if state.gap is not None:
            return state.gap, text, SpellingState(atom, quote)
        return self.programs.gap(state.left, atom), text, SpellingState(atom, quote)

    def _end(self, state: SpellingState) -> str:
        if self.programs.scheme == "spaces":
            return ""
        if state.gap is not None:
            return state.gap
        return self.programs.gap(state.left, Atom("", LINE_END))

    def _arrived(self, state: SpellingState) -> tuple[str, SpellingState]:
        """What is written at once in a state, and the state that stands for it."""
        left = state.left
        # Words are alike, but for those that have white space of their own behind them.
        if left.kind != WORD or left.text not in self.programs.gaps:
            state = replace(state, left=Atom("", left.kind))
        gap = self.gaps_behind.get(state, "")
        return gap, self.merged.get(state, state)
