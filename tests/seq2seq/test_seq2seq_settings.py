"""Settings: the paper's by default, and nonsense refused with the value and what was expected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nqg.errors import NqgError
from nqg.seq2seq.settings import (
    FineTuningSettings,
    LoraSettings,
    Seq2seqSettings,
    SmallT5Settings,
)


def test_the_defaults_are_those_of_the_paper() -> None:
    model, training = Seq2seqSettings(), FineTuningSettings()
    assert (model.prefix, model.longest_source, model.longest_target, model.beams) == (
        "semanticparse: ",
        512,
        256,
        1,
    )
    assert (
        training.optimizer,
        training.schedule,
        training.steps,
        training.batch_size,
    ) == (
        "adafactor",
        "constant",
        3000,
        128,
    )
    assert training.rate("t5-base") == 1e-4


def test_a_model_from_scratch_learns_faster_unless_told_otherwise() -> None:
    assert FineTuningSettings().rate("embedded") == 1e-3
    assert (
        FineTuningSettings(learning_rate=0.5).rate("embedded")
        == FineTuningSettings(learning_rate=0.5).rate("x")
        == 0.5
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FineTuningSettings(steps=0), "steps is 0; expected 1 or more"),
        (
            lambda: FineTuningSettings(accumulate=-1),
            "accumulate is -1; expected 1 or more",
        ),
        (
            lambda: FineTuningSettings(evaluate_every=0),
            "evaluate_every is 0; expected 1 or more",
        ),
        (
            lambda: FineTuningSettings(learning_rate=0.0),
            "learning_rate is 0.0; expected more than 0",
        ),
        (lambda: FineTuningSettings(clip=-1.0), "clip is -1.0; expected more than 0"),
        (lambda: FineTuningSettings(warm_up=-1), "warm_up is -1; expected 0 or more"),
        (
            lambda: FineTuningSettings(label_smoothing=1.0),
            "label_smoothing is 1.0; expected less than 1",
        ),
        (
            lambda: FineTuningSettings(optimizer="adam"),  # type: ignore[arg-type]
            "no optimizer 'adam'; did you mean 'adamw'?",
        ),
        (lambda: FineTuningSettings(precision="fp16"), "no precision 'fp16'"),  # type: ignore[arg-type]
        (lambda: FineTuningSettings(schedule="cosine"), "Known: constant, linear"),  # type: ignore[arg-type]
        (lambda: Seq2seqSettings(beams=0), "beams is 0; expected 1 or more"),
        (
            lambda: Seq2seqSettings(lora=LoraSettings()),
            "and 'embedded' has none; name another model",
        ),
        (lambda: LoraSettings(rank=0), "rank is 0; expected 1 or more"),
        (
            lambda: SmallT5Settings(width=10, heads=4),
            "width is 10; expected a multiple of heads, which is 4",
        ),
        (
            lambda: SmallT5Settings(dropout=1.0),
            "dropout is 1.0; expected at least 0 and less than 1",
        ),
    ],
)
def test_nonsense_is_refused_with_what_was_expected(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(NqgError) as refused:
        make()
    assert words in str(refused.value)
