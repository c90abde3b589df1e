"""The parser: sentences in, programs out, each with its probability and its derivation; or an abstention.

A batch of sentences becomes one hypergraph of charts; the encoder scores every hyperedge; the best derivation of each
sentence, and the share of its target among all derivations, are its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nqg.answers import GRAMMAR, ILLEGAL, LONG_TARGET, NO_DERIVATION, TOO_LONG, Answer, ChartSpan, Reading
from nqg.data.examples import Example
from nqg.errors import DamagedModel
from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array, kernel
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.derivation import MOST_TOKENS, Derivation, Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, NodeId
from nqg.grammar.semirings import best_derivations, k_best_derivations, log_inside, marginals, max_inside
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.checkpoint import Provenance, SavedModel, load_model, save_model
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model.spans import anchors, span_numbers
from nqg.model.subwords import Subwords, collate, tokenize
from nqg.training.parser_training import ParserTraining
from nqg.training.processes import best_device

WINDOW = 1024  # sentences that are read before the first of them is answered, to be sorted by length
BATCH = 256  # sentences that are encoded together
TABLE = 1 << 25  # scores of spans and rules that are computed together: bounds the memory that large grammars take
SEARCHED = (80, 320)  # best derivations among whose targets a legal one is looked for, more if there is none
DERIVATIONS_A_READING = 4  # best derivations that are looked at for every reading that is asked for


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a parser gives beside the best reading.

    `readings` asks for that many of the most probable targets: those found among four times as many best derivations.
    The paper's parser abstains if the best target is illegal; with `only_legal` the most probable legal target of the
    80 (or, if there is none, 320) best derivations is taken instead. `marginals` asks for those of every hyperedge,
    `chart` for every derivable span. `limit` bounds the entries of any one sentence's chart; a target of more than
    `most_tokens` is not written down, and the parser abstains.
    """

    readings: int = 0
    only_legal: bool = False
    marginals: bool = False
    chart: bool = False
    limit: int | None = None
    most_tokens: int = MOST_TOKENS


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
    ) -> Parser:
        """A parser fitted to `examples`, whose derivations `grammar` has; see `ParserTraining` for `dev`."""
        trained = cls.training(
            grammar, examples, dev=dev, target_grammar=target_grammar, model=model, training=training, device=device
        )
        records = [step.to_dict() for step in trained.steps()]
        return cls(replace(trained.model, provenance=Provenance.of(examples, training, records)))

    @classmethod
    def training(cls, grammar: Grammar, examples: Sequence[Example], **options: Any) -> ParserTraining:
        """A training whose steps can be watched; the options are those of `ParserTraining`."""
        return ParserTraining(grammar, examples, cls, **options)

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Parser:
        """The parser in a model folder."""
        return cls(load_model(Path(folder), device or best_device()))

    def save(
        self, folder: Path | str, *, provenance: Provenance | None = None, also: Callable[[Path], object] | None = None
    ) -> None:
        """Write everything that `load` needs into a folder, whole or not at all.

        `provenance` is kept with the model instead of what the parser knows of its own; see `save_model` for `also`.
        """
        save_model(Path(folder), self.model if provenance is None else replace(self.model, provenance=provenance), also)

    @property
    def grammar(self) -> Grammar:
        """The rules that it knows."""
        return self.model.grammar

    def with_options(self, options: DecodeOptions) -> Parser:
        """The same parser with other options of decoding."""
        return replace(self, options=options)

    def parse(self, sentence: str, *, readings: int = 0, only_legal: bool = False, marginals: bool = False) -> Answer:
        """The answer to one sentence; see `DecodeOptions`."""
        return next(self.with_options(DecodeOptions(readings, only_legal, marginals)).answers([sentence]))

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in their order; the stream may be endless."""
        stream = iter(sentences)
        while window := list(islice(stream, WINDOW)):
            order = sorted(range(len(window)), key=lambda number: len(window[number].split()))
            found: dict[int, Answer] = {}
            for start in range(0, len(order), BATCH):  # sentences of similar length
                batch = order[start : start + BATCH]
                found.update(zip(batch, self._batch([window[number] for number in batch]), strict=True))
            yield from (found[number] for number in range(len(window)))

    def _batch(self, sentences: Sequence[str]) -> list[Answer]:
        """Only what has a derivation (or, where charts are asked for, a derivable span) is encoded."""
        sources, options, longest = [tuple(each.split()) for each in sentences], self.options, self.model.max_length
        short = [source if len(source) <= longest else () for source in sources]
        full = charts(self.grammar, short, prune=not options.chart, limit=options.limit)
        charted = np.flatnonzero(np.diff(full.first_node)).tolist()
        encoded = dict(zip(charted, self.subwords([sources[number] for number in charted]), strict=True))
        read = [number for number in charted if len(encoded[number].ids) <= longest]
        scored = self.scored([encoded[number] for number in read], full.select(read))
        last = full.roots()[charted]
        covers_all = (full.starts[last] == 0) & (full.ends[last] == [len(sources[number]) for number in charted])
        whole = set(np.array(charted)[covers_all].tolist())
        rooted = [place for place, number in enumerate(read) if number in whole]
        derivable = scored if len(rooted) == len(read) else scored.select(rooted)
        asked = [sentences[read[place]] for place in rooted]
        found = dict(zip((read[place] for place in rooted), derivable.answers(asked, options), strict=True))
        spans = dict(zip(read, scored.spans(rooted), strict=True)) if options.chart else {}
        for number, sentence in enumerate(sentences):
            if number not in found:
                is_long = len(sources[number]) > longest or number in whole
                found[number] = Answer(sentence, system=GRAMMAR, reason=TOO_LONG if is_long else NO_DERIVATION)
            if options.chart:
                found[number] = replace(found[number], chart=spans.get(number, ()))
        return [found[number] for number in range(len(sentences))]

    def subwords(self, sources: Sequence[Tokens]) -> list[Subwords]:
        """Sentences as the encoder reads them."""
        return tokenize(self.model.tokenizer, sources) if sources else []

    def scored(self, sentences: Sequence[Subwords], full: Hypergraph) -> ScoredCharts:
        """The charts of sentences with a score for every hyperedge; the encoder takes a part of them at a time."""
        parts: list[list[int]] = []
        spans, most = 0, TABLE // max(len(self.grammar), 1)
        for sentence, size in enumerate(np.diff(full.first_node).tolist()):
            if not parts or spans + size > most:
                parts.append([])
                spans = 0
            parts[-1].append(sentence)
            spans += size
        scores = [self._scores([sentences[number] for number in part], full.select(part)) for part in parts]
        return ScoredCharts(self.grammar, full, np.concatenate([np.empty(0), *scores]), self.model.target_grammar)

    def _scores(self, sentences: Sequence[Subwords], full: Hypergraph) -> FloatArray:
        model = self.model
        batch = collate(sentences, model.device)
        places = (torch.from_numpy(each.astype(np.int64)).to(model.device) for each in (full.owners(), full.rules))
        model.scorer.eval()
        with torch.inference_mode():
            table = model.scorer(batch, anchors(full, model.device))  # (S, R)
            scores: FloatArray = table[tuple(places)].double().cpu().numpy()
        if not np.isfinite(scores).all():
            raise DamagedModel("the model gives scores that are not numbers: its weights are damaged; train it again")
        return scores


@dataclass(frozen=True)
class ScoredCharts:
    """The charts of B sentences and the scores of their A hyperedges; all but `spans` need a derivation of each."""

    grammar: Grammar
    full: Hypergraph
    scores: FloatArray  # (A,)
    target_grammar: TargetGrammar | None = None

    def select(self, sentences: Sequence[int]) -> ScoredCharts:
        """The charts of some sentences, in the order asked for; a sentence may be asked for twice."""
        bounds = self.full.first_hyperedge[self.full.first_node]
        scores = [np.empty(0), *(self.scores[bounds[sentence] : bounds[sentence + 1]] for sentence in sentences)]
        return replace(self, full=self.full.select(sentences), scores=np.concatenate(scores))

    def answers(self, sentences: Sequence[str], options: DecodeOptions) -> Iterator[Answer]:
        best = {at: each for at, each in enumerate(self.best()) if each.target_length <= options.most_tokens}
        firsts = dict(zip(best, self.select(list(best)).readings(list(best.values()), options), strict=True))
        for number, sentence in enumerate(sentences):
            first = firsts.pop(number, None)
            searched = options.readings * DERIVATIONS_A_READING
            others = self.most_probable(number, searched, options)[: options.readings] if searched else ()
            reading = first if first and first.is_legal else None
            if reading is None and options.only_legal:
                found = (each for count in SEARCHED for each in self.most_probable(number, count, options))
                reading = next((each for each in found if each.is_legal), None)
            if reading is None:
                yield Answer(sentence, system=GRAMMAR, reason=ILLEGAL if first else LONG_TARGET, readings=others)
            else:
                target = " ".join(reading.target)
                yield Answer(sentence, target, reading.probability, GRAMMAR, reading=reading, readings=others)

    def best(self) -> list[Derivation]:
        found = best_derivations(self.grammar, self.full, self.scores)
        return [each.derivation for each in found if each is not None]

    def most_probable(self, sentence: int, searched: int, options: DecodeOptions) -> tuple[Reading, ...]:
        """The targets of one sentence's best derivations, the most probable first."""
        derivations = self.select([sentence]).best_of_targets(searched, options.most_tokens)
        readings = self.select([sentence] * len(derivations)).readings(derivations, options)
        return tuple(sorted(readings, key=lambda reading: (-reading.probability, reading.target)))

    def best_of_targets(self, count: int, most_tokens: int = MOST_TOKENS) -> list[Derivation]:
        """For every target among the `count` best derivations of a sentence the best one, unless it is too long."""
        (ranked,) = k_best_derivations(self.grammar, self.full, self.scores, count)
        found: dict[Tokens, Derivation] = {}
        for each in ranked:
            if each.derivation.target_length <= most_tokens:
                found.setdefault(each.derivation.target, each.derivation)
        return list(found.values())

    def readings(self, derivations: Sequence[Derivation], options: DecodeOptions) -> list[Reading]:
        targets, legal = [derivation.target for derivation in derivations], self.target_grammar
        columns = zip(
            targets,
            self.probabilities(targets).tolist(),
            derivations,
            [legal is None or legal.accepts(target) for target in targets],
            self.hyperedge_scores(derivations),
            self.hyperedge_marginals(derivations) if options.marginals else [()] * len(derivations),
            strict=True,
        )
        return [Reading(*column) for column in columns]

    def probabilities(self, targets: Sequence[Tokens]) -> FloatArray:
        """The probability of a target of each sentence, all derivations that yield it together: (B,)."""
        goal = goal_charts(self.grammar, self.full, targets)
        width = len(self.grammar)  # a goal hyperedge has the score of the same rule over the same span
        known = self.full.owners().astype(np.int64) * width + self.full.rules
        asked = span_numbers(goal, self.full)[goal.owners()] * width + goal.rules
        order = np.argsort(known, kind="stable")
        goal_scores = self.scores[order[np.searchsorted(known[order], asked)]]
        everything = log_inside(self.full, self.scores)[self.full.roots()]
        right = np.append(log_inside(goal, goal_scores), -np.inf)[goal.roots()]
        chances: FloatArray = np.minimum(np.exp(right - everything), 1.0)  # rounding may lead past 1
        return chances

    def hyperedge_scores(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        return _cut(self.scores[self._places(derivations)], derivations)

    def hyperedge_marginals(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        """For a derivation of each sentence how probable it is that its rules are applied to their spans."""
        places = self._places(derivations)
        owners, chances = self.full.owners(), marginals(self.full, self.scores)
        bounds = self.full.first_hyperedge[owners[places]], self.full.first_hyperedge[owners[places] + 1]
        together = [
            chances[low:high][self.full.rules[low:high] == self.full.rules[place]].sum()  # wherever its children meet
            for low, high, place in zip(*bounds, places, strict=True)
        ]
        return _cut(np.minimum(together, 1.0), derivations)

    def spans(self, derivable: Collection[int]) -> Iterator[tuple[ChartSpan, ...]]:
        """The spans of each sentence, short ones first; only those of `derivable` sentences have a probability."""
        full = self.full
        best, first = max_inside(full, self.scores)
        chances = np.bincount(full.owners(), marginals(full, self.scores), minlength=full.nodes)
        for sentence, (low, high) in enumerate(pairwise(full.first_node.tolist())):
            spans = [
                ChartSpan(
                    full.span(node),
                    self.grammar[int(full.rules[first[node]])],
                    float(best[node]),
                    min(float(chances[node]), 1.0) if sentence in derivable else 0.0,  # rounding may lead past 1
                )
                for node in map(NodeId, range(low, high))
            ]
            yield tuple(sorted(spans, key=lambda each: (each.span.end - each.span.start, each.span)))

    def _places(self, derivations: Sequence[Derivation]) -> Int64Array:
        """Which hyperedges of the graph those of the derivations are, one derivation after the other."""
        numbers = {rule: number for number, rule in enumerate(self.grammar)}
        asked = [
            (sentence, each.span.start, each.span.end, numbers[each.rule])
            for sentence, derivation in enumerate(derivations)
            for each in derivation.hyperedges
        ]
        full = self.full
        table = np.array(asked, dtype=np.int64).reshape(-1, 4)
        return _places(full.first_node, full.starts, full.ends, full.first_hyperedge, full.rules, table)


@kernel
def _places(
    first_node: Int64Array,
    starts: Int32Array,
    ends: Int32Array,
    first_hyperedge: Int64Array,
    rules: Int32Array,
    asked: Int64Array,
) -> Int64Array:
    """For every row (sentence, start, end, rule) the first hyperedge of the rule over the span."""
    places = np.full(len(asked), -1)
    for row in range(len(asked)):
        sentence, start, end, rule = asked[row]
        node = first_node[sentence]
        while starts[node] != start or ends[node] != end:
            node += 1
        hyperedge = first_hyperedge[node]
        while rules[hyperedge] != rule:
            hyperedge += 1
        places[row] = hyperedge
    return places


def _cut(values: FloatArray, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
    """Values of hyperedges, one derivation after the other, as a tuple for each derivation."""
    rest = iter(values.tolist())
    return [tuple(next(rest) for _ in derivation.hyperedges) for derivation in derivations]
