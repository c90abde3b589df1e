"""One function for every way to divide a dataset: at random, by length, by template, by compounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from nqg.data.dataset import Split
from nqg.data.examples import Example
from nqg.errors import UnknownName
from nqg.progress import Progress, silent
from nqg.splits.compounds import Language, language_of
from nqg.splits.partition import Amount, Side, length_split, random_split, sizes_for, template_split
from nqg.splits.tmcd import DEFAULT_SETTINGS, TmcdSettings, tmcd_split

METHODS = ("random", "length", "template", "tmcd")


def split(
    examples: Sequence[Example],
    method: str = "random",
    *,
    train: Amount | None = None,
    test: Amount | None = None,
    dev: Amount = 0,
    seed: int = 0,
    by: Literal["source", "target"] | Side = "source",
    language: Language | str | None = None,
    blank: str | None = None,
    settings: TmcdSettings = DEFAULT_SETTINGS,
    progress: Progress = silent,
) -> Split:
    """Divide a dataset into train, test and perhaps dev by a `method`: random, length, template or tmcd.

    A size is a number of examples or a share of them; train or test, where it is not given, takes what remains. A
    length split compares the length `by` one side. Template and TMCD splits read targets in `language` (funql, sql,
    brackets, tokens; by default what they look like), templates may `blank` what a regular expression matches, and
    `settings` say how a TMCD split is searched for.

    >>> examples = [Example("jump", "J"), Example("jump twice", "J J"), Example("walk", "W")]
    >>> split(examples, "length", test=1)
    Split(train=(0, 2), test=(1,), dev=(), made_by={'method': 'length', 'by': 'source'})
    """
    sizes, rng = sizes_for(len(examples), train=train, test=test, dev=dev), random.Random(seed)
    made_by: dict[str, str | int] = {"seed": seed}
    if method == "random":
        found = random_split(examples, sizes, rng)
    elif method == "length":
        return length_split(examples, sizes, by=Side(by))
    elif method in METHODS:
        language = language_of(examples, language, blank)
        made_by["language"] = language.name
        if method == "template":
            found = template_split(examples, sizes, language.template, rng)
            made_by |= {"blank": blank} if blank is not None else {}
        else:
            found = tmcd_split(examples, sizes, language.decomposition, rng, settings, progress)
    else:
        raise UnknownName("way to split a dataset", method, METHODS)
    return replace(found, made_by={**found.made_by, **made_by})
