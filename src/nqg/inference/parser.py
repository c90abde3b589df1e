"""The parser: sentences in, programs out, each with its probability and its derivation; or an
abstention.

A batch of sentences becomes one hypergraph of charts; the encoder scores every hyperedge; the best
derivation of each sentence, and the share of its target among all derivations, are its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
from itertools import chain, compress, islice
from operator import not_
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from nqg.answers import (
    CALLS,
    GRAMMAR,
    ILLEGAL,
    KINDS,
    NO_DERIVATION,
    REFUSED,
    TOO_AMBIGUOUS,
    TOO_LONG,
    UNSURE,
    Answer,
    Reading,
    checked_sentences,
    in_percent,
)
from nqg.errors import DamagedModel, LimitExceeded
from nqg.grammar.arrays import FloatArray
from nqg.grammar.chart import StepBudget
from nqg.grammar.derivation import Tokens
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import distinct
from nqg.inference.charts import BatchCharts
from nqg.inference.decoding import DecodeOptions, ScoredCharts
from nqg.inference.gaps import explained, gaps_in
from nqg.inference.manual_reader import ManualReader
from nqg.inference.sequences import sequence_answers
from nqg.model.checkpoint import Provenance, SavedModel, load_model, save_model
from nqg.model.confidence import (
    Calibrator,
    CallEvidence,
    Evidence,
    ValueContext,
    context_words,
    rule_pairs,
    value_contexts,
)
from nqg.model.free_text import TextUse
from nqg.model.rule_scorer import untrained_bonuses
from nqg.model.settings import EMBEDDED
from nqg.model.spans import Pairs, SpanTable
from nqg.model.subwords import Subwords, tokenize
from nqg.model_folder import HubModel
from nqg.slots.instantiate import SlotInstances, encoder_tokens, mentions_of
from nqg.slots.matcher import Mention
from nqg.text.sentences import TokenizedSentence
from nqg.types.target_grammar import TargetGrammar

# Bounds of work and memory, on which no answer depends.
WINDOW = 1024  # sentences that are read before the first one is answered, to be sorted by length
ENCODER_BATCH = 256  # sentences that are encoded together
# Cubes of their lengths, summed: 256 sentences of 25 tokens, or four of 100.
MAX_BATCH_CUBES = 1 << 22
# Scores of spans and rules that are computed together: large grammars must not fill memory.
MAX_SCORE_TABLE = 1 << 25
# A possible command of more words is long, and has a share of the steps of its sentence.
LONG_COMMAND = 24
LONG_COMMAND_SHARE = 4
# A chart that is shown has all types of all spans, and may take so many times the steps.
CHART_STEPS = 4
KNOWN_OUT_OF_SCOPE = f"{REFUSED}: training has the sentence without a program"
# Abstentions to which the nearest training sentence says something.
TEACHABLE = (KINDS[NO_DERIVATION], KINDS[ILLEGAL], KINDS[UNSURE])
EMPTY_SENTENCE = TokenizedSentence("", ())


def windows(sentences: Iterable[str]) -> Iterator[list[str]]:
    """A stream, which may be endless, in the pieces that are answered together."""
    stream = iter(sentences)
    window = list(islice(stream, WINDOW))
    while window:
        yield window
        window = list(islice(stream, WINDOW))


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of sentences that are answered together, short sentences first.

    A chart has up to the cube of the length of its sentence in hyperedges, so that the longer
    sentences are, the fewer of them share a batch.

    >>> list(batches([200, 3, 150, 4]))
    [[1, 3, 2], [0]]
    """
    batch: list[int] = []
    size = 0
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        cube = lengths[number] ** 3
        if batch and (len(batch) == ENCODER_BATCH or size + cube > MAX_BATCH_CUBES):
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += cube
    if batch:
        yield batch


def with_threshold(answer: Answer, least_confidence: float) -> Answer:
    """The answer, or an abstention if its confidence is too low."""
    if answer.confidence is None or answer.confidence >= least_confidence:
        return answer
    return withheld(answer, f"{UNSURE}: {in_percent(answer.confidence)}")


