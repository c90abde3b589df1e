"""Identity rules: strings that a source and its target share stand for themselves (appendix A.2, initialization)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Tokens = tuple[int, ...]


def shared_strings(source: Sequence[int], target: Sequence[int]) -> list[Tokens]:
    """The longest common strings that do not overlap: the longest is taken out of both sides, then the next, …

    Of equally long ones the leftmost in the source is taken, at its leftmost place in the target.

    >>> shared_strings((1, 2, 3, 9, 4), (4, 7, 2, 3))
    [(2, 3), (4,)]
    """
    found: list[Tokens] = []
    pieces, others = [tuple(source)], [tuple(target)]
    while longest := _longest_shared(pieces, others):
        found.append(longest)
        pieces, others = list(_without(pieces, longest)), list(_without(others, longest))
    return found


def _longest_shared(pieces: list[Tokens], others: list[Tokens]) -> Tokens:
    for length in range(max(map(len, pieces), default=0), 0, -1):
        theirs = {string for other in others for string in _strings(other, length)}
        for piece in pieces:
            for string in _strings(piece, length):
                if string in theirs:
                    return string
    return ()


def _strings(piece: Tokens, length: int) -> Iterator[Tokens]:
    return (piece[start : start + length] for start in range(len(piece) - length + 1))


def _without(pieces: list[Tokens], string: Tokens) -> Iterator[Tokens]:
    """The pieces, the first occurrence of `string` cut out of the first one that has it."""
    done = False
    for piece in pieces:
        places = [] if done else [at for at, found in enumerate(_strings(piece, len(string))) if found == string]
        if places:
            done = True
            yield from filter(None, (piece[: places[0]], piece[places[0] + len(string) :]))
        else:
            yield piece
