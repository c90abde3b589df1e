"""Sentences as people type them, split into words: Unicode, casing, punctuation, and positions.

Numbers, times, dates, addresses and abbreviations stay whole (`7:30`, `1,000.50`, `12.03.2027`,
`a.m.`), so that values can be found in them; units and clitics are words of their own (`20 %`,
`7 am`, `texas 's`, `l' heure`). Sentences that are tokenised already can be left as they are.

Polite frames around a request ("could you … please", "hey assistant", "würdest du bitte",
"por favor") carry no meaning of their own, nobody writes them into all training sentences, and
people use them all the time. They are taken off the edges of a sentence, the word "please" wherever
it stands. No other word is: an unknown one may turn the meaning round ("hey don't …").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise, product
from typing import Literal, NamedTuple
from unicodedata import normalize

import regex

Scheme = Literal["words", "spaces"]
Casing = Literal["lower", "keep"]
Punctuation = Literal["drop", "keep"]

# They structure a sentence and name nothing.
PUNCTUATION = frozenset(",;:.!?…¿¡-–—·。、，；：！？؟،؛।")
SPELLINGS = str.maketrans({**dict.fromkeys("’‘ʼ", "'"), **dict.fromkeys("“”„«»", '"')})
# Letters before it are Latin ones, composed.
FIRST_NON_LATIN = "\u02b0"
# Annotations have errors. So large a share of sentences may lose a distinction, of calls have their
# arguments in another order, and of programs have a keyword twice (docs/choices.md).
TOLERATED = 0.01

# Marks of direction, soft hyphens, zero-width spaces.
_FORMAT_CHARACTERS = regex.compile(r"[\p{Cf}--[\u200c\u200d]]+", regex.V1)
# White space as `str.split` has it.
_SPACED = re.compile(r"\S+")
_CLITIC = r"['’](?:[sSmMdD]|re|ll|ve|RE|LL|VE)\b"
# The tokens inside of what stands between spaces.
_SENTENCE_TOKEN = regex.compile(
    rf"""
      # addresses
      [\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}})+ | https?://.*[\w/]
      # a.m., z.B., 2027-03-12, 18h30
    | (?:\p{{L}}\.){{2,}} | \d{{4}}-\d\d-\d\d | \d\d?h\d\d\b
      # -5, 7:30, 1,000.50, 12.03.2027, 21st
    | (?:(?<![\w)])[+-])?\d+(?:[.,:/]\d+)*(?:(?:st|nd|rd|th)\b)?
      # what 's, l' heure
    | {_CLITIC} | (?:[cdjlmnstCDJLMNST]|[qQ]u|[dD]ell|[nN]ell|[aA]ll)['’](?=\p{{L}})
      # scripts that do not separate words
    | [\p{{Han}}\p{{Hiragana}}\p{{Katakana}}]
      # nor these, whose letters carry marks
    | [\p{{L}}&&[\p{{Thai}}\p{{Lao}}\p{{Khmer}}\p{{Myanmar}}]]\p{{M}}*
      # don't, wi-fi
    | [\p{{L}}\p{{M}}_][\w\p{{Cf}}]*(?:(?!{_CLITIC})['’-](?=\p{{L}})[\w\p{{Cf}}]+)*
      # marks, emoji
    | \w | [^\w\p{{Cf}}](?:[\p{{M}}\p{{Emoji_Modifier}}]|\u200d.)*
    """,
    regex.VERBOSE | regex.V1 | regex.DOTALL,
)
# 3. Mai
_ORDINAL = regex.compile(r"\d\d?\.(?=[\s\x1c-\x1f]+\p{L})")


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
        if self.scheme == "spaces" or (
            text.isascii() and text.replace(" ", "").isalpha()
        ):
            return tuple(map(self._cased, text.split()))
        return tuple(token.text for token in self.tokens(text))

    def tokens(self, text: str) -> tuple[Token, ...]:
        """The tokens with their positions.

        `text[tokens[i].start : tokens[j].end]` is how words i to j were written.
        """
        tokens: list[Token] = []
        for chunk in _SPACED.finditer(text):
            word, start = chunk[0], chunk.start()
            is_whole = self.scheme == "spaces" or (
                word.isalpha() and max(word) < FIRST_NON_LATIN
            )
            if is_whole or _ORDINAL.match(text, start):
                tokens.append(Token(self._cased(word), start, chunk.end()))
                continue
            for match in _SENTENCE_TOKEN.finditer(word):
                visible = (
                    _FORMAT_CHARACTERS.sub("", match[0].translate(SPELLINGS))
                    or match[0]
                )
                cased = self._cased(normalize("NFC", visible))
                tokens.append(Token(cased, start + match.start(), start + match.end()))
        # A text without anything visible is split at its spaces.
        if not tokens:
            tokens = [
                Token(chunk[0], *chunk.span()) for chunk in _SPACED.finditer(text)
            ]
        return self._without_marks(tokens)

    def reduced(self, tokens: Sequence[Token]) -> tuple[Token, ...]:
        """The tokens of this tokenizer, given those of one that keeps casing and punctuation.

        The two have the same scheme.
        """
        if self.casing == "lower":
            tokens = [Token(text.lower(), start, end) for text, start, end in tokens]
        return self._without_marks(tokens)

    def _without_marks(self, tokens: Sequence[Token]) -> tuple[Token, ...]:
        """The tokens but for punctuation, if it is dropped and anything else is left."""
        if self.punctuation == "keep":
            return tuple(tokens)
        return tuple(
            [token for token in tokens if token.text not in PUNCTUATION] or tokens
        )

    def _cased(self, text: str) -> str:
        if self.casing == "lower":
            return text.lower()
        return text


AS_IS = SentenceTokenizer("spaces", "keep", "keep")
EVERYTHING = SentenceTokenizer("words", "keep", "keep")


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

        >>> sentence = TokenizedSentence("Play Jude!", SentenceTokenizer().tokens("Play Jude!"))
        >>> sentence.words_as_written
        ('Play', 'Jude')
        """
        return tuple(self.raw[token.start : token.end] for token in self.tokens)

    def with_words(self, words: Mapping[int, str]) -> TokenizedSentence:
        """The same sentence with other words at some positions.

        >>> sentence = TokenizedSentence("Ply Jude!", SentenceTokenizer().tokens("Ply Jude!"))
        >>> corrected = sentence.with_words({0: "play"})
        >>> corrected.raw, corrected.words, corrected.as_written(1, 2)
        ('play Jude!', ('play', 'jude'), 'Jude')
        """
        raw, tokens, shift = self.raw, list[Token](), 0
        for position, (text, start, end) in enumerate(self.tokens):
            start, end = start + shift, end + shift
            if position in words:
                text = words[position]
                raw = raw[:start] + text + raw[end:]
                shift += start + len(text) - end
                end = start + len(text)
            tokens.append(Token(text, start, end))
        return TokenizedSentence(raw, tuple(tokens))

    def as_written(self, start: int, end: int) -> str:
        """The words from `start` to `end` as the sentence has them.

        >>> raw = "Play Hey,  Jude!"
        >>> TokenizedSentence(raw, SentenceTokenizer().tokens(raw)).as_written(1, 3)
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


TokenizedSentences = list[tuple[Token, ...]]


def fit_and_tokenize(
    sentences: Sequence[str],
    meanings: Sequence[Hashable],
    scheme: Scheme | None = None,
    casing: Casing | None = None,
    punctuation: Punctuation | None = None,
) -> tuple[SentenceTokenizer, TokenizedSentences]:
    """The tokenizer for sentences with these meanings, and their tokens.

    What is not chosen is detected. Sentences that are tokenised already are left as they are.
    Others lose casing and punctuation, unless training sentences that differ in nothing else have
    different meanings.

    >>> fit_and_tokenize(["Turn on the lamp.", "turn off the lamp"], ["on", "off"])[0]
    SentenceTokenizer(scheme='words', casing='lower', punctuation='drop')
    >>> fit_and_tokenize(["lamp on?", "Lamp on!"], ["is_on", "turn_on"])[0]
    SentenceTokenizer(scheme='words', casing='lower', punctuation='keep')
    """
    tokens: TokenizedSentences = []
    # Most datasets have nothing but words. Whatever comes before the first other sentence need not
    # be tokenised again.
    bare = SentenceTokenizer("words", casing or "lower", punctuation or "drop")
    if scheme != "spaces":
        for sentence in sentences:
            tokens.append(EVERYTHING.tokens(sentence))
            if [token.text for token in bare.reduced(tokens[-1])] != sentence.split():
                break
        else:
            return bare, list(map(bare.reduced, tokens))
    if (scheme or detected_scheme(sentences)) == "spaces":
        tokenizer = SentenceTokenizer("spaces", casing or "keep", punctuation or "keep")
        return tokenizer, list(map(tokenizer.tokens, sentences))
    tokens += map(EVERYTHING.tokens, sentences[len(tokens) :])
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
    """Spaces where marks stand apart from words, as in `Emma was helped .`; else words."""
    counts = Counter(chain.from_iterable(sentence.split() for sentence in sentences))
    apart = glued = 0
    for token, times in counts.items():
        inside = EVERYTHING.tokenize(token)
        if PUNCTUATION.issuperset(inside):
            apart += times
        elif inside[0] in PUNCTUATION or inside[-1] in PUNCTUATION:
            glued += times
    if apart and glued <= TOLERATED * apart:
        return "spaces"
    return "words"


def _distinguishes(
    tokens: TokenizedSentences,
    meanings: Sequence[Hashable],
    rich: SentenceTokenizer,
    poor: SentenceTokenizer,
) -> bool:
    """Whether many sentences that only the rich tokenizer tells apart have different meanings."""
    # By the words of the poor tokenizer, the meanings of each sequence of the rich one's words.
    forms: dict[tuple[str, ...], dict[tuple[str, ...], set[Hashable]]] = {}
    for sentence, meaning in zip(tokens, meanings):
        poor_words = tuple(token.text for token in poor.reduced(sentence))
        rich_words = tuple(token.text for token in rich.reduced(sentence))
        forms.setdefault(poor_words, {}).setdefault(rich_words, set()).add(meaning)
    lost = 0
    for rich_forms in forms.values():
        if len(set(map(frozenset, rich_forms.values()))) > 1:
            lost += len(rich_forms)
    return lost > TOLERATED * len(tokens)


OPENINGS = {
    "en": (
        "could you, can you, would you, will you, i would like you to, i'd like you to,"
        "i want you to, i need you to,"
        "would you be so kind as to, be so kind as to, do me a favor and, go ahead and, kindly,"
        "hello, hi, hey, ok, okay"
    ),
    "de": (
        "kannst du, könntest du, würdest du, können sie, könnten sie, würden sie, magst du,"
        "ich möchte dass du,"
        "ich hätte gern dass du, sei so lieb und, sei so gut und, hallo, hi, hey, ok, okay"
    ),
    "es": (
        "puedes, podrías, podrias, puede, podría, podria, me puedes, me podrías, quiero que,"
        "hola, oye, ok"
    ),
    "fr": (
        "peux-tu, pourrais-tu, tu peux, pouvez-vous, pourriez-vous, est-ce que tu peux,"
        "je voudrais que tu,"
        "bonjour, salut"
    ),
}
CLOSINGS = {
    "en": (
        "thanks, thank you, thank you very much, thanks a lot, many thanks,"
        "will you, would you, can you, could you"
    ),
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
# After a greeting, an assistant may be named.
GREETINGS = ("hello", "hi", "hey", "ok", "okay", "hallo", "hola", "oye")
ASSISTANTS = (
    "alexa",
    "assistant",
    "bixby",
    "cortana",
    "google",
    "jarvis",
    "mycroft",
    "siri",
)

# Phrases by their first words, long ones first.
Phrases = dict[str, list[list[str]]]


def _by_first_word(phrases: Iterable[list[str]]) -> Phrases:
    table: Phrases = {}
    for phrase in sorted(phrases, key=len, reverse=True):
        table.setdefault(phrase[0], []).append(phrase)
    return table


@cache
def _phrases() -> tuple[Phrases, Phrases, Phrases]:
    """Openings, closings from right to left, and phrases that stand anywhere."""

    def tokenized(lists: Iterable[str]) -> list[list[str]]:
        tokenizer = SentenceTokenizer()
        return [
            list(tokenizer.tokenize(phrase)) for phrase in ",".join(lists).split(",")
        ]

    calls = [f"{greeting} {name}" for greeting, name in product(GREETINGS, ASSISTANTS)]
    return (
        _by_first_word(tokenized([*OPENINGS.values(), *calls])),
        _by_first_word(phrase[::-1] for phrase in tokenized(CLOSINGS.values())),
        _by_first_word(tokenized(ANYWHERE_POLITE.values())),
    )


def _phrase_length(words: list[str], phrases: Phrases) -> int:
    """The length of the longest phrase that `words` begin with, or 0."""
    if words:
        for phrase in phrases.get(words[0], ()):
            if words[: len(phrase)] == phrase:
                return len(phrase)
    return 0


def strip_politeness(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens without polite frames; all of them where nothing would be left.

    >>> tokens = SentenceTokenizer().tokens("Hey Jarvis, could you please dim the lights, thanks!")
    >>> [token.text for token in strip_politeness(tokens)]
    ['dim', 'the', 'lights']
    """
    openings, closings, anywhere = _phrases()
    left, words = list(tokens), [token.text.lower() for token in tokens]
    # Remove phrases that stand anywhere; most sentences have none.
    if not anywhere.keys().isdisjoint(words):
        at = 0
        while at < len(words):
            size = _phrase_length(words[at:], anywhere)
            del left[at : at + size], words[at : at + size]
            if not size:
                at += 1
    # Remove openings and closings until none is left.
    while words:
        begin = _phrase_length(words, openings)
        end = len(words) - _phrase_length(words[begin:][::-1], closings)
        if end - begin == len(words):
            break
        left, words = left[begin:end], words[begin:end]
    return tuple(left or tokens)


# English verbs, and how they are spelled behind a pronoun. After a name, 's marks a possessive.
CONTRACTIONS = {
    "is": "'s",
    "are": "'re",
    "am": "'m",
    "will": "'ll",
    "have": "'ve",
    "would": "'d",
}
OTHER_SPELLINGS = {
    **CONTRACTIONS,
    **{clitic: verb for verb, clitic in CONTRACTIONS.items()},
}
PRONOUNS = frozenset(
    (
        *("what", "where", "who", "when", "how", "why", "which", "there", "here"),
        *("that", "it", "he", "she", "i", "you", "we", "they"),
    )
)


def with_other_contractions(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens with verbs in their other spelling, where they follow a pronoun.

    >>> tokens = SentenceTokenizer().tokens("Where's Anna's bag? I will get it.")
    >>> " ".join(token.text for token in with_other_contractions(tokens))
    "where is anna 's bag i 'll get it"
    """
    spelled = list(tokens)
    for number, (before, token) in enumerate(pairwise(tokens), start=1):
        other = OTHER_SPELLINGS.get(token.text.lower())
        if other and before.text.lower() in PRONOUNS:
            spelled[number] = token._replace(text=other)
    return tuple(spelled)