def withheld(answer: Answer, reason: str) -> Answer:
    """An abstention in the place of an answer, which it keeps."""
    return replace(
        answer,
        withheld=answer if answer.target is not None else None,
        target=None,
        probability=None,
        confidence=None,
        reading=None,
        reason=reason,
    )


class Proposal(NamedTuple):
    """A program for a sentence, what speaks for it, and its derivation if it has one."""

    target: str
    evidence: Evidence
    reading: Reading | None = None


def _spells(model: SavedModel, program: str, tokens: Sequence[str]) -> bool:
    """Whether a program has these tokens, apart from the order of arguments and white space."""
    read = model.text.programs.normalized(program)
    return sorted(" ".join(read)) == sorted(" ".join(tokens))


@dataclass(slots=True)
class ParseItem:
    """A sentence of a batch, and what each step has computed for it."""

    sentence: TokenizedSentence
    number: int  # in its batch
    answer: Answer  # an abstention until there is a better one
    charts: BatchCharts  # of its batch
    mentions: Sequence[Mention]
    has_derivation: bool

    def abstain(self, reason: str) -> None:
        self.answer = replace(self.answer, reason=reason)
        self.has_derivation = False

    @property
    def fails(self) -> bool:
        """Whether the grammar has no legal derivation of it."""
        return self.answer.target is None and self.answer.reason in (
            NO_DERIVATION,
            ILLEGAL,
        )


