"""The parser: sentences in, programs out, each with its probability and its derivation; or an abstention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from nqg.answers import GRAMMAR, ILLEGAL, NO_DERIVATION, TOO_LONG, Answer, Reading
from nqg.data.examples import Example
from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array, kernel
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.derivation import Derivation, Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.rule import Rule
from nqg.grammar.semirings import best_derivations, k_best_derivations, log_inside, marginals
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.checkpoint import Provenance, SavedModel, load_model, save_model
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model.spans import anchors, span_numbers
from nqg.model.subwords import Subwords, collate, tokenize


@dataclass(frozen=True)
class ScoredCharts:
    """The pruned charts of B sentences, each of which has a derivation, and the scores of their A hyperedges."""

    grammar: Grammar
    full: Hypergraph
    scores: FloatArray  # (A,)

    def select(self, sentences: Sequence[int]) -> ScoredCharts:
        """The charts of some sentences, in the order asked for; a sentence may be asked for twice."""
        scores = [np.empty(0), *(self.scores[self._hyperedges(sentence)] for sentence in sentences)]
        return ScoredCharts(self.grammar, self.full.select(sentences), np.concatenate(scores))

    def best(self) -> list[Derivation]:
        """The best derivation of each sentence."""
        found = best_derivations(self.grammar, self.full, self.scores)
        return [each.derivation for each in found if each is not None]

    def best_of_targets(self, count: int) -> list[Derivation]:
        """For every target among the `count` best derivations of one sentence the best that yields it."""
        (ranked,) = k_best_derivations(self.grammar, self.full, self.scores, count)
        found: dict[Tokens, Derivation] = {}
        for each in ranked:
            found.setdefault(each.derivation.target, each.derivation)
        return list(found.values())

    def probabilities(self, targets: Sequence[Tokens]) -> FloatArray:
        """The probability of a target of each sentence, all derivations that yield it together: (B,)."""
        goal = goal_charts(self.grammar, self.full, targets)
        everything = log_inside(self.full, self.scores)[self.full.roots()]
        right = np.append(log_inside(goal, self._scores_of(goal)), -np.inf)[goal.roots()]
        chances: FloatArray = np.minimum(np.exp(right - everything), 1.0)  # rounding may lead past 1
        return chances

    def hyperedge_scores(self, derivations: Sequence[Derivation]) -> list[tuple[float, ...]]:
        """For a derivation of each sentence the scores of its hyperedges, in their order."""
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

    @cached_property
    def _rule_numbers(self) -> dict[Rule, int]:
        return {rule: number for number, rule in enumerate(self.grammar)}

    def _hyperedges(self, sentence: int) -> slice:
        low, high = self.full.first_node[sentence], self.full.first_node[sentence + 1]
        return slice(int(self.full.first_hyperedge[low]), int(self.full.first_hyperedge[high]))

    def _scores_of(self, goal: Hypergraph) -> FloatArray:
        """The scores of a goal graph's hyperedges: those of the same rule over the same span."""
        width = len(self.grammar)
        known = self.full.owners().astype(np.int64) * width + self.full.rules
        asked = span_numbers(goal, self.full)[goal.owners()] * width + goal.rules
        order = np.argsort(known, kind="stable")
        return self.scores[order[np.searchsorted(known[order], asked)]]

    def _places(self, derivations: Sequence[Derivation]) -> Int64Array:
        """Which hyperedges of the graph those of the derivations are, one derivation after the other."""
        numbers = self._rule_numbers
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


SEARCHED = (80, 320)  # best derivations among whose targets a legal one is looked for, more if there is none
DERIVATIONS_A_READING = 4  # best derivations that are looked at for every reading that is asked for


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a parser gives beside the best reading.

    `readings` asks for that many of the most probable targets: those found among four times as many best derivations.
    The paper's parser abstains if the best target is illegal; with `only_legal` the most probable legal target of the
    80 (or, if there is none, 320) best derivations is taken instead. `marginals` asks for those of every hyperedge.
    """

    readings: int = 0
    only_legal: bool = False
    marginals: bool = False


def scored_answers(
    sources: Sequence[str], scored: ScoredCharts, legal: TargetGrammar | None, options: DecodeOptions
) -> Iterator[Answer]:
    """The answers to sentences, in their order."""
    best = _readings(scored, scored.best(), legal, options)
    for number, (source, first) in enumerate(zip(sources, best, strict=True)):
        searched = options.readings * DERIVATIONS_A_READING
        others = _most_probable(scored, number, searched, legal, options)[: options.readings]
        reading = first if first.is_legal else None
        if reading is None and options.only_legal:
            found = (each for width in SEARCHED for each in _most_probable(scored, number, width, legal, options))
            reading = next((each for each in found if each.is_legal), None)
        if reading is None:
            yield Answer(source, system=GRAMMAR, reason=ILLEGAL, readings=others)
        else:
            target = " ".join(reading.target)
            yield Answer(source, target, reading.probability, GRAMMAR, reading=reading, readings=others)


def _most_probable(
    scored: ScoredCharts, number: int, searched: int, legal: TargetGrammar | None, options: DecodeOptions
) -> tuple[Reading, ...]:
    """The targets of one sentence's best derivations, the most probable first."""
    if searched == 0:
        return ()
    derivations = scored.select([number]).best_of_targets(searched)
    readings = _readings(scored.select([number] * len(derivations)), derivations, legal, options)
    return tuple(sorted(readings, key=lambda reading: (-reading.probability, reading.target)))


