"""Answers on CPUs by CTranslate2 (extra `fast`), with weights in eight bits: many times the
sentences a second.

A folder is converted once and stored beside the downloaded datasets. Before a converted model is
used, both runtimes score an answer: where they disagree by more than rounding, or CTranslate2 does
not support the kind of model, PyTorch answers. Free answers of CTranslate2 stand if they are legal;
PyTorch decodes the other sentences again.
"""

from __future__ import annotations

import copy
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from nqg.answers import SEQ2SEQ, Answer
from nqg.errors import NqgError
from nqg.files import cache_folder
from nqg.model_folder import (
    INDEX,
    checksum,
    folder_written_atomically,
    quiet_transformers,
)
from nqg.seq2seq.architecture import is_decoder_only
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.seq2seq import Seq2seq, distinct_candidates, tokenize_sources
from nqg.seq2seq.settings import BASELINE_MODELS
from nqg.seq2seq.target_codec import decode
from nqg.types.target_grammar import TargetGrammar

# An environment variable: at 0, PyTorch answers.
SWITCH = "NQG_FAST"
# The latest converted models are kept, so many of them.
MAX_CONVERTED = 4
# Sentences that are read at once. Not tuned.
BATCH_SENTENCES = 32
PROBE = "a sentence to try it with"
# Nats a subword by which eight bits may change the loss of a probe. A wrong model is off by many.
# Not tuned.
MAX_LOSS_DIFFERENCE = 0.5


@dataclass(frozen=True)
class QuantizedSeq2seq:
    """A model whose free answers come from CTranslate2; PyTorch's legal answers replace those that
    are illegal.
    """

    seq2seq: Seq2seq
    translator: Any = field(repr=False)
    grammar: TargetGrammar | None = None

    @classmethod
    def load(
        cls, seq2seq: Seq2seq, folder: Path, grammar: TargetGrammar | None = None
    ) -> QuantizedSeq2seq | None:
        """The model that was loaded from a folder, in eight bits; None where PyTorch had better
        answer itself.
        """
        is_wanted = os.environ.get(SWITCH) != "0" and seq2seq.device.type == "cpu"
        if not is_wanted or seq2seq.settings.model in BASELINE_MODELS:
            return None
        # Only encoder-decoders are converted.
        if is_decoder_only(seq2seq.model):
            return None
        try:
            import ctranslate2

            converted = convert(seq2seq, checksum(folder / INDEX))
            threads = torch.get_num_threads()
            translator = ctranslate2.Translator(
                str(converted), device="cpu", intra_threads=threads
            )
        # CTranslate2 is not installed or does not support the kind of model, or the disk is full.
        except (ImportError, NqgError, OSError, RuntimeError, ValueError):
            return None
        # The probe's target is one that the model would write: rounding changes the loss of others
        # by much.
        quantized = cls(seq2seq, translator, grammar)
        (answer,) = seq2seq.answers([PROBE])
        probe = [(PROBE, answer.target or PROBE)]
        (exact,) = seq2seq.log_probabilities(probe)
        (rounded,) = quantized.log_probabilities(probe)
        (subwords,) = seq2seq.target_subwords([target for _, target in probe])
        is_close = abs(rounded - exact) < MAX_LOSS_DIFFERENCE * len(subwords)
        return quantized if is_close else None

    @cached_property
    def legal(self) -> LegalSeq2seq | None:
        """PyTorch under the grammar, if there is one, made on first use."""
        if self.grammar is None:
            return None
        return LegalSeq2seq(self.seq2seq, self.grammar)

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The target of every sentence, with its probability among all possible texts."""
        answers = []
        for (answer,) in self._translate(list(sentences), 1):
            answers.append(answer)
        return self.legal.corrected(answers) if self.legal else answers

    def candidates(self, sentences: Sequence[str], count: int) -> list[list[Answer]]:
        """Up to `count` different targets of each sentence, the likeliest first; with a grammar,
        legal ones.
        """
        free = list(map(distinct_candidates, self._translate(sentences, count)))
        return (
            self.legal.legal_candidates(sentences, free, count) if self.legal else free
        )

    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """What `Seq2seq.log_probabilities` gives, within the rounding of eight bits."""
        seq2seq, tokenizer = self.seq2seq, self.seq2seq.tokenizer
        targets = []
        for ids in seq2seq.target_subwords([target for _, target in pairs]):
            # CTranslate2 adds the end itself.
            subwords = [number for number in ids if number != tokenizer.eos_token_id]
            targets.append(tokenizer.convert_ids_to_tokens(subwords))
        sources = self._subwords([sentence for sentence, _ in pairs])
        scored = self.translator.score_batch(
            sources, targets, max_batch_size=BATCH_SENTENCES
        )
        longest = seq2seq.settings.longest_target
        return [float(sum(result.log_probs[:longest])) for result in scored]

    def _translate(self, sources: Sequence[str], count: int) -> list[list[Answer]]:
        """The `count` likeliest texts of every source, as CTranslate2 finds them."""
        seq2seq = self.seq2seq
        if not sources:
            return []
        # Without a length penalty, scores are logarithms of probabilities.
        results = self.translator.translate_batch(
            self._subwords(sources),
            beam_size=max(count, seq2seq.settings.beams),
            num_hypotheses=count,
            max_decoding_length=seq2seq.settings.longest_target,
            max_batch_size=BATCH_SENTENCES,
            return_scores=True,
            length_penalty=0,
        )
        translated = []
        for source, result in zip(sources, results):
            ids = map(seq2seq.tokenizer.convert_tokens_to_ids, result.hypotheses)
            answers = []
            for text, score in zip(decode(seq2seq.tokenizer, [*ids]), result.scores):
                target = seq2seq.spelling.decode(text) or None
                answers.append(Answer(source, target, math.exp(score), SEQ2SEQ))
            translated.append(answers)
        return translated

    def _subwords(self, sources: Sequence[str]) -> list[list[str]]:
        tokenizer = self.seq2seq.tokenizer
        ids = tokenize_sources(tokenizer, self.seq2seq.settings, sources, truncate=True)
        return list(map(tokenizer.convert_ids_to_tokens, ids))


def convert(seq2seq: Seq2seq, name: str) -> Path:
    """The folder of a converted model, written if it is absent; `name` is a checksum."""
    from ctranslate2.converters import TransformersConverter

    home = cache_folder() / "quantized"
    folder = home / name
    if folder.is_dir():
        os.utime(folder)
        return folder
    model, config = copy.deepcopy(seq2seq.model), seq2seq.model.config
    # T5 1.1 and flan-t5 have a head that is not tied to the embeddings, and do not scale what it
    # reads. The converter assumes that they do.
    if (
        config.tie_word_embeddings
        and getattr(config, "scale_decoder_outputs", None) is False
    ):
        with torch.no_grad():
            model.lm_head.weight.mul_(config.d_model**0.5)
    with (
        tempfile.TemporaryDirectory() as copied,
        folder_written_atomically(folder) as staging,
        quiet_transformers(),
    ):
        model.save_pretrained(copied)
        seq2seq.tokenizer.save_pretrained(copied)
        TransformersConverter(copied).convert(
            str(staging), quantization="int8", force=True
        )
    # Other processes remove old folders, too, and write new ones under names that begin with a dot.
    with suppress(OSError):
        converted = [path for path in home.iterdir() if not path.name.startswith(".")]
        converted.sort(key=lambda path: path.stat().st_mtime)
        for old in converted[:-MAX_CONVERTED]:
            shutil.rmtree(old, ignore_errors=True)
    return folder
