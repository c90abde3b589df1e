"""What tools add: right answers with and without them, in three notations, also for new values.

`python benchmarks/tools.py` trains six small models on 47 to 50 pairs made from templates. *New* are
sentences with values of enums that no training pair has.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import nqg
from nqg.inference.parser import Parser

ROOMS = ["kitchen", "living_room", "bedroom", "garage"]
ROOMS += ["office", "hallway", "attic", "bathroom"]
GENRES = ["jazz", "rock", "pop", "hip_hop", "classical", "metal"]
CITIES = ["berlin", "paris", "rome", "new_york", "oslo", "madrid"]
STATES, UNITS, MODES = (
    ["on", "off"],
    ["celsius", "fahrenheit"],
    ["heat", "cool", "auto"],
)
TIMES = ["7:30", "6:15", "18:00", "9:45", "22:10", "5:05"]
Call = tuple[str, dict[str, Any]]


def tool(name: str, required: Sequence[str], **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "parameters": schema}


def one_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


PERCENT = {"type": "integer", "minimum": 0, "maximum": 100}
DEGREES = {"type": "number", "minimum": 5, "maximum": 30}
TOOLS = [
    tool("lights", ["room", "state"], room=one_of(ROOMS), state=one_of(STATES)),
    tool("dim", ["percent"], room=one_of(ROOMS), percent=PERCENT),
    tool(
        "set_alarm",
        ["time"],
        time={"type": "string", "format": "time"},
        label={"type": "string"},
    ),
    tool("play", ["genre"], genre=one_of(GENRES), room=one_of(ROOMS)),
    tool("weather", ["city"], city=one_of(CITIES), unit=one_of(UNITS)),
    tool("thermostat", [], degrees=DEGREES, mode=one_of(MODES)),
]


def said(value: str) -> str:
    return value.replace("_", " ")


def pairs(
    rng: random.Random,
    rooms: Sequence[str],
    genres: Sequence[str],
    cities: Sequence[str],
) -> list[tuple[str, Call]]:
    made: list[tuple[str, Call]] = []
    for _ in range(14):
        room, state = rng.choice(rooms), rng.choice(STATES)
        sentences = [
            f"turn {state} the lights in the {said(room)}",
            f"switch the {said(room)} lights {state}",
        ]
        made.append((rng.choice(sentences), ("lights", {"room": room, "state": state})))
        room, percent = rng.choice(rooms), rng.randrange(5, 100, 5)
        sentences = [
            f"dim the {said(room)} to {percent} percent",
            f"dim the lights in the {said(room)} to {percent} percent",
        ]
        made.append(
            (rng.choice(sentences), ("dim", {"room": room, "percent": percent}))
        )
        time = rng.choice(TIMES)
        sentences = [f"wake me at {time}", f"set an alarm for {time}"]
        made.append((rng.choice(sentences), ("set_alarm", {"time": time})))
        genre, room = rng.choice(genres), rng.choice(rooms)
        played: list[tuple[str, Call]] = [
            (f"play some {said(genre)}", ("play", {"genre": genre})),
            (
                f"play {said(genre)} in the {said(room)}",
                ("play", {"genre": genre, "room": room}),
            ),
        ]
        made.append(rng.choice(played))
        city, unit = rng.choice(cities), rng.choice(UNITS)
        asked: list[tuple[str, Call]] = [
            (f"what is the weather in {said(city)}", ("weather", {"city": city})),
            (
                f"weather in {said(city)} in {unit}",
                ("weather", {"city": city, "unit": unit}),
            ),
        ]
        made.append(rng.choice(asked))
        degrees, mode = rng.randrange(15, 29), rng.choice(MODES)
        heated: list[tuple[str, Call]] = [
            (f"set it to {degrees} degrees", ("thermostat", {"degrees": degrees})),
            (f"set the thermostat to {mode}", ("thermostat", {"mode": mode})),
        ]
        made.append(rng.choice(heated))
    return made


def written(call: Call, notation: str) -> str | None:
    """A call in a notation; None where an argument before the others is missing."""
    name, arguments = call
    if notation == "JSON":
        return json.dumps({"name": name, "arguments": arguments})
    if notation == "keywords":
        values = [f"{key}={json.dumps(value)}" for key, value in arguments.items()]
        return f"{name}({', '.join(values)})"
    if "mode" in arguments:
        return None
    return f"{name} ( {' , '.join(map(str, arguments.values()))} )"


def main() -> None:
    rng = random.Random(1)
    train = pairs(rng, ROOMS[:6], GENRES[:4], CITIES[:4])
    trained = {sentence for sentence, _ in train}
    test = pairs(rng, ROOMS[:6], GENRES[:4], CITIES[:4])
    new = pairs(rng, ROOMS[6:], GENRES[4:], CITIES[4:])
    settings = nqg.TrainSettings(confidence=nqg.ConfidenceSettings(folds=0))

    def programs(made: list[tuple[str, Call]], notation: str) -> dict[str, str]:
        found = {}
        for sentence, call in made:
            program = written(call, notation)
            if program is not None and (made is train or sentence not in trained):
                found[sentence] = program
        return found

    for notation in ("keywords", "JSON", "positions"):
        examples = programs(train, notation)
        for tools in (None, TOOLS):
            parser = nqg.train(list(examples.items()), settings=settings, tools=tools)
            assert isinstance(parser, Parser)
            counts = []
            for name, made in (("test", test), ("new", new)):
                expected = programs(made, notation)
                answers = parser.answers(expected)
                right = sum(
                    answer.target == expected[answer.source] for answer in answers
                )
                counts.append(f"{name} {right} of {len(expected)}")
            with_tools = "with tools" if tools else "without tools"
            size = f"{len(examples)} pairs"
            print(f"{notation}, {size}, {with_tools}: {', '.join(counts)}")


if __name__ == "__main__":
    main()
