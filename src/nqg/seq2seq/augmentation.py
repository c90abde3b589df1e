"""Teaching a sequence-to-sequence model what a grammar knows: training pairs among pairs drawn from
the grammar.

Drawn sentences may be odd ("how where state"). A reverse model, from programs to sentences and
trained on the training pairs alone, tells which: those of the highest loss a subword are left out.

*Round trips* are new programs with sentences that a reverse model writes for them, if the forward
model comes back to the program. Programs are drawn from the statistics of the training programs: a
head, as `loc_2 ( … )`, given the argument of another that it fills. That is the model of
`nqg.induction.sampling`, over a grammar whose rules are the heads. Such a pair may have words and
constructions where no induced rule would put them. docs/teaching.md has the exact match with
samples, filter and round trips, and without each.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

import torch

from nqg.data.example import Example, distinct_pairs
from nqg.grammar.grammar import Grammar, NonTerminal, Rule
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import SamplingSettings
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import (
    MAX_STEPS,
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
)
from nqg.seq2seq.target_codec import tokenize_targets
from nqg.training.records import TrainingStep
from nqg.types.program_trees import Term, read_term
from nqg.types.target_grammar import TargetGrammar

# A bound of work: drawn programs are at most so many times as long as the longest training program.
MAX_RELATIVE_LENGTH = 1.6
# Heads of more arguments, as a flat sequence of tokens has, take long to chart.
MAX_ARITY = 6
# Sentences that the reverse model writes have at most so many subwords.
MAX_SUBWORDS = 96
# A bound of work: draws for each program that is asked for, because some are known, senseless, or
# of a length that many have.
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
    return [*list(examples) * times, *samples]


def reversed_pairs(examples: Sequence[Example]) -> list[Example]:
    return [Example(example.target, example.source) for example in examples]


def likeliest(
    samples: Sequence[Example], reverse: Seq2seq, kept: float
) -> list[Example]:
    """The share of samples whose sentences the reverse model finds likeliest, in their order."""
    losses = reverse.losses(reversed_pairs(samples))
    ranked = sorted(range(len(samples)), key=losses.__getitem__)
    return [
        samples[number]
        for number in sorted(ranked[: max(1, round(kept * len(samples)))])
    ]


class ProgramSampler:
    """Draws new legal programs like those that it is given; none where these are not trees.

    >>> legal = TargetGrammar.parse("<s> ::= f ( <t> ) | g ( <t> )\\n<t> ::= a | b | c")
    >>> ProgramSampler(["f ( a )", "f ( b )", "g ( a )", "g ( b )", "f ( c )"], legal).programs(4)
    ['g ( c )']
    """

    def __init__(
        self, programs: Iterable[str], target_grammar: TargetGrammar | None = None
    ) -> None:
        heads: dict[Rule, None] = {}
        trees: dict[str, Example] = {}
        for program in programs:
            term = read_term(program.split())
            rules = rules_of(term) if term else []
            if rules:
                heads.update(dict.fromkeys(rules))
                trees[program] = Example(program, program)
        self.known, self.sampler = trees, None
        if trees:
            longest = max(len(program.split()) for program in trees)
            settings = replace(
                PROGRAM_SAMPLING, longest=round(MAX_RELATIVE_LENGTH * longest)
            )
            grammar = Grammar.of(heads, MAX_ARITY).typed_by(target_grammar)
            self.sampler = GrammarSampler(grammar, list(trees.values()), settings)

    def programs(
        self, count: int, is_sensible: Callable[[str], bool] = bool, seed: int = 0
    ) -> list[str]:
        """So many different new programs, about as many of each length; fewer where there are not
        as many.
        """
        if self.sampler is None:
            return []
        by_length: dict[int, list[str]] = defaultdict(list)
        for pair in self.sampler.samples(DRAWS_PER_PROGRAM * count, seed):
            if pair.target not in self.known:
                by_length[len(pair.target_tokens)].append(pair.target)
        # Lengths take turns, the short first, until all that have programs left have come.
        programs: list[str] = []
        for program in chain(
            *zip_longest(*(by_length[length] for length in sorted(by_length)))
        ):
            if program and len(programs) < count and is_sensible(program):
                programs.append(program)
        return programs


def rules_of(term: Term) -> list[Rule]:
    """The rules that a tree consists of, one a head: `loc_2 ( NT_1 ) ### loc_2 ( NT_1 )`; none if
    one is not a rule.
    """
    waiting, rules = [term], []
    while waiting:
        form, word, arguments = waiting.pop()
        inside: list[str | NonTerminal] = []
        for number in range(len(arguments)):
            inside += (form.separator, NonTerminal(number + 1))
        symbols = (*form.prefix, *word, *form.opening, *inside[1:], *form.closing)
        side = tuple(symbol for symbol in symbols if symbol)
        if len(arguments) > MAX_ARITY or len(side) == len(arguments):
            return []
        rules.append(Rule(side, side))
        waiting += arguments
    return rules


def round_trips(
    programs: Sequence[str],
    reverse: Seq2seq,
    forward: Seq2seq,
    *,
    sentences: int,
    seed: int,
) -> list[Example]:
    """Programs with sentences that the reverse model writes for them and for which the forward
    model writes them.
    """
    if not programs:
        return []
    short = replace(
        reverse, settings=replace(reverse.settings, longest_target=MAX_SUBWORDS)
    )
    drawn = short.drawn(programs, count=sentences, seed=seed)
    pairs: dict[Example, None] = {}
    for program, texts in zip(programs, drawn):
        pairs.update(dict.fromkeys(Example(text, program) for text in texts))
    # A target that is longer than all programs is another program.
    subwords = tokenize_targets(
        forward.tokenizer, list(map(forward.spelling.encode, programs))
    )
    settings = replace(forward.settings, longest_target=max(map(len, subwords)))
    targets = replace(forward, settings=settings).predict(
        [pair.source for pair in pairs]
    )
    return [pair for pair, target in zip(pairs, targets) if target == pair.target]


class Augmentation:
    """Samples of a grammar for a fine-tuning: drawn at once, filtered by `steps`, which also make
    the round trips.

    The reverse model of the filter learns from training pairs alone, that of the round trips from
    samples, too. `is_sensible` may refuse programs, for instance those that have no answer in a
    database; `after_round` sees the model that each round begins with.
    """

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example],
        settings: AugmentationSettings = AugmentationSettings(),  # noqa: B008 (frozen)
        seed: int = 0,
        *,
        is_sensible: Callable[[str], bool] = bool,
        after_round: Callable[[int, Seq2seq], object] = lambda number, forward: None,
    ) -> None:
        self.grammar, self.examples, self.settings = grammar, examples, settings
        self.seed, self.is_sensible, self.after_round = seed, is_sensible, after_round
        self.pairs = distinct_pairs(examples)
        self.samples: list[Example] = []
        self.round_trips: list[Example] = []
        if settings.samples:
            sampler = GrammarSampler(grammar, self.pairs, settings.sampling)
            self.samples = sampler.samples(settings.samples, seed)

    def steps(
        self,
        model: Seq2seqSettings,
        training: FineTuningSettings,
        device: str | None = None,
    ) -> Iterator[TrainingStep]:
        """Train reverse and forward models, leave out what the one finds unlikely, add what both
        agree on.
        """
        settings = self.settings
        backwards = replace(training, steps=settings.reverse_steps, one_subword=False)
        if settings.kept < 1 and self.samples:
            reverse = yield from trained(
                reversed_pairs(self.examples), model, backwards, device
            )
            self.samples = likeliest(self.samples, reverse, settings.kept)
        if not settings.rounds:
            return
        targets = (pair.target for pair in self.pairs)
        sampler = ProgramSampler(targets, self.grammar.target_grammar)
        brief = replace(training, steps=settings.round_steps or training.steps)
        reverse = yield from trained(
            reversed_pairs(self.mixture), model, backwards, device
        )
        for number in range(settings.rounds):
            forward = yield from trained(self.mixture, model, brief, device)
            self.after_round(number, forward)
            programs = sampler.programs(
                settings.programs, self.is_sensible, seed=number
            )
            new = round_trips(
                programs, reverse, forward, sentences=settings.sentences, seed=self.seed
            )
            pairs = distinct_pairs((*self.pairs, *self.round_trips, *new))
            self.round_trips = pairs[len(self.pairs) :]

    def steps_in_all(self, training: FineTuningSettings) -> int:
        """How many steps `steps` makes."""
        settings = self.settings
        total = settings.rounds * (settings.round_steps or training.steps or MAX_STEPS)
        if settings.kept < 1 and self.samples:
            total += settings.reverse_steps
        if settings.rounds:
            total += settings.reverse_steps
        return total

    @property
    def added(self) -> list[Example]:
        """Samples and round trips."""
        return [*self.samples, *self.round_trips]

    @property
    def mixture(self) -> list[Example]:
        return mixed(self.examples, self.added, self.settings.real_share)


def trained(
    pairs: Sequence[Example],
    model: Seq2seqSettings,
    training: FineTuningSettings,
    device: str | None,
) -> Generator[TrainingStep, None, Seq2seq]:
    """Fine-tune a model, and free what a GPU holds for its steps."""
    fine_tuning = FineTuning(pairs, model, training, device=device)
    yield from fine_tuning.steps()
    seq2seq = fine_tuning.seq2seq
    del fine_tuning
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return seq2seq
