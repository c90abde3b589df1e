"""Programs of a language that nobody described, read as trees.

A term is a word in a form, over its arguments. The forms are those that most languages share:

    loc_2 ( m0 )   intersection ( a , b )   ( and a b )    a word before its arguments, or inside their brackets
    time = noon    " k " : v    :start x                   a keyword and its value
    dim ( lamp , room = hall , percent = 40 )              any number of keywords behind other arguments
    [ a , b ]      { a , b }    a ; b    a AND b    a . b  lists and operators, which have no word
    { ?x wrote m0 . ?x a person }                          statements, whose parts stand side by side
    noon           " new york " * cat    LAMBDA x          words, quoted ones, and words that are set before terms

Which words are set before terms, and which take any number of arguments, is learned from all programs together
(`nqg.types.inference` asks for a `ProgramReader`). What cannot be read so has no tree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

from nqg.text.brackets import BRACKETS

Symbol = TypeVar("Symbol")
Word = tuple[str, ...]  # its tokens; empty where a form needs none
ANY = -1  # the arity of a form with any number of arguments

CLOSING_BRACKETS = frozenset(BRACKETS.values())
QUOTE_TOKENS = {'"': '"', "'": "'", "`": "`", "``": "''"}
# From the loosest to the tightest. A word of this list is an operator only between two terms.
OPERATORS = (
    (";",),
    (",",),
    ("|", "||", "or", "OR"),
    ("&", "&&", "and", "AND"),
    ("->", "=>"),
    ("=", ":", ":=", "==", "!=", "<>", "<", ">", "<=", ">=", "~"),
    ("+", "-"),
    ("*", "/", "%"),
    (".",),
)
INFIX = {operator: level for level, operators in enumerate(OPERATORS) for operator in operators}
LISTS = frozenset(
    (*";,|&+*", "||", "or", "OR", "&&", "and", "AND")
)  # a AND b AND c is one list of three
KEYWORDS = frozenset(("=", ":", ":=", "=>"))
STATEMENT_ENDS = (".", ";")


class Form(NamedTuple):
    """How a term is written: prefix, word, opening, the arguments with a separator between them, closing."""

    prefix: Word = ()
    opening: Word = ()
    arity: int = 0
    separator: str = ""
    closing: Word = ()
    has_keywords: bool = (
        False  # behind other arguments: the last argument stands for any number of them
    )

    @property
    def is_keyword(self) -> bool:
        return (
            self.arity == 1 and not self.prefix and not self.closing and self.opening[:1] != ("(",)
        )

    @property
    def variadic(self) -> Form:
        """The form with any number of arguments."""
        return self._replace(arity=ANY, has_keywords=False)

    @property
    def is_phrase(self) -> bool:
        """Whether terms stand side by side, without a word that takes them."""
        return self.opening == ("",)

    def spelled(
        self, word: Iterable[Symbol | str], inside: Iterable[Symbol | str]
    ) -> list[Symbol | str]:
        return [*self.prefix, *word, *filter(None, self.opening), *inside, *self.closing]


BARE = Form()
PHRASE = Form(opening=("",))  # terms side by side, as yet without a word: `* cat`, `new york`


class Term(NamedTuple):
    form: Form
    word: Word = ()
    arguments: tuple[Term, ...] = ()

    def tokens(self) -> Iterator[str]:
        """What was read."""
        waiting: list[Term | str] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                yield item
                continue
            form, inside = item.form, list[Term | str]()
            for argument in item.arguments:
                inside += [form.separator, argument] if inside and form.separator else [argument]
            waiting += reversed(form.spelled(item.word, inside))

    @property
    def is_word(self) -> bool:
        return self.form is BARE

    @property
    def is_sequence(self) -> bool:
        """Whether it is nothing but words side by side, or a single one."""
        return self.is_word or (
            self.form is PHRASE and all(argument.is_word for argument in self.arguments)
        )

    def keyword(self) -> Word:
        """The tokens of a term that can be a keyword: a word, a quoted one, several, or several with points between."""
        is_name = self.is_word or (self.form.prefix and not self.form.arity and self.word)
        is_compound = self.form is PHRASE or self.form.separator == "."
        if is_name or (is_compound and all(argument.is_word for argument in self.arguments)):
            return tuple(self.tokens())
        return ()


Item = Term | str  # of a group that is not closed yet; a token may still become an operator


class Group(NamedTuple):
    """Brackets that are open, the word before them, and what was read since."""

    bracket: str
    word: Word
    items: list[Item]


def read_term(tokens: Sequence[str]) -> Term | None:
    """The tree of a program, in which phrases are left as they are; None where brackets or quotes do not match.

    >>> term = read_term("set_alarm ( time = 7 am )".split())
    >>> term.word, term.arguments[0].word, " ".join(term.tokens())
    (('set_alarm',), ('time',), 'set_alarm ( time = 7 am )')
    """
    words_inside = _is_s_expression(tokens)
    path, at = [Group("", (), [])], 0
    while at < len(tokens):
        token, items = tokens[at], path[-1].items
        if token in QUOTE_TOKENS:
            end = next(
                (end for end in range(at + 1, len(tokens)) if tokens[end] == QUOTE_TOKENS[token]),
                None,
            )
            if end is None:
                return None
            items.append(
                Term(Form(prefix=(token,), closing=(tokens[end],)), tuple(tokens[at + 1 : end]))
            )
            at = end
        elif token in BRACKETS:
            is_applied = token == "(" and not words_inside and _ends_with_word(items)
            path.append(Group(token, (str(items.pop()),) if is_applied else (), []))
        elif token[0] in BRACKETS and not CLOSING_BRACKETS & set(
            token
        ):  # `[IN:GET_WEATHER` opens, and is a word
            path.append(Group(token[0], (token,), []))
        elif token in CLOSING_BRACKETS:
            group = path.pop()
            term = (
                _closed(group, words_inside=words_inside)
                if path and BRACKETS[group.bracket] == token
                else None
            )
            if term is None:
                return None
            path[-1].items.append(term)
        else:
            items.append(token)
        at += 1
    return _operation(path[0].items, 0) if len(path) == 1 else None


def _ends_with_word(items: Sequence[Item]) -> bool:
    """Whether the last item is a token, and not an operator with a term before it."""
    if not items or not isinstance(items[-1], str):
        return False
    before = items[-2] if len(items) > 1 else ";"
    return items[-1] not in INFIX or (
        items[-1].isalpha() and isinstance(before, str) and before in INFIX
    )


def _is_s_expression(tokens: Sequence[str]) -> bool:
    """Whether one pair of brackets holds the whole program, with a word first: brackets then hold their own words."""
    if len(tokens) < 3 or tokens[0] != "(" or tokens[1] in BRACKETS or tokens[2] in INFIX:
        return False
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return at == len(tokens) - 1
    return False


def _closed(group: Group, *, words_inside: bool) -> Term | None:
    """The term of a group whose closing bracket has come."""
    bracket, word, items = group
    closing = (BRACKETS[bracket],)
    if word and word[0][0] in BRACKETS:  # `[IN:GET_WEATHER what is [SL:LOCATION here ] ]`
        return _headed(Form(closing=closing), word, items)
    form = Form(() if word else (bracket,), (bracket,) if word else (), closing=closing)
    if not items:
        return Term(form, word)
    if bracket == "{" and not word and (statements := _statements(form, items)):
        return statements
    if not word and isinstance(items[0], str) and len(items) > 1:
        has_operators = "," in items or (isinstance(items[1], str) and items[1] in INFIX)
        if words_inside or not has_operators:
            return _headed(form, (items[0],), items[1:])
    arguments: list[Term] = []
    commas = [at for at, item in enumerate(items) if item == ","]
    for begin, end in pairwise([-1, *commas, len(items)]):
        argument = _operation(items[begin + 1 : end], 2)
        if argument is None:
            return None
        arguments.append(argument)
    if bracket != "(" and not word:
        return Term(form._replace(arity=ANY, separator=","), (), tuple(arguments))
    return _applied(form._replace(separator=","), word, arguments)


def _applied(form: Form, word: Word, arguments: Sequence[Term]) -> Term:
    """A word over as many arguments as there are; of keywords there may be any number, alone or behind the others."""
    first = next((at for at, each in enumerate(arguments) if each.form.is_keyword), len(arguments))
    if first == len(arguments):
        form = form._replace(arity=first)
    elif word and first and all(each.form.is_keyword for each in arguments[first:]):
        form = form._replace(arity=first + 1, has_keywords=True)
    else:
        form = form._replace(arity=ANY)
    return Term(form, word, tuple(arguments))


def _statements(form: Form, items: Sequence[Item]) -> Term | None:
    """Statements in braces, with points or semicolons between them; None where something else stands there."""
    mark = next((str(item) for item in items if item in STATEMENT_ENDS), ".")
    if any(isinstance(item, str) and item in INFIX and item != mark for item in items):
        return None
    if items[-1] == mark:
        form, items = form._replace(closing=(mark, *form.closing)), items[:-1]
    ends = [at for at, item in enumerate(items) if item == mark]
    parts = [
        tuple(map(_word, items[begin + 1 : end]))
        for begin, end in pairwise([-1, *ends, len(items)])
    ]
    if not all(parts) or max(map(len, parts)) < 2:
        return None
    statements = [
        part[0] if len(part) == 1 else Term(PHRASE._replace(arity=len(part)), (), part)
        for part in parts
    ]
    return Term(form._replace(arity=ANY, separator=mark), (), tuple(statements))


def _headed(form: Form, word: Word, items: Sequence[Item]) -> Term:
    """A word and its arguments side by side inside brackets, where `:start` is a keyword of what follows it."""
    arguments: list[Term] = []
    keyword = ""
    for item in items:
        if isinstance(item, str) and item[0] == ":" and len(item) > 1 and not keyword:
            keyword = item
            continue
        term = _word(item)
        arguments.append(Term(Form(arity=1), (keyword,), (term,)) if keyword else term)
        keyword = ""
    if keyword:
        arguments.append(Term(BARE, (keyword,)))
    return _applied(form, word, arguments)


def _word(item: Item) -> Term:
    return Term(BARE, (item,)) if isinstance(item, str) else item


def _operation(items: Sequence[Item], level: int) -> Term | None:
    """The term of items without brackets around them: operators from the loosest on, then terms side by side."""
    if not items:
        return None
    if len(items) == 1:
        return _word(items[0])
    places: dict[int, list[int]] = defaultdict(
        list
    )  # of the operators of each level that have terms on both sides
    for at, item in enumerate(items[1:-1], start=1):
        if (
            isinstance(item, str)
            and (own := INFIX.get(item, -1)) >= level
            and at - 1 not in places.get(own, ())
        ):
            places[own].append(at)
    if not places:
        return Term(PHRASE, (), tuple(map(_word, items)))
    level = min(places)
    cuts = places[level]
    operands: list[Term] = []
    for begin, end in pairwise([-1, *cuts, len(items)]):
        operand = _operation(items[begin + 1 : end], level + 1)
        if operand is None:
            return None
        operands.append(operand)
    names = [str(items[at]) for at in cuts]
    if len(set(names)) == 1 and (names[0] in LISTS or names[0] == "."):
        arity = ANY if names[0] in LISTS else len(operands)
        return Term(Form(arity=arity, separator=names[0]), (), tuple(operands))
    if len(names) == 1 and names[0] in KEYWORDS and (keyword := operands[0].keyword()):
        return Term(Form(opening=(names[0],), arity=1), keyword, (operands[1],))
    left = operands[0]
    for name, operand in zip(names, operands[1:], strict=True):
        left = Term(Form(arity=2, separator=name), (), (left, operand))
    return left


@dataclass(frozen=True, slots=True)
class ProgramReader:
    """What all programs together say of words: which are set before terms, and which take any number of arguments."""

    prefixes: dict[str, int]  # the number of terms behind each word that is set before terms
    variadic: frozenset[tuple[Form, Word]]  # the forms have the arity ANY

    @classmethod
    def of(cls, terms: Iterable[Term]) -> ProgramReader:
        """Learned from the trees of programs."""
        terms = list(terms)
        plain = cls(_prefixes(terms), frozenset())
        arities: dict[tuple[Form, Word], set[int]] = defaultdict(set)
        fillers: dict[tuple[Form, Word, int], set[tuple[Form, Word]]] = defaultdict(set)
        for node in _nodes(terms):
            form, word, arguments = plain.resolved(node) or node
            if not word or form.arity <= 0:
                continue
            arities[form.variadic, word].add(form.arity)
            for place, argument in enumerate(arguments):
                fillers[form.variadic, word, place].add((argument.form, argument.word))

        def is_variadic(form: Form, word: Word) -> bool:
            """Whether the arguments behind the first are of the same kind as the first."""
            sets = [fillers[form, word, place] for place in range(max(arities[form, word]))]
            return all(
                2 * len(sets[0] & other) >= min(len(sets[0]), len(other)) for other in sets[1:]
            )

        several = [key for key, numbers in arities.items() if len(numbers) > 1]
        return cls(
            plain.prefixes,
            frozenset(key for key in several if len(arities[key]) > 2 or is_variadic(*key)),
        )

    def resolved(self, term: Term, *, is_inside: bool = True) -> Term | None:
        """`term` with a form of its own if it is a phrase; None for a phrase that no word leads.

        Inside brackets or behind a keyword, several words are one: `city = new york`.
        """
        form, word, arguments = term
        if form is PHRASE:
            first, behind = arguments[0], arguments[1:]
            if first.is_word and self.prefixes.get(first.word[0]) == len(behind):
                form, word, arguments = Form(arity=len(behind)), first.word, behind
            elif is_inside and all(argument.is_word for argument in arguments):
                return Term(BARE, tuple(argument.word[0] for argument in arguments))
            else:
                return None
        if form.arity > 0 and word and (form.variadic, word) in self.variadic:
            form = form.variadic
        return Term(form, word, arguments)


def _nodes(terms: Iterable[Term]) -> Iterator[Term]:
    waiting = list(terms)
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.arguments)


def _prefixes(terms: Iterable[Term]) -> dict[str, int]:
    """Words that begin phrases of one length only: with a term that is not a word, or in three ways at least."""
    behind: dict[str, set[Word]] = defaultdict(set)
    numbers: dict[str, set[int]] = defaultdict(set)
    for node in _nodes(terms):
        if node.form is PHRASE and node.arguments[0].is_word:
            word = node.arguments[0].word[0]
            numbers[word].add(len(node.arguments) - 1)
            behind[word].add(
                tuple(
                    argument.word[0] if argument.is_word else "" for argument in node.arguments[1:]
                )
            )
    return {
        word: min(lengths)
        for word, lengths in sorted(numbers.items())
        if len(lengths) == 1
        and (len(behind[word]) > 2 or any("" in words for words in behind[word]))
    }
