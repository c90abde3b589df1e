"""Lexical candidates: words and target tokens that occur together, so that words that never stand alone get rules.

SPLIT can cut `left ### I_TURN_LEFT` out of an example only where the grammar derives the rest, and *left* is never
alone. But examples with one of the two have the other, and examples without do not. Both directions count:

    Δp(token | word) = p(token | word) − p(token | no word)        Δp(word | token) likewise

over distinct examples. Tokens that occur with everything, like `answer`, differ little whether the word is there or
not; a token without a letter or digit is punctuation and not considered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product

from nqg.data.examples import Example
from nqg.grammar.grammar import Rule

LEAST_GIVEN_WORD = 0.75  # a word that means the token rarely occurs without it
LEAST_GIVEN_TOKEN = 0.25  # but several words, or forms of one, may mean it


def lexical_rules(examples: Iterable[Example]) -> list[Rule]:
    """A rule for each word that one target token goes with better than any other does, in the order of the words.

    Of tokens that go equally well with a word, only one that is the word itself is taken.

    >>> pairs = [("turn left", "LEFT"), ("walk left", "LEFT WALK"), ("walk twice", "WALK WALK"), ("run", "RUN")]
    >>> [str(rule) for rule in lexical_rules(Example(*pair) for pair in pairs)]
    ['left ### LEFT', 'run ### RUN', 'walk ### WALK']
    """
    words, tokens, together = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    distinct = {(example.source_tokens, example.target_tokens) for example in examples}
    for source, target in distinct:
        source_words, target_words = (sorted(filter(is_word, set(side))) for side in (source, target))
        words.update(source_words)
        tokens.update(target_words)
        together.update(product(source_words, target_words))

    def contingency(both: int, given: int, other: int) -> float:
        without = len(distinct) - given
        return both / given - (other - both) / without if without else 0.0  # with everything: nothing to compare with

    best: dict[str, list[tuple[tuple[float, bool], str]]] = {}
    for (word, token), both in together.items():
        given_word = contingency(both, words[word], tokens[token])
        given_token = contingency(both, tokens[token], words[word])
        if given_word >= LEAST_GIVEN_WORD and given_token >= LEAST_GIVEN_TOKEN:
            best.setdefault(word, []).append(((given_word * given_token, word == token), token))
    rules = []
    for word, found in sorted(best.items()):
        (score, token), *others = sorted(found, reverse=True)
        if all(other < score for other, _ in others):
            rules.append(Rule((word,), (token,)))
    return rules


def is_word(token: str) -> bool:
    return any(character.isalnum() for character in token)
