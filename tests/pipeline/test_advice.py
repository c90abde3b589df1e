"""What a training advises next."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.pipeline.advice import (
    code_expression,
    next_steps,
    synonym_steps,
    synonyms,
)
from nqg.preprocessing.training_text import fit_text
from nqg.slots.slot import Slot

CODES = ("A-1042", "KX200", "B-77")
EXAMPLES = [
    *(Example(f"find {code}", f'find(sku="{code}")') for code in CODES),
    *(
        Example(f"open {name} {number}", f'open(branch="{name}", n={number})')
        for name in ("North", "South")
        for number in (1, 2)
    ),
    Example("play Africa", 'play(song="Africa")'),
    Example("say hello", 'later(say(text="hello"))'),
]
SLOTS = [Slot(name, "text") for name in ("sku", "branch", "song", "text")]


def test_codes_and_closed_lists_are_to_be_declared_and_open_ones_not() -> None:
    first, second, third = next_steps(
        EXAMPLES, SLOTS, has_second_reader=False, has_out_of_scope=False
    )
    assert first.lines == (
        "[slots]",
        r"sku = { regex = '[A-Za-z]+\-?\d+' }",
        'branch = { gazetteer = "branch.txt" }',
        r"printf '%b\n' 'North' 'South' > branch.txt",
    )
    assert "'sku' (codes) and 'branch' (2 values)" in first.text
    assert second.text.endswith("one example alone shows: later, play, say")
    assert third.lines == ("--seq2seq google/flan-t5-small",)


def test_what_is_there_is_not_advised() -> None:
    steps = next_steps(
        EXAMPLES[3:7] * 2, [], has_second_reader=True, has_out_of_scope=True
    )
    assert steps == []
    (step,) = next_steps(
        EXAMPLES[3:7], [], has_second_reader=True, has_out_of_scope=False
    )
    assert step.lines == ("tell me a joke<TAB>OUT_OF_SCOPE",)


def test_a_model_that_is_unsure_is_helped_by_a_template_of_its_own_examples() -> None:
    examples = [
        Example("put on Africa", 'play(song="Africa")'),
        Example("play Hey Jude", 'play(song="Hey Jude")'),
        Example("stop", "stop()"),
        Example("halt", "stop()"),
    ]
    (step,) = next_steps(
        examples,
        SLOTS,
        has_second_reader=True,
        has_out_of_scope=True,
        is_unsure=True,
    )
    assert step.lines == (
        """nqg rule add MODEL 'play {song} ### play(song="{song}")'""",
    )


@pytest.mark.parametrize(
    "codes", [CODES, ("12", "7"), ("1A", "2B-3"), ("x.1", "y/22"), ("a1b2", "c3")]
)
def test_the_expression_of_codes_reads_all_of_them(codes: tuple[str, ...]) -> None:
    expression = re.compile(code_expression(codes))
    for code in codes:
        assert expression.fullmatch(code)
    assert not expression.fullmatch("kitchen")


PAYMENTS = [
    Example("send 5 euros to Jo", 'pay(amount=5, currency="EUR")'),
    Example("give Ann 7 euros", 'pay(amount=7, currency="EUR")'),
    Example("pay 7 EUR now", 'pay(amount=7, currency="EUR")'),
    Example("send 5 dollars to Ann", 'pay(amount=5, currency="USD")'),
    Example("3 bucks for Jo", 'pay(amount=3, currency="USD")'),
    Example("2 bucks or dollars", 'pay(amount=2, currency="USD")'),
    Example("9 pounds", 'pay(amount=9, currency="GBP")'),
]


def test_words_that_stand_for_values_are_to_be_declared() -> None:
    assert synonyms(PAYMENTS) == {
        "currency": {"bucks": "USD", "dollars": "USD", "euros": "EUR"}
    }
    first, *_ = next_steps(PAYMENTS, [], has_second_reader=True, has_out_of_scope=True)
    assert "'currency' (bucks is USD)" in first.text
    assert first.lines == (
        "[slots]",
        'currency = { gazetteer = "currency.tsv" }',
        r"printf '%b\n' 'bucks\tUSD' 'dollars\tUSD' 'euros\tEUR' > currency.tsv",
    )


def test_one_value_alone_and_declared_slots_are_not_advised() -> None:
    assert synonyms(PAYMENTS[:3]) == {}
    declared = [Slot("currency", "text")]
    assert list(synonym_steps(PAYMENTS, declared)) == []


def test_the_lines_to_paste_write_lists_that_are_read(tmp_path: Path) -> None:
    (step,) = synonym_steps(PAYMENTS, [])
    _, table, command = step.lines
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    lines = (tmp_path / "currency.tsv").read_text().splitlines()
    assert lines == ["bucks\tUSD", "dollars\tUSD", "euros\tEUR"]
    slots = tomllib.loads(table)
    text = fit_text(PAYMENTS, slots=slots, place=tmp_path / "nqg.toml")
    (mention,) = text.slots.mentions(text.tokenized("40 bucks")[0])[1:]
    assert (mention.slot, mention.value) == ("currency", ("USD",))
