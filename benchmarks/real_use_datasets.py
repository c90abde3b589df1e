"""The datasets of `real_use.py`: sentences as people type them, and sets that are made from them.

A dataset has pairs to learn from and pairs to test on. Whatever is chosen is chosen on the first.
Two kinds of sentences have no right program: those of other domains, and the first half of one
command with the second half of another. Compounds are two commands in one sentence.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import permutations
from pathlib import Path

from nqg import Example, read_examples
from nqg.answers import program_tokens
from nqg.errors import UnknownName
from nqg.files import write_text
from nqg.paper.datasets import entry_named
from nqg.paper.download import Mirror

EXAMPLES = Path(__file__).parent.parent / "examples"
# How many sentences the made sets have, as issue 35 asks for them.
OTHER_DOMAINS, SPLICED, COMPOUNDS = 100, 50, 100
OPENING, CLOSING, QUOTES = "([{", ")]}", "\"'"


@dataclass(frozen=True, slots=True)
class RealDataset:
    """Pairs of raw strings to learn from and to test on.

    `domains` are what its sentences are about: two datasets that share none are out of scope for
    each other. `settings` is the settings file of the project, `fixtures` the file of areas and
    names that hassil needs, and `connective` the word that joins two commands; without one, no
    compounds are made.
    """

    name: str
    train: tuple[Example, ...]
    test: tuple[Example, ...]
    domains: frozenset[str]
    language: str = "en"
    settings: Path | None = None
    fixtures: Path | None = None
    connective: str = ""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with `train.tsv` and `test.tsv`, below the mirror or below a place of its own."""

    path: str
    domains: str
    below: Path | None = None
    language: str = "en"
    connective: str = ""

    def load(self, name: str, mirror: Path, folder: Path) -> RealDataset:
        """Read the two files; `nqg.toml` and `fixtures.yaml` are used where they exist."""
        place = (self.below or mirror) / self.path
        settings, fixtures = place / "nqg.toml", place / "fixtures.yaml"
        return RealDataset(
            name,
            tuple(read_examples(place / "train.tsv")),
            tuple(read_examples(place / "test.tsv")),
            frozenset(self.domains.split()),
            self.language,
            settings if settings.exists() else None,
            fixtures if fixtures.exists() else None,
            self.connective,
        )


@dataclass(frozen=True, slots=True)
class Published:
    """The standard split of a dataset that nqg knows by name, with the settings of its project."""

    domains: str

    def load(self, name: str, mirror: Path, folder: Path) -> RealDataset:
        """Convert the files of the mirror; settings and lists of names are written to `folder`."""
        entry, store = entry_named(name), Mirror(mirror)
        parts = entry.load(store).parts("standard")
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, text in entry.files_beside(store).items():
            write_text(folder / name / file, text)
        settings = folder / name / "nqg.toml"
        return RealDataset(
            name,
            tuple(parts.train),
            tuple(parts.test),
            frozenset(self.domains.split()),
            settings=settings if settings.exists() else None,
        )


STARTER = Path(str(resources.files("nqg.data").joinpath("starter")))
HOME = "home music weather"
DATASETS: dict[str, Folder | Published] = {
    "ha-en": Folder("home_assistant/en", HOME, connective="and"),
    "ha-fr": Folder("home_assistant/fr", HOME, language="fr", connective="et"),
    "snips-playmusic": Published("music"),
    "snips-getweather": Published("weather"),
    "geoquery-raw": Published("geography"),
    "overnight-calendar": Folder("overnight/calendar", "calendar"),
    "overnight-blocks": Folder("overnight/blocks", "blocks"),
    "robot": Folder("robot", "robot", EXAMPLES),
    "shop": Folder("shop", "shop", EXAMPLES),
    "home-en": Folder("home_assistant/en", f"{HOME} calendar", EXAMPLES),
    "home-de": Folder("home_assistant/de", f"{HOME} calendar", EXAMPLES, "de"),
    "starter": Folder(".", "home", STARTER),
}


def load_datasets(mirror: Path, folder: Path) -> dict[str, RealDataset]:
    """All datasets; files that a project has beside its pairs are written to `folder`."""
    return {
        name: source.load(name, mirror, folder) for name, source in DATASETS.items()
    }


@dataclass(frozen=True, slots=True)
class Question:
    """A sentence to ask, and its program; nothing where an abstention is right."""

    kind: str
    source: str
    reference: str | None = None


