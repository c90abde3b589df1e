"""Settings: what follows from the data, the paper's preset, and nonsense refused with its value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nqg.errors import NqgError
from nqg.paper.presets import FINE_TUNING
from nqg.seq2seq.settings import (
    FineTuningSettings,
    LoraSettings,
    Seq2seqSettings,
    SmallT5Settings,
)


def test_the_preset_of_the_paper_has_its_settings() -> None:
    model, training = Seq2seqSettings(), FINE_TUNING
    assert (model.prefix, model.longest_source, model.longest_target, model.beams) == (
        "semanticparse: ",
        512,
        256,
        1,
    )
    resolved = training.resolved("t5-base", 600, on_cpu=True, has_bf16=True)
    assert (resolved.optimizer, resolved.schedule) == ("adafactor", "constant")
    assert (resolved.steps, resolved.batch_size, resolved.accumulate) == (3000, 128, 1)
    assert (resolved.clip, resolved.learned, resolved.precision) == (None, 0.0, "auto")
    assert not resolved.freeze_embeddings


def test_a_cpu_trains_only_the_body_of_a_pretrained_model() -> None:
    auto = FineTuningSettings()
    cpu = auto.resolved("t5-base", 300, on_cpu=True, has_bf16=True)
    assert (cpu.freeze_embeddings, cpu.precision) == (True, "bf16")
    assert auto.resolved("t5-base", 300, on_cpu=True).precision == "auto"
    gpu = auto.resolved("t5-base", 300, on_cpu=False, has_bf16=True)
    assert (gpu.freeze_embeddings, gpu.precision, gpu.accumulate) == (False, "auto", 1)
    new = auto.resolved("embedded", 300, on_cpu=True, has_bf16=True)
    assert (new.freeze_embeddings, new.precision, new.accumulate) == (False, "auto", 1)


def test_what_settings_say_stays_as_it_is() -> None:
    said = FineTuningSettings(
        steps=7,
        batch_size=5,
        accumulate=3,
        learning_rate=0.25,
        freeze_embeddings=False,
        precision="float32",
        evaluate_every=2,
        learned=0.5,
    )
    assert said.resolved("t5-base", 300, on_cpu=True, has_dev=True) == said


def test_held_out_pairs_are_tried_several_times() -> None:
    auto = FineTuningSettings()
    assert auto.resolved("t5-base", 300, on_cpu=True).evaluate_every is None
    tried = auto.resolved("t5-base", 300, on_cpu=True, has_dev=True)
    assert tried.evaluate_every is not None
    assert 5 <= tried.steps // tried.evaluate_every <= 20


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
        (lambda: FineTuningSettings(steps=-1), "steps is -1; expected 0 or more"),
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
