"""A place in the words of a SQL query: what stands there, stepping over it, and complaints that name it."""

from __future__ import annotations

from nqg.data.sql import QUOTES, RESERVED, sql_words
from nqg.errors import FormatError

END = ""


class SqlCursor:
    """The words of a query, read from left to right; keywords are met in any case."""

    def __init__(self, text: str) -> None:
        self.words = sql_words(text)
        # Two ends, because a parser looks one word ahead.
        self.keywords = [*(word.lower() for word in self.words), END, END]
        self.place = 0

    @property
    def following(self) -> str:
        """The word after the next one, in lower case."""
        return self.keywords[self.place + 1]

    def at(self, *keywords: str) -> bool:
        """Whether one of `keywords` stands here."""
        return self.keywords[self.place] in keywords

    def at_value(self) -> bool:
        """Whether a number or a quoted string stands here."""
        word = self.keywords[self.place]
        return word[:1].isdigit() or word.startswith(QUOTES) or (len(word) > 1 and word.startswith("-"))

    def at_name(self) -> bool:
        """Whether an unquoted name stands here."""
        word = self.keywords[self.place]
        return (word[:1].isalnum() or word.startswith("_")) and word not in RESERVED

    def take(self, keyword: str) -> bool:
        """Whether `keyword` stands here; if so, it is stepped over."""
        found = self.keywords[self.place] == keyword
        self.place += found
        return found

    def expect(self, keyword: str) -> None:
        """Step over `keyword`, which must stand here."""
        if not self.take(keyword):
            raise self.complaint(f"'{keyword}'")

    def keyword(self) -> str:
        """The word that stands here, in lower case, stepped over."""
        return self.word().lower()

    def word(self) -> str:
        """The word that stands here, as it is written, stepped over."""
        if self.at(END):
            raise self.complaint("a word")
        self.place += 1
        return self.words[self.place - 1]

    def name(self) -> str:
        """The name, quoted or not, that stands here, stepped over."""
        if self.at_name() or self.keywords[self.place].startswith(QUOTES):
            return self.word()
        raise self.complaint("a name")

    def complaint(self, expected: str) -> FormatError:
        """The error to raise where `expected` should stand here and does not."""
        found = "the end of the query" if self.at(END) else f"'{self.words[self.place]}'"
        before = " ".join(self.words[max(0, self.place - 4) : self.place])
        place = f"after '{before}'" if before else "at the start"
        return FormatError(f"expected {expected} {place}, found {found}")
