"""The parser: sentences in, programs out, each with its probability and its derivation; or an abstention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from nqg.data.example import Example
from nqg.grammar.charts import charts
from nqg.grammar.derivation import Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import Graph
from nqg.grammar.inside import Floats
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.answers import Wish, answers
from nqg.inference.reading import NO_DERIVATION, TOO_LONG, Parse, Reading
from nqg.inference.scored_charts import ScoredCharts
from nqg.model.anchors import anchors
from nqg.model.checkpoint import SavedModel, load_model, save_model
from nqg.model.encoder import Pieces, piece_batch, pieces
from nqg.model.provenance import Provenance
from nqg.model.settings import ModelSettings, TrainingSettings

__all__ = ["Parse", "Parser", "Reading", "best_device"]

WINDOW = 1024  # sentences that are read before the first of them is answered, to be sorted by length
BATCH = 256  # sentences that are encoded together
TABLE = 1 << 25  # scores of spans and rules that are computed together: bounds the memory that large grammars take


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

    def parse(self, sentence: str, *, readings: int = 0, only_legal: bool = False, marginals: bool = False) -> Parse:
        """What a sentence means; see `parses`."""
        return next(self.parses([sentence], readings=readings, only_legal=only_legal, marginals=marginals))

    def parse_all(
        self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False, marginals: bool = False
    ) -> list[Parse]:
        """What each of several sentences means; see `parses`."""
        return list(self.parses(sentences, readings=readings, only_legal=only_legal, marginals=marginals))

    def parses(
        self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False, marginals: bool = False
    ) -> Iterator[Parse]:
        """What each sentence of a stream means, in their order; the stream may be endless.

        `readings` asks for that many of the most probable targets beside the best: those found among four times as many
        best derivations. The paper's parser abstains if the best target is illegal; with `only_legal` the most probable
        legal target of the 80 (or, if there is none, 320) best derivations is taken instead. `marginals` asks for those
        of every application.
        """
        wish = Wish(readings, only_legal, marginals)
        stream = (tuple(sentence.split()) for sentence in sentences)
        while window := list(islice(stream, WINDOW)):
            yield from self._window(window, wish)

    def _window(self, sources: Sequence[Tokens], wish: Wish) -> list[Parse]:
        """The parses of some sentences; those of similar length go through the encoder together."""
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        parses: dict[int, Parse] = {}
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            found = self._batch([sources[number] for number in batch], wish)
            parses.update(zip(batch, found, strict=True))
        return [parses[number] for number in range(len(sources))]

    def _batch(self, sources: Sequence[Tokens], wish: Wish) -> list[Parse]:
        """The parses of sentences; only those that have a derivation are encoded."""
        longest = self.model.longest
        long = {number for number, source in enumerate(sources) if len(source) > longest}
        full = charts(self.grammar, [() if number in long else source for number, source in enumerate(sources)])
        derivable = np.flatnonzero(np.diff(full.first_choice)).tolist()
        sentences = dict(zip(derivable, self.pieces([sources[number] for number in derivable]), strict=True))
        long |= {number for number in derivable if len(sentences[number].ids) > longest}
        read = [number for number in derivable if number not in long]
        scored = self.scored([sentences[number] for number in read], full.select(read))
        found = answers([sources[number] for number in read], scored, self.model.target_grammar, wish)
        parses = dict(zip(read, found, strict=True))
        return [
            parses.get(number) or Parse(source, None, TOO_LONG if number in long else NO_DERIVATION)
            for number, source in enumerate(sources)
        ]

    def pieces(self, sources: Sequence[Tokens]) -> list[Pieces]:
        """Sentences as the encoder reads them."""
        return pieces(self.model.tokenizer, sources) if sources else []

    def scored(self, sentences: Sequence[Pieces], full: Graph) -> ScoredCharts:
        """The charts of sentences with a score for every application."""
        parts = [
            self._scores([sentences[number] for number in part], full.select(part))
            for part in _parts(full, TABLE // max(len(self.grammar), 1))
        ]
        return ScoredCharts(self.grammar, full, np.concatenate([np.empty(0), *parts]))

    def _scores(self, sentences: Sequence[Pieces], full: Graph) -> Floats:
        model = self.model
        batch = piece_batch(sentences, model.tokenizer.pad_token_id, model.device)
        places = (torch.from_numpy(each.astype(np.int64)).to(model.device) for each in (full.owners(), full.rules))
        model.scorer.eval()
        with torch.inference_mode():
            table = model.scorer(batch, anchors(full, model.device))  # (S, R)
            scores: Floats = table[tuple(places)].double().cpu().numpy()
        return scores


def _parts(full: Graph, most: int) -> Iterator[list[int]]:
    """The sentences of a graph in groups of at most `most` spans, or of one sentence."""
    part: list[int] = []
    spans = 0
    for sentence, size in enumerate(np.diff(full.first_choice).tolist()):
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
