"""Inferred target grammars: what they accept of test programs, and reject of ill-typed ones.

python benchmarks/type_inference.py ../shared/data

An ill-typed program is a program in which a random term stands in the place of another, such that the written FunQL
grammar rejects it.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nqg.paper.datasets import load_dataset
from nqg.paper.funql import funql_target_grammar
from nqg.types.inference import InferredTypes, infer_types
from nqg.types.target_grammar import TargetGrammar

EDITS = 1000
Program = Sequence[str]


def share(grammar: TargetGrammar, programs: Sequence[Program]) -> str:
    return f"{sum(map(grammar.accepts, programs)) / len(programs):.1%}"


def terms(program: Program) -> list[tuple[int, int]]:
    """Where each term of a FunQL program begins and ends."""
    found: list[tuple[int, int]] = []
    open_terms: list[int] = []
    for at, token in enumerate(program):
        following = program[at + 1] if at + 1 < len(program) else ""
        if token == "(":
            open_terms.append(at - 1)
        elif token == ")":
            found.append((open_terms.pop(), at + 1))
        elif token != "," and following != "(":
            found.append((at, at + 1))
    return found


def ill_typed(programs: Sequence[Program], rng: random.Random) -> list[Program]:
    legal, found = funql_target_grammar(), list[Program]()
    while len(found) < EDITS:
        host, giver = rng.choice(programs), rng.choice(programs)
        (begin, end), (first, last) = rng.choice(terms(host)), rng.choice(terms(giver))
        edited = [*host[:begin], *giver[first:last], *host[end:]]
        if not legal.accepts(edited):
            found.append(edited)
    return found


def timed_inference(name: str, programs: Sequence[Program]) -> InferredTypes:
    begun = time.process_time()
    inferred = infer_types(programs)
    seconds = time.process_time() - begun
    level = inferred.coarseness.name if inferred.coarseness else "flat"
    print(
        f"{name}: {len(programs):,} programs, {seconds:.1f} s, {len(inferred.types)} types ({level})",
        end="",
    )
    assert all(map(inferred.grammar.accepts, programs))
    return inferred


def main(mirror: Path) -> None:
    dataset = load_dataset("geoquery", mirror)
    edits = ill_typed(
        [example.target_tokens for example in dataset.examples], random.Random(1)
    )
    for split in ("standard", "template", "length", "tmcd"):
        train, test = (
            [example.target_tokens for example in part] for part in dataset.split(split)
        )
        grammar = timed_inference(f"GeoQuery {split}", train).grammar
        written = share(funql_target_grammar(), test)
        rejected = sum(not grammar.accepts(edit) for edit in edits) / len(edits)
        print(
            f"; test accepted {share(grammar, test)} (written {written}), ill-typed rejected {rejected:.1%}"
        )
    train, gen = (
        [example.target_tokens for example in part]
        for part in load_dataset("cogs", mirror).split("gen")
    )
    print(f"; gen accepted {share(timed_inference('COGS', train).grammar, gen)}")
    train, test = (
        [example.target_tokens for example in part]
        for part in load_dataset("scan", mirror).split("length")
    )
    print(
        f"; test accepted {share(timed_inference('SCAN length', train).grammar, test)}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
