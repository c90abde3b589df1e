"""The known sentence that is most like another one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence


class KnownSentences:
    """Sentences as sets of words. They are tokenised once, whatever is asked for.

    >>> known = KnownSentences(["turn on the lamp", "turn off the fan"], str.split)
    >>> known.nearest("is the fan off")
    'turn off the fan'
    """

    def __init__(
        self, sentences: Sequence[str], tokenize: Callable[[str], Sequence[str]]
    ) -> None:
        self.sentences = sentences
        self._tokenize = tokenize
        self._bags = [self._bag(sentence) for sentence in sentences]
        self._counts: Counter[str] = Counter()
        self._having: dict[str, list[int]] = defaultdict(list)
        for number, bag in enumerate(self._bags):
            self._counts.update(bag)
            for word in bag:
                self._having[word].append(number)

    def _bag(self, sentence: str) -> frozenset[str]:
        return frozenset(word.casefold() for word in self._tokenize(sentence))

    def nearest(self, sentence: str) -> str | None:
        """The first sentence that has most words in common with another, and fewest others; None
        if all have none. Rare words count for more.
        """
        wanted = self._bag(sentence)
        # Rare words weigh more: the inverse document frequency, the other sentence included.
        weights: dict[str, float] = {}

        def weight(words: Iterable[str]) -> float:
            total = 0.0
            for word in sorted(words):
                if word not in weights:
                    count = self._counts[word] + (word in wanted)
                    weights[word] = math.log1p(len(self.sentences) / (1 + count))
                total += weights[word]
            return total

        candidates: set[int] = set()
        for word in wanted:
            candidates.update(self._having.get(word, ()))
        nearest, best, of_wanted = None, 0.0, weight(wanted)
        for number in sorted(candidates):
            bag = self._bags[number]
            of_both = weight(bag) + of_wanted
            likeness = 2 * weight(bag & wanted) / (of_both or 1.0)
            if likeness > best:
                nearest, best = self.sentences[number], likeness
        return nearest
