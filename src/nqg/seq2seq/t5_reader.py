"""A saved T5 that answers without torch: in NumPy and, where CTranslate2 is installed, many times
as fast.

It gives the answers of `nqg.seq2seq.seq2seq.Seq2seq`, which trains such models. CTranslate2 answers
freely and scores, with weights in eight bits; decoding under a grammar masks the logits of every
step, which NumPy computes in float32.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nqg.answers import SEQ2SEQ, Answer, distinct_candidates
from nqg.errors import NqgError
from nqg.extensions import load_extension
from nqg.model_folder import (
    INDEX,
    TOKENIZER_FILE,
    check_vocabulary,
    checksum,
    convert_errors,
)
from nqg.seq2seq.beam_search import Hypothesis, beam_search
from nqg.seq2seq.folder import check_folder
from nqg.seq2seq.legal_decoding import LegalContinuations
from nqg.seq2seq.numpy_t5 import EncodedSource, NumpyT5, T5Config
from nqg.seq2seq.quantized import as_tokens, is_wanted, load_translator
from nqg.seq2seq.settings import BASELINE_MODELS, Seq2seqSettings
from nqg.seq2seq.target_codec import TargetCodec, decode, target_subwords
from nqg.seq2seq.tokenizer import SubwordTokenizer, tokenize_sources

if TYPE_CHECKING:
    from nqg.seq2seq.seq2seq import Seq2seq

# A bound of memory: sentences that CTranslate2 reads at once.
BATCH_SENTENCES = 32


@dataclass(frozen=True)
class T5Reader:
    """A T5 with its tokenizer, the codec of its targets, and how it reads and writes."""

    model: NumpyT5 = field(repr=False)
    tokenizer: SubwordTokenizer = field(repr=False)
    spelling: TargetCodec
    settings: Seq2seqSettings
    folder: Path
    # Of the index of the folder.
    digest: str
    translator: Any = field(default=None, repr=False)

    @classmethod
    def load(cls, folder: Path | str, *, quantization: str = "int8") -> T5Reader:
        """The model in a folder. One that is not a model, or is damaged, is refused with the
        reason.
        """
        folder = Path(folder)
        settings, codec = check_folder(folder)
        config_file = folder / "config.json"
        config = t5_config(folder, settings)
        if config is None:
            raise NqgError(f"{folder} holds no T5 that can be used without torch")
        with convert_errors("the model cannot be made", config_file):
            tokenizer = SubwordTokenizer.read(folder)
            check_vocabulary(tokenizer.get_vocab(), config.vocab_size, config_file)
        model = NumpyT5(config, sorted(folder.glob("*.safetensors")))
        digest = checksum(folder / INDEX)
        with convert_errors("the model cannot write a target", folder):
            translator = load_translator(model, digest, quantization=quantization)
            loaded = cls(model, tokenizer, codec, settings, folder, digest, translator)
            loaded.log_probabilities([("a sentence", "a")])
        return loaded

    def save(self, folder: Path | str) -> None:
        """Copy the folder that the model was loaded from."""
        is_there = (self.folder / INDEX).is_file()
        if not is_there or checksum(self.folder / INDEX) != self.digest:
            raise NqgError(
                f"{self.folder} was changed or removed since its model was loaded; load it again"
            )
        shutil.copytree(self.folder, folder)

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The target of every sentence, with its probability among all possible texts."""
        answers = []
        for (answer,) in self._search(list(sentences), 1, self.settings.beams):
            answers.append(answer)
        return answers

    def candidates(
        self,
        sentences: Sequence[str],
        count: int,
        *,
        allowed: LegalContinuations | None = None,
    ) -> list[list[Answer]]:
        """Up to `count` different targets of each sentence that a beam search finds, the likeliest
        first.

        The search has at least `count` beams. Probabilities are those of the free model also where
        `allowed` masks subwords.
        """
        config, beams = self.model.config, max(count, self.settings.beams)
        # Padding that a beam writes could not be told from what fills its row.
        suppressed = None
        if config.pad_token_id != config.eos_token_id:
            suppressed = config.pad_token_id
        searches = self._search(sentences, count, beams, allowed, suppressed)
        return list(map(distinct_candidates, searches))

    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The natural logarithm of p(target | sentence) for each pair (sentence, target).

        Of a target that is longer than the model writes, the beginning counts.
        """
        sources = self._source_subwords([sentence for sentence, _ in pairs])
        targets = self.target_subwords([target for _, target in pairs])
        if self.translator is not None:
            return self._translator_scores(sources, targets)
        logs = []
        # Neighbouring pairs often have the same sentence.
        encoded: EncodedSource | None = None
        for number, (source, target) in enumerate(zip(sources, targets)):
            if encoded is None or source != sources[number - 1]:
                encoded = self.model.encode(source)
            scores = self.model.log_probabilities(encoded, target)
            logs.append(float(scores.sum()))
        return logs

    def target_subwords(self, targets: Sequence[str]) -> list[list[int]]:
        """The subwords of targets, with their ends, as many as the model writes."""
        longest = self.settings.longest_target
        return target_subwords(self.tokenizer, self.spelling, targets, longest)

    def _source_subwords(self, sources: Sequence[str]) -> list[list[int]]:
        return tokenize_sources(self.tokenizer, self.settings, sources, truncate=True)

    def _search(
        self,
        sentences: Sequence[str],
        count: int,
        beams: int,
        allowed: LegalContinuations | None = None,
        suppressed: int | None = None,
    ) -> list[list[Answer]]:
        """The `count` likeliest texts of every sentence, as a beam search finds them."""
        sources = self._source_subwords(sentences)
        if self.translator is not None and allowed is None:
            searches = self._translate(sources, count, beams, suppressed)
        else:
            searches = []
            for source in sources:
                hypotheses = beam_search(
                    self.model,
                    self.model.encode(source),
                    beams=beams,
                    longest=self.settings.longest_target,
                    allowed=allowed.allowed if allowed else None,
                    suppressed=suppressed,
                )
                searches.append(hypotheses)
        answers = []
        for sentence, hypotheses in zip(sentences, searches):
            ids = [hypothesis.subwords for hypothesis in hypotheses[:count]]
            of_sentence = []
            for text, hypothesis in zip(decode(self.tokenizer, ids), hypotheses):
                target = self.spelling.decode(text) or None
                probability = math.exp(hypothesis.score)
                of_sentence.append(Answer(sentence, target, probability, SEQ2SEQ))
            answers.append(of_sentence)
        return answers

    def _translate(
        self,
        sources: Sequence[Sequence[int]],
        count: int,
        beams: int,
        suppressed: int | None,
    ) -> list[list[Hypothesis]]:
        """The likeliest texts, as CTranslate2 finds them."""
        if not sources:
            return []
        # Without a length penalty, scores are logarithms of probabilities; they would not be if
        # the first subword could not be the end.
        results = self.translator.translate_batch(
            list(map(as_tokens, sources)),
            beam_size=beams,
            num_hypotheses=count,
            max_input_length=0,
            max_decoding_length=self.settings.longest_target,
            min_decoding_length=0,
            max_batch_size=BATCH_SENTENCES,
            return_scores=True,
            length_penalty=0,
        )
        translated = []
        for result in results:
            hypotheses = []
            for tokens, score in zip(result.hypotheses, result.scores):
                subwords = tuple(map(int, tokens))
                if suppressed not in subwords:
                    hypotheses.append(Hypothesis(subwords, score))
            translated.append(hypotheses)
        return translated

    def _translator_scores(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[float]:
        # CTranslate2 adds the end itself.
        end = self.model.config.eos_token_id
        unended = [[number for number in target if number != end] for target in targets]
        scored = self.translator.score_batch(
            list(map(as_tokens, sources)),
            list(map(as_tokens, unended)),
            max_batch_size=BATCH_SENTENCES,
            max_input_length=0,
        )
        longest = self.settings.longest_target
        return [float(sum(result.log_probs[:longest])) for result in scored]


def t5_config(folder: Path, settings: Seq2seqSettings) -> T5Config | None:
    """The config of a saved model that can be used without torch; None for any other."""
    if settings.model in BASELINE_MODELS or not (folder / TOKENIZER_FILE).exists():
        return None
    with convert_errors("damaged", folder / "config.json"):
        return T5Config.read(folder)


def load_reader(folder: Path, device: str | None = None) -> Seq2seq | T5Reader:
    """The sequence-to-sequence model in a folder: without torch where torch is not installed or
    CTranslate2 is faster, in torch anywhere else.
    """
    settings, _ = check_folder(folder)
    is_t5 = t5_config(folder, settings) is not None
    if is_t5 and (find_spec("torch") is None or is_fast(device)):
        return T5Reader.load(folder)
    load = load_extension(
        "nqg.seq2seq.seq2seq:Seq2seq", f"the second reader '{settings.model}'"
    ).load
    reader: Seq2seq = load(folder, device)
    return reader


def is_fast(device: str | None) -> bool:
    """Whether CTranslate2 is the fastest way on a device, or on the best one there is."""
    if device not in (None, "cpu") or not is_wanted():
        return False
    import ctranslate2

    return device == "cpu" or ctranslate2.get_cuda_device_count() == 0
