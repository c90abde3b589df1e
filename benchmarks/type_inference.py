"""Inferred target grammars: what they accept of test programs, and reject of ill-typed ones.

python benchmarks/type_inference.py ../shared/data
python benchmarks/type_inference.py ../shared/data --vary CROSSING_SHARE MAX_LOSS
python benchmarks/type_inference.py ../shared/data --vary
python benchmarks/type_inference.py ../shared/data --required

An ill-typed program of GeoQuery is a program in which a random term stands in the place of another,
such that the written FunQL grammar rejects it. One of COGS is a program in which a keyword is
exchanged for another one that no program of any part of COGS, gen included, gives this function.

With `--vary`, each of the constants of inference in turn takes other values. Nobody wrote grammars of
all these languages, so the two figures come from folds of training programs: the share of held-out
programs that types accept, and the share of random edits that they reject, most of which are
ill-typed. Test programs are not looked at.

With `--required`, random thirds of training programs are held out, and the others say which arguments
functions need. Two figures for each number of calls that is enough: held-out programs that lack such
an argument, and calls of held-out programs in which the lack of a random argument would be noticed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from nqg.calls import Call, all_calls, calls_or_none
from nqg.data.example import Example
from nqg.paper.datasets import load_dataset
from nqg.paper.funql import funql_target_grammar
from nqg.pipeline.settings import TrainSettings
from nqg.preprocessing.training_text import fit_training_text
from nqg.types import grammar_writer, inference, tool_calls
from nqg.types.inference import InferredTypes, infer_types
from nqg.types.program_trees import Term, read_term
from nqg.types.target_grammar import TargetGrammar
from real_use_datasets import DATASETS, EXAMPLES, Folder

EDITS = 1000
# What is varied: the values of each constant; the third is today's.
VALUES: dict[str, tuple[float, ...]] = {
    "CROSSING_SHARE": (0.1, 0.25, 0.5, 0.75, 1.0),
    "HALF": (0.25, 1 / 3, 0.5, 2 / 3, 0.75),
    "MAX_LOSS": (0.0, 0.02, 0.05, 0.1, 0.2),
    "HELD_OUT_SHARE": (0.1, 0.2, 1 / 3, 0.5),
    "MAX_FOLDS": (3, 5, 10, 20),
    "ENOUGH_HELD_OUT": (500, 1000, 2000, 4000),
    "GOOD_TURING_THRESHOLD": (0.001, 0.005, 0.01, 0.05, 0.2),
    "MAX_SHARE_OF_LOST_TOKENS": (0.0, 0.02, 0.05, 0.1, 0.5),
}
FOLDS = 2
FOLD_EDITS = 100
CALL_COUNTS = (1, 2, 3, 5, 8, 12, 16, 20)
CALL_FOLDS = 10
# Programs of one dataset at most: a dataset with more of them says no more about constants.
MOST_PROGRAMS = 1500
Program = Sequence[str]


def share(grammar: TargetGrammar, programs: Sequence[Program]) -> str:
    return f"{sum(map(grammar.accepts, programs)) / len(programs):.1%}"


def rejected_share(grammar: TargetGrammar, programs: Sequence[Program]) -> str:
    rejected = sum(not grammar.accepts(program) for program in programs)
    return f"{rejected / len(programs):.1%}"


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


def keyword_uses(program: Program) -> Iterator[tuple[str, str]]:
    """The functions of a program, each with every keyword that it has."""
    term = read_term(program)
    waiting = [term] if term else []
    while waiting:
        node = waiting.pop()
        for argument in node.arguments:
            waiting.append(argument)
            if node.word and argument.form.is_keyword:
                yield " ".join(node.word), " ".join(argument.word)


def foreign_keywords(
    programs: Sequence[Program], known: Sequence[Program], rng: random.Random
) -> list[Program]:
    """Programs with one keyword exchanged for another that its function never has."""
    keywords_of = defaultdict[str, set[str]](set)
    for program in known:
        for function, keyword in keyword_uses(program):
            keywords_of[function].add(keyword)
    keywords = sorted(set().union(*keywords_of.values()))
    found: list[Program] = []
    while len(found) < EDITS:
        program = rng.choice(programs)
        uses = sorted(set(keyword_uses(program)))
        if not uses:
            continue
        function, keyword = rng.choice(uses)
        other = rng.choice(keywords)
        text, old = " ".join(program), f"{function} ( {keyword} ="
        if other not in keywords_of[function] and old in text:
            found.append(text.replace(old, f"{function} ( {other} =", 1).split())
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


def print_published(mirror: Path) -> None:
    """GeoQuery, COGS and SCAN, whose test programs are known."""
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
        rejected = rejected_share(grammar, edits)
        print(
            f"; test accepted {share(grammar, test)} (written {written}), ill-typed rejected {rejected}"
        )
    train, gen = (
        [example.target_tokens for example in part]
        for part in load_dataset("cogs", mirror).split("gen")
    )
    grammar = timed_inference("COGS", train).grammar
    foreign = foreign_keywords(train, [*train, *gen], random.Random(1))
    print(
        f"; gen accepted {share(grammar, gen)}, ill-typed rejected {rejected_share(grammar, foreign)}"
    )
    train, test = (
        [example.target_tokens for example in part]
        for part in load_dataset("scan", mirror).split("length")
    )
    print(
        f"; test accepted {share(timed_inference('SCAN length', train).grammar, test)}"
    )


# The constants of inference, on folds.


def training_programs(mirror: Path, folder: Path) -> dict[str, list[Program]]:
    """The training programs of all datasets, with slots for values, at most so many of each."""
    programs: dict[str, list[Program]] = {}
    for name, source in (DATASETS | {"tools": Folder("tools", "", EXAMPLES)}).items():
        dataset = source.load(name, mirror, folder)
        settings = TrainSettings()
        if dataset.settings:
            settings = TrainSettings.read(dataset.settings)
        text = fit_training_text(
            dataset.train, settings.text, settings.slots, settings.file, ()
        )
        programs[name] = targets(text.examples)
        if text.has_slots:
            programs[name] = list(text.programs(text.examples))
    programs["cogs"] = targets(load_dataset("cogs", mirror).split("gen")[0])
    programs["scan"] = targets(load_dataset("scan", mirror).split("length")[0])
    for name, all_programs in programs.items():
        if len(all_programs) > MOST_PROGRAMS:
            sampled = random.Random(0).sample(all_programs, MOST_PROGRAMS)
            programs[name] = sampled
    return programs


def targets(examples: Sequence[Example]) -> list[Program]:
    return [example.target_tokens for example in examples]


def random_edits(
    programs: Sequence[Program], number: int, rng: random.Random
) -> list[Program]:
    """Programs with a random term in the place of another one; none is among the programs."""
    known = set(map(tuple, programs))
    trees = [tree for tree in map(read_term, programs) if tree]
    edits: list[Program] = []
    # Programs that are all alike may not have so many: the number of attempts is bounded.
    for _ in range(20 * number):
        if not trees or len(edits) == number:
            break
        host, giver = rng.choice(trees), rng.choice(trees)
        place, term = rng.choice(list(paths(host))), giver
        for step in rng.choice(list(paths(giver))):
            term = term.arguments[step]
        edited = tuple(exchanged(host, place, term).tokens())
        if edited not in known:
            edits.append(edited)
    return edits


def paths(term: Term) -> Iterator[tuple[int, ...]]:
    """The way to each node of a tree, as the numbers of arguments."""
    yield ()
    for number, argument in enumerate(term.arguments):
        for path in paths(argument):
            yield (number, *path)


def exchanged(host: Term, path: Sequence[int], term: Term) -> Term:
    """The tree with another term at the end of a path."""
    if not path:
        return term
    arguments = list(host.arguments)
    arguments[path[0]] = exchanged(arguments[path[0]], path[1:], term)
    return host._replace(arguments=tuple(arguments))


def print_curves(names: Sequence[str], mirror: Path, folder: Path) -> None:
    """For each value of each constant, what types of folds accept and reject, by dataset."""
    datasets = training_programs(mirror, folder)
    print("| constant | value |", " | ".join(datasets), "| mean | seconds |")
    print("|---|--:|" + "--:|" * (len(datasets) + 2))
    for name in names:
        module = inference if hasattr(inference, name) else grammar_writer
        default = getattr(module, name)
        for value in VALUES[name]:
            setattr(module, name, value)
            begun = time.process_time()
            measured = [fold_shares(programs) for programs in datasets.values()]
            seconds = time.process_time() - begun
            accepted = sum(each[0] for each in measured) / len(measured)
            rejected = sum(each[1] for each in measured) / len(measured)
            cells = [f"{100 * a:.1f} {100 * r:.0f}" for a, r in measured]
            cells += [f"{100 * accepted:.1f} {100 * rejected:.1f}", f"{seconds:.0f}"]
            mark = " (default)" if value == default else ""
            print(f"| {name} | {value:.3g}{mark} |", " | ".join(cells), "|", flush=True)
        setattr(module, name, default)


def fold_shares(programs: Sequence[Program]) -> tuple[float, float]:
    """The shares of held-out programs accepted, and of random edits rejected."""
    rng = random.Random(0)
    edits = random_edits(programs, FOLD_EDITS, rng)
    accepted = rejected = held_out = tried = 0
    for _ in range(FOLDS):
        order = rng.sample(programs, len(programs))
        size = len(order) // 3
        grammar = infer_types(order[size:]).grammar
        accepted += sum(map(grammar.accepts, order[:size]))
        rejected += sum(not grammar.accepts(edit) for edit in edits)
        held_out += size
        tried += len(edits)
    return accepted / held_out, rejected / max(tried, 1)


# Required arguments, on folds.


def called_programs(mirror: Path, folder: Path) -> dict[str, list[str]]:
    """The training programs of the datasets that are calls with keywords."""
    datasets: dict[str, list[str]] = {}
    for name, source in (DATASETS | {"tools": Folder("tools", "", EXAMPLES)}).items():
        examples = source.load(name, mirror, folder).train
        programs = [example.target for example in examples]
        if any(call.arguments for program in programs for call in calls_of(program)):
            datasets[name] = programs
    return datasets


def calls_of(program: str) -> list[Call]:
    """The calls of a program; none where it is not written as calls."""
    return list(all_calls(list(calls_or_none(program) or ())))


def print_required(mirror: Path, folder: Path) -> None:
    datasets = called_programs(mirror, folder)
    print("| enough calls |", " | ".join(datasets), "|")
    print("|--:|" + "--:|" * len(datasets))
    default = tool_calls.ENOUGH_CALLS
    for count in CALL_COUNTS:
        tool_calls.ENOUGH_CALLS = count
        cells = []
        for programs in datasets.values():
            lost, noticed = required_shares(programs)
            cells.append(f"{100 * lost:.1f} {100 * noticed:.0f}")
        mark = " (default)" if count == default else ""
        print(f"| {count}{mark} |", " | ".join(cells), "|", flush=True)
    tool_calls.ENOUGH_CALLS = default


def required_shares(programs: Sequence[str]) -> tuple[float, float]:
    """The share of held-out programs that lack an argument which the others show to be required,
    and the share of arguments in them whose lack would be noticed.
    """
    rng = random.Random(0)
    lost = noticed = held_out = arguments = 0
    for _ in range(CALL_FOLDS):
        order = rng.sample(programs, len(programs))
        size = len(order) // 3
        required = tool_calls.required_arguments(order[size:])
        for program in order[:size]:
            lost += bool(tool_calls.missing_argument(program, required))
            for call in calls_of(program):
                needed = required.get(call.name, ())
                noticed += len(call.arguments.keys() & set(needed))
                arguments += len(call.arguments)
        held_out += size
    return lost / held_out, noticed / max(arguments, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirror", type=Path)
    parser.add_argument("--vary", nargs="*", choices=VALUES)
    parser.add_argument("--required", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/type_inference"))
    arguments = parser.parse_args()
    if arguments.required:
        print_required(arguments.mirror, arguments.folder)
    elif arguments.vary is None:
        print_published(arguments.mirror)
    else:
        names = arguments.vary or list(VALUES)
        print_curves(names, arguments.mirror, arguments.folder)


if __name__ == "__main__":
    main()
