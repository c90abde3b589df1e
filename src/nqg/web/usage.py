"""How often each rule was used in best derivations, and in which example sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from nqg.grammar.grammar import Grammar
from nqg.grammar.rule import Rule
from nqg.inference.reading import Parse

MOST_EXAMPLES = 3  # sentences that are kept for a rule

Order = Literal["grammar", "uses"]


@dataclass(slots=True)
class Use:
    """The uses of one rule."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Listed:
    """A rule as the grammar's page lists it."""

    number: int
    rule: Rule
    use: Use


class Usage:
    """Counts that grow with every parse.

    What people ask is counted but never kept: on a shared server a sentence is nobody else's business. Examples come
    from a file that whoever starts the server chooses.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._uses = {rule: Use() for rule in grammar}

    def count(self, parse: Parse, *, is_example: bool = False) -> None:
        """Take note of the rules in the best derivation of `parse`."""
        if parse.best is None:
            return
        for application in parse.best.derivation.applications:
            use = self._uses[application.rule]
            use.count += 1
            sentence = " ".join(parse.source)
            if is_example and len(use.examples) < MOST_EXAMPLES and sentence not in use.examples:
                use.examples.append(sentence)

    def listed(self, search: str = "", order: Order = "grammar") -> list[Listed]:
        """The rules whose text has every word of `search`, in the grammar's order or the most used first."""
        words = search.lower().split()
        found = list(_matching(self._uses, words))
        return sorted(found, key=lambda each: -each.use.count) if order == "uses" else found


def _matching(uses: dict[Rule, Use], words: list[str]) -> Iterator[Listed]:
    for number, (rule, use) in enumerate(uses.items()):
        text = str(rule).lower()
        if all(word in text for word in words):
            yield Listed(number, rule, use)
