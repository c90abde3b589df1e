"""A decoder-only language model that is shown the nearest training pairs, and not trained.

Each prompt has the training pairs that share the most words with the sentence, the nearest last.
The model continues greedily, and only with what the types of the training programs allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LogitsProcessor,
    LogitsProcessorList,
)

from nqg import Answer, Example, TrainSettings, infer_target_grammar
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import fit_training_text
from nqg.seq2seq.legal_decoding import LegalContinuations, LegalTargets
from nqg.seq2seq.target_codec import decode, fit_codec
from nqg.slots.target_grammars import open_slot_categories
from real_use_datasets import RealDataset

NAME = "prompted"
# Pairs in a prompt. Set by hand to what 2,048 subwords hold; not tuned.
SHOTS = 8
INSTRUCTION = "Translate each sentence into a program.\n\n"
LONGEST, BATCH = 160, 16


class LegalAnswers(LogitsProcessor):
    """Masks what may not follow, after a prompt; the end of a line counts as the end.

    A model that was never trained to end after a program writes a new line there, or several.
    """

    def __init__(self, legal: LegalTargets, prompt: int, newlines: Sequence[int]):
        self.continuations = LegalContinuations(legal)
        self.prompt, self.newlines = prompt, list(newlines)
        self.end = legal.vocabulary.end

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        lines = scores[:, self.newlines].amax(1)
        scores[:, self.end] = torch.maximum(scores[:, self.end], lines)
        # The last subword of the prompt stands for the one that a decoder starts from.
        written = input_ids[:, self.prompt - 1 :]
        return self.continuations(written, scores)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Prompted:
    """A language model, the pairs that it may be shown, and the programs that it may write."""

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    pairs: Sequence[Example]
    text: Preprocessor
    legal: LegalTargets = field(repr=False)
    newlines: Sequence[int] = field(repr=False)

    @classmethod
    def load(cls, dataset: RealDataset, weights: str, device: str | None) -> Prompted:
        """The text and the types are those that `nqg.train` finds in the training pairs."""
        settings = TrainSettings()
        if dataset.settings:
            settings = TrainSettings.read(dataset.settings)
        training = fit_training_text(
            dataset.train, settings.text, settings.slots, settings.file
        )
        text = training.text
        types = infer_target_grammar(training.programs(training.examples))
        types = open_slot_categories(types, text.slots.quotes)
        # The pairs have raw sentences and tokenised programs.
        pairs = []
        for raw, tokens in zip(dataset.train, training.examples, strict=True):
            pairs.append(Example(raw.source, tokens.target))

        tokenizer = AutoTokenizer.from_pretrained(weights, padding_side="left")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        model: Any = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
        targets = [pair.target for pair in pairs]
        codec = fit_codec(tokenizer, targets, one_subword=False)
        legal = LegalTargets(types, tokenizer, codec)
        alone = decode(tokenizer, [[number] for number in range(len(tokenizer))])
        newlines = [
            number for number, word in enumerate(alone) if word.startswith("\n")
        ]
        model.to(device or "cpu").eval()
        return cls(model, tokenizer, pairs, text, legal, newlines)

    def prompt(self, sentence: str) -> str:
        """The nearest pairs, and the sentence with an open end."""
        lines = []
        for pair in reversed(nearest(sentence, self.pairs, SHOTS)):
            program = self.legal.codec.encode(pair.target)
            lines.append(f"sentence: {pair.source}\nprogram: {program}\n\n")
        return f"{INSTRUCTION}{''.join(lines)}sentence: {sentence}\nprogram:"

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The legal program that greedy decoding gives for each sentence."""
        every = list(sentences)
        answers: list[Answer] = []
        for start in range(0, len(every), BATCH):
            answers += self._batch(every[start : start + BATCH])
        return answers

    @torch.inference_mode()
    def _batch(self, sentences: Sequence[str]) -> list[Answer]:
        prompts = [self.prompt(sentence) for sentence in sentences]
        batch = self.tokenizer(prompts, return_tensors="pt", padding=True)
        batch = batch.to(self.model.device)
        size, end = batch["input_ids"].shape[1], self.tokenizer.eos_token_id
        mask = LegalAnswers(self.legal, size, self.newlines)
        written = self.model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            logits_processor=LogitsProcessorList([mask]),
            do_sample=False,
            max_new_tokens=LONGEST,
            eos_token_id=end,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        answers = []
        for sentence, ids in zip(sentences, written[:, size:].tolist(), strict=True):
            program, reason = None, f"no end within {LONGEST} subwords"
            if end in ids:
                text = self.tokenizer.decode(ids[: ids.index(end)])
                tokens = self.legal.codec.decode(text).split()
                program, reason = self.text.programs.render(tokens), ""
            answers.append(Answer(sentence, program, system=NAME, reason=reason))
        return answers


def nearest(sentence: str, pairs: Sequence[Example], count: int) -> list[Example]:
    """The pairs whose sentences share the most words with this one, the nearest first.

    >>> pairs = [Example("open the door", "open"), Example("stop the music", "stop")]
    >>> nearest("please stop the noise", pairs, 1)[0].target
    'stop'
    """
    words = {*sentence.lower().split()}

    def distance(pair: Example) -> float:
        others = {*pair.source.lower().split()}
        return 1 - len(words & others) / len(words | others)

    return sorted(pairs, key=distance)[:count]
