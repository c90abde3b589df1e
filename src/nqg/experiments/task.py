"""A recipe's data, as each system reads it, and the judges of what they predict."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from nqg.data.catalogue import load_dataset, load_spider_schemas
from nqg.data.dataset import Dataset
from nqg.data.example import Example
from nqg.data.progress import Report, silent
from nqg.data.spider import database_of, nqg_examples, with_schemas
from nqg.data.spider_schema import Schema
from nqg.data.split import Split
from nqg.data.sql_target_grammar import SqlConstants, sql_target_grammar
from nqg.evaluation.judges import Judge, judge_named
from nqg.experiments.recipe import Recipe
from nqg.grammar.target_grammar import TargetGrammar
from nqg.splits.audit import audit
from nqg.splits.languages import likely_language
from nqg.splits.shuffled import random_split
from nqg.splits.sizes import Sizes

Legal = Callable[[str], bool]


@dataclass(frozen=True)
class Task:
    """The examples of a recipe as they are published; Spider's have schemas beside them."""

    recipe: Recipe
    train: tuple[Example, ...]
    test: tuple[Example, ...]
    split_facts: Mapping[str, float]
    judges: Mapping[str, Judge]  # the first is the recipe's
    schemas: Mapping[str, Schema] = field(default_factory=dict)

    @property
    def is_sql(self) -> bool:
        """Whether the programs are SQL about databases with schemas."""
        return bool(self.schemas)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the examples, train before test."""
        return Dataset(self.recipe.name, (*self.train, *self.test)).fingerprint

    def for_grammar(self, examples: Iterable[Example]) -> list[Example]:
        """Examples as the grammar reads them: SQL and questions about it cut into tokens."""
        return nqg_examples(examples) if self.is_sql else list(examples)

    def for_seq2seq(self, examples: Sequence[Example]) -> list[Example]:
        """Examples as T5 reads them: questions about a database with its whole schema, which the model may cut."""
        if not self.is_sql:
            return list(examples)
        return list(with_schemas(examples, self.schemas, limit=1, length=lambda source: 0).examples)

    @property
    def target_grammar(self) -> TargetGrammar | None:
        """What every legal program of the task follows, where one grammar can say it: that is so for FunQL."""
        if self.recipe.dataset != "geoquery":
            return None
        from nqg.data.funql_grammar import funql_target_grammar

        return funql_target_grammar()

    def legality(self) -> Callable[[Example], Legal]:
        """For an example, what tells whether a program of the grammar is legal: SQL must fit its database."""
        if not self.is_sql:
            return lambda _: lambda _: True
        constants = SqlConstants.of(example.target for example in self.train)

        @cache
        def grammar(database: str) -> TargetGrammar:
            return TargetGrammar.parse(sql_target_grammar(self.schemas[database], constants))

        return lambda example: lambda target: grammar(database_of(example.source)).accepts(target.split())


def prepared(recipe: Recipe, mirror: Path | str | None = None, report: Report = silent) -> Task:
    """The task of a recipe, its data downloaded or taken from a mirror."""
    dataset = load_dataset(recipe.dataset, mirror, report)
    split = _split(recipe, dataset)
    parts = split.parts(dataset.examples)
    schemas = load_spider_schemas(mirror, report) if recipe.dataset.startswith("spider") else {}
    metrics = [recipe.metric, *(["denotation"] if recipe.dataset == "geoquery" else [])]
    judges = {name: judge_named(name, None if mirror is None else Path(mirror), report) for name in metrics}
    return Task(recipe, tuple(parts.train), tuple(parts.test), _split_facts(dataset, split), judges, schemas)


def _split(recipe: Recipe, dataset: Dataset) -> Split:
    if recipe.random_train_size is None:
        return dataset.positions(recipe.split)
    sizes = Sizes(train=recipe.random_train_size, test=len(dataset.examples) - recipe.random_train_size)
    return random_split(dataset.examples, sizes, random.Random(0))


def _split_facts(dataset: Dataset, split: Split) -> dict[str, float]:
    """What table 6 of the paper says of a split."""
    if dataset.name == "scan":
        return {}  # the paper has none; SCAN's programs have no compounds but their tokens
    found = audit(dataset.examples, split, likely_language(dataset.examples))
    return {"unseen_atoms": found.unseen_atom_share, "divergence": found.compound_divergence}
