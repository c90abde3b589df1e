"""An answer in words: its program or why there is none, who gave it and how sure that is, and its
derivation, drawn.

A derivation is drawn as the sentence and, for each hyperedge, its span, score, rule and yield.
Spans are brackets under the words of the sentence; a sentence too long for that is drawn as a tree
of rules, whose words are the sentence's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.text import Text

from nqg.answers import CALLS, UNSURE, Answer, Reading, in_percent
from nqg.grammar.derivation import target_spans
from nqg.grammar.grammar import NonTerminal, Symbol, format_symbol

MIN_RULE_COLUMNS = 40  # columns; with fewer beside the brackets, a tree is drawn
MAX_INDENTED_DEPTH = 12  # levels of a tree that are indented; those below are numbered
TEACH = "to teach it, add the sentence to the training file, with this program or the right one"
BRACKET_COLOURS = ("cyan", "green", "magenta", "yellow", "blue")


def described(answer: Answer, draw: Callable[[Reading], str] | None = None) -> str:
    """An answer for reading, under the drawing of its derivation, if somebody draws it.

    Where the sentence holds several commands, each of them follows in the same way.

    >>> commands = Answer("lamp on", "on(lamp)"), Answer("fan off", "off(fan)")
    >>> sequence = Answer("lamp on, fan off", "on(lamp); off(fan)", confidence=0.81, commands=commands)
    >>> print(described(sequence))
    on(lamp); off(fan)
    confidence 81 %
    >>> print(described(sequence, str))
    2 commands: 'lamp on', 'fan off'
    on(lamp); off(fan)
    confidence 81 %
    <BLANKLINE>
    1. 'lamp on'
    on(lamp)
    <BLANKLINE>
    2. 'fan off'
    off(fan)
    """
    lines = []
    drawing = ""
    if draw is not None and answer.reading is not None:
        drawing = draw(answer.reading)
        lines += [drawing, ""]
    if draw is not None and answer.commands:
        sources = ", ".join(f"'{command.source}'" for command in answer.commands)
        lines.append(f"{len(answer.commands)} commands: {sources}")
    lines.append(
        f"abstained: {answer.reason}" if answer.target is None else answer.target
    )
    if answer.target is None:
        lines += abstention_lines(answer)
        if draw is not None and answer.withheld and answer.withheld.reading:
            lines += ["", draw(answer.withheld.reading)]
    if answer.target is not None and (answer.parts or answer.system == CALLS):
        lines.append(
            f"{answer.credit}: {answer.reason}" if answer.reason else answer.credit
        )
        lines += unread_lines(answer)
    lines += map(str, answer.all_corrections)
    if answer.confidence is not None:
        lines.append(f"confidence {in_percent(answer.confidence)}")
    if drawing and answer.reading:
        lines.append(f"probability within the grammar {answer.reading.probability:.6g}")
    if answer.rows:
        lines += answer.rows.lines()
    for reading in answer.first.readings:
        legality = "" if reading.is_legal else "\tillegal"
        lines.append(f"{reading.probability:.6g}\t{reading.target}{legality}")
    for number, command in enumerate(answer.commands, start=1):
        if draw is not None or command.first.readings:
            lines += ["", f"{number}. '{command.source}'", described(command, draw)]
    return "\n".join(lines)


def abstention_lines(answer: Answer) -> list[str]:
    """What was withheld, which words are new, and the nearest thing that training has.

    >>> nearest = Answer("play some jazz", "play(jazz)")
    >>> doubt = Answer("put on some polka", "play(polka)", confidence=0.4)
    >>> abstention = Answer(doubt.source, withheld=doubt, nearest=nearest, unknown_words=("polka",))
    >>> print("\\n".join(abstention_lines(abstention)))
    withheld: play(polka) (not sure enough: 40 %)
    not in training: 'polka'
    nearest in training: 'play some jazz' is play(jazz)
    to teach it, add the sentence to the training file, with this program or the right one
    """
    lines = []
    withheld = answer.withheld
    if withheld:
        lines.append(f"withheld: {withheld.target}{doubt(answer, withheld)}")
        lines += unread_lines(withheld)
    if answer.unknown_words and answer.first.gaps is None:
        words = ", ".join(f"'{word}'" for word in dict.fromkeys(answer.unknown_words))
        lines.append(f"not in training: {words}")
    if answer.nearest:
        source = " ".join(answer.nearest.source.split())
        lines.append(f"nearest in training: '{source}' is {answer.nearest.target}")
    if withheld:
        lines.append(TEACH)
    return lines


def doubt(abstention: Answer, withheld: Answer) -> str:
    """How sure a withheld answer is and who gives it, unless the reason of the abstention says so.

    >>> doubt(Answer("dim it", reason="no derivation"), Answer("dim it", "dim()", confidence=0.8))
    ' (not sure enough: 80 %)'
    """
    if withheld.confidence is None or UNSURE in abstention.reason:
        return ""
    sure = f"{UNSURE}: {in_percent(withheld.confidence)}"
    if withheld.system == CALLS:
        return f" ({withheld.credit}, {sure})"
    return f" ({sure})"


def unread_lines(answer: Answer) -> list[str]:
    """The words that the call reader leaves out, as a line.

    >>> unread_lines(Answer("dim it quickly", "dim()", unread=("quickly",)))
    ["not read: 'quickly'"]
    """
    words = ", ".join(f"'{word}'" for word in answer.unread)
    return [f"not read: {words}"] if words else []


def drawn(reading: Reading, width: int | None = None) -> Text:
    """The reading as aligned text, cut to `width` columns; without a width, nothing is left out.

    >>> from nqg.grammar.derivation import Derivation
    >>> derivation = Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... ''')
    >>> print(drawn(Reading("I_JUMP I_JUMP", 1.0, derivation, scores=(0.5, -1.25), marginals=(1.0, 0.75))).plain)
    jump twice    score     p  rule
    ╰────────╯     0.50  1.00  NT_1 twice → NT_1 NT_1  ⇒ I_JUMP I_JUMP
    ╰──╯          -1.25  0.75  jump → I_JUMP
    """
    words = [_visible(word) for word in reading.derivation.source]
    hyperedges, depths = (
        reading.derivation.hyperedges,
        list(reading.derivation.depths()),
    )
    tokens = reading.tokens
    title = Text(
        f"{'  score' * bool(reading.scores)}{'     p' * bool(reading.marginals)}  ",
        "dim",
    )
    room = cell_len(" ".join(words)) + cell_len(title.plain) + 2
    is_tree = width is not None and width - room < MIN_RULE_COLUMNS
    if is_tree:
        lines = [title.append("rule", "dim")]
        lefts = [Text(guide, "dim") for guide in tree_guides(depths)]
    else:
        lines = [Text.assemble((" ".join(words), "bold"), "  ", title, ("rule", "dim"))]
        lefts = _brackets(reading, words)
    for number, (hyperedge, span) in enumerate(
        zip(hyperedges, target_spans(reading.derivation), strict=True)
    ):
        figures = Text(f"{reading.scores[number]:7.2f}" if reading.scores else "")
        if reading.marginals:
            chance = reading.marginals[number]
            figures.append(
                f"{chance:6.2f}",
                "green" if chance >= 0.9 else "yellow" if chance >= 0.5 else "red",
            )
        rule = Text.assemble(
            _side(hyperedge.rule.source), (" → ", "dim"), _side(hyperedge.rule.target)
        )
        if hyperedge.rule.arity:
            rule.append(
                f"  ⇒ {' '.join(map(_visible, tokens[span.start : span.end]))}", "dim"
            )
        figures.append("  ")
        left = lefts[number]
        lines.append(
            Text.assemble(figures, left, rule)
            if is_tree
            else Text.assemble(left, "  ", figures, rule)
        )
    for line in lines:
        line.rstrip()
        if width is not None:
            line.truncate(width, overflow="ellipsis")
    sentence = (
        [Text(" ".join(words), "bold")] if is_tree else []
    )  # as long as it is: the terminal wraps it
    return Text("\n").join([*sentence, *lines])


def _brackets(reading: Reading, words: Sequence[str]) -> list[Text]:
    """A bracket for each hyperedge, under the words of its span."""
    columns = [
        0,
        *accumulate(cell_len(word) + 1 for word in words),
    ]  # where each word begins
    lines = []
    for hyperedge, depth in zip(
        reading.derivation.hyperedges, reading.derivation.depths(), strict=True
    ):
        left, right = columns[hyperedge.span.start], columns[hyperedge.span.end] - 1
        bracket = "│" if right - left == 1 else f"╰{'─' * (right - left - 2)}╯"
        lines.append(
            Text(
                (" " * left + bracket).ljust(columns[-1] - 1),
                BRACKET_COLOURS[depth % len(BRACKET_COLOURS)],
            )
        )
    return lines


def tree_guides(depths: Sequence[int]) -> list[str]:
    """The lines that lead from a rule to those under it.

    >>> tree_guides([0, 1, 2, 1])
    ['', '├─ ', '│  └─ ', '└─ ']
    """
    guides: list[str] = []
    goes_on: dict[
        int, bool
    ] = {}  # whether a sister follows at a depth, as seen from below
    for depth in reversed(depths):
        shown = range(1, min(depth, MAX_INDENTED_DEPTH))
        stem = "".join("│  " if goes_on.get(level) else "   " for level in shown)
        branch = "├─ " if goes_on.get(depth) else "└─ "
        number = f"[{depth}] " if depth > MAX_INDENTED_DEPTH else ""
        guides.append(f"{stem}{branch}{number}" if depth else "")
        goes_on = {
            level: is_open for level, is_open in goes_on.items() if level < depth
        } | {depth: True}
    return guides[::-1]


def _side(symbols: Iterable[Symbol]) -> Text:
    """One side of a rule; words stand out from non-terminals."""
    parts = (
        Text(
            _visible(format_symbol(symbol)),
            "" if isinstance(symbol, NonTerminal) else "bold",
        )
        for symbol in symbols
    )
    return Text(" ").join(parts)


def _visible(word: str) -> str:
    r"""A word without characters that would do something to a terminal.

    >>> _visible("caf\u00e9\x1b[2J")
    'café�[2J'
    """
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in word
    )
