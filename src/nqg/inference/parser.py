"""The parser: sentences in, programs out, each with its probability and its derivation; or an abstention.

A batch of sentences becomes one hypergraph of charts; the encoder scores every hyperedge; the best derivation of each
sentence, and the share of its target among all derivations, are its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nqg.answers import (
    GRAMMAR,
    ILLEGAL,
    LONG_TARGET,
    NO_DERIVATION,
    TOO_LONG,
    UNSURE,
    Answer,
    ChartSpan,
    Reading,
    in_percent,
)
from nqg.data.examples import Example, tokenized
from nqg.errors import DamagedModel
from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.chart import goal_charts, typed_charts, untyped_charts
from nqg.grammar.derivation import MOST_TOKENS, Derivation, Tokens
from nqg.grammar.grammar import SLOT, Grammar, Rule, Symbols, ValueRule
from nqg.grammar.hypergraph import Hypergraph, NodeId
from nqg.grammar.semirings import best_derivations, k_best_derivations, log_inside, marginals, max_inside
from nqg.grammar.slots import columns, mentions_of, of_sentences, views
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.gaps import explained
from nqg.model.checkpoint import Provenance, SavedModel, load_model, save_model
from nqg.model.confidence import DOUBTED, rule_pairs, said_words, value_contexts
from nqg.model.scorer import untrained_bonuses
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings
from nqg.model.spans import SpanTable, anchors
from nqg.model.subwords import Subwords, collate, tokenize
from nqg.model_folder import pretrained, push_to_hub
from nqg.text.mentions import Mention
from nqg.text.preprocessing import Preprocessor, TokenizedSentence
from nqg.text.programs import kind_of
from nqg.training.processes import best_device

if TYPE_CHECKING:
    from nqg.training.parser_training import ParserTraining

WINDOW = 1024  # sentences that are read before the first of them is answered, to be sorted by length
BATCH = 256  # sentences that are encoded together
TABLE = 1 << 25  # scores of spans and rules that are computed together: bounds the memory that large grammars take
SEARCHED = 40  # best derivations among which one is looked for that is legal, and whose pairs of rules training had
DERIVATIONS_A_READING = 4  # best derivations that are looked at for every reading that is asked for


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a parser gives beside the best reading.

    `readings` asks for that many of the most probable targets: those found among four times as many best derivations,
    in a model with confidence those first whose derivations have the fewest pairs of rules that training never had.
    A `typed` parser has only legal derivations; the paper's, which is not, abstains if its best target is illegal.
    Without a choice the parser does as it was trained. `marginals` asks for those of every hyperedge, `chart` for every
    derivable span. `limit` bounds the entries of any one sentence's chart; a target of more than `most_tokens` is not
    written down, and the parser abstains. An `exact` parser does not correct typos. One with confidence abstains below
    `least_confidence`; without a choice that is what training has learned where the grammar has free text, which can be
    made of any words, and 0 otherwise. What is said relative to `today` is, without a choice, so on the day of parsing.
    """

    readings: int = 0
    typed: bool | None = None
    marginals: bool = False
    chart: bool = False
    limit: int | None = None
    most_tokens: int = MOST_TOKENS
    exact: bool = False
    least_confidence: float | None = None
    today: date | None = None