@dataclass(frozen=True)
class Parser(HubModel):
    """A trained parser. `nqg.train` and `nqg.load` return one.

    >>> import nqg
    >>> pairs = [(f"turn {state} the {name}", f"turn_{state}({name})")
    ...          for state in ("on", "off") for name in ("lamp", "radio", "heater", "fan", "oven")]
    >>> settings = nqg.TrainSettings(confidence=nqg.ConfidenceSettings(folds=0))
    >>> parser = nqg.train(pairs[:-1], settings=settings)
    >>> [answer.target for answer in parser.answers(["turn on the fan", "turn off the oven"])]
    ['turn_on(fan)', 'turn_off(oven)']
    """

    model: SavedModel
    options: DecodeOptions = DecodeOptions()  # noqa: RUF009 (frozen)

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Self:
        """The parser in a model folder."""
        return cls(load_model(Path(folder), device))

    def save(
        self,
        folder: Path | str,
        *,
        provenance: Provenance | None = None,
        also: Callable[[Path], object] | None = None,
    ) -> None:
        """Write everything that `load` needs into a folder, whole or not at all.

        `provenance` is kept with the model instead of what the parser knows of its own; see
        `save_model` for `also`.
        """
        model = self.model
        if provenance is not None:
            model = replace(model, provenance=provenance)
        save_model(Path(folder), model, also)

    def export(self, export_format: str) -> str:
        """The types of the model for another decoder: "json-schema", "gbnf" or "lark"."""
        from nqg.model.export import export_types  # which parsing does not need

        return export_types(self.model, export_format)

    @cached_property
    def grammar(self) -> Grammar:
        """The rules that it knows, typed or not."""
        is_typed = self.options.typed
        if is_typed is None:
            is_typed = self.model.settings.typed
        return self.model.grammar.typed_by(
            self.model.target_grammar if is_typed else None
        )

    @cached_property
    def _legal_programs(self) -> TargetGrammar | None:
        return self.model.legal_programs

    @cached_property
    def known_words(self) -> Collection[str] | None:
        """What an encoder from scratch has read; a pre-trained one knows something of any word."""
        if self.model.settings.encoder != EMBEDDED:
            return None
        return self.model.tokenizer.get_vocab().keys()

    def with_options(self, options: DecodeOptions) -> Parser:
        """The same parser with other options of decoding."""
        return replace(self, options=options)

    def with_rules(self, rules: Iterable[Rule | str]) -> Parser:
        """The same parser with more rules, written by hand: `lights off ### turn_off ( lights )`.

        A rule that it has already, or that is part of no legal program, is refused with the reason.
        """
        from nqg.inference.rules_by_hand import with_rules

        return replace(self, model=with_rules(self.model, rules))

    def without_rules(self, rules: Iterable[Rule | str]) -> Parser:
        """The same parser without some of its rules by hand."""
        from nqg.inference.rules_by_hand import without_rules

        return replace(self, model=without_rules(self.model, rules))

    def parse(self, sentence: str, *, readings: int = 0) -> Answer:
        """The answer to one sentence, with its explanation and the `readings` most probable programs."""
        options = replace(self.options, readings=readings, marginals=True, gaps=True)
        (answer,) = self.with_options(options).answers([sentence])
        return explained(answer)

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in order. The stream may be endless."""
        return self._answers(checked_sentences(sentences))

    def _answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        form = self.model.text.sequence
        for window in windows(sentences):
            answer_all = partial(self._texts, sentences=len(window))
            yield from sequence_answers(answer_all, window, form, self.with_nearest)

    def _texts(self, texts: Sequence[str], sentences: int) -> list[Answer]:
        """The answers to some sentences, and to the texts in them that may be commands.

        A sentence has many such texts. Long ones have a smaller share of its steps.
        """
        is_long = [False] * len(texts)
        for number in range(sentences, len(texts)):
            is_long[number] = len(self._words_of(texts[number])) > LONG_COMMAND
        short = self.single_answers(compress(texts, map(not_, is_long)))
        if not any(is_long):
            return list(short)
        long = self._with_share(LONG_COMMAND_SHARE).single_answers(
            compress(texts, is_long)
        )
        return [next(long if flag else short) for flag in is_long]

    def _with_share(self, parts: int) -> Parser:
        """The parser for what shares the steps of a sentence with others."""
        if self.options.limit is None:
            return self
        return self.with_options(
            replace(self.options, limit=self.options.limit // parts)
        )

    def single_answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answers to sentences that are each read as one command."""
        for answer, sentence in self._derived(sentences):
            calls = self.calls_in(sentence)
            yield self._judged(answer, calls)

    def grammar_answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The same without the call reader."""
        for answer, _ in self._derived(sentences):
            yield self._judged(answer, None)

    def candidates(self, sentences: Iterable[str]) -> Iterator[list[Proposal]]:
        """The programs that the grammar and the call reader propose for each sentence."""
        for answer, sentence in self._derived(sentences):
            yield self._candidates(answer, self.calls_in(sentence))

    def _derived(
        self, sentences: Iterable[str]
    ) -> Iterator[tuple[Answer, TokenizedSentence]]:
        """What the grammar says of sentences, without confidence, and their first tokenization."""
        for window in windows(sentences):
            tokenized = [self.model.text.tokenized(sentence) for sentence in window]
            for answer, tokenizations in zip(self._window(tokenized), tokenized):
                yield answer, tokenizations[0]

    def _window(
        self, window: Sequence[Sequence[TokenizedSentence]]
    ) -> Iterator[Answer]:
        """What the grammar says of sentences, each of which has one tokenization or more."""
        items = self._parsed([tokenizations[0] for tokenizations in window])
        # A sentence without a derivation is read again: with or without polite frames, and with
        # other contractions.
        for attempt in range(1, max(map(len, window))):
            failed = []
            for number, tokenizations in enumerate(window):
                if len(tokenizations) > attempt and items[number].fails:
                    failed.append(number)
            again = self._parsed([window[number][attempt] for number in failed])
            for number, item in zip(failed, again):
                if item.answer.target:
                    items[number] = item
        # If it still has none, unknown words are read as known words that they resemble.
        corrected: dict[int, Answer] = {}
        if not self.options.exact:
            corrected = self._corrected(
                {
                    number: tokenizations
                    for number, tokenizations in enumerate(window)
                    if items[number].answer.reason == NO_DERIVATION
                }
            )
        for number, item in enumerate(items):
            yield corrected.get(number) or self._with_gaps(item)

    def calls_in(self, sentence: TokenizedSentence) -> dict[str, CallEvidence] | None:
        """The calls that the call reader finds in a sentence; None where the model has no reader.

        They are legal programs. A sentence of several clauses may hold several calls, of which the
        reader would find one.
        """
        model = self.model
        reader, form, legal = (
            model.call_reader,
            model.text.sequence,
            self._legal_programs,
        )
        calibrator = model.calibrator
        # Without confidence, nothing tells a reading from nonsense.
        if reader is None or calibrator is None:
            return None
        calls: dict[str, CallEvidence] = {}
        if form and len(form.clauses(sentence.raw)) > 1:
            return calls
        day = self.options.today or date.today()
        (mentions,) = mentions_of(self.grammar, [sentence], day)
        texts = self.grammar.slots.free_text if self.grammar.slots else {}
        words = sentence.words
        for reading in reader.readings(
            words, sentence.words_as_written, mentions, texts
        ):
            target = model.program(reading.tokens, words)
            is_legal = legal is None or legal.accepts(reading.tokens)
            # A value that would be read as more than a value is none.
            is_legal = is_legal and _spells(model, target, reading.tokens)
            if not is_legal or target in calls or model.problem(target):
                continue
            contexts = []
            for start, end in reading.new_spans:
                for mention in mentions:
                    if start < mention.start and mention.end <= end:
                        before = words[mention.start - 1]
                        contexts.append(ValueContext(before, mention.slot, True))
            calls[target] = CallEvidence(
                reading.probability,
                reading.fit,
                reading.new_values,
                reading.unread,
                calibrator.contexts.hides_value(contexts),
                tuple(words[place] for place in reading.unread_words),
            )
        return calls

    def _candidates(
        self, answer: Answer, calls: Mapping[str, CallEvidence] | None
    ) -> list[Proposal]:
        """The grammar's program, then those of the call reader."""
        proposals = []
        reading = answer.reading
        if answer.target is not None and reading is not None:
            evidence = reading.evidence or Evidence(reading.probability)
            evidence = replace(evidence, corrected=len(answer.corrections))
            if calls is not None:
                call = calls.get(answer.target, CallEvidence())
                evidence = replace(evidence, call=call)
            proposals.append(Proposal(answer.target, evidence, reading))
        unknown = len(answer.unknown_words)
        for target, call in (calls or {}).items():
            if target != answer.target:
                evidence = Evidence(
                    None,
                    bool(proposals),
                    unknown=unknown,
                    hides_value=call.hides_value,
                    call=call,
                )
                proposals.append(Proposal(target, evidence))
        return proposals

    def _corrected(
        self, sentences: Mapping[int, Sequence[TokenizedSentence]]
    ) -> dict[int, Answer]:
        """The answers to sentences that have typos, if it is clear what is meant."""
        words = set[str]()
        for sentence in chain(*sentences.values()):
            words.update(sentence.words)
        if words <= self.model.grammar.words:
            return {}
        # Most sentences do not need them.
        from nqg.inference.corrections import MAX_CORRECTIONS, corrected_answers

        return corrected_answers(self._with_share(MAX_CORRECTIONS), sentences)

    @property
    def _budget(self) -> StepBudget | None:
        """The steps of a sentence's chart."""
        limit = self.options.limit
        if limit is None:
            return None
        return StepBudget(limit * CHART_STEPS if self.options.chart else limit)

    def tokenized_answers(self, sentences: Sequence[TokenizedSentence]) -> list[Answer]:
        """The answers to sentences that are tokenised already."""
        return [item.answer for item in self._parsed(sentences)]

    def _parsed(self, sentences: Sequence[TokenizedSentence]) -> list[ParseItem]:
        """Sentences with their answers; those of similar length are encoded together.

        If the chart that is wanted of a sentence takes too many steps, it has no chart.
        """
        items = self._encoded_together(sentences)
        if self.options.chart:
            unshown = [item for item in items if item.answer.reason == TOO_AMBIGUOUS]
            plain = self.with_options(replace(self.options, chart=False))
            again = plain._encoded_together([item.sentence for item in unshown])
            for item, other in zip(unshown, again):
                items[items.index(item)] = other
        return items

    def _encoded_together(
        self, sentences: Sequence[TokenizedSentence]
    ) -> list[ParseItem]:
        items: dict[int, ParseItem] = {}
        for batch in batches([len(sentence.tokens) for sentence in sentences]):
            items.update(
                zip(batch, self._batch([sentences[number] for number in batch]))
            )
        return [items[number] for number in range(len(sentences))]

    def _batch(self, sentences: Sequence[TokenizedSentence]) -> list[ParseItem]:
        items = self._chart(sentences)
        scorable, scored = self._encode(items)
        self._decode(scorable, scored)
        if self.model.calibrator:
            for item in items:
                self._add_evidence(item, self.model.calibrator)
        return items

    def _chart(self, sentences: Sequence[TokenizedSentence]) -> list[ParseItem]:
        """Chart the sentences that are not too long; abstain where there is no legal derivation."""
        longest, options = self.model.max_length, self.options
        # A sentence that is too long is charted as an empty one, so that the numbers of
        # the others stay the same.
        short = list(sentences)
        for number, sentence in enumerate(sentences):
            if len(sentence.tokens) > longest:
                short[number] = EMPTY_SENTENCE
        mentions = mentions_of(self.grammar, short, options.today or date.today())
        # Charts and explanations of gaps show spans outside of whole derivations, too.
        needs_all_spans = options.chart or options.gaps
        budget, prune = self._budget, not needs_all_spans
        charts = BatchCharts.of(
            self.grammar, short, mentions, prune=prune, limit=budget
        )
        derivable = charts.derivable(self._decoded_charts(charts))
        # The untyped charts tell a missing rule from derivations that are not legal.
        untyped = charts.derivable(charts.untyped)
        spans = () if options.chart else None
        items = []
        for number, sentence in enumerate(sentences):
            answer = Answer(
                sentence.raw, system=GRAMMAR, words=sentence.words, chart=spans
            )
            item = ParseItem(
                sentence, number, answer, charts, mentions[number], number in derivable
            )
            if len(sentence.tokens) > longest:
                item.abstain(TOO_LONG)
            elif budget and number in budget.exceeded:
                item.abstain(TOO_AMBIGUOUS)
            elif number not in untyped:
                item.abstain(NO_DERIVATION)
            elif number not in derivable:
                item.abstain(ILLEGAL)
            items.append(item)
        return items

    def _decoded_charts(self, charts: BatchCharts) -> Hypergraph:
        return charts.typed if self.options.chart else charts.typed_forests

    def _encode(
        self, items: Sequence[ParseItem]
    ) -> tuple[list[ParseItem], ScoredCharts]:
        """Score the charts of the sentences that have one and that the encoder can read."""
        charts = items[0].charts
        full = self._decoded_charts(charts)
        # A sentence without nodes has no chart, and is left out of the batch.
        charted: list[ParseItem] = []
        sentences: list[TokenizedSentence] = []
        mentions: list[Sequence[Mention]] = []
        for number in np.flatnonzero(np.diff(full.first_node)).tolist():
            item = items[number]
            charted.append(item)
            sentences.append(item.sentence)
            mentions.append(item.mentions)
        tokens = encoder_tokens(self.grammar, sentences, mentions, self.known_words)
        scorable: list[ParseItem] = []
        readable: list[Subwords] = []
        # Subwords are counted only now: few tokens may have many of them.
        for item, subwords in zip(charted, self.subwords(tokens)):
            if len(subwords.ids) <= self.model.max_length:
                scorable.append(item)
                readable.append(subwords)
            elif item.has_derivation:
                # Without a derivation, there is a reason to abstain already.
                item.abstain(TOO_LONG)
        full = full.select([item.number for item in scorable])
        return scorable, self.scored(charts.grammar, readable, full)

    def _decode(self, items: Sequence[ParseItem], scored: ScoredCharts) -> None:
        """Answer the sentences that have a derivation; all get their charts, if these
        are wanted.
        """
        derivable = [number for number, item in enumerate(items) if item.has_derivation]
        abstentions = [items[number].answer for number in derivable]
        answers = scored.select(derivable).answers(abstentions, self.options)
        for number, answer in zip(derivable, answers):
            items[number].answer = answer
        if self.options.chart:
            for item, spans in zip(items, scored.spans(derivable)):
                item.answer = replace(item.answer, chart=spans)

    def _add_evidence(self, item: ParseItem, calibrator: Calibrator) -> None:
        """Add to the readings of a sentence what a confidence in them is computed from."""
        free_text = self.grammar.slots.free_text if self.grammar.slots else {}
        # Words of values are never unknown, unless any words may be the value.
        known_places: set[int] = set()
        for mention in item.mentions:
            if mention.slot not in free_text:
                known_places.update(range(mention.start, mention.end))
        unknown = []
        for position, word in enumerate(item.sentence.words):
            if position not in known_places and word not in calibrator.known_words:
                unknown.append(word)
        item.answer = replace(item.answer, unknown_words=tuple(unknown))

        def with_evidence(reading: Reading) -> Reading:
            derivation = reading.derivation
            pairs = rule_pairs(derivation, self.grammar.numbers)
            contexts = value_contexts(derivation, item.mentions, free_text)
            words = context_words(derivation, free_text)
            texts = TextUse.of(derivation, free_text, item.sentence).texts
            evidence = Evidence(
                reading.probability,
                unseen=calibrator.pairs.unseen(pairs, len(self.model.trained_rules)),
                unknown=len(unknown),
                is_suspect=calibrator.words.is_suspect(words, self._similar_words),
                hides_value=calibrator.contexts.hides_value(contexts),
                text_signs=calibrator.texts.signs(texts),
            )
            return replace(reading, evidence=evidence)

        if item.answer.reading:
            reading = with_evidence(item.answer.reading)
            readings = tuple(map(with_evidence, item.answer.readings))
            item.answer = replace(item.answer, reading=reading, readings=readings)

    def _judged(
        self, answer: Answer, calls: Mapping[str, CallEvidence] | None
    ) -> Answer:
        """The likeliest of the candidates, with its confidence where the model was calibrated; an
        abstention where that is too low.
        """
        calibrator = self.model.calibrator
        if calibrator and calibrator.refuses(answer.source_tokens):
            return replace(withheld(answer, KNOWN_OUT_OF_SCOPE), gaps=None)
        candidates = self._candidates(answer, calls)
        if not candidates:
            return answer
        is_by_hand = (
            answer.reading is not None
            and answer.reading.derivation.hyperedges[0].rule in self.model.by_hand
        )
        if calibrator is None:
            return answer
        weights, best = calibrator.weights, candidates[0]
        if not is_by_hand:
            best = max(
                candidates, key=lambda proposal: weights.logit(proposal.evidence)
            )
        if best.reading is None:
            return self._call_answer(answer, best, calibrator)
        confidence = weights.confidence(best.evidence)
        if is_by_hand:
            # Folds have not tried the rule; a person says what it means.
            manual = self._manual_answer(answer.source)
            if manual and manual.target == answer.target:
                confidence = max(confidence, manual.confidence or 0.0)
        judged = with_threshold(
            replace(answer, confidence=confidence), self.least_confidence
        )
        return self.by_manual_rules(judged)

    def _call_answer(
        self, grammar: Answer, best: Proposal, calibrator: Calibrator
    ) -> Answer:
        """An answer of the call reader, in the place of what the grammar says."""
        call = best.evidence.call
        reason = f"the grammar reads {grammar.target}"
        if grammar.target is None:
            reason = f"the grammar has no program: {grammar.reason}"
        answer = replace(
            grammar,
            target=best.target,
            probability=call.probability if call else None,
            unread=call.unread_words if call else (),
            system=CALLS,
            reason=reason,
            reading=None,
            corrections=(),
        )
        least = self.least_confidence
        if self.options.least_confidence is None:
            precision = calibrator.least_precision
            least = best.evidence.least_confidence(least, precision)
        confidence = calibrator.weights.confidence(best.evidence)
        judged = with_threshold(replace(answer, confidence=confidence), least)
        # An abstention says what the grammar lacks, if that is why.
        if judged.target is None and grammar.target is None:
            judged = replace(judged, system=GRAMMAR, reason=grammar.reason)
        return self.by_manual_rules(judged)

    def by_manual_rules(self, answer: Answer) -> Answer:
        """The answer, or that of the rules by hand if the answer is an abstention."""
        if answer.target is not None or not self.model.by_hand:
            return answer
        manual = self._manual_answer(answer.source)
        if manual is None:
            return answer
        judged = with_threshold(manual, self.least_confidence)
        return judged if judged.target is not None else answer

    def _manual_answer(self, sentence: str) -> Answer | None:
        for tokenized in self.model.text.tokenized(sentence):
            answer = self._manual_reader.answer(tokenized)
            if answer:
                return answer
        return None

    @cached_property
    def _manual_reader(self) -> ManualReader:
        return ManualReader.of(self.model, self.grammar, self.options)

    @property
    def least_confidence(self) -> float:
        """The confidence below which the parser abstains."""
        if self.options.least_confidence is not None:
            return self.options.least_confidence
        return self.model.calibrator.threshold if self.model.calibrator else 0.0

    def _with_gaps(self, item: ParseItem) -> Answer:
        """The answer or, if that is wanted, an abstention with what the grammar lacks."""
        if self.options.gaps and item.fails and not item.has_derivation:
            # An abstention without an explanation is better than none.
            with suppress(LimitExceeded):
                charts = item.charts.select(item.number)
                limit = self.options.limit
                # A chart that is shown may be larger than what is explained.
                if limit is None or charts.untyped.hyperedges <= limit:
                    return replace(item.answer, gaps=gaps_in(charts, item.sentence))
        return item.answer

    def with_nearest(self, answer: Answer) -> Answer:
        """The answer. An abstention gets the most similar training sentence, if gaps are asked for."""
        if not self.options.gaps or answer.kind not in TEACHABLE:
            return answer
        nearest = self.model.known_sentences.nearest(answer.source)
        if nearest is None:
            return answer
        # Training has its program, whatever the confidence.
        options = replace(self.options, gaps=False, least_confidence=0.0, readings=0)
        (nearest_answer,) = self.with_options(options).single_answers([nearest])
        return replace(answer, nearest=nearest_answer if nearest_answer else None)

    def _words_of(self, sentence: str) -> Sequence[str]:
        return self.model.text.tokenized(sentence)[0].words

    def _similar_words(self, word: str) -> Sequence[str]:
        from nqg.inference.corrections import (
            similar_words,
        )  # which most sentences do not need

        return similar_words(word, self.model.grammar.words)

    def subwords(self, sources: Sequence[Tokens]) -> list[Subwords]:
        """The subwords of sentences, which the encoder reads."""
        return tokenize(self.model.tokenizer, sources) if sources else []

    def scored(
        self, grammar: SlotInstances, sentences: Sequence[Subwords], full: Hypergraph
    ) -> ScoredCharts:
        """The charts of sentences with a score for every hyperedge.

        `grammar` is the one that they were charted with. The encoder takes a chunk of them at a
        time.
        """
        chunks: list[list[int]] = []
        spans, most = 0, MAX_SCORE_TABLE // max(len(self.grammar), 1)
        for sentence, size in enumerate(np.diff(full.first_node).tolist()):
            if not chunks or spans + size > most:
                chunks.append([])
                spans = 0
            chunks[-1].append(sentence)
            spans += size
        ruled = full._replace(rules=grammar.model_rule_ids(full.rules))
        scores = [np.empty(0)]
        for chunk in chunks:
            subwords = [sentences[number] for number in chunk]
            scores.append(self._scores(subwords, ruled.select(chunk)))
        # Typed charts are legal throughout.
        legal = None if grammar.grammar.target_grammar else self._legal_programs
        return ScoredCharts(grammar, full, np.concatenate(scores), legal, self.model)

    def _scores(self, sentences: Sequence[Subwords], full: Hypergraph) -> FloatArray:
        model = self.model
        table, rules = SpanTable.of(full), len(self.grammar)
        # A span and a rule have many hyperedges, which differ in where children meet or in types.
        keys = table.numbers(full)[full.owners()] * rules + full.rules
        pairs, of_hyperedges = distinct(keys, len(table.starts) * rules)
        scores = model.scorer.score(
            sentences,
            table.select(np.arange(full.sentences)),
            Pairs(*np.divmod(pairs, rules)),
            untrained_bonuses(model.untrained_rules),
        )
        if not np.isfinite(scores).all():
            raise DamagedModel(
                "the model gives scores that are not numbers: its weights are damaged; train it again"
            )
        return scores[of_hyperedges]
