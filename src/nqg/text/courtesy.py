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

Phrases = dict[str, list[tuple[str, ...]]]  # long ones first, by a word that they have


@cache
def _phrases() -> tuple[Phrases, Phrases, Phrases]:
    """Openings by their first word, closings by their last, and those that stand anywhere by their first."""
    tokenizer = SentenceTokenizer()

    def phrases(lists: Iterable[str], place: int) -> Phrases:
        found: Phrases = {}
        cut = {tokenizer.tokenize(phrase) for each in lists for phrase in each.split(",")}
        for phrase in sorted(cut, key=lambda phrase: (-len(phrase), phrase)):
            found.setdefault(phrase[place], []).append(phrase)
        return found

    return phrases(OPENINGS.values(), 0), phrases(CLOSINGS.values(), -1), phrases(ANYWHERE.values(), 0)


def without_courtesy(tokens: Sequence[Token], known: Collection[str] = ()) -> tuple[Token, ...]:
    """The tokens without polite frames; all of them where nothing would be left.

    A word after a call is a name if it is not `known`, that is if no training sentence has it.

    >>> tokens = SentenceTokenizer().tokens("Hey Jarvis, could you please dim the lights, thanks!")
    >>> [token.text for token in without_courtesy(tokens, {"dim"})]
    ['dim', 'the', 'lights']
    """
    openings, closings, anywhere = _phrases()
    left, words = list(tokens), [token.text.lower() for token in tokens]
    at = 0 if not anywhere.keys().isdisjoint(words) else len(words)
    while at < len(words):
        size = next((len(each) for each in anywhere.get(words[at], ()) if tuple(words[at : at + len(each)]) == each), 0)
        del left[at : at + size], words[at : at + size]
        at += not size
    is_changed = True
    while is_changed and words:
        begin = next((len(each) for each in openings.get(words[0], ()) if tuple(words[: len(each)]) == each), 0)
        if begin == 1 and words[0] in CALLS and known and len(words) > 2 and words[1] not in known:
            begin = 2
        end = next((len(each) for each in closings.get(words[-1], ()) if tuple(words[begin:][-len(each) :]) == each), 0)
        left, words = left[begin : len(left) - end], words[begin : len(words) - end]
        is_changed = bool(begin or end)
    return tuple(left if 0 < len(left) < len(tokens) else tokens)
