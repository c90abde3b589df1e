"""Programs of a language that nobody described, read as trees.

A term is a word in a form, over its arguments. The forms are those that most languages share:

    loc_2 ( m0 )   intersection ( a , b )   ( and a b )    a word before its arguments, or inside
    time = noon    " k " : v    :start x                   a keyword and its value
    dim ( lamp , room = hall , percent = 40 )              any number of keywords behind arguments
    [ a , b ]      { a , b }    a ; b    a AND b    a . b  lists and operators, which have no word
    { ?x wrote m0 . ?x a person }                          statements, of terms side by side
    noon           " new york " * cat    LAMBDA x          words, quoted or set before terms

Which words are set before terms, and which take any number of arguments, is learned from all
programs together (`nqg.types.positions` asks for a `ProgramReader`). What cannot be read so has no
tree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple, TypeVar

from nqg.grammar.grammar import SLOT
from nqg.text.brackets import BRACKETS, CLOSING_BRACKETS

Symbol = TypeVar("Symbol")
# The tokens of a word; none where a form needs no word.
Word = tuple[str, ...]
# The arity of a form with any number of arguments.
ANY = -1

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


def operator_levels(operators: Sequence[Sequence[str]]) -> dict[str, int]:
    """The level of each operator: the higher it is, the tighter the operator binds.

    >>> operator_levels([("or", "|"), ("and",)])
    {'or': 0, '|': 0, 'and': 1}
    """
    levels: dict[str, int] = {}
    for level, equals in enumerate(operators):
        levels |= dict.fromkeys(equals, level)
    return levels


INFIX = operator_levels(OPERATORS)
# a AND b AND c is one list of three.
LISTS = frozenset((*";,|&+*", "||", "or", "OR", "&&", "and", "AND"))
KEYWORD_OPERATORS = frozenset(("=", ":", ":=", "=>"))
STATEMENT_ENDS = (".", ";")


class Form(NamedTuple):
    """How a term is written: prefix, word, opening, arguments with separators, closing.

    Where a form has keywords, its last argument stands for any number of them. A form of the arity
    ANY that has keywords has two arguments: one for any number of terms, and one for keywords,
    which may stand among them.
    """

    prefix: Word = ()
    opening: Word = ()
    arity: int = 0
    separator: str = ""
    closing: Word = ()
    has_keywords: bool = False

    @property
    def is_keyword(self) -> bool:
        if self.arity != 1 or self.prefix or self.closing:
            return False
        return self.opening[:1] != ("(",)

    @property
    def places(self) -> int:
        """How many arguments have a place of their own; one where there may be any number."""
        if self.arity == ANY:
            return 1
        return self.arity - self.has_keywords

    @property
    def variadic(self) -> Form:
        """The form with any number of arguments."""
        return self._replace(arity=ANY, has_keywords=False)

    @property
    def only_keywords(self) -> Form:
        """The form with keywords and no other arguments."""
        return self._replace(arity=1, has_keywords=True)

    @property
    def is_phrase(self) -> bool:
        """Whether terms stand side by side, without a word that takes them."""
        return self.opening == ("",)

    def spelled(
        self, word: Iterable[Symbol | str], inside: Iterable[Symbol | str]
    ) -> list[Symbol | str]:
        return [
            *self.prefix,
            *word,
            *filter(None, self.opening),
            *inside,
            *self.closing,
        ]


BARE = Form()
EMPTY_BRACES = Form(prefix=("{",), closing=("}",))
# Terms side by side, as yet without a word: `* cat`, `new york`.
PHRASE = Form(opening=("",))


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
            inside: list[Term | str] = []
            for argument in item.arguments:
                if inside and item.form.separator:
                    inside.append(item.form.separator)
                inside.append(argument)
            waiting += reversed(item.form.spelled(item.word, inside))

    @property
    def token(self) -> str:
        """The token of a bare word; empty for other terms."""
        return self.word[0] if self.form is BARE else ""

    @property
    def is_sequence(self) -> bool:
        """Whether the term is nothing but words side by side, or a single one."""
        return self.form is BARE or (self.form is PHRASE and self._has_words_only())

    def keyword(self) -> Word:
        """The tokens of a term that can be a keyword.

        It is a word, a quoted one, several, or several with points between.
        """
        form = self.form
        is_name = form is BARE or (form.prefix and not form.arity and self.word)
        is_compound = form is PHRASE or form.separator == "."
        if is_name or (is_compound and self._has_words_only()):
            return tuple(self.tokens())
        return ()

    def _has_words_only(self) -> bool:
        return all(argument.form is BARE for argument in self.arguments)


class Group(NamedTuple):
    """Brackets that are open, the word before them, and what was read since.

    A bare word among the items may still become an operator.
    """

    bracket: str
    word: Word
    items: list[Term]


def read_term(tokens: Sequence[str]) -> Term | None:
    """The tree of a program, in which phrases are left as they are.

    There is none where brackets or quotes do not match, or an operator lacks an operand.

    >>> term = read_term("set_alarm ( time = 7 am )".split())
    >>> term.word, term.arguments[0].word, " ".join(term.tokens())
    (('set_alarm',), ('time',), 'set_alarm ( time = 7 am )')
    """
    try:
        return _read(list(tokens), words_inside=_is_s_expression(tokens))
    except ValueError:
        return None


def _read(tokens: list[str], *, words_inside: bool) -> Term:
    groups = [Group("", (), [])]
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        items = groups[-1].items
        if token in QUOTE_TOKENS:
            # A quotation that is not closed makes `index` raise a ValueError.
            end = tokens.index(QUOTE_TOKENS[token], position)
            form = Form(prefix=(token,), closing=(tokens[end],))
            items.append(Term(form, tuple(tokens[position:end])))
            position = end + 1
        elif token in BRACKETS:
            is_applied = token == "(" and not words_inside and _ends_with_word(items)
            groups.append(Group(token, items.pop().word if is_applied else (), []))
        elif token[0] in BRACKETS and CLOSING_BRACKETS.isdisjoint(token):
            # `[IN:GET_WEATHER` opens, and is a word.
            groups.append(Group(token[0], (token,), []))
        elif token in CLOSING_BRACKETS:
            group = groups.pop()
            if BRACKETS.get(group.bracket) != token:
                raise ValueError("brackets do not match")
            groups[-1].items.append(_closed(group, words_inside=words_inside))
        else:
            items.append(Term(BARE, (token,)))
    if len(groups) > 1:
        raise ValueError("a bracket is not closed")
    return _operation(groups[0].items, 0)


def _ends_with_word(items: Sequence[Term]) -> bool:
    """Whether the last item is a bare word, and not an operator with a term before it."""
    if not items or items[-1].form is not BARE:
        return False
    token = items[-1].token
    is_first = len(items) == 1 or items[-2].token in INFIX
    return token not in INFIX or (token.isalpha() and is_first)


def _is_s_expression(tokens: Sequence[str]) -> bool:
    """Whether one pair of brackets holds the whole program, with a word first.

    Brackets then hold their own words.
    """
    if (
        len(tokens) < 3
        or tokens[0] != "("
        or tokens[1] in BRACKETS
        or tokens[2] in INFIX
    ):
        return False
    # The bracket that opens first must close last.
    depth = 0
    for position, token in enumerate(tokens, start=1):
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        if depth == 0:
            return position == len(tokens)
    return False


def _split(items: Sequence[Term], separators: Sequence[int]) -> list[Sequence[Term]]:
    """The runs of items between separators at these positions."""
    return [
        items[begin + 1 : end] for begin, end in pairwise([-1, *separators, len(items)])
    ]


def _positions(items: Sequence[Term], token: str) -> list[int]:
    return [position for position, item in enumerate(items) if item.token == token]


def _closed(group: Group, *, words_inside: bool) -> Term:
    """The term of a group whose closing bracket has come."""
    bracket, word, items = group
    form = Form(closing=(BRACKETS[bracket],))
    # `[IN:GET_WEATHER what is [SL:LOCATION here ] ]`
    if word and word[0][0] in BRACKETS:
        return _headed(form, word, items)
    form = (
        form._replace(opening=(bracket,)) if word else form._replace(prefix=(bracket,))
    )
    if not items:
        return Term(form, word)
    if bracket == "{" and not word:
        statements = _statements(form, items)
        if statements:
            return statements
    commas = _positions(items, ",")
    if not word and len(items) > 1 and items[0].token:
        has_operators = commas or items[1].token in INFIX
        if words_inside or not has_operators:
            return _headed(form, items[0].word, items[1:])
    form = form._replace(separator=",")
    arguments = [_operation(run, 2) for run in _split(items, commas)]
    if bracket != "(" and not word:
        return Term(form._replace(arity=ANY), (), tuple(arguments))
    return _applied(form, word, arguments)


def _applied(form: Form, word: Word, arguments: Sequence[Term]) -> Term:
    """A word over as many arguments as there are.

    Of keywords there may be any number: alone, behind the other arguments, or among them.
    """
    are_keywords = [argument.form.is_keyword for argument in arguments]
    # Where all keywords come last, a stable sort leaves the arguments as they are.
    others = are_keywords.count(False)
    if others == len(arguments):
        form = form._replace(arity=others)
    elif not word:
        form = form._replace(arity=ANY)
    elif are_keywords == sorted(are_keywords):
        form = form._replace(arity=others + 1, has_keywords=True)
    else:
        form = form._replace(arity=ANY, has_keywords=True)
    return Term(form, word, tuple(arguments))


def _statements(form: Form, items: Sequence[Term]) -> Term | None:
    """Statements in braces, with points or semicolons between them; None for anything else."""
    operators = [item.token for item in items if item.token in INFIX]
    mark = next((token for token in operators if token in STATEMENT_ENDS), ".")
    if operators.count(mark) < len(operators):
        return None
    # A mark behind the last statement belongs to the closing bracket.
    if items[-1].token == mark:
        form = form._replace(closing=(mark, *form.closing))
        items = items[:-1]
    statements = _split(items, _positions(items, mark))
    # No statement may be empty, and at least one must hold several terms.
    if not all(statements) or max(map(len, statements)) < 2:
        return None
    arguments: list[Term] = []
    for statement in statements:
        if len(statement) > 1:
            phrase = PHRASE._replace(arity=len(statement))
            statement = [Term(phrase, (), tuple(statement))]
        arguments += statement
    return Term(form._replace(arity=ANY, separator=mark), (), tuple(arguments))


def _headed(form: Form, word: Word, items: Sequence[Term]) -> Term:
    """A word and its arguments side by side inside brackets.

    `:start` is a keyword of what follows it.
    """
    arguments: list[Term] = []
    keyword: Word = ()
    for item in items:
        if not keyword and len(item.token) > 1 and item.token[0] == ":":
            keyword = item.word
            continue
        if keyword:
            item = Term(Form(arity=1), keyword, (item,))
        arguments.append(item)
        keyword = ()
    # A keyword at the end has no value, and is an argument itself.
    if keyword:
        arguments.append(Term(BARE, keyword))
    return _applied(form, word, arguments)


def _operation(items: Sequence[Term], loosest: int) -> Term:
    """The term of items without brackets around them.

    Operators are read from the loosest on, then terms side by side.
    """
    if not items:
        raise ValueError("an operator lacks an operand")
    if len(items) == 1:
        return items[0]
    # The operators of each level that have terms on both sides.
    operators: dict[int, list[int]] = {}
    for position in range(1, len(items) - 1):
        level = INFIX.get(items[position].token, -1)
        if level >= loosest and position - 1 not in operators.get(level, ()):
            operators.setdefault(level, []).append(position)
    if not operators:
        return Term(PHRASE, (), tuple(items))
    level = min(operators)
    operands = [_operation(run, level + 1) for run in _split(items, operators[level])]
    names = [items[position].token for position in operators[level]]
    name, left = names[0], operands[0]
    if len(set(names)) == 1 and (name in LISTS or name == "."):
        arity = ANY if name in LISTS else len(operands)
        return Term(Form(arity=arity, separator=name), (), tuple(operands))
    if len(names) == 1 and name in KEYWORD_OPERATORS and left.keyword():
        return Term(Form(opening=(name,), arity=1), left.keyword(), (operands[1],))
    for name, operand in zip(names, operands[1:]):
        left = Term(Form(arity=2, separator=name), (), (left, operand))
    return left


class FunctionKey(NamedTuple):
    """The first key of objects that names a function, and the key of its arguments.

    Without a key of arguments, they stand in the same object behind the name.
    """

    name: Word
    arguments: Word = ()


# The members of an object, and how often there is a program with it.
CountedObject = tuple[Sequence[Term], int]


@dataclass(frozen=True, slots=True)
class ProgramReader:
    """What all programs together say of words.

    `prefixes` has the number of terms behind each word that is set before terms, `variadic` the
    words that take any number of arguments, in forms of the arity ANY, and `function_keys` the
    keys of objects that name functions.
    """

    prefixes: dict[str, int]
    variadic: frozenset[tuple[Form, Word]]
    function_keys: dict[Word, FunctionKey]

    @classmethod
    def of(cls, terms: Sequence[Term], counts: Sequence[int]) -> ProgramReader:
        """Learned from the trees of programs, and from how often there is each of them."""
        plain = cls(_prefixes(terms), frozenset(), {})
        # The heads at each argument of each word, for each number of arguments.
        numbers_of = defaultdict[tuple[Form, Word], set[int]](set)
        heads = defaultdict[tuple[Form, Word], list[set[tuple[Form, Word]]]](list)
        has_objects = False
        for node in _nodes(terms):
            form, word, arguments = plain.resolved(node) or node
            has_objects = has_objects or _is_object(node)
            if not word or form.arity <= 0 or not form.places:
                continue
            key = form.variadic, word
            numbers_of[key].add(form.places)
            at_arguments = heads[key]
            at_arguments += [set() for _ in range(form.places - len(at_arguments))]
            for at_argument, argument in zip(at_arguments, arguments[: form.places]):
                at_argument.add(argument[:2])
        variadic = []
        for key, numbers in numbers_of.items():
            if len(numbers) > 2 or (
                len(numbers) == 2 and _are_alike(heads[key][: max(numbers)])
            ):
                variadic.append(key)
        function_keys = {}
        if has_objects:
            function_keys = _function_keys(terms, counts)
        return cls(plain.prefixes, frozenset(variadic), function_keys)

    def resolved(self, term: Term, *, is_inside: bool = True) -> Term | None:
        """`term` with a form of its own if it is a phrase; None for a phrase that no word leads.

        Inside brackets or behind a keyword, several words are one: `city = new york`. An object
        that names a function becomes a call of it.
        """
        form, word, arguments = term
        if form is PHRASE:
            first, behind = arguments[0], arguments[1:]
            if first.token and self.prefixes.get(first.token) == len(behind):
                form, word, arguments = Form(arity=len(behind)), first.word, behind
            elif is_inside and term.is_sequence:
                return Term(BARE, tuple(argument.token for argument in arguments))
            else:
                return None
        elif self.function_keys and _is_object(term):
            key = self.function_keys.get(arguments[0].word)
            if key:
                return _call_of_object(key, arguments)
        if form.places and word and (form.variadic, word) in self.variadic:
            form = form.variadic._replace(has_keywords=form.has_keywords)
        return Term(form, word, arguments)


def _is_object(term: Term) -> bool:
    """Whether a term is braces around keywords."""
    if term.form.prefix != ("{",) or term.word:
        return False
    arguments = term.arguments
    return bool(arguments) and all(item.form.is_keyword for item in arguments)


def _function_keys(
    terms: Iterable[Term], counts: Iterable[int]
) -> dict[Word, FunctionKey]:
    """The keys that come first in their objects and whose values name functions.

    The objects of a function have keys of their own, so that its name tells something about them.
    A name is not a slot, and most names are seen more than once: else it is a value.
    """
    objects_of = defaultdict[Word, list[CountedObject]](list)
    later_keys = set[Word]()
    for term, count in zip(terms, counts):
        for node in filter(_is_object, _nodes([term])):
            first, *following = node.arguments
            objects_of[first.word].append((node.arguments, count))
            later_keys.update(_words(following))
    function_keys = {}
    for name, objects in sorted(objects_of.items()):
        key = None
        if name not in later_keys:
            key = _function_key(name, objects)
        if key:
            function_keys[name] = key
    return function_keys


def _function_key(name: Word, objects: Sequence[CountedObject]) -> FunctionKey | None:
    """The key of functions that `name` is in the objects that begin with it; None for another."""
    # The value of the key must be a name, written in one form.
    forms = set[Form]()
    behind = set[Word]()
    for (first, *following), _ in objects:
        value = first.arguments[0]
        if not _is_name(value):
            return None
        forms.add(value.form)
        behind.update(_words(following))
    if len(forms) > 1:
        return None
    # Where one other key holds an object, the function's arguments are inside of it.
    key = FunctionKey(name)
    if len(behind) == 1 and all(_holds_arguments(members) for members, _ in objects):
        key = FunctionKey(name, behind.pop())
    # Functions differ in their keys, and most are seen more than once.
    keys_of = defaultdict[Word, set[Word]](set)
    times = Counter[Word]()
    for members, count in objects:
        call = _call_of_object(key, members)
        times[call.word] += count
        keys_of[call.word].update(_words(call.arguments))
    are_alike = len(set(map(frozenset, keys_of.values()))) == 1
    seen_once = list(times.values()).count(1)
    if are_alike or 2 * seen_once >= len(times):
        return None
    return key


def _words(terms: Iterable[Term]) -> Iterator[Word]:
    return map(attrgetter("word"), terms)


def _is_name(term: Term) -> bool:
    """Whether a term is a word, bare or quoted, and not a slot."""
    if term.form.arity or term.form.opening or not term.word:
        return False
    return not any(token.startswith(SLOT) for token in term.word)


def _holds_arguments(members: Sequence[Term]) -> bool:
    """Whether an object has nothing behind its first key, or a single object."""
    if len(members) == 1:
        return True
    value = members[1].arguments[0]
    return len(members) == 2 and (_is_object(value) or value == Term(EMPTY_BRACES))


def _call_of_object(key: FunctionKey, members: Sequence[Term]) -> Term:
    """The call that an object is: its word is the function's name."""
    name, *behind = members
    value = name.arguments[0]
    form = Form(prefix=("{", *name.word, *name.form.opening, *value.form.prefix))
    if not behind:
        return Term(form._replace(opening=(*value.form.closing, "}")), value.word)
    opening: Word = (*value.form.closing, ",")
    closing: Word = ("}",)
    arguments = tuple(behind)
    if key.arguments:
        outer = behind[0]
        arguments = outer.arguments[0].arguments
        opening = (*opening, *outer.word, *outer.form.opening, "{")
        closing = ("}", "}")
    form = form._replace(opening=opening, separator=",", closing=closing)
    if arguments:
        form = form.only_keywords
    return Term(form, value.word, arguments)


def _are_alike(heads: Sequence[set[tuple[Form, Word]]]) -> bool:
    """Whether the arguments behind the first share half of their heads with the first."""
    first = heads[0]
    return all(
        2 * len(first & later) >= min(len(first), len(later)) for later in heads[1:]
    )


def _nodes(terms: Iterable[Term]) -> Iterator[Term]:
    waiting = list(terms)
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.arguments)


def _prefixes(terms: Iterable[Term]) -> dict[str, int]:
    """Words that begin phrases of one length only.

    The phrases hold a term that is not a word, or there are at least three of them.
    """
    behind = defaultdict[str, set[Word]](set)
    for node in _nodes(terms):
        if node.form is PHRASE and node.arguments[0].token:
            first, *others = [argument.token for argument in node.arguments]
            behind[first].add(tuple(others))
    prefixes = {}
    for word, phrases in sorted(behind.items()):
        lengths = set(map(len, phrases))
        if len(lengths) == 1 and (
            len(phrases) > 2 or any("" in phrase for phrase in phrases)
        ):
            prefixes[word] = min(lengths)
    return prefixes
