"""Templates by hand: how many of the sentences that they describe a model answers as they say.

    python benchmarks/templates.py MODEL

MODEL is a model of `benchmarks/projects/library_desk/train.tsv`. The ten templates of
`benchmarks/projects/library_desk/templates.txt` are added to it. Every sentence that they describe gets values
that the training examples do not have, and the program that the template says.
"""

from __future__ import annotations

import argparse
import random
import re
from pathlib import Path

import nqg
from nqg.answers import exact_match
from nqg.inference.rules_by_hand import read_rules, with_rules
from nqg.text.programs import ProgramTokenizer
from nqg.text.sentence_templates import (
    expanded_template,
    slots_in,
    without_argument,
    without_slots,
)

TEMPLATES = Path(__file__).parent / "projects" / "library_desk" / "templates.txt"
SEED = 0
# Words in the sentence, and what programs write.
VALUES = {
    "author": [("Iris Murdoch",) * 2, ("Italo Calvino",) * 2, ("Ali Smith",) * 2],
    "topic": [("volcanoes",) * 2, ("the French Revolution",) * 2, ("bread",) * 2],
    "title": [("Wolf Hall",) * 2, ("The Leopard",) * 2, ("Gilead",) * 2],
    "branch": [("Westfield",) * 2, ("Harbour",) * 2],
    "date": [("tomorrow", "tomorrow"), ("Thursday", "thursday"), ("Sunday", "sunday")],
    "number": [("4", "4"), ("five", "5"), ("11", "11")],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", type=Path)
    parser = nqg.load(options.parse_args().model)
    assert isinstance(parser, nqg.Parser)
    rules = read_rules(TEMPLATES, parser.model.text)
    extended = nqg.Parser(with_rules(parser.model, rules, rules))
    pairs = described(parser.model.text.programs)
    for name, system in (("without", parser), ("with", extended)):
        answers = list(system.answers(source for source, _ in pairs))
        verdicts = [exact_match(a.target, p) for a, (_, p) in zip(answers, pairs)]
        answered = sum(answer.target is not None for answer in answers)
        right = sum(verdicts)
        print(
            f"{name} templates: {right} of {len(pairs)} right ({right / len(pairs):.1%}), "
            f"{answered} answered"
        )
    for answer, (source, program) in zip(answers, pairs):
        if not exact_match(answer.target, program):
            print(f"  {source}: {answer.target or answer.reason} instead of {program}")


def described(programs: ProgramTokenizer) -> list[tuple[str, str]]:
    """Every sentence of the templates, with values, and its program."""
    rng = random.Random(SEED)
    pairs = []
    parts: dict[str, list[str]] = {}
    for line in TEMPLATES.read_text().splitlines():
        source, separator, program = line.partition(" ### ")
        if line.startswith("<"):
            name, _, part = line.partition(" = ")
            parts[name.strip("<>")] = expanded_template(part, parts)
        if not separator:
            continue
        sentences = expanded_template(source, parts)
        for sentence in sentences:
            slots = slots_in(sentence)
            values = [rng.choice(VALUES[slot.slot]) for slot in slots]
            target = program
            for slot, (_, value) in zip(slots, values):
                target = target.replace(slot.mark, value)
            target = re.sub(r"\{\w+\}", "ABSENT", target)
            tokens = list(programs.normalized(target))
            while "ABSENT" in tokens:
                tokens = without_argument(tokens, "ABSENT")
            words = without_slots(sentence, [written for written, _ in values])
            pairs.append((words, programs.render(tokens)))
    return pairs


if __name__ == "__main__":
    main()
