"""SCAN (Lake and Baroni, 2018), generated from its phrase grammar, and its splits by rule.

    command  → sentence | sentence `and` sentence | sentence `after` sentence
    sentence → phrase | phrase `twice` | phrase `thrice`
    phrase   → walk | look | run | jump
             | (walk | look | run | jump | turn) (left | right | opposite left | … | around right)

Every derivation is one command, 20,910 in all. The MCD splits are index lists into the published
`tasks.txt`, whose order looks shuffled (we know no rule for it), so they need that file too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from nqg.data.dataset import Provenance, Split, read_split
from nqg.data.example import Example
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines

_VERBS = {"walk": "I_WALK", "look": "I_LOOK", "run": "I_RUN", "jump": "I_JUMP"}
_TURNS = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}
_TASK_LINE = re.compile(r"IN: (\S.*?) OUT: (\S.*)")

LONGEST_TRAINING_ACTIONS = 22
SIMPLE_TRAINING_SHARE = 0.8


def scan_examples() -> list[Example]:
    """Every command of SCAN with its actions, in the order of the grammar.

    >>> examples = scan_examples()
    >>> len(examples), examples[0]
    (20910, Example(source='walk', target='I_WALK', id=None))
    """
    # A phrase is a verb, alone or (like `turn`) with a direction.
    phrases = [Example(verb, action) for verb, action in _VERBS.items()]
    for (verb, action), (direction, turn) in product(
        [*_VERBS.items(), ("turn", "")], _TURNS.items()
    ):
        once = f"{turn} {action}".strip()
        phrases.append(Example(f"{verb} {direction}", once))
        phrases.append(Example(f"{verb} opposite {direction}", f"{turn} {once}"))
        phrases.append(Example(f"{verb} around {direction}", " ".join([once] * 4)))
    # A sentence is a phrase that is said once, twice or thrice.
    times = (("", 1), (" twice", 2), (" thrice", 3))
    sentences = []
    for phrase in phrases:
        for word, count in times:
            program = " ".join([phrase.target] * count)
            sentences.append(Example(phrase.source + word, program))
    # A command is a sentence, or two of them joined by `and` or `after`.
    commands = list(sentences)
    for first, second in product(sentences, repeat=2):
        commands.append(
            Example(
                f"{first.source} and {second.source}", f"{first.target} {second.target}"
            )
        )
        # What stands behind `after` is done first.
        commands.append(
            Example(
                f"{first.source} after {second.source}",
                f"{second.target} {first.target}",
            )
        )
    return commands


def read_scan_file(path: Path) -> list[Example]:
    """The examples of a published SCAN file, lines of the form `IN: jump OUT: I_JUMP`."""
    examples = []
    for place, text in numbered_lines(path):
        line = _TASK_LINE.fullmatch(text)
        if line is None:
            raise FormatError(
                f"expected 'IN: command OUT: actions', found '{text}'", place
            )
        examples.append(Example(line[1], line[2]))
    return examples


def simple_split(examples: Sequence[Example], *, seed: int = 0) -> Split:
    """A random 80 % for training, the rest for testing."""
    positions = list(range(len(examples)))
    random.Random(seed).shuffle(positions)
    cut = round(SIMPLE_TRAINING_SHARE * len(positions))
    made_by = _made_by("simple", "80 % of all commands, at random", seed=seed)
    return Split(
        train=tuple(sorted(positions[:cut])),
        test=tuple(sorted(positions[cut:])),
        made_by=made_by,
    )


def length_split(examples: Sequence[Example]) -> Split:
    """Train on commands of at most 22 actions, test on the longer ones."""
    lengths = [len(example.target_tokens) for example in examples]
    train = tuple(
        at for at, length in enumerate(lengths) if length <= LONGEST_TRAINING_ACTIONS
    )
    test = tuple(
        at for at, length in enumerate(lengths) if length > LONGEST_TRAINING_ACTIONS
    )
    rule = f"test: more than {LONGEST_TRAINING_ACTIONS} actions"
    return Split(train=train, test=test, made_by=_made_by("length", rule))


def primitive_split(examples: Sequence[Example], *, primitive: str) -> Split:
    """Train on commands without `primitive` and on the bare `primitive`, test on the rest of those
    with it.

    As in the published files, the bare command is repeated until it makes up a tenth of the
    training lines.
    """
    bare = tuple(
        at for at, example in enumerate(examples) if example.source == primitive
    )
    containing = _containing(examples, [primitive])
    without = tuple(at for at in range(len(examples)) if at not in containing)
    test = tuple(sorted(containing.difference(bare)))
    rule = f"test: with '{primitive}' and more; train: a tenth of the lines is the bare '{primitive}'"
    made_by = _made_by(primitive.replace(" ", "-"), rule)
    return Split(train=without + bare * (len(without) // 9), test=test, made_by=made_by)


def template_split(
    examples: Sequence[Example], *, name: str, verbs: Sequence[str], template: str
) -> Split:
    """Test on commands with one of `verbs` before `template`, train on the rest (Loula et al.,
    2018).

    Commands with `turn` before the template are in neither part.
    """
    left_out = _containing(examples, [f"turn {template}"])
    tested = _containing(examples, [f"{verb} {template}" for verb in verbs]) - left_out
    train = tuple(
        at for at in range(len(examples)) if at not in tested and at not in left_out
    )
    rule = (
        f"test: with '{'|'.join(verbs)} {template}'; left out: with 'turn {template}'"
    )
    return Split(train=train, test=tuple(sorted(tested)), made_by=_made_by(name, rule))


def mcd_split(examples: Sequence[Example], indices: Path, tasks: Path) -> Split:
    """A published MCD split (Keysers et al., 2020): `indices` into the lines of
    `tasks`, turned into our positions.
    """
    positions = {example: at for at, example in enumerate(examples)}
    lines = read_scan_file(tasks)
    for number, example in enumerate(lines, start=1):
        if example not in positions:
            reason = f"not an example of SCAN: '{example.source}' → '{example.target}'"
            raise FormatError(reason, Place(tasks, number))
    # The indices count lines of `tasks`, so its length is their bound.
    published = read_split(indices, size=len(lines))

    def of_commands(part: Sequence[int]) -> tuple[int, ...]:
        return tuple(positions[lines[index]] for index in part)

    return Split(
        train=of_commands(published.train),
        dev=of_commands(published.dev),
        test=of_commands(published.test),
        made_by=_made_by(indices.stem, "published indices into tasks.txt"),
    )


def _containing(examples: Sequence[Example], phrases: Sequence[str]) -> set[int]:
    """Positions of the commands in which the words of some phrase stand in sequence."""
    phrase = re.compile(rf"\b(?:{'|'.join(phrases)})\b")
    return {at for at, example in enumerate(examples) if phrase.search(example.source)}


def _made_by(split: str, rule: str, **settings: int) -> Provenance:
    return {"dataset": "scan", "split": split, "rule": rule, **settings}


_all_verbs = partial(template_split, verbs=tuple(_VERBS))
_only_jump = partial(template_split, verbs=("jump",))
RULES: dict[str, Callable[[Sequence[Example]], Split]] = {
    "simple": simple_split,
    "length": length_split,
    "jump": partial(primitive_split, primitive="jump"),
    "turn-left": partial(primitive_split, primitive="turn left"),
    "around-right": partial(_all_verbs, name="around-right", template="around right"),
    "jump-around-right": partial(
        _only_jump, name="jump-around-right", template="around right"
    ),
    "opposite-right": partial(
        _all_verbs, name="opposite-right", template="opposite right"
    ),
    "right": partial(_all_verbs, name="right", template="right"),
}
