"""hassil with the sentences of Home Assistant: rules that people wrote for exactly such commands.

It is the ceiling of hand work in `real_use.py`: the test sentences are the tests of these rules.
Rules change from release to release, and what the calls look like with them. `REQUIREMENTS` are the
last release that recognises the most training sentences of the two datasets (docs/real-use.md).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from nqg import Answer, NqgError
from real_use_datasets import RealDataset

REQUIREMENTS = "hassil==3.12.1 home-assistant-intents==2026.5.5 pyyaml"
NAME = "hassil"


@dataclass(frozen=True, slots=True)
class Call:
    """An intent and its slots; the order of the slots means nothing.

    >>> call = Call.parse('HassTurnOn(area="Kitchen", domain="light")')
    >>> call == Call.parse('HassTurnOn(domain="light", area="Kitchen")')
    True
    >>> str(call)
    'HassTurnOn(area="Kitchen", domain="light")'
    """

    intent: str
    slots: Mapping[str, Any]

    @classmethod
    def parse(cls, program: str) -> Call | None:
        """The call that a program is; None where it is something else."""
        try:
            call = ast.parse(program.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        slots = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                return None
            try:
                slots[keyword.arg] = ast.literal_eval(keyword.value)
            except ValueError:
                return None
        return cls(call.func.id, slots)

    def __str__(self) -> str:
        """The call as the data writes it: a whole number has no decimals."""
        values = []
        for name, value in self.slots.items():
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            values.append(f"{name}={json.dumps(value, ensure_ascii=False)}")
        return f"{self.intent}({', '.join(values)})"


def is_same_call(target: str | None, reference: str) -> bool:
    """Whether a call has the intent and the slots of the reference.

    Where the reference has a list and the call one value, the list has the values that are right,
    as in the tests of Home Assistant.

    >>> is_same_call('Stop(name="pizza")', 'Stop(name=["pizza ", "pizza"])')
    True
    """
    found = None if target is None else Call.parse(target)
    wanted = Call.parse(reference)
    if found is None or wanted is None or found.intent != wanted.intent:
        return False
    if found.slots.keys() != wanted.slots.keys():
        return False
    for name, value in wanted.slots.items():
        given = found.slots[name]
        is_one_of = isinstance(value, list) and given in value
        if given != value and not is_one_of:
            return False
    return True


def optional_module(name: str) -> Any:
    """A package that only this benchmark needs."""
    try:
        return import_module(name)
    except ImportError as error:
        raise NqgError(
            f"the system '{NAME}' needs packages that nqg does not, and '{name}' is missing; "
            f"install them with: pip install {REQUIREMENTS}"
        ) from error


@dataclass(frozen=True, slots=True)
class Hassil:
    """The rules of a language with the areas, floors and names of a house."""

    rules: Any
    slot_lists: Mapping[str, Any]

    @classmethod
    def load(cls, language: str, fixtures: Path) -> Hassil:
        """The published rules of a language, and the house that `fixtures` describes."""
        hassil = optional_module("hassil.intents")
        intents = optional_module("home_assistant_intents").get_intents(language)
        house = optional_module("yaml").safe_load(fixtures.read_text("utf-8"))
        areas = [name for area in house["areas"] for name in written_names(area)]
        floors = [
            name for floor in house.get("floors", ()) for name in written_names(floor)
        ]
        # Some sentences are for one kind of device only: its domain and attributes are context.
        devices: list[tuple[str, str, dict[str, Any]]] = []
        for entity in house["entities"]:
            domain = entity["id"].partition(".")[0]
            context = {"domain": domain, **entity.get("attributes", {})}
            devices += [(name, name, context) for name in written_names(entity)]
        slot_lists = {
            "area": hassil.TextSlotList.from_strings(areas, name="area"),
            "floor": hassil.TextSlotList.from_strings(floors, name="floor"),
            "name": hassil.TextSlotList.from_tuples(devices, name="name"),
        }
        return cls(hassil.Intents.from_dict(intents), slot_lists)

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The call of every sentence that some rule matches; hassil has no confidence."""
        recognize = optional_module("hassil.recognize").recognize_best
        answers = []
        for sentence in sentences:
            result = recognize(
                sentence, self.rules, slot_lists=self.slot_lists, best_slot_name="name"
            )
            target, reason = None, "no rule matches"
            if result is not None:
                target, reason = str(recognized_call(result)), ""
            answers.append(Answer(sentence, target, system=NAME, reason=reason))
        return answers


def recognized_call(result: Any) -> Call:
    """What hassil recognised, as a call."""
    slots = {name: entity.value for name, entity in result.entities.items()}
    return Call(result.intent.name, slots)


def written_names(entry: Mapping[str, Any]) -> Sequence[str]:
    """The names of an area, floor or device; a template has several."""
    name = entry["name"]
    if not optional_module("hassil.util").is_template(name):
        return [name.strip()]
    template = optional_module("hassil.parse_expression").parse_sentence(name)
    sample = optional_module("hassil.sample").sample_expression
    return [sampled.strip() for sampled in sample(template.expression)]


def hassil_for(dataset: RealDataset) -> Hassil:
    """hassil for a dataset of Home Assistant; others have no rules."""
    if dataset.fixtures is None:
        raise NqgError(
            f"{dataset.name} has no file of areas and names, which '{NAME}' needs; "
            "choose ha-en or ha-fr"
        )
    return Hassil.load(dataset.language, dataset.fixtures)
