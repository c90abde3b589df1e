"""The sequence-to-sequence model as others use it: trained, saved, loaded, and asked for the targets of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from nqg.answers import Answer, exact_match
from nqg.data.examples import Example
from nqg.model_folder import refused_with
from nqg.seq2seq.checkpoint import read_folder, write_folder
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.spelling import Spelling, written
from nqg.training.processes import best_device

SEQ2SEQ = "seq2seq"  # how its answers call the system
TOGETHER = 2**15  # pieces of sources that are read at once, padding included
LOGITS = 2**27  # numbers that are kept at once when probabilities are computed

T = TypeVar("T")
Ids = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Seq2seq:
    """A model with its tokenizer, the spelling of its targets, and how it reads and writes."""

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    spelling: Spelling
    settings: Seq2seqSettings

    @classmethod
    def train(
        cls,
        examples: Sequence[Example],
        settings: Seq2seqSettings = Seq2seqSettings(),  # noqa: B008 (frozen)
        training: FineTuningSettings = FineTuningSettings(),  # noqa: B008 (frozen)
        *,
        dev: Sequence[Example] = (),
        device: str | None = None,
    ) -> Seq2seq:
        """A model fine-tuned on `examples`; with `dev`, the weights that did best on them."""
        from nqg.seq2seq.fine_tuning import FineTuning

        fitting = FineTuning(examples, settings, training, dev=dev, device=device)
        for _ in fitting.steps():
            pass
        return fitting.seq2seq

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Seq2seq:
        """The model in a folder."""
        model, tokenizer, spelling, settings = read_folder(Path(folder))
        loaded = cls(model.to(device or best_device()).eval(), tokenizer, spelling, settings)
        with refused_with("the model cannot write a target", Path(folder)):
            replace(loaded, settings=replace(settings, longest_target=1)).predict(["a sentence"])
        return loaded

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        write_folder(Path(folder), self.model, self.tokenizer, self.spelling, self.settings)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.model.device
        return device

    def source_length(self, source: str) -> int:
        """How many pieces a source has, prefix and end included; `longest_source` of them are read."""
        return len(self._sources([source], truncate=False)[0])

    def too_long(self, sources: Sequence[str]) -> list[int]:
        """The positions of the sources whose ends the model does not read."""
        lengths = map(len, self._sources(sources, truncate=False))
        return [place for place, length in enumerate(lengths) if length > self.settings.longest_source]

    def predict(self, sources: Sequence[str], *, allowed: LogitsProcessor | None = None) -> list[str]:
        """The target of every source, tokens separated by single spaces; `allowed` may rule pieces out as they come."""
        return self._in_batches(sources, lambda batch: self._targets(self._written(self._padded(batch), allowed)))

    def answers(self, sentences: Iterable[str], *, allowed: LogitsProcessor | None = None) -> list[Answer]:
        """What `predict` gives, with the probability of each target among all texts that the model might write."""
        sources = list(sentences)
        found = self._in_batches(sources, lambda batch: self._with_probabilities(self._padded(batch), allowed))
        return [
            Answer(source, target or None, chance, SEQ2SEQ)
            for source, (target, chance) in zip(sources, found, strict=True)
        ]

    def exact_match(self, examples: Sequence[Example]) -> float:
        """The share of examples whose target is predicted."""
        predicted = self.predict([example.source for example in examples])
        pairs = zip(predicted, examples, strict=True)
        return sum(exact_match(found, example.target) for found, example in pairs) / len(examples)

    def target_of(self, pieces: Sequence[int]) -> str:
        """The target that pieces spell."""
        return self.spelling.read(written(self.tokenizer, [pieces])[0])

    def _sources(self, sources: Sequence[str], truncate: bool) -> list[list[int]]:
        return tokenize_sources(self.tokenizer, self.settings, sources, truncate=truncate)

    @torch.inference_mode()
    def _in_batches(self, sources: Sequence[str], answers: Callable[[Ids], list[T]]) -> list[T]:
        """The answers to batches of sources of like lengths, in the order of the sources."""
        self.model.eval()
        pieces = self._sources(sources, truncate=True)
        found = [
            (place, answer)
            for places in _by_length(pieces)
            for place, answer in zip(places, answers([pieces[place] for place in places]), strict=True)
        ]
        return [answer for _, answer in sorted(found, key=lambda pair: pair[0])]

    def _padded(self, sources: Ids) -> dict[str, Tensor]:
        batch = self.tokenizer.pad({"input_ids": list(sources)}, return_tensors="pt").to(self.device)
        return {name: batch[name] for name in ("input_ids", "attention_mask")}

    def _written(self, batch: dict[str, Tensor], allowed: LogitsProcessor | None) -> Tensor:
        """The pieces that the model writes, a row a source, after the one that every text starts from."""
        processors = LogitsProcessorList([allowed] if allowed else [])
        rows: Tensor = self.model.generate(**batch, generation_config=self._generation(), logits_processor=processors)
        return rows

    def _targets(self, rows: Tensor) -> list[str]:
        return [self.spelling.read(text) for text in written(self.tokenizer, rows.tolist())]

    def _with_probabilities(self, batch: dict[str, Tensor], allowed: LogitsProcessor | None) -> list[tuple[str, float]]:
        rows = self._written(batch, allowed)
        together = max(1, LOGITS // (rows.shape[1] * self.model.config.vocab_size))
        parts = (slice(start, start + together) for start in range(0, len(rows), together))
        probabilities = [
            probability
            for part in parts
            for probability in self._probabilities({name: ids[part] for name, ids in batch.items()}, rows[part])
        ]
        return list(zip(self._targets(rows), probabilities, strict=True))

    def _probabilities(self, batch: dict[str, Tensor], rows: Tensor) -> list[float]:
        """The probability of each row, read as a whole: much quicker than asking while it is written."""
        logits = self.model(**batch, decoder_input_ids=rows[:, :-1]).logits.float()
        unused = self.model.generation_config.pad_token_id
        losses = cross_entropy(logits.transpose(1, 2), rows[:, 1:], ignore_index=unused, reduction="none")
        return (-losses.sum(1)).exp().tolist()

    def _generation(self) -> GenerationConfig:
        """How targets are written; whatever a model brings along for other tasks is left aside."""
        own = self.model.generation_config
        return GenerationConfig(  # type: ignore[no-untyped-call]
            num_beams=self.settings.beams,
            do_sample=False,
            max_new_tokens=self.settings.longest_target,
            decoder_start_token_id=own.decoder_start_token_id,
            bos_token_id=own.bos_token_id,
            eos_token_id=own.eos_token_id,
            pad_token_id=own.pad_token_id,
        )


def tokenize_sources(
    tokenizer: Any, settings: Seq2seqSettings, sources: Sequence[str], *, truncate: bool
) -> list[list[int]]:
    """The pieces of sources after the prefix, all of them or as many as the model reads."""
    texts = [settings.prefix + source for source in sources]
    limits = {"truncation": True, "max_length": settings.longest_source} if truncate else {"verbose": False}
    ids: list[list[int]] = tokenizer(texts, **limits)["input_ids"] if texts else []
    return ids


def _by_length(pieces: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Positions in batches of like lengths, the longest first: if memory is short, it shows at once."""
    left = sorted(range(len(pieces)), key=lambda place: (-len(pieces[place]), place))
    while left:
        count = max(1, TOGETHER // len(pieces[left[0]]))
        yield left[:count]
        del left[:count]