@dataclass(frozen=True)
class Parser:
    """A grammar, a scorer of its rules, and perhaps a grammar of legal targets."""

    model: SavedModel
    options: DecodeOptions = DecodeOptions()

    @classmethod
    def train(
        cls,
        grammar: Grammar,
        examples: Sequence[Example],
        *,
        dev: Sequence[Example] = (),
        target_grammar: TargetGrammar | None = None,
        model: ModelSettings = ModelSettings(),  # noqa: B008 (frozen)
        training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
        device: str | None = None,
        text: Preprocessor = Preprocessor(),  # noqa: B008 (frozen)
    ) -> Parser:
        """A parser fitted to `examples`, whose derivations `grammar` has; see `ParserTraining` for `dev`.

        With `text`, examples are raw: the grammar must be one of `tokenized(examples, text)`.
        """
        tokens = tokenized(examples, text)
        options = {"target_grammar": target_grammar, "model": model, "training": training, "device": device}
        trained = cls.training(grammar, tokens, dev=tokenized(dev, text), **options)
        records = [step.to_dict() for step in trained.steps()]
        return cls(replace(trained.model, provenance=Provenance.of(examples, training, records), text=text))

    @classmethod
    def training(cls, grammar: Grammar, examples: Sequence[Example], **options: Any) -> ParserTraining:
        """A training whose steps can be watched; the options are those of `ParserTraining`."""
        from nqg.training.parser_training import ParserTraining  # of which parsing needs nothing

        return ParserTraining(grammar, examples, cls, **options)

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

    def push_to_hub(self, name: str, *, message: str = "Upload with nqg", private: bool | None = None) -> str:
        """Upload the parser, with its card, to the Hugging Face Hub as `owner/name`; gives the commit's address."""
        return push_to_hub(self.save, name, message, private)

    def save(
        self, folder: Path | str, *, provenance: Provenance | None = None, also: Callable[[Path], object] | None = None
    ) -> None:
        """Write everything that `load` needs into a folder, whole or not at all.

        `provenance` is kept with the model instead of what the parser knows of its own; see `save_model` for `also`.
        """
        save_model(Path(folder), self.model if provenance is None else replace(self.model, provenance=provenance), also)

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
        return None if self.model.settings.encoder != EMBEDDED else self.model.tokenizer.get_vocab().keys()

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

    def parse(self, sentence: str, *, readings: int = 0, marginals: bool = False) -> Answer:
        """The answer to one sentence, an abstention with what the grammar lacks; see `DecodeOptions`."""
        asked = self.with_options(replace(self.options, readings=readings, marginals=marginals))
        return explained(next(asked.answers([sentence])), self.grammar, self.options.limit)

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in their order; the stream may be endless."""
        stream, text, known = iter(sentences), self.model.text, self.model.grammar.words
        while window := [text.tokenized(sentence) for sentence in islice(stream, WINDOW)]:
            found: dict[int, Answer] = {}
            for way in range(2):  # a sentence without a derivation is read again, with or without polite frames
                left = [number for number, ways in enumerate(window) if len(ways) > way and _fails(found.get(number))]
                answers = zip(left, self.tokenized_answers([window[number][way] for number in left]), strict=True)
                found.update((number, each) for number, each in answers if each.target or number not in found)
            lost = [number for number, each in found.items() if each.reason == NO_DERIVATION and not self.options.exact]
            if any(not known.issuperset(way.words) for number in lost for way in window[number]):
                from nqg.inference.corrections import corrected_answers  # which most sentences do not need

                found |= corrected_answers(self, {number: window[number] for number in lost})
            yield from (found[number] for number in range(len(window)))

    def tokenized_answers(self, sentences: Sequence[TokenizedSentence]) -> list[Answer]:
        """The answers to sentences just as they are tokenized; those of similar length are encoded together."""
        order, found = sorted(range(len(sentences)), key=lambda at: len(sentences[at].tokens)), dict[int, Answer]()
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            found.update(zip(batch, self._batch([sentences[number] for number in batch]), strict=True))
        return [found[number] for number in range(len(sentences))]

    def _batch(self, sentences: Sequence[TokenizedSentence]) -> list[Answer]:
        """Only what has a derivation (or, where charts are asked for, a derivable span) is encoded."""
        sources, options, longest = [each.words for each in sentences], self.options, self.model.max_length
        read_whole = [each if len(each.tokens) <= longest else () for each in sentences]
        short = [source if len(source) <= longest else () for source in sources]
        mentions = mentions_of(self.grammar, read_whole, options.today or date.today())
        grammar = of_sentences(self.grammar, read_whole, mentions)
        prune, typing = not options.chart, grammar.typing
        everything = untyped_charts(grammar, short, prune=prune, limit=options.limit)
        full = typed_charts(grammar, typing, short, everything, prune, options.limit) if typing else everything
        charted = np.flatnonzero(np.diff(full.first_node)).tolist()
        seen = views(
            grammar,
            [sentences[number] for number in charted],
            [mentions[number] for number in charted],
            self.known_words,
        )
        encoded = dict(zip(charted, self.subwords(seen), strict=True))
        read = [number for number in charted if len(encoded[number].ids) <= longest]
        scored = self.scored(grammar, [encoded[number] for number in read], full.select(read))
        whole, untyped = _covered(full, sources), _covered(everything, sources)
        rooted = [place for place, number in enumerate(read) if number in whole]
        derivable = scored if len(rooted) == len(read) else scored.select(rooted)
        asked = [sentences[read[place]] for place in rooted]
        found = dict(zip((read[place] for place in rooted), derivable.answers(asked, options), strict=True))
        spans = dict(zip(read, scored.spans(rooted), strict=True)) if options.chart else {}
        for number, sentence in enumerate(sentences):
            if number not in found:
                is_long = len(sources[number]) > longest or number in whole
                reason = TOO_LONG if is_long else ILLEGAL if number in untyped else NO_DERIVATION
                found[number] = Answer(sentence.raw, system=GRAMMAR, reason=reason, words=sentence.words)
            if options.chart:
                found[number] = replace(found[number], chart=spans.get(number, ()))
        return [self._with_confidence(found[number], mentions[number]) for number in range(len(sentences))]

    def _with_confidence(self, answer: Answer, mentions: Sequence[Mention]) -> Answer:
        calibrator, reading = self.model.calibrator, answer.reading
        if calibrator is None or reading is None:
            return answer
        pairs = rule_pairs(reading.derivation, self.grammar.numbers)
        trained, least = len(self.model.trained_rules), self.options.least_confidence
        confidence = calibrator.confidence(reading.probability, pairs, trained)
        free_text = self.grammar.slots.free_text if self.grammar.slots else {}
        if free_text:
            confidence *= calibrator.contexts.share(value_contexts(reading.derivation, mentions, free_text))
        if calibrator.words.doubts(said_words(reading.derivation, free_text), self._similar_words):
            confidence = min(confidence, DOUBTED)
        if least is None:
            least = calibrator.least_confidence if free_text else 0.0
        if confidence < least:
            reason = f"{UNSURE}: {in_percent(confidence)}"
            return replace(answer, target=None, probability=None, reading=None, reason=reason)
        return replace(answer, confidence=confidence)

    def _similar_words(self, word: str) -> Sequence[str]:
        from nqg.inference.corrections import similar_words  # which most sentences do not need

        return similar_words(word, self.model.grammar.words)

    def subwords(self, sources: Sequence[Tokens]) -> list[Subwords]:
        """Sentences as the encoder reads them."""
        return tokenize(self.model.tokenizer, sources) if sources else []

    def scored(self, grammar: Grammar, sentences: Sequence[Subwords], full: Hypergraph) -> ScoredCharts:
        """The charts of sentences with a score for every hyperedge; the encoder takes a part of them at a time.

        `grammar` is the one that they were charted with: ours, or ours with the values in the sentences.
        """
        parts: list[list[int]] = []
        spans, most = 0, TABLE // max(len(self.grammar), 1)
        for sentence, size in enumerate(np.diff(full.first_node).tolist()):
            if not parts or spans + size > most:
                parts.append([])
                spans = 0
            parts[-1].append(sentence)
            spans += size
        known = replace(full, rules=columns(grammar, full.rules))
        scores = [self._scores([sentences[number] for number in part], known.select(part)) for part in parts]
        legal = None if grammar.target_grammar else self._legal_programs  # typed charts are legal throughout
        return ScoredCharts(grammar, full, np.concatenate([np.empty(0), *scores]), legal, self.model)

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
            raise DamagedModel("the model gives scores that are not numbers: its weights are damaged; train it again")
        return scores


def quoted_values(derivation: Derivation) -> Iterator[tuple[ValueRule, str]]:
    """The values in a derivation's target, each with the quote inside of which the program puts it, if any."""
    values, sides, quote = dict[str, ValueRule](), list[Symbols](), ""
    for number, rule in enumerate(each.rule for each in derivation.hyperedges):
        sides.append(rule.target)
        if isinstance(rule, ValueRule):
            values[name := f"{SLOT}{number}"] = rule
            sides[-1] = tuple(name if each == rule.terminal else each for each in rule.slot_rule.target)
    for token in derivation.substituted(sides) if values else ():
        if token in values:
            yield values[token], quote
        else:
            _, quote = kind_of(token, quote)


