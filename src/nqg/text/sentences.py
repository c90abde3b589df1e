"""Sentences as people type them, split into words: Unicode, casing, punctuation, and where each word stands.

Numbers, times, dates, addresses and abbreviations stay whole (`7:30`, `1,000.50`, `12.03.2027`, `a.m.`), so that values
can be found in them; units and clitics are words of their own (`20 %`, `7 am`, `texas 's`, `l' heure`). Sentences that
are tokenised already can be left as they are.

Polite frames around a request ("could you … please", "hey assistant", "würdest du bitte", "por favor") carry no meaning
of their own, nobody writes them into all training sentences, and people use them all the time. They are taken off the
edges of a sentence, the word "please" wherever it stands. No other word is: an unknown one may turn the meaning round
("hey don't …").
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple
from unicodedata import normalize

import regex

Scheme = Literal["words", "spaces"]
Casing = Literal["lower", "keep"]
Punctuation = Literal["drop", "keep"]

MARKS = frozenset(",;:.!?…¿¡-–—·。、，；：！？؟،؛।")  # which structure a sentence and name nothing
SPELLINGS = str.maketrans({**dict.fromkeys("’‘ʼ", "'"), **dict.fromkeys("“”„«»", '"')})
FIRST_NON_LATIN = "\u02b0"  # letters before it are Latin ones, composed
TOLERATED = 0.01  # of sentences that may lose a distinction: annotations have errors

# Marks of direction, soft hyphens, zero-width spaces.
_INVISIBLE = regex.compile(r"[\p{Cf}--[\u200c\u200d]]+", regex.V1)
_SPACED = re.compile(r"\S+")  # as `str.split` has it
_CLITIC = r"['’](?:[sSmMdD]|re|ll|ve|RE|LL|VE)\b"
_SENTENCE_TOKEN = regex.compile(  # inside of what stands between spaces
    rf"""
      [\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}})+ | https?://.*[\w/]                        # addresses
    | (?:\p{{L}}\.){{2,}} | \d{{4}}-\d\d-\d\d | \d\d?h\d\d\b                 # a.m., z.B., 2027-03-12, 18h30
    | (?:(?<![\w)])[+-])?\d+(?:[.,:/]\d+)*(?:(?:st|nd|rd|th)\b)?            # -5, 7:30, 1,000.50, 12.03.2027, 21st
    | {_CLITIC} | (?:[cdjlmnstCDJLMNST]|[qQ]u|[dD]ell|[nN]ell|[aA]ll)['’](?=\p{{L}})  # what 's, l' heure
    | [\p{{Han}}\p{{Hiragana}}\p{{Katakana}}]                               # scripts that do not separate words
    | [\p{{L}}&&[\p{{Thai}}\p{{Lao}}\p{{Khmer}}\p{{Myanmar}}]]\p{{M}}*        # nor these, whose letters carry marks
    | [\p{{L}}\p{{M}}_][\w\p{{Cf}}]*(?:(?!{_CLITIC})['’-](?=\p{{L}})[\w\p{{Cf}}]+)*  # don't, wi-fi
    | \w | [^\w\p{{Cf}}](?:[\p{{M}}\p{{Emoji_Modifier}}]|\u200d.)*          # marks, emoji
    """,
    regex.VERBOSE | regex.V1 | regex.DOTALL,
)
_ORDINAL = regex.compile(r"\d\d?\.")  # 3. Mai


class Token(NamedTuple):
    """A word as the parser knows it, and where it stands in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SentenceTokenizer:
    """How sentences are split into tokens.

    >>> SentenceTokenizer().tokenize("Könntest du um 7:30 Uhr das Licht auf 20% dimmen?")
    ('könntest', 'du', 'um', '7:30', 'uhr', 'das', 'licht', 'auf', '20', '%', 'dimmen')
    >>> SentenceTokenizer("spaces", "keep", "keep").tokenize("A rose was helped .")
    ('A', 'rose', 'was', 'helped', '.')
    """

    scheme: Scheme = "words"
    casing: Casing = "lower"
    punctuation: Punctuation = "drop"

    def tokenize(self, text: str) -> tuple[str, ...]:
        if self.scheme == "spaces" or (text.isascii() and text.replace(" ", "").isalpha()):
            return tuple(map(self._cased, text.split()))
        return tuple(token.text for token in self.tokens(text))

    def tokens(self, text: str) -> tuple[Token, ...]:
        """The tokens with their places: `text[tokens[i].start : tokens[j].end]` is how words i to j were written."""
        chunks, found, end = text.split(), list[Token](), 0
        for chunk, after in zip(
            chunks, (*chunks[1:], ""), strict=False
        ):  # one more where there is no chunk
            start = text.index(chunk, end)
            end = start + len(chunk)
            if self.scheme == "spaces" or (chunk.isalpha() and max(chunk) < FIRST_NON_LATIN):
                found.append(Token(self._cased(chunk), start, end))
            else:
                found += self._words(chunk, start, after)
        if not found and chunks:  # nothing visible
            return tuple(
                Token(each[0], each.start(), each.end()) for each in _SPACED.finditer(text)
            )
        if self.punctuation == "keep":
            return tuple(found)
        return tuple([token for token in found if token.text not in MARKS] or found)

    def reduced(self, tokens: Sequence[Token]) -> tuple[Token, ...]:
        """The tokens of this tokenizer, given those of one with the same scheme that keeps casing and punctuation."""
        if self.casing == "lower":
            tokens = [Token(text.lower(), start, end) for text, start, end in tokens]
        if self.punctuation == "drop":
            tokens = [token for token in tokens if token.text not in MARKS] or tokens
        return tuple(tokens)

    def _words(self, chunk: str, start: int, after: str) -> Iterator[Token]:
        if _ORDINAL.fullmatch(chunk) and after[:1].isalpha():
            yield Token(chunk, start, start + len(chunk))
            return
        for each in _SENTENCE_TOKEN.finditer(chunk):
            text = _INVISIBLE.sub("", each[0].translate(SPELLINGS)) or each[0]
            yield Token(
                self._cased(normalize("NFC", text)), start + each.start(), start + each.end()
            )

    def _cased(self, text: str) -> str:
        return text.lower() if self.casing == "lower" else text


AS_IS = SentenceTokenizer("spaces", "keep", "keep")


class TokenizedSentence(NamedTuple):
    """A sentence as it was written, and its tokens."""

    raw: str
    tokens: tuple[Token, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.tokens)

    @property
    def words_as_written(self) -> tuple[str, ...]:
        """The words in their own casing.

        >>> TokenizedSentence("Play Jude!", SentenceTokenizer().tokens("Play Jude!")).words_as_written
        ('Play', 'Jude')
        """
        return tuple(self.raw[token.start : token.end] for token in self.tokens)

    def with_words(self, words: Mapping[int, str]) -> TokenizedSentence:
        """The same sentence with other words at some places.

        >>> sentence = TokenizedSentence("Ply Jude!", SentenceTokenizer().tokens("Ply Jude!")).with_words({0: "play"})
        >>> sentence.raw, sentence.words, sentence.as_written(1, 2)
        ('play Jude!', ('play', 'jude'), 'Jude')
        """
        raw, tokens, longer = self.raw, list[Token](), 0
        for place, (text, start, end) in enumerate(self.tokens):
            start, end = start + longer, end + longer
            if place in words:
                text, raw = words[place], raw[:start] + words[place] + raw[end:]
                longer, end = longer + len(text) - (end - start), start + len(text)
            tokens.append(Token(text, start, end))
        return TokenizedSentence(raw, tuple(tokens))

    def as_written(self, start: int, end: int) -> str:
        """The words from `start` to `end` as the sentence has them.

        >>> TokenizedSentence("Play Hey,  Jude!", SentenceTokenizer().tokens("Play Hey,  Jude!")).as_written(1, 3)
        'Hey,  Jude'
        """
        if start >= end:
            return ""
        return self.raw[self.tokens[start].start : self.tokens[end - 1].end]

    @classmethod
    def of(cls, words: Sequence[str]) -> TokenizedSentence:
        """Words as if they were written with single spaces between them."""
        raw = " ".join(words)
        return cls(raw, AS_IS.tokens(raw))


def fit_sentences(
    pairs: Sequence[tuple[str, Hashable]],
    scheme: Scheme | None = None,
    casing: Casing | None = None,
    punctuation: Punctuation | None = None,
) -> SentenceTokenizer:
    """The tokenizer for sentences with these meanings; what is not chosen is detected.

    Sentences that are tokenised already are left as they are. Others lose casing and punctuation, unless training
    sentences that differ in nothing else have different meanings.

    >>> fit_sentences([("Turn on the lamp.", "on"), ("turn off the lamp", "off")])
    SentenceTokenizer(scheme='words', casing='lower', punctuation='drop')
    >>> fit_sentences([("lamp on?", "is_on"), ("Lamp on!", "turn_on")])
    SentenceTokenizer(scheme='words', casing='lower', punctuation='keep')
    """
    sentences, meanings = [sentence for sentence, _ in pairs], [meaning for _, meaning in pairs]
    return fit_and_tokenize(sentences, meanings, scheme, casing, punctuation)[0]


TokenizedSentences = list[tuple[Token, ...]]


def fit_and_tokenize(
    sentences: Sequence[str],
    meanings: Sequence[Hashable],
    scheme: Scheme | None = None,
    casing: Casing | None = None,
    punctuation: Punctuation | None = None,
) -> tuple[SentenceTokenizer, TokenizedSentences]:
    """`fit_sentences`, and the tokens of the sentences, each of which is tokenised once."""
    rich = SentenceTokenizer("words", "keep", "keep")
    tokens: TokenizedSentences = []
    # Sentences that are nothing but words may be followed by others that are not so bare.
    bare = SentenceTokenizer("words", casing or "lower", punctuation or "drop")
    if scheme != "spaces":
        are_bare = True
        for sentence in sentences:
            tokens.append(rich.tokens(sentence))
            are_bare = [token.text for token in bare.reduced(tokens[-1])] == sentence.split()
            if not are_bare:
                break
        if are_bare:
            return bare, list(map(bare.reduced, tokens))
    if (scheme or detected_scheme(sentences)) == "spaces":
        tokenizer = SentenceTokenizer("spaces", casing or "keep", punctuation or "keep")
        return tokenizer, list(map(tokenizer.tokens, sentences))
    tokens += map(rich.tokens, sentences[len(tokens) :])
    tokenizer = SentenceTokenizer("words", casing or "keep", punctuation or "keep")
    if casing is None:
        lowered = replace(tokenizer, casing="lower")
        if not _distinguishes(tokens, meanings, tokenizer, lowered):
            tokenizer = lowered
    if punctuation is None:
        unmarked = replace(tokenizer, punctuation="drop")
        if not _distinguishes(tokens, meanings, tokenizer, unmarked):
            tokenizer = unmarked
    return tokenizer, list(map(tokenizer.reduced, tokens))


def detected_scheme(sentences: Iterable[str]) -> Scheme:
    """Spaces where marks stand apart from words, as in `A rose was helped by a dog .`; words otherwise."""
    words = SentenceTokenizer("words", "keep", "keep")
    apart = glued = 0
    for token, times in Counter(
        token for sentence in sentences for token in sentence.split()
    ).items():
        inside = words.tokenize(token)
        if all(each in MARKS for each in inside):
            apart += times
        elif inside[0] in MARKS or inside[-1] in MARKS:
            glued += times
    return "spaces" if apart and glued <= TOLERATED * apart else "words"


def _distinguishes(
    tokens: TokenizedSentences,
    meanings: Sequence[Hashable],
    rich: SentenceTokenizer,
    poor: SentenceTokenizer,
) -> bool:
    """Whether sentences that only the rich tokenizer tells apart have different meanings, in more than a few cases."""
    forms: dict[tuple[str, ...], dict[tuple[str, ...], set[Hashable]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for sentence, meaning in zip(tokens, meanings, strict=True):
        poor_words = tuple(token.text for token in poor.reduced(sentence))
        rich_words = tuple(token.text for token in rich.reduced(sentence))
        forms[poor_words][rich_words].add(meaning)
    lost = 0
    for rich_forms in forms.values():
        if len(set(map(frozenset, rich_forms.values()))) > 1:
            lost += len(rich_forms)
    return lost > TOLERATED * len(tokens)


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
ANYWHERE_POLITE = {
    "en": "please",
    "de": "bitte",
    "es": "por favor",
    "fr": "s'il te plaît, s'il vous plaît",
}
GREETINGS = (
    "hello",
    "hi",
    "hey",
    "ok",
    "okay",
    "hallo",
    "hola",
    "oye",
)  # after which an assistant may be named
ASSISTANTS = ("alexa", "assistant", "bixby", "cortana", "google", "jarvis", "mycroft", "siri")

Phrases = dict[str, list[tuple[str, ...]]]  # long ones first, by a word that they have


@cache
def _phrases() -> tuple[Phrases, Phrases, Phrases]:
    """Openings by their first word, closings by their last, and those that stand anywhere by their first."""
    tokenizer = SentenceTokenizer()

    def phrases(lists: Iterable[str], place: int) -> Phrases:
        found: Phrases = {}
        tokenized = {tokenizer.tokenize(phrase) for each in lists for phrase in each.split(",")}
        for phrase in sorted(tokenized, key=lambda phrase: (-len(phrase), phrase)):
            found.setdefault(phrase[place], []).append(phrase)
        return found

    calls = [f"{greeting} {name}" for greeting in GREETINGS for name in ASSISTANTS]
    return (
        phrases([*OPENINGS.values(), *calls], 0),
        phrases(CLOSINGS.values(), -1),
        phrases(ANYWHERE_POLITE.values(), 0),
    )


def strip_politeness(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens without polite frames; all of them where nothing would be left.

    >>> tokens = SentenceTokenizer().tokens("Hey Jarvis, could you please dim the lights, thanks!")
    >>> [token.text for token in strip_politeness(tokens)]
    ['dim', 'the', 'lights']
    """
    openings, closings, anywhere = _phrases()
    left, words = list(tokens), [token.text.lower() for token in tokens]
    at = 0 if not anywhere.keys().isdisjoint(words) else len(words)
    while at < len(words):
        size = next(
            (
                len(each)
                for each in anywhere.get(words[at], ())
                if tuple(words[at : at + len(each)]) == each
            ),
            0,
        )
        del left[at : at + size], words[at : at + size]
        at += not size
    is_changed = True
    while is_changed and words:
        begin = next(
            (len(each) for each in openings.get(words[0], ()) if tuple(words[: len(each)]) == each),
            0,
        )
        end = next(
            (
                len(each)
                for each in closings.get(words[-1], ())
                if tuple(words[begin:][-len(each) :]) == each
            ),
            0,
        )
        left, words = left[begin : len(left) - end], words[begin : len(words) - end]
        is_changed = bool(begin or end)
    return tuple(left if 0 < len(left) < len(tokens) else tokens)
