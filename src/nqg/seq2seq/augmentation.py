"""Teaching a sequence-to-sequence model what a grammar knows: training pairs among pairs drawn from the grammar.

Drawn sentences may be odd ("how where state"). A reverse model, from programs to sentences and trained on the training
pairs alone, tells which: those of the highest loss a subword are left out.

*Round trips* are new programs, sentences for them by a reverse model, kept where the forward model comes back. Programs
are drawn from the training programs' own statistics: a head, as `loc_2 ( … )`, given the argument of another that it
fills. That is the model of `nqg.induction.sampling`, over a grammar whose rules are the heads. A pair so found may have
words and constructions in places where no induced rule would put them.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest

import torch

from nqg.data.example import Example, distinct_pairs
from nqg.grammar.grammar import Grammar, NonTerminal, Rule
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import SamplingSettings
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import AugmentationSettings, FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.spelling import tokenize_targets
from nqg.training.records import TrainingStep
from nqg.types.program_trees import Term, read_term
from nqg.types.target_grammar import TargetGrammar

MAX_RELATIVE_LENGTH = 1.6  # times the longest training program that drawn ones may be long
MAX_ARITY = 6  # of heads: charts of more arguments, as a flat sequence of tokens has, take long
MOST_SUBWORDS = 96  # of a sentence
# Draws for each program that is asked for: some are known, senseless, or of a length that many have.
DRAWS_PER_PROGRAM = 3
# Long programs are as likely as short ones.
PROGRAM_SAMPLING = SamplingSettings(depth=16, smoothing=1.0, longer=0.2, per_target=1)


def mixed(
    examples: Sequence[Example], samples: Sequence[Example], real_share: float
) -> list[Example]:
    """Training pairs, each repeated until they have their share, and samples.

    >>> walk, jump = Example("walk", "W"), Example("jump", "J")
    >>> [pair.source for pair in mixed([walk], [jump] * 3, 0.4)]
    ['walk', 'walk', 'jump', 'jump', 'jump']
    """
    if not samples or real_share >= 1:
        return list(examples)
    times = max(1, round(real_share / (1 - real_share) * len(samples) / len(examples)))
    return [*(example for _ in range(times) for example in examples), *samples]


def reversed_pairs(examples: Sequence[Example]) -> list[Example]:
    return [Example(example.target, example.source) for example in examples]


def likeliest(samples: Sequence[Example], reverse: Seq2seq, kept: float) -> list[Example]:
    """The share of samples whose sentences the reverse model finds likeliest, in their order."""
    losses = reverse.losses(reversed_pairs(samples))
    ranked = sorted(range(len(samples)), key=lambda number: (losses[number], number))
    return [samples[number] for number in sorted(ranked[: max(1, round(kept * len(samples)))])]


class ProgramSampler:
    """Draws programs like those that it is given, but new and legal ones; none where they are not trees.

    >>> legal = TargetGrammar.parse("<s> ::= f ( <t> ) | g ( <t> )\\n<t> ::= a | b | c")
    >>> ProgramSampler(["f ( a )", "f ( b )", "g ( a )", "g ( b )", "f ( c )"], legal).programs(4)
    ['g ( c )']
    """

    def __init__(
        self, programs: Iterable[str], target_grammar: TargetGrammar | None = None
    ) -> None:
        terms = {program: read_term(program.split()) for program in programs}
        trees = {
            program: heads
            for program, term in terms.items()
            if term and (heads := list(rules_of(term)))
        }
        self.known, self.sampler = frozenset(trees), None
        if trees:
            grammar = Grammar.of(
                dict.fromkeys(rule for heads in trees.values() for rule in heads), MAX_ARITY
            )
            longest = round(MAX_RELATIVE_LENGTH * max(len(program.split()) for program in trees))
            pairs = [Example(program, program) for program in trees]
            self.sampler = GrammarSampler(
                grammar.typed_by(target_grammar), pairs, replace(PROGRAM_SAMPLING, longest=longest)
            )

    def programs(
        self, count: int, is_sensible: Callable[[str], bool] = bool, seed: int = 0
    ) -> list[str]:
        """So many different new programs, about as many of each length; fewer where there are not as many."""
        by_length: dict[int, list[str]] = defaultdict(list)
        for pair in self.sampler.samples(DRAWS_PER_PROGRAM * count, seed) if self.sampler else ():
            if pair.target not in self.known:
                by_length[len(pair.target_tokens)].append(pair.target)
        in_turn = chain.from_iterable(
            zip_longest(*(by_length[length] for length in sorted(by_length)))
        )
        return list(
            islice((program for program in in_turn if program and is_sensible(program)), count)
        )


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
    written = zip(programs, drawn, strict=True)
    pairs = list(dict.fromkeys((text, program) for program, texts in written for text in texts))
    subwords = tokenize_targets(
        forward.tokenizer, [forward.spelling.spelled(program) for program in programs]
    )
    longest = max(map(len, subwords))  # what is longer is another program
    brief = replace(forward, settings=replace(forward.settings, longest_target=longest))
    found = brief.predict([source for source, _ in pairs])
    return [Example(*pair) for pair, target in zip(pairs, found, strict=True) if target == pair[1]]


class Augmentation:
    """Samples of a grammar for a fine-tuning: drawn at once, filtered by `steps`, which also make the round trips.

    The reverse model of the filter knows the training pairs alone; that of the round trips learns from samples, too.
    `is_sensible` may refuse programs, for instance those that have no answer in a database; `after_round` sees the
    model that each round begins with.
    """

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example],
        settings: AugmentationSettings = AugmentationSettings(),  # noqa: B008 (frozen)
        seed: int = 0,
        *,
        is_sensible: Callable[[str], bool] = bool,
        after_round: Callable[[int, Seq2seq], None] | None = None,
    ) -> None:
        self.examples, self.settings, self.seed = examples, settings, seed
        self.is_sensible, self.after_round = is_sensible, after_round
        pairs = distinct_pairs(examples)
        sampler = GrammarSampler(grammar, pairs, settings.sampling) if settings.samples else None
        self.samples = sampler.samples(settings.samples, seed) if sampler else []
        programs = (
            ProgramSampler((pair.target for pair in pairs), grammar.target_grammar)
            if settings.rounds
            else None
        )
        self.program_sampler, self.round_trips = programs, dict[tuple[str, str], Example]()

    def steps(
        self, model: Seq2seqSettings, training: FineTuningSettings, device: str | None = None
    ) -> Iterator[TrainingStep]:
        """Train reverse and forward models, leave out what the one finds unlikely, add what both agree on."""
        backwards = replace(training, steps=self.settings.reverse_steps, one_subword=False)
        if self.settings.kept < 1 and self.samples:
            reverse = yield from trained(reversed_pairs(self.examples), model, backwards, device)
            self.samples = likeliest(self.samples, reverse, self.settings.kept)
        if self.settings.rounds:
            reverse = yield from trained(reversed_pairs(self.mixture), model, backwards, device)
        for number in range(self.settings.rounds):
            brief = replace(training, steps=self.settings.round_steps or training.steps)
            forward = yield from trained(self.mixture, model, brief, device)
            if self.after_round:
                self.after_round(number, forward)
            assert self.program_sampler, "made where there are rounds"
            programs = self.program_sampler.programs(
                self.settings.programs, self.is_sensible, seed=number
            )
            found = round_trips(
                programs, reverse, forward, sentences=self.settings.sentences, seed=self.seed
            )
            known = {(pair.source, pair.target) for pair in self.examples}
            new = {(pair.source, pair.target): pair for pair in found}
            self.round_trips |= {key: pair for key, pair in new.items() if key not in known}

    def steps_in_all(self, training: FineTuningSettings) -> int:
        """How many steps `steps` makes."""
        settings = self.settings
        filtering = settings.reverse_steps if settings.kept < 1 and self.samples else 0
        rounds = settings.rounds * (settings.round_steps or training.steps)
        return filtering + rounds + (settings.reverse_steps if rounds else 0)

    @property
    def added(self) -> list[Example]:
        """Samples and round trips."""
        return [*self.samples, *self.round_trips.values()]

    @property
    def mixture(self) -> list[Example]:
        return mixed(self.examples, self.added, self.settings.real_share)


def trained(
    pairs: Sequence[Example],
    model: Seq2seqSettings,
    training: FineTuningSettings,
    device: str | None,
) -> Generator[TrainingStep, None, Seq2seq]:
    fine_tuning = FineTuning(pairs, model, training, device=device)
    yield from fine_tuning.steps()
    seq2seq = fine_tuning.seq2seq
    del fine_tuning
    gc.collect()  # with it goes what a GPU keeps for its steps
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return seq2seq
