"""The parser: sentences in, programs out, each with its probability and its derivation; or an abstention.

A batch of sentences becomes one hypergraph of charts; the encoder scores every hyperedge; the best derivation of each
sentence, and the share of its target among all derivations, are its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from nqg.answers import (
    GRAMMAR,
    ILLEGAL,
    NO_DERIVATION,
    TOO_LONG,
    UNSURE,
    Answer,
    checked_sentences,
    in_percent,
)
from nqg.errors import DamagedModel, LimitExceeded
from nqg.grammar.arrays import FloatArray
from nqg.grammar.derivation import Tokens
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import Hypergraph
from nqg.inference.charts import BatchCharts
from nqg.inference.decoding import DecodeOptions, ScoredCharts
from nqg.inference.gaps import explained, gaps_in
from nqg.model.checkpoint import Provenance, SavedModel, load_model, save_model
from nqg.model.confidence import (
    MAX_SUSPECT_CONFIDENCE,
    context_words,
    rule_pairs,
    value_contexts,
)
from nqg.model.scorer import untrained_bonuses
from nqg.model.settings import EMBEDDED
from nqg.model.spans import SpanTable, anchors
from nqg.model.subwords import Subwords, collate, tokenize
from nqg.model_folder import pretrained, push_to_hub
from nqg.slots.instantiate import SlotInstances, encoder_tokens, mentions_of
from nqg.slots.matcher import Mention
from nqg.text.sentences import TokenizedSentence
from nqg.training.processes import best_device
from nqg.types.target_grammar import TargetGrammar

WINDOW = (
    1024  # sentences that are read before the first of them is answered, to be sorted by length
)
ENCODER_BATCH = 256  # sentences that are encoded together
MAX_SCORE_TABLE = (
    1 << 25
)  # scores of spans and rules that are computed together, lest large grammars fill memory
MAX_EXPLAINED = (
    1 << 20
)  # hyperedges of a sentence's chart; of more it would take too long to say what is missing
EMPTY_SENTENCE = TokenizedSentence("", ())


def windows(sentences: Iterable[str]) -> Iterator[list[str]]:
    """A stream, which may be endless, in the pieces that are answered together."""
    stream = iter(sentences)
    window = list(islice(stream, WINDOW))
    while window:
        yield window
        window = list(islice(stream, WINDOW))


@dataclass(slots=True)
class ParseItem:
    """A sentence on its way to an answer, and what each step has found out about it."""

    sentence: TokenizedSentence
    number: int  # in its batch
    answer: Answer  # an abstention until there is a better one
    mentions: Sequence[Mention] = ()
    has_chart: bool = False
    has_derivation: bool = False
    charts: BatchCharts | None = None  # of its batch

    def abstain(self, reason: str) -> None:
        self.answer = replace(self.answer, reason=reason)
        self.has_derivation = False

    @property
    def fails(self) -> bool:
        """Whether the grammar has no legal derivation of it."""
        return self.answer.target is None and self.answer.reason in (NO_DERIVATION, ILLEGAL)


@dataclass(frozen=True)
class Parser:
    """A grammar, a scorer of its rules, and perhaps a grammar of legal targets."""

    model: SavedModel
    options: DecodeOptions = DecodeOptions()  # noqa: RUF009 (frozen)

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Parser:
        """The parser in a model folder."""
        return cls(load_model(Path(folder), device or best_device()))

    @classmethod
    def from_pretrained(
        cls, name_or_folder: Path | str, device: str | None = None, *, revision: str | None = None
    ) -> Parser:
        """The parser in a model folder or, where there is none, on the Hugging Face Hub as `owner/name`."""
        with pretrained(name_or_folder, revision) as folder:
            return cls.load(folder, device)

    def push_to_hub(
        self, name: str, *, message: str = "Upload with nqg", private: bool | None = None
    ) -> str:
        """Upload the parser, with its card, to the Hugging Face Hub as `owner/name`; gives the commit's address."""
        return push_to_hub(self.save, name, message, private)

    def save(
        self,
        folder: Path | str,
        *,
        provenance: Provenance | None = None,
        also: Callable[[Path], object] | None = None,
    ) -> None:
        """Write everything that `load` needs into a folder, whole or not at all.

        `provenance` is kept with the model instead of what the parser knows of its own; see `save_model` for `also`.
        """
        save_model(
            Path(folder),
            self.model if provenance is None else replace(self.model, provenance=provenance),
            also,
        )

    @cached_property
    def grammar(self) -> Grammar:
        """The rules that it knows, typed or not."""
        typed = self.model.settings.typed if self.options.typed is None else self.options.typed
        return self.model.grammar.typed_by(self.model.target_grammar if typed else None)

    @cached_property
    def _legal_programs(self) -> TargetGrammar | None:
        return self.model.legal_programs

    @cached_property
    def known_words(self) -> Collection[str] | None:
        """What an encoder from scratch has read; a pre-trained one knows something of any word."""
        return (
            None
            if self.model.settings.encoder != EMBEDDED
            else self.model.tokenizer.get_vocab().keys()
        )

    def with_options(self, options: DecodeOptions) -> Parser:
        """The same parser with other options of decoding."""
        return replace(self, options=options)

    def with_rules(self, rules: Iterable[Rule | str]) -> Parser:
        """The same parser with more rules, written by hand as `NT_1 lights off ### lights ( NT_1 , off )`.

        A rule that it has already, or that is part of no legal program, is refused with the reason.
        """
        from nqg.inference.rules_by_hand import with_rules

        return replace(self, model=with_rules(self.model, rules))

    def without_rules(self, rules: Iterable[Rule | str]) -> Parser:
        """The same parser without some of its rules by hand; those that were trained stay, and are no longer marked."""
        from nqg.inference.rules_by_hand import without_rules

        return replace(self, model=without_rules(self.model, rules))

    def parse(self, sentence: str, *, readings: int = 0) -> Answer:
        """The answer to one sentence with all that explains it, and so many `readings`; see `DecodeOptions`."""
        asked = self.with_options(
            replace(self.options, readings=readings, marginals=True, gaps=True)
        )
        (answer,) = asked.answers([sentence])
        return explained(answer)

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in their order; the stream may be endless."""
        return self._answers(checked_sentences(sentences))

    def _answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        for window in windows(sentences):
            yield from self._window([self.model.text.tokenized(sentence) for sentence in window])

    def _window(self, window: Sequence[Sequence[TokenizedSentence]]) -> Iterator[Answer]:
        """The answers to sentences, each of which can be tokenized in one way or two."""
        found = self._parsed([ways[0] for ways in window])
        # A sentence without a derivation is read again, with or without polite frames.
        again = [
            number for number, ways in enumerate(window) if len(ways) > 1 and found[number].fails
        ]
        for number, other in zip(
            again, self._parsed([window[number][1] for number in again]), strict=True
        ):
            if other.answer.target:
                found[number] = other
        # If it still has none, words that no rule knows are read as known words that they resemble.
        corrected: dict[int, Answer] = {}
        if not self.options.exact:
            lost = {
                at: ways
                for at, ways in enumerate(window)
                if found[at].answer.reason == NO_DERIVATION
            }
            known = self.model.grammar.words
            if any(not known.issuperset(way.words) for ways in lost.values() for way in ways):
                from nqg.inference.corrections import (
                    corrected_answers,
                )  # which most sentences do not need

                corrected = corrected_answers(self, lost)
        for number, item in enumerate(found):
            yield corrected.get(number) or self._with_gaps(item)

    def tokenized_answers(self, sentences: Sequence[TokenizedSentence]) -> list[Answer]:
        """The answers to sentences just as they are tokenized."""
        return [item.answer for item in self._parsed(sentences)]

    def _parsed(self, sentences: Sequence[TokenizedSentence]) -> list[ParseItem]:
        """Sentences with their answers; those of similar length are encoded together."""
        order = sorted(range(len(sentences)), key=lambda number: len(sentences[number].tokens))
        found: dict[int, ParseItem] = {}
        for start in range(0, len(order), ENCODER_BATCH):
            batch = order[start : start + ENCODER_BATCH]
            found.update(
                zip(batch, self._batch([sentences[number] for number in batch]), strict=True)
            )
        return [found[number] for number in range(len(sentences))]

    def _batch(self, sentences: Sequence[TokenizedSentence]) -> list[ParseItem]:
        items = []
        chart = () if self.options.chart else None
        for number, sentence in enumerate(sentences):
            abstention = Answer(sentence.raw, system=GRAMMAR, words=sentence.words, chart=chart)
            items.append(ParseItem(sentence, number, abstention))
        charts = self._chart(items)
        read, scored = self._encode(items, charts)
        self._decode(read, scored)
        self._calibrate(items)
        return items

    def _chart(self, items: Sequence[ParseItem]) -> BatchCharts:
        """Chart the sentences that are not too long; abstain where there is no legal derivation."""
        longest, options = self.model.max_length, self.options
        short = [
            item.sentence if len(item.sentence.tokens) <= longest else EMPTY_SENTENCE
            for item in items
        ]
        mentions = mentions_of(self.grammar, short, options.today or date.today())
        needs_all_spans = options.chart or options.gaps
        charts = BatchCharts.of(
            self.grammar, short, mentions, prune=not needs_all_spans, limit=options.limit
        )
        typed = self._decoded_charts(charts)
        has_nodes = np.diff(typed.first_node) > 0
        derivable, untyped = charts.derivable(typed), charts.derivable(charts.untyped)
        for item in items:
            item.charts = charts
            item.mentions = mentions[item.number]
            item.has_chart = bool(has_nodes[item.number])
            item.has_derivation = item.number in derivable
            if len(item.sentence.tokens) > longest:
                item.abstain(TOO_LONG)
            elif item.number not in untyped:
                item.abstain(NO_DERIVATION)
            elif item.number not in derivable:
                item.abstain(ILLEGAL)
        return charts

    def _decoded_charts(self, charts: BatchCharts) -> Hypergraph:
        return charts.typed if self.options.chart else charts.typed_forests

    def _encode(
        self, items: Sequence[ParseItem], charts: BatchCharts
    ) -> tuple[list[ParseItem], ScoredCharts]:
        """Score the charts of the sentences that have one and that the encoder can read; and which these are."""
        charted = [item for item in items if item.has_chart]
        sentences, mentions = (
            [item.sentence for item in charted],
            [item.mentions for item in charted],
        )
        subwords = self.subwords(
            encoder_tokens(self.grammar, sentences, mentions, self.known_words)
        )
        read: list[ParseItem] = []
        read_subwords: list[Subwords] = []
        for item, encoded in zip(charted, subwords, strict=True):
            if len(encoded.ids) <= self.model.max_length:
                read.append(item)
                read_subwords.append(encoded)
            elif item.has_derivation:
                item.abstain(TOO_LONG)
        full = self._decoded_charts(charts).select([item.number for item in read])
        return read, self.scored(charts.grammar, read_subwords, full)

    def _decode(self, read: Sequence[ParseItem], scored: ScoredCharts) -> None:
        """Answer the sentences that have a derivation; where charts are asked for, all get theirs."""
        derivable = [place for place, item in enumerate(read) if item.has_derivation]
        forests = scored if len(derivable) == len(read) else scored.select(derivable)
        answers = forests.answers([read[place].sentence for place in derivable], self.options)
        for place, answer in zip(derivable, answers, strict=True):
            read[place].answer = answer
        if self.options.chart:
            for item, spans in zip(read, scored.spans(derivable), strict=True):
                item.answer = replace(item.answer, chart=spans)

    def _calibrate(self, items: Iterable[ParseItem]) -> None:
        """Add confidence, where the model was calibrated, and abstain where it is too low."""
        calibrator, least = self.model.calibrator, self.options.least_confidence
        if calibrator is None:
            return
        free_text = self.grammar.slots.free_text if self.grammar.slots else {}
        if least is None:
            least = calibrator.least_confidence if free_text else 0.0
        for item in items:
            reading = item.answer.reading
            if reading is None:
                continue
            pairs = rule_pairs(reading.derivation, self.grammar.numbers)
            confidence = calibrator.confidence(
                reading.probability, pairs, len(self.model.trained_rules)
            )
            if free_text:
                contexts = value_contexts(reading.derivation, item.mentions, free_text)
                confidence *= calibrator.contexts.share(contexts)
            if calibrator.words.is_suspect(
                context_words(reading.derivation, free_text), self._similar_words
            ):
                confidence = min(confidence, MAX_SUSPECT_CONFIDENCE)
            if confidence < least:
                reason = f"{UNSURE}: {in_percent(confidence)}"
                item.answer = replace(
                    item.answer, target=None, probability=None, reading=None, reason=reason
                )
            else:
                item.answer = replace(item.answer, confidence=confidence)

    def _with_gaps(self, item: ParseItem) -> Answer:
        """The answer or, if that is asked for and it is an abstention, what the grammar lacks, from the same chart."""
        if self.options.gaps and item.charts and item.fails and not item.has_derivation:
            charts = item.charts.select(item.number)
            with suppress(
                LimitExceeded
            ):  # an abstention without an explanation is better than none
                if charts.untyped.hyperedges <= MAX_EXPLAINED:
                    return replace(item.answer, gaps=gaps_in(charts))
        return item.answer

    def _similar_words(self, word: str) -> Sequence[str]:
        from nqg.inference.corrections import similar_words  # which most sentences do not need

        return similar_words(word, self.model.grammar.words)

    def subwords(self, sources: Sequence[Tokens]) -> list[Subwords]:
        """Sentences as the encoder reads them."""
        return tokenize(self.model.tokenizer, sources) if sources else []

    def scored(
        self, grammar: SlotInstances, sentences: Sequence[Subwords], full: Hypergraph
    ) -> ScoredCharts:
        """The charts of sentences with a score for every hyperedge; the encoder takes a part of them at a time.

        `grammar` is the one that they were charted with: ours, or ours with the values in the sentences.
        """
        parts: list[list[int]] = []
        spans, most = 0, MAX_SCORE_TABLE // max(len(self.grammar), 1)
        for sentence, size in enumerate(np.diff(full.first_node).tolist()):
            if not parts or spans + size > most:
                parts.append([])
                spans = 0
            parts[-1].append(sentence)
            spans += size
        known = full._replace(rules=grammar.model_rule_ids(full.rules))
        scores = [
            self._scores([sentences[number] for number in part], known.select(part))
            for part in parts
        ]
        legal = (
            None if grammar.grammar.target_grammar else self._legal_programs
        )  # typed charts are legal throughout
        return ScoredCharts(
            grammar, full, np.concatenate([np.empty(0), *scores]), legal, self.model
        )

    def _scores(self, sentences: Sequence[Subwords], full: Hypergraph) -> FloatArray:
        model = self.model
        batch, spans = collate(sentences, model.device), SpanTable.of(full).numbers(full)
        numbers = spans[full.owners()], full.rules.astype(np.int64)
        places = (torch.from_numpy(each).to(model.device) for each in numbers)
        model.scorer.eval()
        with torch.inference_mode():
            bonuses = untrained_bonuses(model.untrained_rules)
            table = model.scorer(batch, anchors(full, model.device), bonuses)  # (S, R)
            scores: FloatArray = table[tuple(places)].double().cpu().numpy()
        if not np.isfinite(scores).all():
            raise DamagedModel(
                "the model gives scores that are not numbers: its weights are damaged; train it again"
            )
        return scores
