"""The sequence-to-sequence model as others use it: trained, saved, loaded, and asked for the targets of sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from nqg.data.example import Example
from nqg.model.soundness import refused_with
from nqg.seq2seq.checkpoint import read_folder, write_folder
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.seq2seq.spelling import Spelling, normalised, written

TOGETHER = 2**15  # pieces of sources that are read at once, padding included


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
        from nqg.seq2seq.fitting import Seq2seqFitting

        fitting = Seq2seqFitting(examples, settings, training, dev=dev, device=device)
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
        return len(self._sources([source], is_cut=False)[0])

    def too_long(self, sources: Sequence[str]) -> list[int]:
        """The positions of the sources whose ends the model does not read."""
        lengths = map(len, self._sources(sources, is_cut=False))
        return [place for place, length in enumerate(lengths) if length > self.settings.longest_source]

    def predict(self, sources: Sequence[str], *, allowed: LogitsProcessor | None = None) -> list[str]:
        """The target of every source, tokens separated by single spaces; `allowed` may rule pieces out as they come."""
        pieces = self._sources(sources, is_cut=True)
        targets = [""] * len(sources)
        self.model.eval()
        for places in _by_length(pieces):
            answers = self._answers([pieces[place] for place in places], allowed)
            for place, answer in zip(places, answers, strict=True):
                targets[place] = answer
        return targets

    def exact_match(self, examples: Sequence[Example]) -> float:
        """The share of examples whose target is predicted, token for token."""
        predicted = self.predict([example.source for example in examples])
        right = sum(normalised(example.target) == found for example, found in zip(examples, predicted, strict=True))
        return right / len(examples)

    def target_of(self, pieces: Sequence[int]) -> str:
        """The target that pieces spell."""
        return self.spelling.read(written(self.tokenizer, [pieces])[0])

    def _sources(self, sources: Sequence[str], is_cut: bool) -> list[list[int]]:
        return encoded_sources(self.tokenizer, self.settings, sources, is_cut=is_cut)

    @torch.inference_mode()
    def _answers(self, sources: Sequence[Sequence[int]], allowed: LogitsProcessor | None) -> list[str]:
        batch = self.tokenizer.pad({"input_ids": list(sources)}, return_tensors="pt").to(self.device)
        ids = self.model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            generation_config=self._generation(),
            logits_processor=LogitsProcessorList([allowed] if allowed else []),
        )
        return [self.spelling.read(text) for text in written(self.tokenizer, ids.tolist())]

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


def encoded_sources(
    tokenizer: Any, settings: Seq2seqSettings, sources: Sequence[str], *, is_cut: bool
) -> list[list[int]]:
    """The pieces of sources after the prefix, all of them or as many as the model reads."""
    texts = [settings.prefix + source for source in sources]
    limits = {"truncation": True, "max_length": settings.longest_source} if is_cut else {"verbose": False}
    ids: list[list[int]] = tokenizer(texts, **limits)["input_ids"] if texts else []
    return ids


def _by_length(pieces: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Positions in batches of like lengths, the longest first: if memory is short, it shows at once."""
    left = sorted(range(len(pieces)), key=lambda place: (-len(pieces[place]), place))
    while left:
        count = max(1, TOGETHER // len(pieces[left[0]]))
        yield left[:count]
        del left[:count]


def best_device() -> str:
    """A GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"
