"""Fine-tuning: the loss of transformers, in parts or whole; dev examples; precision; a GPU's recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nqg.errors import NqgError
from nqg.seq2seq.batches import SubwordCorpus
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import Seq2seq, load_pretrained
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.training.processes import Processes
from nqg.training.records import DevScores
from nqg.training.trainer import Diverged, Trainer
from seq2seq_examples import BRIEF, EXAMPLES, SMALL

pytest_plugins = ["seq2seq_fixtures"]
pytestmark = pytest.mark.usefixtures("one_thread")

WHOLE = FineTuningSettings(steps=3, batch_size=6, learning_rate=0.01)


def fitting(training: FineTuningSettings = BRIEF, **more: object) -> FineTuning:
    return FineTuning(EXAMPLES, SMALL, training, device="cpu", **more)  # type: ignore[arg-type]


def corpus_of(run: FineTuning) -> SubwordCorpus:
    objective: Any = run.trainer.objective
    corpus: SubwordCorpus = objective.corpus
    return corpus


def losses(training: FineTuningSettings) -> list[float]:
    return [step.loss for step in fitting(training).steps()]


def test_the_loss_is_that_of_transformers() -> None:
    ours = fitting(WHOLE)
    batch = corpus_of(ours).collate(range(6))
    with torch.no_grad():
        expected = ours.model(
            input_ids=batch.sources, attention_mask=batch.mask, labels=batch.labels
        ).loss
    assert next(ours.steps()).loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("accumulate", [2, 3, 6, 9])
def test_a_step_in_parts_is_the_same_step(accumulate: int) -> None:
    assert losses(replace(WHOLE, accumulate=accumulate)) == pytest.approx(
        losses(WHOLE), rel=1e-4
    )


def test_gradient_checkpointing_changes_nothing() -> None:
    assert losses(replace(WHOLE, gradient_checkpointing=True)) == pytest.approx(
        losses(WHOLE), rel=1e-5
    )


def test_bf16_is_near_float32_and_not_the_same() -> None:
    rounded, exact = (
        losses(replace(WHOLE, precision="bf16")),
        losses(replace(WHOLE, precision="float32")),
    )
    assert rounded == pytest.approx(exact, rel=0.05)
    assert rounded != exact


def test_records_have_the_learning_rates_of_the_schedule() -> None:
    steps = list(
        fitting(replace(BRIEF, schedule="linear", warm_up=2, learning_rate=0.1)).steps()
    )
    assert [step.number for step in steps] == [1, 2, 3, 4, 5, 6]
    assert [step.learning_rate for step in steps] == pytest.approx(
        [0.05, 0.1, 0.1, 0.075, 0.05, 0.025]
    )


def test_clipping_makes_steps_smaller() -> None:
    free = replace(WHOLE, optimizer="adamw", steps=1)
    before = fitting(free).trainer.weights["shared.weight"].detach().clone()

    def change(training: FineTuningSettings) -> float:
        run = fitting(training)
        list(run.steps())
        return float((run.trainer.weights["shared.weight"].detach() - before).norm())

    assert change(replace(free, clip=1e-9)) < change(free) / 2


def scripted(trainer: Trainer, scores: list[float]) -> Trainer:
    """A training whose dev examples come out as the script says."""
    left = iter(scores)
    trainer.evaluate = lambda: DevScores(next(left))
    return trainer


def test_training_stops_when_dev_examples_come_out_no_better_and_ends_with_the_best_weights() -> (
    None
):
    trainer = scripted(
        fitting(replace(BRIEF, steps=50, evaluate_every=2, patience=2)).trainer,
        [0.1, 0.5, 0.5, 0.4],
    )
    seen = []
    for step in trainer.steps():
        seen.append(trainer.weights["shared.weight"].detach().clone())
        assert (step.dev is not None) == (step.number % 2 == 0)
    assert len(seen) == 8
    assert trainer.best is not None
    assert (trainer.best.step, trainer.best.scores.exact_match) == (4, 0.5)
    assert torch.equal(trainer.weights["shared.weight"], seen[3])
    assert not torch.equal(seen[3], seen[-1])


def test_the_last_step_is_tried_too() -> None:
    trainer = scripted(
        fitting(replace(BRIEF, steps=5, evaluate_every=4)).trainer, [0.1, 0.5]
    )
    assert [step.number for step in trainer.steps() if step.dev] == [4, 5]


def test_without_dev_examples_nothing_is_tried() -> None:
    assert not any(
        step.dev for step in fitting(replace(BRIEF, evaluate_every=1)).steps()
    )


def test_real_dev_examples_are_predicted() -> None:
    run = fitting(replace(BRIEF, steps=2, evaluate_every=1), dev=EXAMPLES[:2])
    assert [step.dev.exact_match for step in run.steps() if step.dev] == [0.0, 0.0]


def test_a_loss_that_is_no_number_ends_training_with_advice() -> None:
    run = fitting(WHOLE)
    with torch.no_grad():
        run.trainer.weights["shared.weight"].fill_(torch.nan)
    with pytest.raises(
        Diverged,
        match=r"the loss of step 1 is nan, at learning rate 0\.01 and for a batch of 6 examples \('",
    ):
        list(run.steps())


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_parts_of_all_processes_are_the_whole_step(count: int) -> None:
    def loss(processes: Processes) -> float:
        objective: Any = fitting(WHOLE).trainer.objective
        ours = replace(objective, processes=processes)
        return float(ours.backward(ours.collate(next(ours.batches()))))

    assert sum(loss(Processes(count, rank)) for rank in range(count)) == pytest.approx(
        loss(Processes()), rel=1e-5
    )


def test_a_model_that_does_not_say_how_targets_begin_is_refused(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(name: str) -> tuple[Any, Any]:
        model, tokenizer = load_pretrained(name)
        model.generation_config.decoder_start_token_id = (
            model.config.decoder_start_token_id
        ) = None
        return model, tokenizer

    monkeypatch.setattr("nqg.seq2seq.fine_tuning.load_pretrained", forgetful)
    with pytest.raises(
        NqgError, match="does not say which subword its targets begin with"
    ):
        FineTuning(
            EXAMPLES, Seq2seqSettings(model=str(tiny_folder)), BRIEF, device="cpu"
        )


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="recordings of kernels need a GPU"
)
def test_recorded_kernels_compute_what_others_compute() -> None:
    def cuda_losses(recorded: bool) -> list[float]:
        training = replace(WHOLE, steps=8, record_kernels=recorded)
        return [
            step.loss
            for step in FineTuning(EXAMPLES, SMALL, training, device="cuda").steps()
        ]

    assert cuda_losses(True) == pytest.approx(cuda_losses(False), rel=1e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_trained_on_a_gpu_predicts_there() -> None:
    trained = Seq2seq.train(
        EXAMPLES,
        SMALL,
        FineTuningSettings(steps=250, learning_rate=0.01),
        device="cuda",
    )
    assert trained.exact_match(EXAMPLES) == 1.0


def test_a_frozen_embedding_stays_and_the_body_learns(tiny_folder: Path) -> None:
    named = Seq2seqSettings(model=str(tiny_folder), longest_target=8)
    training = FineTuningSettings(steps=3, learning_rate=0.05)
    tuning = FineTuning(EXAMPLES, named, training, device="cpu")
    assert tuning.training.freeze_embeddings
    before, _ = load_pretrained(str(tiny_folder))
    for _ in tuning.steps():
        pass
    after = tuning.seq2seq.model
    old, new = dict(before.named_parameters()), dict(after.named_parameters())
    for name in ("shared.weight", "lm_head.weight"):
        assert torch.equal(old[name], new[name])
    name = "decoder.block.0.layer.0.SelfAttention.q.weight"
    assert not torch.equal(old[name], new[name])
    whole = replace(training, freeze_embeddings=False)
    tuning = FineTuning(EXAMPLES, named, whole, device="cpu")
    for _ in tuning.steps():
        pass
    assert not torch.equal(
        old["lm_head.weight"], tuning.seq2seq.model.lm_head.weight.cpu()
    )


def test_the_training_loss_is_that_of_the_scores_which_the_model_gives(
    tiny_folder: Path,
) -> None:
    # A softmax over a sample of subwords once gave a loss that was far too small.
    named = Seq2seqSettings(model=str(tiny_folder), longest_target=8)
    training = FineTuningSettings(steps=1, batch_size=6, precision="float32")
    tuning = FineTuning(EXAMPLES, named, training, device="cpu")
    for module in tuning.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        # Attention has a rate instead of a module.
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    pairs = [(example.source, example.target) for example in EXAMPLES]
    before = tuning._current()
    subwords = sum(map(len, before.target_subwords([target for _, target in pairs])))
    expected = -sum(before.log_probabilities(pairs)) / subwords
    (step,) = tuning.steps()
    assert step.loss == pytest.approx(expected, rel=1e-4)