@dataclass(frozen=True)
class ScoredCharts:
    """The charts of B sentences and the scores of their A hyperedges; all but `spans` need a derivation of each."""

    grammar: Grammar
    full: Hypergraph
    scores: FloatArray  # (A,)
    target_grammar: TargetGrammar | None = None
    model: SavedModel | None = None  # knows how programs are written

    def select(self, sentences: Sequence[int]) -> ScoredCharts:
        """The charts of some sentences, in the order asked for; a sentence may be asked for twice."""
        bounds = self.full.first_hyperedge[self.full.first_node]
        scores = [np.empty(0), *(self.scores[bounds[sentence] : bounds[sentence + 1]] for sentence in sentences)]
        return replace(self, full=self.full.select(sentences), scores=np.concatenate(scores))

    def answers(self, sentences: Sequence[TokenizedSentence], options: DecodeOptions) -> Iterator[Answer]:
        best = {at: each for at, each in enumerate(self.best()) if each.target_length <= options.most_tokens}
        firsts = dict(zip(best, self.select(list(best)).readings(list(best.values()), options), strict=True))
        for number, sentence in enumerate(sentences):
            first = firsts.pop(number, None)
            if first and not first.is_legal and self.model and self.model.text.programs.problem(first.program):
                first = next(filter(attrgetter("is_legal"), self.most_probable(number, SEARCHED, options)), first)
            elif first and self.novelty(first.derivation):
                first = self.least_new(number, first, options)
            searched = options.readings * DERIVATIONS_A_READING
            others = self.most_probable(number, searched, options)[: options.readings] if searched else ()
            answer = Answer(sentence.raw, system=GRAMMAR, readings=others, words=sentence.words)
            if first and first.is_legal:
                yield replace(answer, target=first.program, probability=first.probability, reading=first)
            else:
                reason = self.problem(first.derivation, first.program) or ILLEGAL if first else LONG_TARGET
                yield replace(answer, reason=reason)

    def best(self) -> list[Derivation]:
        found = best_derivations(self.grammar, self.full, self.scores)
        return [each.derivation for each in found if each is not None]

    def least_new(self, sentence: int, first: Reading, options: DecodeOptions) -> Reading:
        """The most probable of the legal readings with the fewest new pairs; `first` where none has fewer."""
        derivations = self.select([sentence]).best_of_targets(SEARCHED, options.most_tokens)
        news = list(map(self.novelty, derivations))
        if min(news) == self.novelty(first.derivation):
            return first
        least = [each for each, new in zip(derivations, news, strict=True) if new == min(news)]
        readings = filter(attrgetter("is_legal"), self.select([sentence] * len(least)).readings(least, options))
        return min(readings, key=lambda each: (-each.probability, each.target), default=first)

    def novelty(self, derivation: Derivation) -> int:
        """How many pairs of rules a derivation has that training never had; 0 where that tells nothing.

        The scores of rules are learned from the words at both ends of a span. In sentences longer than all of training
        they mislead, where what fills which slot still tells how the parts of a sentence are joined. It tells nothing
        where there is free text: that may hold any words, and what holds most of them has the fewest pairs.
        """
        model, slots = self.model, self.grammar.slots
        if model is None or model.calibrator is None or (slots and slots.free_text):
            return 0
        pairs, known = rule_pairs(derivation, self.grammar.numbers), model.calibrator.pairs
        return known.unseen(pairs, len(model.trained_rules)) if known.rows else 0

    def most_probable(self, sentence: int, searched: int, options: DecodeOptions) -> tuple[Reading, ...]:
        """The targets of one sentence's best derivations, the least new and then the most probable first."""
        derivations = self.select([sentence]).best_of_targets(searched, options.most_tokens)
        readings = self.select([sentence] * len(derivations)).readings(derivations, options)
        return tuple(sorted(readings, key=lambda each: (self.novelty(each.derivation), -each.probability, each.target)))

    def best_of_targets(self, count: int, most_tokens: int = MOST_TOKENS) -> list[Derivation]:
        """For every target among the `count` best derivations of a sentence the least new, unless it is too long."""
        (ranked,) = k_best_derivations(self.grammar, self.full, self.scores, count)
        found: dict[Tokens, Derivation] = {}
        for derivation in sorted((each.derivation for each in ranked), key=self.novelty):
            if derivation.target_length <= most_tokens:
                found.setdefault(derivation.target, derivation)
        return list(found.values())

    def readings(self, derivations: Sequence[Derivation], options: DecodeOptions) -> list[Reading]:
        targets, legal = [derivation.target for derivation in derivations], self.target_grammar
        programs = list(map(self.written, targets))
        problems = map(self.problem, derivations, programs)
        columns = zip(
            targets,
            self.probabilities(targets).tolist(),
            derivations,
            [
                (legal is None or legal.accepts(target)) and not problem
                for target, problem in zip(targets, problems, strict=True)
            ],
            self.hyperedge_scores(derivations),
            self.hyperedge_marginals(derivations) if options.marginals else [()] * len(derivations),
            programs,
            strict=True,
        )
        return [Reading(*column) for column in columns]

    def written(self, target: Tokens) -> str:
        """A target as the training data would write it."""
        if self.model is None:
            return " ".join(target)
        return self.model.sql.render(target) if self.model.sql else self.model.text.programs.render(target)

    def problem(self, derivation: Derivation, program: str) -> str:
        """Why a program means nothing to the model's database, if it has one, or is unlike all that training has."""
        if self.model is None:
            return ""
        for rule, quote in quoted_values(derivation):
            if not self.model.text.slots.is_contained(rule.slot, value := tuple(map(str, rule.value)), quote):
                return f"{ILLEGAL}: a value has marks that would end it too soon: {' '.join(value):.80}"
        reason = self.model.sql.problem(program) if self.model.sql else self.model.text.programs.problem(program)
        return reason and f"{ILLEGAL}: {reason}"

    def probabilities(self, targets: Sequence[Tokens]) -> FloatArray:
        """The probability of a target of each sentence, all derivations that yield it together: (B,)."""
        goal = goal_charts(self.grammar, self.full, targets)
        asked = self._table.numbers(goal)[goal.owners()] * len(self.grammar) + columns(self.grammar, goal.rules)
        goal_scores = self.scores[self._hyperedges_of(asked)]
        everything = log_inside(self.full, self.scores)[self.full.roots()]
        right = np.append(log_inside(goal, goal_scores), -np.inf)[goal.roots()]
        chances: FloatArray = np.minimum(np.exp(right - everything), 1.0)  # rounding may lead past 1
        return chances

    @cached_property
    def _table(self) -> SpanTable:
        return SpanTable.of(self.full)

    @cached_property
    def _pairs(self) -> Int64Array:
        """For every hyperedge its pair of span and rule, which has one score wherever its children meet: (A,)."""
        rules = columns(self.grammar, self.full.rules)
        return self._table.numbers(self.full)[self.full.owners()] * len(self.grammar) + rules

    @cached_property
    def _order(self) -> Int64Array:
        return np.argsort(self._pairs, kind="stable")

    def _hyperedges_of(self, pairs: Int64Array) -> Int64Array:
        """For every pair of span and rule the first hyperedge that has it."""
        return self._order[np.searchsorted(self._pairs[self._order], pairs)]

    def _pairs_of(self, derivations: Sequence[Derivation]) -> Int64Array:
        """The pairs of the hyperedges of a derivation of each sentence, one derivation after the other."""
        numbers, width = self.grammar.numbers, self._table.width
        asked = [
            ((sentence * width + each.span.start) * width + each.span.end, numbers[each.rule])
            for sentence, derivation in enumerate(derivations)
            for each in derivation.hyperedges
        ]
        spans, rules = np.array(asked, dtype=np.int64).reshape(-1, 2).T
        return self._table.find(spans) * len(self.grammar) + rules

    def hyperedge_scores(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        return _cut(self.scores[self._hyperedges_of(self._pairs_of(derivations))], derivations)

    def hyperedge_marginals(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        """For a derivation of each sentence how probable it is that its rules are applied to their spans."""
        pairs, of_hyperedges = np.unique(self._pairs, return_inverse=True)
        chances = np.bincount(of_hyperedges, marginals(self.full, self.scores), minlength=len(pairs))
        asked = np.searchsorted(pairs, self._pairs_of(derivations))
        return _cut(np.minimum(chances[asked], 1.0), derivations)  # rounding may lead past 1

    def spans(self, derivable: Collection[int]) -> Iterator[tuple[ChartSpan, ...]]:
        """The spans of each sentence, short ones first; only those of `derivable` sentences have a probability."""
        full, of_nodes = self.full, self._table.numbers(self.full)
        best, first = max_inside(full, self.scores)
        chances = np.bincount(of_nodes[full.owners()], marginals(full, self.scores), minlength=len(self._table.starts))
        for sentence, (low, high) in enumerate(pairwise(full.first_node.tolist())):
            found: dict[int, NodeId] = {}  # of the nodes of a span the best
            for node in map(NodeId, range(low, high)):
                span = int(of_nodes[node])
                if span not in found or best[node] > best[found[span]]:
                    found[span] = node
            spans = [
                ChartSpan(
                    full.span(node),
                    self.grammar[int(full.rules[first[node]])],
                    float(best[node]),
                    min(float(chances[span]), 1.0) if sentence in derivable else 0.0,
                )
                for span, node in found.items()
            ]
            yield tuple(sorted(spans, key=lambda each: (each.span.end - each.span.start, each.span)))


def _fails(answer: Answer | None) -> bool:
    return answer is None or (answer.target is None and answer.reason in (NO_DERIVATION, ILLEGAL))


def _covered(full: Hypergraph, sources: Sequence[Tokens]) -> set[int]:
    """The sentences that have a node over all their words: the last one, if any."""
    charted = np.flatnonzero(np.diff(full.first_node))
    last, lengths = full.roots()[charted], np.array([len(source) for source in sources], dtype=np.int64)[charted]
    return set(charted[(full.starts[last] == 0) & (full.ends[last] == lengths)].tolist())


def _cut(values: FloatArray, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
    """Values of hyperedges, one derivation after the other, as a tuple for each derivation."""
    rest = iter(values.tolist())
    return [tuple(next(rest) for _ in derivation.hyperedges) for derivation in derivations]
