"""Round trips: new programs, sentences for them by a reverse model, kept where the forward model comes back.

Programs are drawn from the training programs' own statistics: a head, as `loc_2 ( … )`, given the argument of another
that it fills. That is the model of `nqg.induction.sampling`, over a grammar whose rules are the heads. A pair so found
may have words and constructions in places where no induced rule would put them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest

from nqg.data.examples import Example
from nqg.grammar.grammar import Grammar, NonTerminal, Rule
from nqg.grammar.program_trees import Term, read_term
from nqg.grammar.target_grammar import TargetGrammar
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import SamplingSettings
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.spelling import tokenize_targets

LONGEST = 1.6  # times the longest training program that drawn ones may be long
MAX_ARITY = 6  # of heads: charts of more arguments, as a flat sequence of tokens has, take long
MOST_SUBWORDS = 96  # of a sentence
DRAWS = 3  # for each program that is asked for, of which some are known, senseless, or of a length that many have
SETTINGS = SamplingSettings(depth=16, smoothing=1.0, longer=0.2, per_target=1)  # long ones are as likely as short


class ProgramSampler:
    """Draws programs like those that it is given, but new and legal ones; none where they are not trees.

    >>> legal = TargetGrammar.parse("<s> ::= f ( <t> ) | g ( <t> )\\n<t> ::= a | b | c")
    >>> ProgramSampler(["f ( a )", "f ( b )", "g ( a )", "g ( b )", "f ( c )"], legal).programs(4)
    ['g ( c )']
    """

    def __init__(self, programs: Iterable[str], target_grammar: TargetGrammar | None = None) -> None:
        terms = {program: read_term(program.split()) for program in programs}
        trees = {program: heads for program, term in terms.items() if term and (heads := list(rules_of(term)))}
        self.known, self.sampler = frozenset(trees), None
        if trees:
            grammar = Grammar.of(dict.fromkeys(rule for heads in trees.values() for rule in heads), MAX_ARITY)
            longest = round(LONGEST * max(len(program.split()) for program in trees))
            pairs = [Example(program, program) for program in trees]
            self.sampler = GrammarSampler(grammar.typed_by(target_grammar), pairs, replace(SETTINGS, longest=longest))

    def programs(self, count: int, is_sensible: Callable[[str], bool] = bool, seed: int = 0) -> list[str]:
        """So many different new programs, about as many of each length; fewer where there are not as many."""
        by_length: dict[int, list[str]] = defaultdict(list)
        for pair in self.sampler.samples(DRAWS * count, seed) if self.sampler else ():
            if pair.target not in self.known:
                by_length[len(pair.target_tokens)].append(pair.target)
        in_turn = chain.from_iterable(zip_longest(*(by_length[length] for length in sorted(by_length))))
        return list(islice((program for program in in_turn if program and is_sensible(program)), count))


def rules_of(term: Term) -> Iterator[Rule]:
    """The rules that a tree is made of, one a head, if they are rules: `loc_2 ( NT_1 ) ### loc_2 ( NT_1 )`."""
    waiting, found = [term], list[Rule]()
    while waiting:
        form, word, arguments = waiting.pop()
        places = [NonTerminal(number) for number in range(1, len(arguments) + 1)]
        inside = [symbol for place in places for symbol in (form.separator, place)][1:]
        symbols = [*form.prefix, *word, *form.opening, *inside, *form.closing]
        side = tuple(symbol for symbol in symbols if symbol)
        if len(places) > MAX_ARITY or len(side) == len(places):
            return
        found.append(Rule(side, side))
        waiting += arguments
    yield from found


def round_trips(
    programs: Sequence[str], reverse: Seq2seq, forward: Seq2seq, *, sentences: int, seed: int
) -> list[Example]:
    """Programs with sentences that the reverse model writes for them and the forward model reads as the same ones."""
    if not programs:
        return []
    short = replace(reverse, settings=replace(reverse.settings, longest_target=MOST_SUBWORDS))
    drawn = short.drawn(programs, count=sentences, seed=seed)
    pairs = list(
        dict.fromkeys((text, program) for program, texts in zip(programs, drawn, strict=True) for text in texts)
    )
    subwords = tokenize_targets(forward.tokenizer, [forward.spelling.spelled(program) for program in programs])
    longest = max(map(len, subwords))  # what is longer is another program
    brief = replace(forward, settings=replace(forward.settings, longest_target=longest))
    found = brief.predict([source for source, _ in pairs])
    return [Example(*pair) for pair, target in zip(pairs, found, strict=True) if target == pair[1]]