TEST, OTHER_DOMAIN, SPLICE, COMPOUND = "test", "other domain", "splice", "compound"


def held_out_questions(dataset: RealDataset) -> list[Question]:
    return [Question(TEST, pair.source, pair.target) for pair in dataset.test]


def other_domains(
    dataset: RealDataset,
    datasets: Sequence[RealDataset],
    count: int = OTHER_DOMAINS,
    seed: int = 0,
) -> list[Question]:
    """Test sentences of datasets that share no domain with this one, equally many of each."""
    rng = _generator(dataset, "other domains", seed)
    pools = []
    for other in datasets:
        if other.domains.isdisjoint(dataset.domains):
            sentences = sorted({pair.source for pair in other.test})
            rng.shuffle(sentences)
            pools.append(sentences)
    drawn: list[Question] = []
    while any(pools) and len(drawn) < count:
        for pool in pools:
            if pool and len(drawn) < count:
                drawn.append(Question(OTHER_DOMAIN, pool.pop()))
    return drawn


def splices(
    dataset: RealDataset, count: int = SPLICED, seed: int = 0
) -> list[Question]:
    """The first half of one test sentence with the second half of another one.

    The programs of the two have no word in common, so that few of the sentences make sense by
    chance. Where all programs call the same function too many would, and there are no splices.
    """
    rng = _generator(dataset, "splices", seed)
    known = {pair.source for pair in (*dataset.train, *dataset.test)}
    drawn: dict[str, None] = {}
    # Small datasets may not have so many: the number of attempts is bounded.
    for _ in range(100 * count):
        first, second = rng.choice(dataset.test), rng.choice(dataset.test)
        begin, end = first.source.split(), second.source.split()
        if (
            _words(first.target) & _words(second.target)
            or min(len(begin), len(end)) < 2
        ):
            continue
        words = [*begin[: (len(begin) + 1) // 2], *end[len(end) // 2 :]]
        sentence = " ".join(words)
        if len(drawn) < count and sentence not in known:
            drawn[sentence] = None
    return [Question(SPLICE, sentence) for sentence in drawn]


def compounds(
    dataset: RealDataset,
    right: Sequence[Example],
    count: int = COMPOUNDS,
    seed: int = 0,
) -> list[Question]:
    """Two commands that are `right` alone, joined by the connective of the language.

    The programs of a compound stand on two lines.
    """
    if not dataset.connective:
        return []
    rng = _generator(dataset, "compounds", seed)
    pairs = []
    for first, second in permutations(right, 2):
        if first.target != second.target:
            pairs.append((first, second))
    drawn = []
    for first, second in rng.sample(pairs, min(count, len(pairs))):
        command = first.source.rstrip(" .?!")
        sentence = f"{command} {dataset.connective} {second.source}"
        drawn.append(Question(COMPOUND, sentence, f"{first.target}\n{second.target}"))
    return drawn


def split_calls(program: str) -> list[str]:
    """The calls of a sequence, however it separates them; an outer list is no call.

    >>> split_calls('on(name="a; b"); off()'), split_calls("[on(), off()]")
    (['on(name="a; b")', 'off()'], ['on()', 'off()'])
    """
    text = program.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    calls, begun, depth, quote = [], "", 0, ""
    for character in text:
        # What separates two calls belongs to neither.
        if not begun and not (character.isalpha() or character == "_"):
            continue
        begun += character
        if quote:
            if character == quote:
                quote = ""
        elif character in QUOTES:
            quote = character
        elif character in OPENING:
            depth += 1
        elif character in CLOSING:
            depth -= 1
            if depth == 0:
                calls.append(begun)
                begun = ""
    return [*calls, begun] if begun.strip() else calls


def is_right_compound(target: str | None, reference: str) -> bool:
    """Whether a program has the calls of both commands, in their order."""
    if target is None:
        return False
    found = [program_tokens(call) for call in split_calls(target)]
    return found == [program_tokens(call) for call in reference.split("\n")]


def checked_names(names: Sequence[str], known: Iterable[str], what: str) -> list[str]:
    """The names, unless one is unknown."""
    for name in names:
        if name not in known:
            raise UnknownName(what, name, known)
    return list(names)


def _words(program: str) -> set[str]:
    return {token for token in program_tokens(program) if token[0].isalnum()}


def _generator(dataset: RealDataset, use: str, seed: int) -> random.Random:
    """A generator of its own for each set, so that a new set changes no other."""
    return random.Random(zlib.crc32(f"{dataset.name} {use} {seed}".encode()))
