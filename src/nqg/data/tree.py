"""The labelled ordered tree in which every target language shows its structure to the splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """A node with a label and its children in order; a node without children is a leaf.

    >>> tree = Tree("longest", (Tree("river"),))
    >>> str(tree)
    'longest(river)'
    """

    label: str
    children: tuple[Tree, ...] = ()

    def nodes(self) -> Iterator[Tree]:
        """This node and everything below it, parents before children, left before right.

        No recursion: a tree may be deeper than Python's stack.
        """
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def __str__(self) -> str:
        pieces: list[str] = []
        waiting: list[Tree | str] = [self]
        while waiting:
            item = waiting.pop()
            pieces.append(item if isinstance(item, str) else item.label)
            if isinstance(item, Tree) and item.children:
                waiting.extend(reversed(_bracketed(item.children)))
        return "".join(pieces)


def _bracketed(children: tuple[Tree, ...]) -> list[Tree | str]:
    pieces: list[Tree | str] = ["("]
    for child in children:
        pieces += [child, ", "]
    pieces[-1] = ")"
    return pieces
