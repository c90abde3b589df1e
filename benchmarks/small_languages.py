"""Small languages of our own, learned by `nqg train` as a user would: what is right, what is surely wrong.

python benchmarks/small_languages.py [LANGUAGE …]

Sentences are drawn from a few patterns each, as people type them; programs have forms that types must tell apart:
keywords behind other arguments, statements of SPARQL, nested calls, quoted text. New sentences are asked for, and some
that no program of the language says: each of these should be an abstention, or at least unsure.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nqg import Example
from nqg.data.example_files import write_examples
from nqg.inference.hybrid import load

DRAWN, ASKED = 4000, 100
ANY_LENGTH = 1000
SURE = 0.9  # confidence of an answer
Draw = Callable[[random.Random], Example]


@dataclass(frozen=True, slots=True)
class Language:
    draw: Draw
    examples: int  # to learn from
    nonsense: tuple[str, ...]
    longest: int = (
        ANY_LENGTH  # words of an example; if it is less, longer ones are asked for
    )


def order(rng: random.Random) -> Example:
    def item() -> tuple[str, str]:
        count, number = rng.choice([("a", 1), ("two", 2), ("three", 3), ("4", 4)])
        name = rng.choice(["coffee", "tea", "bagel", "muffin", "sandwich", "juice"])
        size, extra = (
            rng.choice(["small", "large", "", ""]),
            rng.choice(["milk", "oat milk", "honey", "", "", ""]),
        )
        words = " ".join(
            filter(None, [count, size, name + "s" * (number > 1)])
        ) + f" with {extra}" * bool(extra)
        keywords = f", size={size}" * bool(
            size
        ) + f", extra={extra.replace(' ', '_')}" * bool(extra)
        return words, f"item({name}, {number}{keywords})"

    items = [item() for _ in range(rng.choice([1, 1, 2]))]
    asked = " and ".join(words for words, _ in items)
    return Example(
        f"{rng.choice(['Can I get', 'I want', 'Give me'])} {asked}",
        f"order({', '.join(p for _, p in items)})",
    )


def home(rng: random.Random) -> Example:
    device, name = rng.choice(
        [("la luz", "luz"), ("la tele", "tele"), ("el ventilador", "ventilador")]
    )
    where, room = rng.choice(
        [("de la cocina", "cocina"), ("del salón", "salon"), ("del baño", "bano")]
    )
    verb, action = rng.choice([("Enciende", "on"), ("Apaga", "off"), ("Prende", "on")])
    number = rng.choice(["10", "15", "20", "25", "30", "40", "60", "75", "80"])
    return rng.choice(
        [
            Example(f"{verb} {device}", f"{action}({name})"),
            Example(
                f"Por favor, {verb.lower()} {device} {where}",
                f"{action}({name}, room={room})",
            ),
            Example(
                f"{verb} {device} {where} a las 7",
                f'at("7", {action}({name}, room={room}))',
            ),
            Example(f"¿Funciona {device} {where}?", f"status({name}, room={room})"),
            Example(f"Pon {device} al {number} %", f"set({name}, {number})"),
            Example(
                f"Pon {device} {where} al {number} %",
                f"set({name}, {number}, room={room})",
            ),
        ]
    )


def films(rng: random.Random) -> Example:
    roles = {"director": "directedBy", "writer": "writtenBy", "editor": "editedBy"}
    verbs = {
        "directed": ("direct", "directed"),
        "wrote": ("write", "wrote"),
        "edited": ("edit", "edited"),
    }

    def person(depth: int) -> tuple[str, str]:
        if depth == 0 or rng.random() < 0.4:
            name = f"M{rng.randrange(4)}"
            return name, name
        role, (words, program) = rng.choice(list(roles)), person(depth - 1)
        is_of = words.startswith("the") or rng.random() < 0.5
        return (
            f"the {role} of {words}" if is_of else f"{words} 's {role}"
        ), f"{roles[role]}({program})"

    (one, first), (other, second) = person(2), person(2)
    (verb, (base, name)), (verb_2, (_, name_2)) = (
        rng.choice(list(verbs.items())),
        rng.choice(list(verbs.items())),
    )
    kind = rng.choice(["film", "actor", "company"])
    return rng.choice(
        [
            Example(
                f"Did {one} {base} {other}?", f"ASK WHERE {{ {first} {name} {second} }}"
            ),
            Example(
                f"Who {verb} {one}?",
                f"SELECT ?x WHERE {{ ?x {name} {first} . ?x a person }}",
            ),
            Example(
                f"Which {kind} {verb} {one}?",
                f"SELECT ?x WHERE {{ ?x {name} {first} . ?x a {kind} }}",
            ),
            Example(
                f"Which {kind} {verb} {one} and {verb_2} {other}?",
                f"SELECT ?x WHERE {{ ?x {name} {first} . ?x {name_2} {second} . ?x a {kind} }}",
            ),
        ]
    )


def songs(rng: random.Random) -> Example:
    song, artist = (
        rng.choice(["Africa", "Hey Jude", "Blue in Green", "Thunderstruck"]),
        rng.choice(["Toto", "The Beatles", "Oasis"]),
    )
    room, playlist, number = (
        rng.choice(["kitchen", "office"]),
        rng.choice(["gym", "party"]),
        rng.choice(["5", "20", "35", "80"]),
    )
    polite = rng.choice(["", "", "please ", "could you "])
    return rng.choice(
        [
            Example(f"{polite}play {song}", f'play("{song}")'),
            Example(
                f"{polite}play {song} by {artist}", f'play("{song}", artist="{artist}")'
            ),
            Example(
                f"{polite}play {song} by {artist} in the {room}",
                f'play("{song}", artist="{artist}", room={room})',
            ),
            Example(
                f"{polite}add {song} to my {playlist} playlist",
                f'add("{song}", {playlist})',
            ),
            Example(f"{polite}set the volume to {number}", f"volume({number})"),
            Example(
                f"{polite}set the volume in the {room} to {number} percent",
                f"volume({number}, room={room})",
            ),
        ]
    )


LANGUAGES = {
    "order": Language(
        order,
        150,
        (
            "I want",
            "two",
            "Give me a small",
            "I don't want a coffee",
            "Can I get a tea without milk",
            "Give me milk",
        ),
    ),
    "home": Language(
        home,
        100,
        (
            "Apaga la cocina",
            "Pon la cocina al 20 %",
            "No apagues la luz",
            "La luz",
            "Apaga a las 7",
            "Pon la luz",
        ),
    ),
    "films": Language(
        films,
        300,
        (
            "M0 's director",
            "Which director directed M0?",
            "Did M0?",
            "Who did M0 direct?",
            "Who directed?",
        ),
        longest=9,
    ),
    "songs": Language(
        songs,
        100,
        (
            "play",
            "add Africa",
            "don't play Africa",
            "set the volume to Africa",
            "set the volume in the gym to 20 percent",
        ),
    ),
}


def measure(name: str, language: Language, seed: int = 0) -> str:
    rng = random.Random(seed)
    drawn = dict.fromkeys(language.draw(rng) for _ in range(DRAWN))
    train = [each for each in drawn if len(each.source.split()) <= language.longest][
        : language.examples
    ]
    is_longer = language.longest < ANY_LENGTH
    new = [
        each
        for each in drawn
        if each not in train and len(each.source.split()) > language.longest * is_longer
    ]
    test = new[:ASKED]
    with tempfile.TemporaryDirectory() as folder:
        write_examples(path := Path(folder, "train.tsv"), train)
        command = [
            str(Path(sys.executable).with_name("nqg")),
            "train",
            str(path),
            "-o",
            str(Path(folder, "model")),
        ]
        subprocess.run(command, check=True, capture_output=True)
        model = load(Path(folder, "model"))
    answers = list(model.answers(each.source for each in test))
    rights = [
        answer.target == each.target for each, answer in zip(test, answers, strict=True)
    ]
    wrong = [
        not right and answer.target is not None
        for right, answer in zip(rights, answers, strict=True)
    ]
    sure = sum(
        is_wrong and (answer.confidence or 0) > SURE
        for is_wrong, answer in zip(wrong, answers, strict=True)
    )
    odd = [
        each
        for each in model.answers(language.nonsense)
        if each.target is not None and (each.confidence or 0) > SURE
    ]
    said = "; ".join(
        f"{each.source} → {each.target} ({each.confidence:.2f})" for each in odd
    )
    return (
        f"{name}: {len(train)} examples; {sum(rights)} of {len(test)} right, {sum(wrong)} wrong, {sure} of them surely;"
        f" {len(odd)} of {len(language.nonsense)} without meaning answered surely{f': {said}' if said else ''}"
    )


def main() -> None:
    for name in sys.argv[1:] or LANGUAGES:
        print(measure(name, LANGUAGES[name]), flush=True)


if __name__ == "__main__":
    main()