def _readings(
    scored: ScoredCharts, derivations: Sequence[Derivation], legal: TargetGrammar | None, options: DecodeOptions
) -> list[Reading]:
    """A derivation of each chart as a reading."""
    targets = [derivation.target for derivation in derivations]
    marginals = scored.hyperedge_marginals(derivations) if options.marginals else [()] * len(derivations)
    columns = zip(
        targets,
        scored.probabilities(targets).tolist(),
        derivations,
        [legal is None or legal.accepts(target) for target in targets],
        scored.hyperedge_scores(derivations),
        marginals,
        strict=True,
    )
    return [Reading(*column) for column in columns]


WINDOW = 1024  # sentences that are read before the first of them is answered, to be sorted by length
BATCH = 256  # sentences that are encoded together
TABLE = 1 << 25  # scores of spans and rules that are computed together: bounds the memory that large grammars take


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
        """A parser fitted to `examples`, whose derivations `grammar` has; see `Fitting` for `dev`."""
        from nqg.inference.fitting import Fitting  # which makes parsers, and so imports this module

        fitting = Fitting(
            grammar, examples, dev=dev, target_grammar=target_grammar, model=model, training=training, device=device
        )
        records = [step.facts for step in fitting.steps()]
        return cls(replace(fitting.parser.model, provenance=Provenance.of(examples, training, records)))

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Parser:
        """The parser in a model folder."""
        return cls(load_model(Path(folder), device or best_device()))

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
        save_model(Path(folder), self.model if provenance is None else replace(self.model, provenance=provenance), also)

    @property
    def grammar(self) -> Grammar:
        """The rules that it knows."""
        return self.model.grammar

    def with_options(self, options: DecodeOptions) -> Parser:
        """The same parser that answers in another way."""
        return replace(self, options=options)

    def parse(self, sentence: str, *, readings: int = 0, only_legal: bool = False, marginals: bool = False) -> Answer:
        """The answer to one sentence; see `DecodeOptions`."""
        return next(self.with_options(DecodeOptions(readings, only_legal, marginals)).answers([sentence]))

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in their order; the stream may be endless."""
        stream = iter(sentences)
        while window := list(islice(stream, WINDOW)):
            yield from self._window(window)

    def _window(self, sentences: Sequence[str]) -> list[Answer]:
        """The answers to some sentences; those of similar length go through the encoder together."""
        sources = [tuple(sentence.split()) for sentence in sentences]
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        answers: dict[int, Answer] = {}
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            found = self._batch([sentences[number] for number in batch], [sources[number] for number in batch])
            answers.update(zip(batch, found, strict=True))
        return [answers[number] for number in range(len(sources))]

    def _batch(self, sentences: Sequence[str], sources: Sequence[Tokens]) -> list[Answer]:
        """The answers to sentences; only those that have a derivation are encoded."""
        longest = self.model.max_length
        long = {number for number, source in enumerate(sources) if len(source) > longest}
        full = charts(self.grammar, [() if number in long else source for number, source in enumerate(sources)])
        derivable = np.flatnonzero(np.diff(full.first_node)).tolist()
        encoded = dict(zip(derivable, self.subwords([sources[number] for number in derivable]), strict=True))
        long |= {number for number in derivable if len(encoded[number].ids) > longest}
        read = [number for number in derivable if number not in long]
        scored = self.scored([encoded[number] for number in read], full.select(read))
        found = scored_answers([sentences[number] for number in read], scored, self.model.target_grammar, self.options)
        answers = dict(zip(read, found, strict=True))
        return [
            answers.get(number)
            or Answer(sentence, system=GRAMMAR, reason=TOO_LONG if number in long else NO_DERIVATION)
            for number, sentence in enumerate(sentences)
        ]

    def subwords(self, sources: Sequence[Tokens]) -> list[Subwords]:
        """Sentences as the encoder reads them."""
        return tokenize(self.model.tokenizer, sources) if sources else []

    def scored(self, sentences: Sequence[Subwords], full: Hypergraph) -> ScoredCharts:
        """The charts of sentences with a score for every hyperedge."""
        parts = [
            self._scores([sentences[number] for number in part], full.select(part))
            for part in _parts(full, TABLE // max(len(self.grammar), 1))
        ]
        return ScoredCharts(self.grammar, full, np.concatenate([np.empty(0), *parts]))

    def _scores(self, sentences: Sequence[Subwords], full: Hypergraph) -> FloatArray:
        model = self.model
        batch = collate(sentences, model.device)
        places = (torch.from_numpy(each.astype(np.int64)).to(model.device) for each in (full.owners(), full.rules))
        model.scorer.eval()
        with torch.inference_mode():
            table = model.scorer(batch, anchors(full, model.device))  # (S, R)
            scores: FloatArray = table[tuple(places)].double().cpu().numpy()
        return scores


def _parts(full: Hypergraph, most: int) -> Iterator[list[int]]:
    """The sentences of a graph in groups of at most `most` spans, or of one sentence."""
    part: list[int] = []
    spans = 0
    for sentence, size in enumerate(np.diff(full.first_node).tolist()):
        if part and spans + size > most:
            yield part
            part, spans = [], 0
        part.append(sentence)
        spans += size
    if part:
        yield part


def best_device() -> str:
    """The GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"
