"""Answers on CPUs by CTranslate2 (extra `fast`), with weights in eight bits: many times the sentences a second.

A folder is converted once and kept beside the downloaded datasets. Before it is used, both runtimes score an answer:
where they disagree by more than rounding, or the model is of a kind that CTranslate2 does not know, PyTorch answers as
before. What it answers freely stands if it is legal; the other sentences are decoded again by PyTorch.
"""

from __future__ import annotations

import copy
import math
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.files import cache_folder
from nqg.model_folder import INDEX, checksum, folder_written_atomically, quiet_transformers
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.seq2seq import SEQ2SEQ, Seq2seq, tokenize_sources
from nqg.seq2seq.settings import BASELINE_MODELS
from nqg.seq2seq.spelling import decode, tokenize_targets
from nqg.types.target_grammar import TargetGrammar

SWITCH = "NQG_FAST"  # a variable: at 0, PyTorch answers
MAX_CONVERTED = 4  # converted models, the latest
BATCH_SENTENCES = 32  # sentences that are read at once
PROBE = "a sentence to try it with"
# Nats a subword by which eight bits may change the loss of a probe. A wrong model is off by many.
MAX_LOSS_DIFFERENCE = 0.5


@dataclass(frozen=True)
class QuantizedSeq2seq:
    """A model whose free answers come from CTranslate2; where they are illegal, legal ones of PyTorch are taken."""

    seq2seq: Seq2seq
    translator: Any = field(repr=False)
    grammar: TargetGrammar | None = None

    @classmethod
    def load(
        cls, seq2seq: Seq2seq, folder: Path, grammar: TargetGrammar | None = None
    ) -> QuantizedSeq2seq | None:
        """The model that was loaded from a folder, in eight bits; None where PyTorch had better answer itself."""
        is_wanted = os.environ.get(SWITCH) != "0" and seq2seq.device.type == "cpu"
        if not is_wanted or seq2seq.settings.model in BASELINE_MODELS:
            return None
        try:
            import ctranslate2
        except ImportError:
            return None
        try:
            converted = convert(seq2seq, checksum(folder / INDEX))
            threads = torch.get_num_threads()
            translator = ctranslate2.Translator(str(converted), device="cpu", intra_threads=threads)
        except (
            NqgError,
            OSError,
            RuntimeError,
            ValueError,
        ):  # a kind that it does not know, or no room
            return None
        found = cls(seq2seq, translator, grammar)
        (answer,) = seq2seq.answers(
            [PROBE]
        )  # what a fine-tuned model would never write, rounding changes by much
        probe = Example(PROBE, answer.target or PROBE)
        difference = abs(found.loss(probe) - seq2seq.losses([probe])[0])
        return found if difference < MAX_LOSS_DIFFERENCE else None

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The target of every sentence, with its probability among all that the model might write."""
        sources, tokenizer, settings = (
            list(sentences),
            self.seq2seq.tokenizer,
            self.seq2seq.settings,
        )
        if not sources:
            return []
        results = self.translator.translate_batch(
            self._subwords(sources),
            beam_size=settings.beams,
            max_decoding_length=settings.longest_target,
            max_batch_size=BATCH_SENTENCES,
            return_scores=True,
            length_penalty=0,  # so that scores are logarithms of probabilities
        )
        written = decode(
            tokenizer, [tokenizer.convert_tokens_to_ids(each.hypotheses[0]) for each in results]
        )
        targets = [self.seq2seq.spelling.read(text) or None for text in written]
        scored = zip(sources, targets, results, strict=True)
        found = [
            Answer(source, target, math.exp(each.scores[0]), SEQ2SEQ)
            for source, target, each in scored
        ]
        return (
            found
            if self.grammar is None
            else LegalSeq2seq(self.seq2seq, self.grammar).corrected(found)
        )

    def loss(self, example: Example) -> float:
        """What `Seq2seq.losses` gives for one example: nats a subword."""
        tokenizer = self.seq2seq.tokenizer
        (ids,) = tokenize_targets(tokenizer, [self.seq2seq.spelling.spelled(example.target)])
        target = tokenizer.convert_ids_to_tokens(
            [each for each in ids if each != tokenizer.eos_token_id]
        )
        (scored,) = self.translator.score_batch(self._subwords([example.source]), [target])
        return -float(sum(scored.log_probs)) / len(scored.log_probs)

    def _subwords(self, sources: list[str]) -> list[list[str]]:
        ids = tokenize_sources(
            self.seq2seq.tokenizer, self.seq2seq.settings, sources, truncate=True
        )
        return [self.seq2seq.tokenizer.convert_ids_to_tokens(each) for each in ids]


def convert(seq2seq: Seq2seq, name: str) -> Path:
    """The folder of a converted model, made where it is not there yet; `name` stands for what is in it."""
    from ctranslate2.converters import TransformersConverter

    home = cache_folder() / "quantized"
    folder = home / name
    if folder.is_dir():
        os.utime(folder)
        return folder
    model, config = copy.deepcopy(seq2seq.model), seq2seq.model.config
    if config.tie_word_embeddings and getattr(config, "scale_decoder_outputs", None) is False:
        # T5 1.1 and flan-t5 have a head of its own and do not scale what it reads; the converter thinks that they do
        with torch.no_grad():
            model.lm_head.weight.mul_(config.d_model**0.5)
    with (
        tempfile.TemporaryDirectory() as copied,
        folder_written_atomically(folder) as part,
        quiet_transformers(),
    ):
        model.save_pretrained(copied)
        seq2seq.tokenizer.save_pretrained(copied)
        TransformersConverter(copied).convert(str(part), quantization="int8", force=True)
    with suppress(
        OSError
    ):  # other processes remove old ones, too, and write new ones in hidden parts
        converted = [each for each in home.iterdir() if not each.name.startswith(".")]
        for old in sorted(converted, key=lambda each: each.stat().st_mtime)[:-MAX_CONVERTED]:
            shutil.rmtree(old, ignore_errors=True)
    return folder
