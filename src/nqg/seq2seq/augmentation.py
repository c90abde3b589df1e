"""Teaching a sequence-to-sequence model what a grammar knows: training pairs among pairs drawn from the grammar.

Drawn sentences may be odd ("how where state"). A reverse model, from programs to sentences and trained on the training
pairs alone, tells which: those of the highest loss a subword are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nqg.data.examples import Example, distinct_pairs
from nqg.grammar.grammar import Grammar
from nqg.induction.sampling import GrammarSampler
from nqg.seq2seq.fine_tuning import FineTuning
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
    """Samples of a grammar for a fine-tuning: drawn at once, filtered by `steps`."""

    def __init__(
        self,
        grammar: Grammar,
        examples: Sequence[Example],
        settings: AugmentationSettings = AugmentationSettings(),  # noqa: B008 (frozen)
        seed: int = 0,
    ) -> None:
        self.examples, self.settings = examples, settings
        sampler = GrammarSampler(grammar, distinct_pairs(examples), settings.sampling)
        self.samples = sampler.samples(settings.samples, seed)

    def steps(
        self, model: Seq2seqSettings, training: FineTuningSettings, device: str | None = None
    ) -> Iterator[TrainingStep]:
        """Train the reverse model, if one is to filter, and leave out what it finds unlikely."""
        if self.settings.kept == 1:
            return
        steps = self.settings.reverse_steps
        reverse = FineTuning(
            reversed_pairs(self.examples), model, replace(training, steps=steps, one_subword=False), device=device
        )
        yield from reverse.steps()
        seq2seq = reverse.seq2seq
        del reverse  # with what a GPU keeps for its steps
        self.samples = likeliest(self.samples, seq2seq, self.settings.kept)

    @property
    def mixture(self) -> list[Example]:
        return mixed(self.examples, self.samples, self.settings.real_share)
