"""Which weights a run uses: those that the recipe names, others that the user names, or a labelled stand-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nqg.experiments.recipe import SYSTEMS, Recipe, System, Weights
from nqg.model.settings import EMBEDDED

PATIENCE = 3.0  # seconds to wait for the hub, so that a run without a network begins soon


@dataclass(frozen=True, slots=True)
class UsedWeights:
    """Encoder and sequence-to-sequence model, as paths or names, beside what the recipe asks for."""

    recipe: Recipe
    encoder: str
    seq2seq: str

    def path(self, system: System) -> str:
        """What a system that trains begins with."""
        return self.encoder if system == "nqg" else self.seq2seq

    def label(self, system: System) -> str:
        """How records and tables call the weights.

        >>> from nqg.experiments.recipe import read_recipe
        >>> used = UsedWeights(read_recipe("scan-length"), "embedded", "/models/flan-t5-small")
        >>> used.label("seq2seq"), used.label("hybrid")
        ('flan-t5-small', 'embedded+flan-t5-small')
        """
        parts = {"nqg": [self.encoder], "seq2seq": [self.seq2seq]}.get(system, [self.encoder, self.seq2seq])
        return "+".join(_name(part) for part in parts)

    def asked(self, system: System) -> str:
        """The weights that the recipe names, written like a label."""
        names = UsedWeights(self.recipe, self.recipe.nqg.weights.name, self.recipe.seq2seq.weights.name)
        return names.label(system)


def _name(weights: str) -> str:
    """The last part of a path; a hub name stays whole."""
    looks_like_a_path = weights.count("/") != 1 or Path(weights).exists()
    return Path(weights).name if looks_like_a_path else weights


def used_weights(
    recipe: Recipe,
    encoder: str | None = None,
    seq2seq: str | None = None,
    *,
    systems: Sequence[System] = SYSTEMS,
    is_reachable: Callable[[str], bool] | None = None,
) -> UsedWeights:
    """The weights that the user names, else the recipe's where they can be had, else what stands in for them.

    Nobody is asked for weights that none of the `systems` needs.
    """
    reachable = is_reachable or can_be_had

    def reached(weights: Weights, needless: System) -> str:
        return weights.name if {*systems} == {needless} or reachable(weights.name) else weights.offline

    return UsedWeights(
        recipe,
        encoder or reached(recipe.nqg.weights, "seq2seq"),
        seq2seq or reached(recipe.seq2seq.weights, "nqg"),
    )


def can_be_had(name: str) -> bool:
    """Whether weights are embedded, lie in a folder or the cache, or on the hub within a few seconds."""
    if name == EMBEDDED or Path(name).is_dir():
        return True
    from huggingface_hub import HfApi, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return True
    try:
        HfApi().model_info(name, timeout=PATIENCE)
    except Exception:  # whatever keeps the hub from answering, the stand-in is used and says so
        return False
    return True
