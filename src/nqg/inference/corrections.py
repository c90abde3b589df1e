"""Typos: words that no rule knows, read as known words that they resemble.

Who types `tunr` most likely means `turn`. But a word that no rule knows may as well be a new one, and `smallest` is not
a misspelt `tallest`. So a word is read as another only where the sentence has no derivation otherwise, and if the other
is one edit away (a letter more, less or changed, or two neighbours swapped), of long words two. Where several are as
close, the parser has to make the same of all that have a derivation. An answer says what was read differently, and
`CorrectionTrials` how far to trust it. A typo that is a known word is not corrected: `WordPairs` doubts it.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING

from rapidfuzz import process
from rapidfuzz.distance import OSA

from nqg.answers import Answer, Correction, exact_match
from nqg.data.example import Example
from nqg.grammar.grammar import SLOT, Grammar
from nqg.model.confidence import CorrectionTrials
from nqg.slots.instantiate import unknown_places
from nqg.text.sentences import TokenizedSentence

if TYPE_CHECKING:
    from nqg.inference.parser import Parser

Corrected = tuple[TokenizedSentence, tuple[Correction, ...]]

MIN_LETTERS = (
    2  # letters of a word that may be misspelt; if it has no more, one word at least must have both
)
MIN_LETTERS_FOR_TWO_EDITS = (
    9  # letters of a word that may be misspelt twice; `sonntag` is two edits from `montag`
)
MAX_TYPOS = 3  # in a sentence
MAX_CORRECTIONS = 8  # of a sentence that are tried
MAX_TRIAL_WORDS = 1000  # that are misspelt in trials


def corrected_answers(
    parser: Parser, sentences: Mapping[int, Sequence[TokenizedSentence]]
) -> dict[int, Answer]:
    """The answers to sentences with unknown words, where it is clear what is meant; each is tokenized in some ways."""
    corrector = corrector_of(parser.grammar)
    readings = {}
    for number, ways in sentences.items():
        unknown = [(unknown_places(parser.grammar, way.words), way) for way in ways]
        places, way = min(unknown, key=lambda each: len(each[0]))
        readings[number] = corrector.readings(way, places)
    found = clear_answers(parser, readings)
    return {
        number: replace(answer, source=sentences[number][0].raw) for number, answer in found.items()
    }


def clear_answers(parser: Parser, readings: Mapping[int, Sequence[Corrected]]) -> dict[int, Answer]:
    """For sentences that may be read in several ways the answers, if all readings that have one have the same."""
    tried = [(number, *reading) for number, each in readings.items() for reading in each]
    answers = parser.tokenized_answers([sentence for _, sentence, _ in tried])
    answered: dict[int, list[Answer]] = defaultdict(list)
    calibrator = parser.model.calibrator
    for (number, _, corrections), answer in zip(tried, answers, strict=True):
        if not answer:
            continue
        confidence = answer.confidence
        if confidence is not None and calibrator:
            confidence *= calibrator.corrections.share ** len(corrections)
        answered[number].append(replace(answer, corrections=corrections, confidence=confidence))
    clear: dict[int, Answer] = {}
    for number, same in answered.items():
        if len({answer.target for answer in same}) == 1:
            clear[number] = max(same, key=lambda answer: answer.probability or 0.0)
    return clear


def correction_trials(
    parser: Parser, examples: Iterable[Example], seed: int = 0
) -> CorrectionTrials:
    """What becomes of right answers if a word is misspelt and if it is new: each word once, in one of its sentences.

    A word that no rule knows is taken to be a typo as often as a new word.
    """
    rng = random.Random(seed)
    known = parser.model.grammar.words
    letters = sorted({letter for word in known for letter in word if letter.isalpha()})
    pairs = [
        (parser.model.text.tokenized(example.source)[0], example.target) for example in examples
    ]
    # Where each known word stands, and of those places one.
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, (sentence, _) in enumerate(pairs):
        for place, word in enumerate(sentence.words):
            if word in known and len(word) >= MIN_LETTERS and _is_word(word):
                places[word].append((number, place))
    words = rng.sample(sorted(places), min(len(places), MAX_TRIAL_WORDS))
    chosen = [(word, *rng.choice(places[word])) for word in words]
    # What is right without a typo is tried with one, and as if its word were unknown.
    answers = parser.tokenized_answers([pairs[number][0] for _, number, _ in chosen])
    corrector = corrector_of(parser.grammar)
    readings: dict[int, Sequence[Corrected]] = {}
    targets: list[str] = []
    for (word, number, place), answer in zip(chosen, answers, strict=True):
        sentence, target = pairs[number]
        typo = sentence.with_words({place: misspelt(word, letters, rng)})
        if exact_match(answer.target, target):
            unknown = unknown_places(parser.grammar, typo.words)
            for read in (corrector.readings(typo, unknown), corrector.readings(sentence, [place])):
                readings[len(targets)] = read
                targets.append(target)
    corrected = clear_answers(parser, readings)
    right = sum(exact_match(answer.target, targets[number]) for number, answer in corrected.items())
    return CorrectionTrials(len(corrected), right)


def corrector_of(grammar: Grammar) -> Corrector:
    """The one that knows the words of a grammar's rules, and those of the names that its slots read."""
    return _corrector(grammar.words, grammar.slots.words if grammar.slots else frozenset())


