"""The systems of `real_use.py`: each is trained on a dataset and answers sentences.

Systems of nqg are reached through `nqg.train` alone, so that whatever it learns is measured. Each
sentence is asked twice: by default, and with `least_confidence` 0, when all is answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import nqg
from nqg import Answer, FineTuningSettings, NqgError, Seq2seqSettings, System
from nqg.inference.decoding import DecodeOptions
from real_use_datasets import RealDataset
from real_use_hassil import hassil_for

# How T5 is fine-tuned on plain strings: what is usual for small data, not tuned here.
PLAIN_BATCH, PLAIN_EPOCHS, PLAIN_STEPS, PLAIN_RATE = 16, 60, 3000, 5e-4


@dataclass(frozen=True, slots=True)
class Resources:
    """What the user has: weights to begin with, and a device."""

    seq2seq: str | None = None
    causal: str | None = None
    device: str | None = None

    def required(self, name: str, system: str) -> str:
        """A folder of weights, or an error that names the option."""
        weights: str | None = getattr(self, name)
        if weights is None:
            raise NqgError(
                f"the system '{system}' needs pre-trained weights; name their folder with --{name}"
            )
        return weights


@dataclass(frozen=True, slots=True)
class Asked:
    """What a system says of a sentence by default, when it must answer, and what its readers say.

    The `confidence` is that of the answer that must be given: an abstention has none.
    """

    target: str | None
    forced: str | None
    confidence: float | None = None
    reason: str = ""
    readers: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trained:
    """A system by default, the same system when all is answered, and its threshold if known."""

    default: System
    forced: System
    threshold: float | None = None

    @classmethod
    def always(cls, system: System) -> Trained:
        """A system that answers whenever it can."""
        return cls(system, system)

    @classmethod
    def of_nqg(cls, system: Any) -> Trained:
        """What `nqg.train` returned; a hybrid also gives what each of its readers says."""
        forced = system.with_options(DecodeOptions(least_confidence=0.0))
        parser = getattr(system, "parser", system)
        calibrator = getattr(getattr(parser, "model", None), "calibrator", None)
        return cls(system, forced, getattr(calibrator, "threshold", None))

    def ask(self, sentences: Sequence[str]) -> list[Asked]:
        """The answers to all sentences, in their order."""
        if not sentences:
            return []
        forced = list(self.forced.answers(sentences))
        defaults = forced
        if self.default is not self.forced:
            defaults = list(self.default.answers(sentences))
        asked = []
        for default, answer in zip(defaults, forced, strict=True):
            confidence = answer.confidence
            if confidence is None:
                confidence = answer.probability
            if answer.target is None:
                confidence = None
            asked.append(
                Asked(
                    default.target,
                    answer.target,
                    confidence,
                    default.reason,
                    read_by_parts(answer),
                )
            )
        return asked


def read_by_parts(answer: Answer) -> dict[str, str | None]:
    """What each reader of a hybrid says, by its name; nothing for other systems.

    >>> grammar, other = Answer("run", "RUN", system="grammar"), Answer("run", system="fallback")
    >>> read_by_parts(Answer("run", "RUN", parts=(grammar, other)))
    {'grammar': 'RUN', 'fallback': None}
    """
    return {part.system: part.target for part in answer.parts}


def train_nqg(
    dataset: RealDataset,
    resources: Resources,
    *,
    seq2seq: str | None = None,
    precision: float | None = None,
) -> Trained:
    """What `nqg.train` makes of a dataset with its settings; `precision` asks for another one."""
    settings = nqg.TrainSettings()
    if dataset.settings:
        settings = nqg.TrainSettings.read(dataset.settings)
    if precision is not None:
        confidence = replace(settings.confidence, least_precision=precision)
        settings = replace(settings, confidence=confidence)
    if dataset.fixtures is not None:
        # Two commands in one sentence are measured where hassil is.
        settings = replace(settings, text=replace(settings.text, sequence="allow"))
    system = nqg.train(
        dataset.train, settings=settings, seq2seq=seq2seq, device=resources.device
    )
    return Trained.of_nqg(system)


def grammar(dataset: RealDataset, resources: Resources) -> Trained:
    return train_nqg(dataset, resources)


def grammar_90(dataset: RealDataset, resources: Resources) -> Trained:
    return train_nqg(dataset, resources, precision=0.9)


def hybrid(dataset: RealDataset, resources: Resources) -> Trained:
    weights = resources.required("seq2seq", "hybrid")
    return train_nqg(dataset, resources, seq2seq=weights)


def hybrid_90(dataset: RealDataset, resources: Resources) -> Trained:
    weights = resources.required("seq2seq", "hybrid-90")
    return train_nqg(dataset, resources, seq2seq=weights, precision=0.9)


def plain_t5(dataset: RealDataset, resources: Resources) -> Trained:
    """A T5 that is fine-tuned on the raw strings, without slots and types."""
    weights = resources.required("seq2seq", "plain-t5")
    batches = math.ceil(len(dataset.train) / PLAIN_BATCH)
    training = FineTuningSettings(
        steps=min(PLAIN_STEPS, PLAIN_EPOCHS * batches),
        batch_size=PLAIN_BATCH,
        optimizer="adamw",
        learning_rate=PLAIN_RATE,
        schedule="linear",
        one_subword=False,
    )
    settings = Seq2seqSettings(model=weights, prefix="")
    model = nqg.Seq2seq.train(
        dataset.train, settings, training, device=resources.device
    )
    return Trained.always(model)


def hassil(dataset: RealDataset, resources: Resources) -> Trained:
    return Trained.always(hassil_for(dataset))


def prompted(dataset: RealDataset, resources: Resources) -> Trained:
    from real_use_prompted import Prompted  # which loads torch and transformers

    weights = resources.required("causal", "prompted")
    return Trained.always(Prompted.load(dataset, weights, resources.device))


SYSTEMS: dict[str, Callable[[RealDataset, Resources], Trained]] = {
    "grammar": grammar,
    "hybrid": hybrid,
    "plain-t5": plain_t5,
    "hassil": hassil,
    "prompted": prompted,
    "grammar-90": grammar_90,
    "hybrid-90": hybrid_90,
}
# Those that ask for another precision train the same again, so they are asked for by name.
DEFAULT_SYSTEMS = ("grammar", "hybrid", "plain-t5", "hassil", "prompted")


def suits(system: str, dataset: RealDataset) -> bool:
    """Whether a system can be asked about a dataset: hassil has rules for its own house only."""
    return system != "hassil" or dataset.fixtures is not None
