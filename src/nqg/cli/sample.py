"""`nqg sample`: pairs drawn from a grammar, to read, to test a parser or to teach another model."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import typer

from nqg.cli.inspect import ANY_ARITY, GRAMMAR, tokenized_for
from nqg.cli.terminal import detail, err, report_written
from nqg.cli.types import target_grammar_named
from nqg.data.examples import Example, distinct_pairs, fit_text, format_of, required_examples, write_examples
from nqg.errors import NqgError
from nqg.grammar.grammar import SLOT, Grammar
from nqg.grammar.slots import unnumbered
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import SamplingSettings
from nqg.text.mentions import Tokens
from nqg.text.preprocessing import FILE as TEXT
from nqg.text.preprocessing import Preprocessor

DEFAULTS = SamplingSettings()

COUNT = typer.Option(20, "-n", "--count", metavar="N", min=1, help="How many different pairs to draw, at most.")
OUTPUT = typer.Option(
    None, "-o", "--output", metavar="FILE", help="Where to write the pairs, .tsv or .jsonl.", show_default="stdout"
)
DATA = typer.Option(
    None,
    "--data",
    metavar="FILE",
    help="Examples whose rules are drawn as often as there, .tsv or .jsonl.",
    show_default="all rules are equally likely",
)
HELD_OUT = typer.Option(None, "--held-out", metavar="FILE", help="Print the perplexity of these other examples.")
TARGET_GRAMMAR = typer.Option(
    None,
    "--target-grammar",
    metavar="FILE|funql",
    help="Draw legal programs only.",
    show_default="the model's, if it has one",
)
DEPTH = typer.Option(DEFAULTS.depth, "--depth", metavar="N", min=1, help="Rules from the root to the deepest one.")
SMOOTHING = typer.Option(
    DEFAULTS.smoothing, "--smoothing", metavar="N", help="How many examples the uniform distribution is worth."
)
EXPLORE = typer.Option(
    DEFAULTS.explore,
    "--explore",
    metavar="SHARE",
    help="Make this share of the choices as in similar places, for combinations that no example has.",
)
PER_TARGET = typer.Option(
    DEFAULTS.per_target, "--per-target", metavar="N", min=1, help="How many sentences a program may have."
)
SEED = typer.Option(0, "--seed", metavar="N", help="Another seed draws other pairs.")


def sample(
    source: Path = GRAMMAR,
    count: int = COUNT,
    output: Path | None = OUTPUT,
    data: Path | None = DATA,
    held_out: Path | None = HELD_OUT,
    target_grammar: str | None = TARGET_GRAMMAR,
    depth: int = DEPTH,
    smoothing: float = SMOOTHING,
    explore: float = EXPLORE,
    per_target: int = PER_TARGET,
    seed: int = SEED,
) -> None:
    """Draw pairs of sentences and programs from a grammar.

    Example: nqg sample model --data train.tsv -n 20000 -o samples.tsv

    With --data, pairs resemble the examples: rules are drawn under other rules
    about as often as in them, and slots have values of the examples. The same
    seed draws the same pairs.
    """
    if output:
        format_of(output)  # which refuses other endings before any work
    settings = SamplingSettings(depth=depth, smoothing=smoothing, explore=explore, per_target=per_target)
    grammar = Grammar.read(source / "grammar.txt" if source.is_dir() else source, ANY_ARITY)
    given = SlotExamples.read(data, source, grammar, is_distinct=True) if data else SlotExamples([])
    own = source / "target.grammar"
    if legal := target_grammar or (str(own) if own.exists() else None):
        grammar = grammar.typed_by(target_grammar_named(legal))
    sampler = GrammarSampler(grammar, given.examples, settings)
    if data:
        fit = sampler.fit(given.examples)
        if 2 * fit.derivable < fit.pairs:
            err.print(f"warning: {data}: {fit}; the others do not count for how often rules are drawn")
        else:
            detail(f"{data}: {fit}")
    if held_out:
        others = SlotExamples.read(held_out, source, grammar, is_distinct=False)
        err.print(f"{held_out}: {sampler.fit(others.examples)}")
    pairs = distinct_pairs(given.filled(sampler.samples(count, seed), random.Random(seed)))
    if not pairs:
        raise NqgError("no pair was found; raise --depth, or give other --data")
    if len(pairs) < count:
        err.print(f"{len(pairs)} pairs instead of {count}: the others that were drawn are repeated, or too long")
    if output:
        write_examples(output, pairs)
        report_written(output)
    else:
        for pair in pairs:
            typer.echo(f"{pair.source}\t{pair.target}")


class SlotValue(NamedTuple):
    """A value of a slot: words of a sentence as they were typed, and what the program has for them."""

    words: str
    value: str


@dataclass(frozen=True, slots=True)
class SlotExamples:
    """Examples as a grammar derives them, with slots in the place of values, and the values that each slot had."""

    examples: Sequence[Example]
    values: Mapping[str, list[SlotValue]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, source: Path, grammar: Grammar, *, is_distinct: bool) -> SlotExamples:
        """The examples in a file, marked as in training; a grammar without slots sees the values themselves."""
        if not any(str(rule.source[0]).startswith(SLOT) for rule in grammar):
            tokens = tokenized_for(source, path)
            return cls(distinct_pairs(tokens) if is_distinct else tokens)
        raw, own = required_examples(path), source / TEXT
        text = Preprocessor.read(own) if own.exists() else fit_text(raw)
        pairs = [text.training_sentence(example.source, example.target) for example in raw]
        examples, seen = list[Example](), set[tuple[Tokens, Tokens]]()
        values = defaultdict[str, list[SlotValue]](list)
        for (sentence, target), marked in zip(pairs, text.slots.marked(pairs), strict=True):
            if is_distinct and (sentence.words, target) in seen:  # those that differ in values alone all count
                continue
            seen.add((sentence.words, target))
            examples.append(Example(" ".join(unnumbered(marked.source)), " ".join(unnumbered(marked.target))))
            for each in marked.mentions:
                values[each.token].append(SlotValue(sentence.typed(each.start, each.end), " ".join(each.value)))
        return cls(examples, values)

    def filled(self, pairs: Iterable[Example], rng: random.Random) -> list[Example]:
        """Pairs with values of the examples for slots, drawn as often as there.

        All places of a slot in a pair have one value: a drawn pair does not tell which of two numbers in the sentence
        is which in the program.
        """
        return [self._filled(pair, rng) for pair in pairs]

    def _filled(self, pair: Example, rng: random.Random) -> Example:
        slots = [token for token in dict.fromkeys(pair.source_tokens) if token in self.values]
        chosen = {slot: rng.choice(self.values[slot]) for slot in slots}
        words = (chosen[each].words if each in chosen else each for each in pair.source_tokens)
        program = (chosen[each].value if each in chosen else each for each in pair.target_tokens)
        return Example(" ".join(words), " ".join(program))
