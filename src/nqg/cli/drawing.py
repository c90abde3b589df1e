"""A reading drawn for the terminal: the sentence, and for each hyperedge its span, score, rule and what it yields.

Where there is room, spans are brackets under the words of the sentence. A sentence that is too long for that is drawn
as a tree of rules, whose words are those of the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.text import Text

from nqg.answers import Reading
from nqg.grammar.derivation import Hyperedge, Tokens, target_spans
from nqg.grammar.hypergraph import Span
from nqg.grammar.rule import NonTerminal, Symbol, spelled

LEAST_FOR_RULES = 40  # columns; with fewer beside the brackets, a tree is drawn
DEEPEST = 12  # levels of a tree that are indented; those below are numbered
COLOURS = ("cyan", "green", "magenta", "yellow", "blue")


def drawn(reading: Reading, width: int | None = None) -> Text:
    """The reading as aligned text, cut to `width` columns; without a width, nothing is left out.

    >>> from nqg.grammar.derivation import Derivation
    >>> derivation = Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... ''')
    >>> print(drawn(Reading(derivation.target, 1.0, derivation, scores=(0.5, -1.25), marginals=(1.0, 0.75))).plain)
    jump twice    score     p  rule
    ╰────────╯     0.50  1.00  NT_1 twice → NT_1 NT_1  ⇒ I_JUMP I_JUMP
    ╰──╯          -1.25  0.75  jump → I_JUMP
    """
    words = [_visible(word) for word in reading.derivation.source]
    figures = list(_figures(reading))
    beside = cell_len(" ".join(words)) + cell_len(figures[0].plain) + 2
    if width is not None and width - beside < LEAST_FOR_RULES:
        sentence = Text(" ".join(words), "bold")  # as long as it is: the terminal wraps it
        return Text("\n").join([sentence, *(_cut(line, width) for line in _tree(reading, figures))])
    return Text("\n").join(_cut(line, width) for line in _chart(reading, words, figures))


def _chart(reading: Reading, words: Sequence[str], figures: Sequence[Text]) -> Iterator[Text]:
    """The sentence, and under it a bracket for each hyperedge."""
    columns = _columns(words)
    yield Text.assemble((" ".join(words), "bold"), "  ", figures[0], ("rule", "dim"))
    for hyperedge, depth, figure, rule in _rows(reading, figures):
        bracket = _bracket(hyperedge.span, columns).ljust(columns[-1] - 1)
        yield Text.assemble((bracket, COLOURS[depth % len(COLOURS)]), "  ", figure, rule)


def _tree(reading: Reading, figures: Sequence[Text]) -> Iterator[Text]:
    """Rules under rules."""
    yield Text.assemble(figures[0], ("rule", "dim"))
    guides = _guides(list(reading.derivation.depths()))
    for (_, _, figure, rule), guide in zip(_rows(reading, figures), guides, strict=True):
        yield Text.assemble(figure, (guide, "dim"), rule)


def _rows(reading: Reading, figures: Sequence[Text]) -> Iterator[tuple[Hyperedge, int, Text, Text]]:
    """Every hyperedge with its depth, its figures and its rule."""
    derivation = reading.derivation
    rules = (
        _rule(hyperedge, reading.target[span.start : span.end])
        for hyperedge, span in zip(derivation.hyperedges, target_spans(derivation), strict=True)
    )
    return zip(derivation.hyperedges, derivation.depths(), figures[1:], rules, strict=True)


def _figures(reading: Reading) -> Iterator[Text]:
    """The columns of scores and marginals, as far as there are any: their names, and a line for each hyperedge."""
    yield Text(f"{'  score' * bool(reading.scores)}{'     p' * bool(reading.marginals)}  ", "dim")
    for number in range(len(reading.derivation.hyperedges)):
        line = Text(f"{reading.scores[number]:7.2f}" if reading.scores else "")
        if reading.marginals:
            chance = reading.marginals[number]
            line.append(f"{chance:6.2f}", "green" if chance >= 0.9 else "yellow" if chance >= 0.5 else "red")
        yield line.append("  ")


def _rule(hyperedge: Hyperedge, yielded: Tokens) -> Text:
    rule = hyperedge.rule
    line = Text.assemble(_side(rule.source), (" → ", "dim"), _side(rule.target))
    if rule.arity:
        line.append(f"  ⇒ {' '.join(map(_visible, yielded))}", "dim")
    return line


def _side(symbols: Iterable[Symbol]) -> Text:
    """One side of a rule; words stand out from non-terminals."""
    parts = (Text(_visible(spelled(each)), "" if isinstance(each, NonTerminal) else "bold") for each in symbols)
    return Text(" ").join(parts)


def _visible(word: str) -> str:
    r"""A word without characters that would do something to a terminal.

    >>> _visible("caf\u00e9\x1b[2J")
    'café�[2J'
    """
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in word)


def _columns(words: Sequence[str]) -> list[int]:
    """Where each word begins on the screen, and where one more would."""
    return [0, *accumulate(cell_len(word) + 1 for word in words)]


def _bracket(span: Span, columns: Sequence[int]) -> str:
    left, width = columns[span.start], columns[span.end] - columns[span.start] - 1
    return " " * left + ("│" if width == 1 else f"╰{'─' * (width - 2)}╯")


def _guides(depths: Sequence[int]) -> list[str]:
    """The lines that lead from a rule to those under it.

    >>> _guides([0, 1, 2, 1])
    ['', '├─ ', '│  └─ ', '└─ ']
    """
    guides: list[str] = []
    goes_on: dict[int, bool] = {}  # whether a sister follows at a depth, as seen from below
    for depth in reversed(depths):
        shown = range(1, min(depth, DEEPEST))
        stem = "".join("│  " if goes_on.get(level) else "   " for level in shown)
        branch = "├─ " if goes_on.get(depth) else "└─ "
        number = f"[{depth}] " if depth > DEEPEST else ""
        guides.append(f"{stem}{branch}{number}" if depth else "")
        goes_on = {level: each for level, each in goes_on.items() if level < depth} | {depth: True}
    return guides[::-1]


def _cut(line: Text, width: int | None) -> Text:
    line.rstrip()
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line
