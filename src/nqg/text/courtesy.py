"""Polite frames around a request: "could you … please", "hey assistant", "würdest du bitte", "por favor".

They carry no meaning of their own, nobody writes them into all training sentences, and people use them all the time.
Frames are taken off the edges of a sentence, the word "please" wherever it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache

from nqg.text.sentences import SentenceTokenizer, Token

OPENINGS = {
    "en": (
        "could you, can you, would you, will you, i would like you to, i'd like you to, i want you to, i need you to,"
        "would you be so kind as to, be so kind as to, do me a favor and, go ahead and, kindly,"
        "hello, hi, hey, ok, okay"
    ),
    "de": (
        "kannst du, könntest du, würdest du, können sie, könnten sie, würden sie, magst du, ich möchte dass du,"
        "ich hätte gern dass du, sei so lieb und, sei so gut und, hallo, hi, hey, ok, okay"
    ),
    "es": "puedes, podrías, podrias, puede, podría, podria, me puedes, me podrías, quiero que, hola, oye, ok",
    "fr": (
        "peux-tu, pourrais-tu, tu peux, pouvez-vous, pourriez-vous, est-ce que tu peux, je voudrais que tu,"
        "bonjour, salut"
    ),
}
CLOSINGS = {
    "en": "thanks, thank you, thank you very much, thanks a lot, many thanks, will you, would you, can you, could you",
    "de": "danke, danke schön, vielen dank, danke dir",
    "es": "gracias, muchas gracias",
    "fr": "merci, merci beaucoup",
}
ANYWHERE = {"en": "please", "de": "bitte", "es": "por favor", "fr": "s'il te plaît, s'il vous plaît"}
CALLS = frozenset(("hello", "hi", "hey", "ok", "okay", "hallo", "hola", "oye"))  # a name may follow: "hey jarvis"

Phrases = tuple[tuple[str, ...], ...]


@cache
def _phrases() -> tuple[Phrases, Phrases, Phrases]:
    """Openings, closings, and those that may stand anywhere, as tokens, long ones first."""
    tokenizer = SentenceTokenizer()

    def phrases(lists: Iterable[str]) -> Phrases:
        found = {tokenizer.tokenize(phrase) for each in lists for phrase in each.split(",")}
        return tuple(sorted(found, key=lambda phrase: (-len(phrase), phrase)))

    openings, closings, anywhere = (phrases(each.values()) for each in (OPENINGS, CLOSINGS, ANYWHERE))
    return openings, closings, anywhere


def without_courtesy(tokens: Sequence[Token], known: Collection[str] = ()) -> tuple[Token, ...]:
    """The tokens without polite frames; all of them where nothing would be left.

    A word after a call is a name if it is not `known`, that is if no training sentence has it.

    >>> tokens = SentenceTokenizer().tokens("Hey Jarvis, could you please dim the lights, thanks!")
    >>> [token.text for token in without_courtesy(tokens, {"dim"})]
    ['dim', 'the', 'lights']
    """
    openings, closings, anywhere = _phrases()
    left = list(tokens)
    for phrase in anywhere:
        while (place := _find([token.text.lower() for token in left], phrase)) is not None:
            del left[place : place + len(phrase)]
    is_changed = True
    while is_changed:
        words = [token.text.lower() for token in left]
        begin = next((len(phrase) for phrase in openings if tuple(words[: len(phrase)]) == phrase), 0)
        if begin == 1 and words[0] in CALLS and known and len(words) > 2 and words[1] not in known:
            begin = 2
        end = next((len(phrase) for phrase in closings if tuple(words[begin:][-len(phrase) :]) == phrase), 0)
        left = left[begin : len(left) - end]
        is_changed = bool(begin or end)
    return tuple(left or tokens)


def _find(words: Sequence[str], phrase: Sequence[str]) -> int | None:
    size = len(phrase)
    return next((at for at in range(len(words) - size + 1) if tuple(words[at : at + size]) == tuple(phrase)), None)
