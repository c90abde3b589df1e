"""Teaching a sequence-to-sequence model what a grammar knows: training pairs among pairs drawn from the grammar.

Drawn sentences may be odd ("how where state"). A reverse model, from programs to sentences and trained on the training
pairs alone, tells which: those of the highest loss a subword are left out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

import torch

from nqg.data.examples import Example, distinct_pairs
from nqg.grammar.grammar import Grammar
from nqg.induction.sampling import GrammarSampler
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.round_trips import ProgramSampler, round_trips
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import AugmentationSettings, FineTuningSettings, Seq2seqSettings
from nqg.training.records import TrainingStep


def mixed(examples: Sequence[Example], samples: Sequence[Example], real_share: float) -> list[Example]:
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
        programs = ProgramSampler((pair.target for pair in pairs), grammar.target_grammar) if settings.rounds else None
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
            self._make_round_trips(number, reverse, forward)

    def _make_round_trips(self, number: int, reverse: Seq2seq, forward: Seq2seq) -> None:
        assert self.program_sampler, "made where there are rounds"
        known = {(pair.source, pair.target) for pair in self.examples}
        programs = self.program_sampler.programs(self.settings.programs, self.is_sensible, seed=number)
        for pair in round_trips(programs, reverse, forward, sentences=self.settings.sentences, seed=self.seed):
            if (pair.source, pair.target) not in known:
                self.round_trips[pair.source, pair.target] = pair

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
    pairs: Sequence[Example], model: Seq2seqSettings, training: FineTuningSettings, device: str | None
) -> Generator[TrainingStep, None, Seq2seq]:
    fine_tuning = FineTuning(pairs, model, training, device=device)
    yield from fine_tuning.steps()
    seq2seq = fine_tuning.seq2seq
    del fine_tuning
    gc.collect()  # with it goes what a GPU keeps for its steps
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return seq2seq
