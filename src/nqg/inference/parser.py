"""The parser: sentences in, programs out, each with its probability and its derivation; or an abstention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from nqg.data.example import Example
from nqg.grammar.best import best_derivations, k_best_derivations
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.derivation import Derivation, Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import Graph
from nqg.grammar.inside import Floats, log_inside
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.anchors import anchors, span_numbers
from nqg.model.checkpoint import SavedModel, load_model, save_model
from nqg.model.encoder import piece_batch, pieces
from nqg.model.provenance import Provenance
from nqg.model.settings import ModelSettings, TrainingSettings

BATCH = 256  # sentences that are encoded together
SEARCHED = 20  # readings among which a legal one is looked for


@dataclass(frozen=True, slots=True)
class Reading:
    """A target that a sentence may mean, its probability, and the best derivation that yields it."""

    target: Tokens
    probability: float
    derivation: Derivation
    is_legal: bool = True


@dataclass(frozen=True, slots=True)
class Parse:
    """What the parser says of a sentence; no `best` is an abstention, and `reason` says why."""

    source: Tokens
    best: Reading | None
    reason: str = ""
    readings: tuple[Reading, ...] = ()  # the best ones, if asked for, illegal ones included

    @property
    def target(self) -> str | None:
        """The program, tokens separated by spaces, or None."""
        return None if self.best is None else " ".join(self.best.target)

    @property
    def probability(self) -> float | None:
        """The probability of the program given the sentence, under the grammar."""
        return None if self.best is None else self.best.probability


@dataclass(frozen=True)
class Parser:
    """A grammar, a scorer of its rules, and perhaps a grammar of legal targets."""

    model: SavedModel

    @classmethod
    def train(
        cls,
        grammar: Grammar,
        examples: Sequence[Example],
        *,
        target_grammar: TargetGrammar | None = None,
        model: ModelSettings = ModelSettings(),  # noqa: B008 (frozen)
        training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
        device: str | None = None,
    ) -> Parser:
        """A parser fitted to `examples`, whose derivations `grammar` has."""
        from nqg.inference.fitting import Fitting  # which makes parsers, and so imports this module

        fitting = Fitting(
            grammar, examples, target_grammar=target_grammar, model=model, training=training, device=device
        )
        records = [asdict(step) for step in fitting.steps()]
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

    def parse(self, sentence: str, *, readings: int = 0, only_legal: bool = False) -> Parse:
        """What a sentence means; see `parse_all`."""
        return self.parse_all([sentence], readings=readings, only_legal=only_legal)[0]

    def parse_all(self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False) -> list[Parse]:
        """What each of several sentences means, in batches.

        `readings` asks for that many of the best targets beside the best. The paper's parser abstains if the best
        target is illegal; with `only_legal` the best of the legal readings is taken instead.
        """
        return list(self._parses([tuple(sentence.split()) for sentence in sentences], readings, only_legal))

    def _parses(self, sources: Sequence[Tokens], readings: int, only_legal: bool) -> Iterator[Parse]:
        for start in range(0, len(sources), BATCH):
            yield from self._batch(sources[start : start + BATCH], readings, only_legal)

    def _batch(self, sources: Sequence[Tokens], readings: int, only_legal: bool) -> Iterator[Parse]:
        fits = [len(each.ids) <= self.model.longest for each in pieces(self.model.tokenizer, sources)]
        readable = [source if fit else () for source, fit in zip(sources, fits, strict=True)]
        full = charts(self.grammar, readable)
        scores = self._scores(readable, full)
        best = best_derivations(self.grammar, full, scores)
        chances = self._chances(full, scores, [found.derivation.target if found else () for found in best])
        for number, (source, found) in enumerate(zip(sources, best, strict=True)):
            if found is None:
                yield Parse(source, None, "no derivation" if fits[number] else "too long")
                continue
            reading = self._reading(found.derivation, chances[number])
            searched = max(readings, SEARCHED if only_legal and not reading.is_legal else 0)
            others = self._readings(full[number], scores[_applications(full, number)], searched)
            legal = (each for each in (reading, *(others if only_legal else ())) if each.is_legal)
            answer = next(legal, None)
            yield Parse(source, answer, "" if answer else "illegal target", others[:readings])

    def _scores(self, sources: Sequence[Tokens], full: Graph) -> Floats:
        """The score of every application: (A,)."""
        if full.choices == 0:
            return np.zeros(0)
        model = self.model
        sentences = piece_batch(pieces(model.tokenizer, sources), model.tokenizer.pad_token_id, model.device)
        model.scorer.eval()
        with torch.inference_mode():
            table = model.scorer(sentences, anchors(full, model.device)).double().cpu().numpy()  # (S, R)
        scores: Floats = table[full.owners(), full.rules]
        return scores

    def _chances(self, full: Graph, scores: Floats, targets: Sequence[Tokens]) -> Floats:
        """The probability of a target of each sentence, all of its derivations together: (B,)."""
        goal = goal_charts(self.grammar, full, targets)
        everything, right = (
            np.append(log_inside(graph, weights), -np.inf)[graph.roots()]
            for graph, weights in ((full, scores), (goal, _goal_scores(goal, full, scores)))
        )
        with np.errstate(invalid="ignore"):
            chances: Floats = np.minimum(np.exp(right - everything), 1.0)  # rounding may lead past 1
        return chances

    def _readings(self, full: Graph, scores: Floats, count: int) -> tuple[Reading, ...]:
        """The targets of one sentence's best derivations, the most probable first."""
        if count == 0:
            return ()
        derivations: dict[Tokens, Derivation] = {}
        for each in k_best_derivations(self.grammar, full, scores, 4 * count)[0]:
            derivations.setdefault(each.derivation.target, each.derivation)
        repeated = full.select([0] * len(derivations))
        chances = self._chances(repeated, np.tile(scores, len(derivations)), list(derivations))
        found = map(self._reading, derivations.values(), chances)
        return tuple(sorted(found, key=lambda reading: (-reading.probability, reading.target))[:count])

    def _reading(self, derivation: Derivation, probability: float) -> Reading:
        target, legal = derivation.target, self.model.target_grammar
        return Reading(target, float(probability), derivation, legal is None or legal.accepts(target))


def best_device() -> str:
    """The GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def _applications(graph: Graph, sentence: int) -> slice:
    low, high = graph.first_choice[sentence], graph.first_choice[sentence + 1]
    return slice(int(graph.first_application[low]), int(graph.first_application[high]))


def _goal_scores(goal: Graph, full: Graph, scores: Floats) -> Floats:
    """The scores of a goal graph's applications, looked up in the full graph by span and rule."""
    width = int(max(full.rules.max(initial=0), goal.rules.max(initial=0))) + 1
    known = full.owners().astype(np.int64) * width + full.rules
    asked = span_numbers(goal, full)[goal.owners()] * width + goal.rules
    order = np.argsort(known, kind="stable")
    return scores[order[np.searchsorted(known[order], asked)]]
