"""The tree of any bracketed target, so that atoms and compounds are defined for languages that we do not know.

Two ways of writing are read. In *call* form a symbol stands before its bracket: `longest ( river , m0 )`. In *list*
form, recognised by an opening bracket at the very start, it stands inside: `( longest river m0 )`. Brackets are
`()`, `[]` and `{}`, spaces around them are optional, commas only separate. A bracket without a symbol becomes a node
named after it (`[]`), and a target of several terms in a row hangs them under a nameless root.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nqg.data.tree import Tree
from nqg.errors import FormatError

PAIRS = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(PAIRS.values())
NAMELESS = frozenset({"", "()", "[]", "{}"})
"""Labels of nodes that no symbol of the target names."""

_PIECE = re.compile(r"""[()\[\]{},]|"[^"]*"|'[^']*'|[^\s()\[\]{},]+""")


def bracket_tree(target: str) -> Tree:
    """The tree that the brackets of `target` draw.

    >>> str(bracket_tree("exclude ( longest ( river ) , m0 )"))
    'exclude(longest(river), m0)'
    >>> str(bracket_tree("(count (city all) 7)"))
    'count(city(all), 7)'
    """
    pieces = _PIECE.findall(target)
    growing = _Growing(heads_inside=bool(pieces) and pieces[0] in PAIRS)
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        if piece in PAIRS:
            growing.open(piece)
        elif piece in CLOSING:
            growing.close(piece)
        elif piece != ",":
            growing.add(piece, applied=following in PAIRS)
    return growing.finished()


@dataclass(slots=True)
class _Node:
    """A node whose closing bracket has not come yet; a symbol that is applied waits for its opening one first."""

    bracket: str = ""
    label: str = ""
    children: list[Tree] = field(default_factory=list)

    def closed(self) -> Tree:
        return Tree(self.label or self.bracket + PAIRS.get(self.bracket, ""), tuple(self.children))


@dataclass(slots=True)
class _Growing:
    """The nodes from the root to the place that the parser has reached."""

    heads_inside: bool
    path: list[_Node] = field(default_factory=lambda: [_Node()])

    def open(self, bracket: str) -> None:
        if self.path[-1].label and not self.path[-1].bracket:
            self.path[-1].bracket = bracket
        else:
            self.path.append(_Node(bracket))

    def close(self, bracket: str) -> None:
        node = self.path.pop()
        if PAIRS.get(node.bracket) != bracket:
            raise FormatError(f"found '{bracket}', expected {_expected(node)}")
        self.path[-1].children.append(node.closed())

    def add(self, symbol: str, *, applied: bool) -> None:
        top = self.path[-1]
        if not self.heads_inside and applied:
            self.path.append(_Node(label=symbol))
        elif self.heads_inside and top.bracket and not top.label and not top.children:
            top.label = symbol
        else:
            top.children.append(Tree(symbol))

    def finished(self) -> Tree:
        root = self.path[0]
        if len(self.path) > 1:
            raise FormatError(f"the target ends, expected {_expected(self.path[-1])}")
        return root.children[0] if len(root.children) == 1 else root.closed()


def _expected(node: _Node) -> str:
    return f"'{PAIRS[node.bracket]}' for '{node.label}{node.bracket}'" if node.bracket else "no closing bracket here"
