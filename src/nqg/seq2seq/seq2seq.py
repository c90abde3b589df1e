"""The sequence-to-sequence model as others use it: trained, saved, loaded, and asked for the targets of sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from nqg.answers import Answer, exact_match
from nqg.data.examples import Example
from nqg.model_folder import refused_with
from nqg.seq2seq.checkpoint import read_folder, write_folder
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.spelling import Spelling, decode
from nqg.training.processes import best_device

SEQ2SEQ = "seq2seq"  # how its answers call the system
BATCH_SUBWORDS = 2**15  # of sources that are read at once, padding included
BATCH_LOGITS = 2**27  # that are kept at once when probabilities are computed


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
        from nqg.seq2seq.fine_tuning import FineTuning  # which makes models, and so imports this module

        fine_tuning = FineTuning(examples, settings, training, dev=dev, device=device)
        for _ in fine_tuning.steps():
            pass
        return fine_tuning.seq2seq

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

    def too_long(self, sources: Sequence[str]) -> list[int]:
        """The positions of the sources whose ends the model does not read."""
        lengths = map(len, tokenize_sources(self.tokenizer, self.settings, sources, truncate=False))
        return [position for position, length in enumerate(lengths) if length > self.settings.longest_source]

    def predict(self, sources: Sequence[str], *, allowed: LogitsProcessor | None = None) -> list[str]:
        """The target of every source; `allowed` may rule subwords out as they come."""
        return [target for target, _ in self._generate(sources, allowed, is_scored=False)]

    def answers(self, sentences: Iterable[str], *, allowed: LogitsProcessor | None = None) -> list[Answer]:
        """What `predict` gives, with the probability of each target among all texts that the model might write."""
        sources = list(sentences)
        found = zip(sources, self._generate(sources, allowed, is_scored=True), strict=True)
        return [Answer(source, target or None, probability, SEQ2SEQ) for source, (target, probability) in found]

    def exact_match(self, examples: Sequence[Example]) -> float:
        """The share of examples whose target is predicted."""
        pairs = zip(self.predict([example.source for example in examples]), examples, strict=True)
        return sum(exact_match(target, example.target) for target, example in pairs) / len(examples)

    @torch.inference_mode()
    def _generate(
        self, sources: Sequence[str], allowed: LogitsProcessor | None, *, is_scored: bool
    ) -> list[tuple[str, float | None]]:
        """The target of every source and, if asked for, its probability; sources of like lengths are read together."""
        self.model.eval()
        own = self.model.generation_config
        config = GenerationConfig(  # type: ignore[no-untyped-call]  # whatever it has for other tasks is left aside
            num_beams=self.settings.beams,
            do_sample=False,
            max_new_tokens=self.settings.longest_target,
            decoder_start_token_id=own.decoder_start_token_id,
            bos_token_id=own.bos_token_id,
            eos_token_id=own.eos_token_id,
            pad_token_id=own.pad_token_id,
        )
        processors = LogitsProcessorList([allowed] if allowed else [])
        subwords = tokenize_sources(self.tokenizer, self.settings, sources, truncate=True)
        found: dict[int, tuple[str, float | None]] = {}
        for positions in batches_by_length(subwords):
            ids = [subwords[position] for position in positions]
            padded = self.tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(self.device)
            batch = {name: padded[name] for name in ("input_ids", "attention_mask")}
            rows = self.model.generate(**batch, generation_config=config, logits_processor=processors)
            targets = [self.spelling.read(text) for text in decode(self.tokenizer, rows.tolist())]
            probabilities = self._probabilities(batch, rows) if is_scored else [None] * len(targets)
            found.update(zip(positions, zip(targets, probabilities, strict=True), strict=True))
        return [found[position] for position in range(len(subwords))]

    def _probabilities(self, batch: dict[str, Tensor], rows: Tensor) -> list[float]:
        """The probability of each row, read as a whole: much quicker than asking while it is written."""
        found: list[float] = []
        size = max(1, BATCH_LOGITS // (rows.shape[1] * self.model.config.vocab_size))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            sources = {name: ids[start : start + size] for name, ids in batch.items()}
            logits = self.model(**sources, decoder_input_ids=part[:, :-1]).logits.float()
            unused = self.model.generation_config.pad_token_id
            losses = cross_entropy(logits.transpose(1, 2), part[:, 1:], ignore_index=unused, reduction="none")
            found += (-losses.sum(1)).exp().tolist()
        return found


def tokenize_sources(
    tokenizer: Any, settings: Seq2seqSettings, sources: Sequence[str], *, truncate: bool
) -> list[list[int]]:
    """The subwords of sources after the prefix, all of them or as many as the model reads."""
    texts = [settings.prefix + source for source in sources]
    limits = {"truncation": True, "max_length": settings.longest_source} if truncate else {"verbose": False}
    ids: list[list[int]] = tokenizer(texts, **limits)["input_ids"] if texts else []
    return ids


def batches_by_length(subwords: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Positions in batches of like lengths, the longest first: if memory is short, it shows at once."""
    left = sorted(range(len(subwords)), key=lambda position: (-len(subwords[position]), position))
    while left:
        count = max(1, BATCH_SUBWORDS // len(subwords[left[0]]))
        yield left[:count]
        del left[:count]