@lru_cache(maxsize=8)
def _corrector(words: frozenset[str], names: frozenset[str]) -> Corrector:
    return Corrector(frozenset(word for word in words if not word.startswith(SLOT)) | names)


@dataclass(frozen=True)
class Corrector:
    """The words that are known, among which neighbours are looked for."""

    known: frozenset[str]

    @cached_property
    def _words(self) -> list[str]:
        return sorted(filter(_is_word, self.known))

    def neighbours(self, word: str) -> tuple[str, ...]:
        """The known words that an unknown one may be meant for: the closest ones, if they are close.

        >>> corrector = Corrector(frozenset(["turn", "on", "off", "river", "rivers", "7:00"]))
        >>> [corrector.neighbours(word) for word in ("tunr", "rivrs", "riverz", "no", "in", "8:00")]
        [('turn',), ('rivers',), ('river', 'rivers'), ('on',), (), ()]
        """
        if len(word) < MIN_LETTERS or not _is_word(word):
            return ()
        edits = 1 if len(word) < MIN_LETTERS_FOR_TWO_EDITS else 2
        close = process.extract(
            word, self._words, scorer=OSA.distance, score_cutoff=edits, limit=None
        )
        least = min(
            (distance for _, distance, _ in close if distance), default=0
        )  # 0: of the word itself
        found = sorted(other for other, distance, _ in close if distance == least > 0)
        is_changed = len(word) == MIN_LETTERS and all(
            Counter(word) - Counter(other) for other in found
        )
        return () if is_changed else tuple(found)

    def readings(self, sentence: TokenizedSentence, places: Sequence[int]) -> list[Corrected]:
        """What a sentence with unknown words at some places may be meant for; nothing if one is like no known word."""
        tokens, found = sentence.tokens, list[Corrected]()
        if not 0 < len(places) <= MAX_TYPOS:
            return found
        choices = product(*(self.neighbours(tokens[place].text) for place in places))
        for words in islice(choices, MAX_CORRECTIONS + 1):
            read = dict(zip(places, words, strict=True))
            corrections = tuple(
                Correction(place, tokens[place].text, word) for place, word in read.items()
            )
            found.append((sentence.with_words(read), corrections))
        return found if len(found) <= MAX_CORRECTIONS else []


@lru_cache(1 << 14)
def similar_words(word: str, known: frozenset[str]) -> list[str]:
    """The known words that are one edit away from a known one.

    >>> similar_words("us", frozenset(["is", "use", "us", "as", "a"]))
    ['as', 'is', 'use']
    """
    others = sorted(other for other in known if _is_word(other) and abs(len(other) - len(word)) < 2)
    found = (
        process.extract(word, others, scorer=OSA.distance, score_cutoff=1, limit=None)
        if len(word) > 1
        else []
    )
    return sorted(other for other, distance, _ in found if distance)


def _is_word(token: str) -> bool:
    return not any(map(str.isdigit, token))


def misspelt(word: str, letters: Sequence[str], rng: random.Random) -> str:
    """A word of two letters or more with a random edit; never the same word.

    >>> rng = random.Random(1)
    >>> [misspelt("border", "abcdefgh", rng) for _ in range(4)]
    ['brder', 'boder', 'boredr', 'boredr']
    """
    while True:
        at = rng.randrange(len(word))
        match rng.randrange(4):
            case 0:
                found = word[:at] + word[at + 1 :]
            case 1:
                found = word[:at] + rng.choice(letters) + word[at + 1 :]
            case 2:
                at = rng.randrange(len(word) + 1)
                found = word[:at] + rng.choice(letters) + word[at:]
            case _:
                found = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
        if found != word:
            return found
