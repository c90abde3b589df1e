"""Systems without a grammar in `nqg train`: a fallback beside a parser, or a published baseline in its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nqg.answers import Answer, System
from nqg.cli.settings import ProjectSettings
from nqg.cli.terminal import checked_device, err, out, tracked
from nqg.cli.training_run import TrainingRun, draw, tokenized_data
from nqg.data.examples import Example, Values, read_examples, tokenized
from nqg.errors import UnknownName, counted
from nqg.evaluation.calibration import GateTrial, calibrated_gate, with_confidence
from nqg.files import write_text
from nqg.grammar.grammar import SLOT, Grammar
from nqg.inference.hybrid import write_fallback
from nqg.model.checkpoint import RECORDS, SavedModel, record_lines
from nqg.model.settings import fitting_batch
from nqg.seq2seq.settings import BASELINES, EMBEDDED, AugmentationSettings, FineTuningSettings, Seq2seqSettings
from nqg.text.preprocessing import FILE as TEXT

if TYPE_CHECKING:
    from nqg.seq2seq.fine_tuning import FineTuning
    from nqg.seq2seq.seq2seq import Seq2seq

LEARNED_LOSS = 0.01  # at which a fallback from scratch has learned enough, unless the user says otherwise


@dataclass(frozen=True, slots=True)
class FallbackOptions:
    """The fallback that the user wants, perhaps with a gate."""

    settings: Seq2seqSettings
    training: FineTuningSettings
    has_gate: bool
    augmentation: AugmentationSettings | None = None
    fits_data: bool = False  # the user left it to the examples how large batches are, and when training ends

    @classmethod
    def chosen(cls, settings: ProjectSettings, *, gate: bool) -> FallbackOptions | None:
        if settings.seq2seq is None and gate:
            raise typer.BadParameter("a gate needs a fallback; name one with --seq2seq", param_hint="--gate")
        if settings.seq2seq is None and settings.augmentation:
            raise typer.BadParameter("samples teach a fallback; name one with --seq2seq", param_hint="--augment")
        if settings.seq2seq is None:
            return None
        training, defaults = settings.fine_tuning, FineTuningSettings()
        is_default = (training.batch_size, training.learned) == (defaults.batch_size, defaults.learned)
        fits_data = is_default and settings.seq2seq.model == EMBEDDED
        return cls(settings.seq2seq, training, gate, settings.augmentation, fits_data)

    def fine_tuned(
        self,
        examples: Sequence[Example],
        device: str | None,
        run: TrainingRun,
        dev: Sequence[Example] = (),
        grammar: Grammar | None = None,
    ) -> FineTuning:
        from nqg.seq2seq.fine_tuning import SAVE_EVERY, FineTuning  # which loads transformers

        run.folder.mkdir(parents=True, exist_ok=True)
        if self.augmentation and grammar:
            examples = self._taught(self.augmentation, examples, grammar, device, run.label)
        training = self.training
        if self.fits_data:  # a small model needs small batches of few examples, and ends early
            size = fitting_batch(len(examples), training.batch_size)
            training = replace(training, batch_size=size, learned=LEARNED_LOSS)
        fine_tuning = FineTuning(examples, self.settings, training, dev=dev, device=device)
        if fine_tuning.truncation.first is not None:
            err.print(str(fine_tuning.truncation))
        steps = fine_tuning.steps(run.folder / "seq2seq.safetensors", run.save_every or SAVE_EVERY)
        for _ in tracked(steps, f"{run.label}fine-tuning", training.steps):
            pass
        return fine_tuning

    def _taught(
        self,
        settings: AugmentationSettings,
        examples: Sequence[Example],
        grammar: Grammar,
        device: str | None,
        label: str,
    ) -> Sequence[Example]:
        """The examples among pairs that the grammar knows; rules that read slots have no words to teach."""
        from nqg.seq2seq.augmentation import Augmentation

        if grammar.slots is not None:
            fixed = (rule for rule in grammar if not any(str(each).startswith(SLOT) for each in rule.source))
            grammar = replace(grammar, rules=tuple(fixed), slots=None)
        augmentation = Augmentation(grammar, examples, settings, self.training.seed)
        steps = augmentation.steps(self.settings, self.training, device)
        for _ in tracked(steps, f"{label}reverse model", augmentation.steps_in_all(self.training)):
            pass
        if not label:
            err.print(f"the fallback also learns from {len(augmentation.added):,} pairs that the grammar knows")
        return augmentation.mixture

    def writer(self, seq2seq: Seq2seq, model: SavedModel, trials: Sequence[GateTrial]) -> Callable[[Path], None]:
        """What writes the fallback, and the gate that the trials lead to, into a model folder."""
        gate = None
        if self.has_gate:
            weights = model.calibrator and model.calibrator.weights
            gate = calibrated_gate(with_confidence(trials, weights) if weights else trials)
            err.print(f"{gate}; {gate.calibration}")
        return lambda folder: write_fallback(folder, seq2seq, gate)


OF_A_GRAMMAR = (
    *("grammar", "earlier", "like", "rules", "target_grammar", "database", "typed", "keep_going", "encoder", "forests"),
    *("seq2seq", "seq2seq_steps", "seq2seq_batch_size", "augment", "gate", "fold_count", "tensorboard"),
    *("no_cache", "hold_out", "least_precision"),
)


def check_baseline(given: Mapping[str, Any]) -> None:
    """Refuse a system that nobody knows, and options that it would pass over in silence."""
    if given["system"] not in BASELINES:
        raise UnknownName("system", given["system"], BASELINES)
    for name in OF_A_GRAMMAR:
        if given[name] not in (None, False):
            flag = {"fold_count": "--folds", "earlier": "--from"}.get(name, f"--{name.replace('_', '-')}")
            raise typer.BadParameter(
                f"is for models with a grammar; omit it with --system {given['system']}", param_hint=flag
            )


def train_baseline(context: typer.Context, chosen: ProjectSettings, baseline: FallbackOptions) -> None:
    """Train a system without a grammar into a folder that `nqg parse` and `nqg evaluate` read like any other."""
    given, device = context.params, checked_device(context.params["device"])
    output, dev, plot = given["output"], given["dev"], given["plot"]
    examples, text, _ = tokenized_data(given, chosen)
    held_out = tokenized(read_examples(dev), text) if dev else []
    run = TrainingRun.towards(output, device, save_every=given["save_every"], use_cache=False, curves=None)
    context.with_resource(run.locked())
    with run.continued_later():
        tuning = baseline.fine_tuned(examples, device, run, dev=held_out)
    records, best, seq2seq = tuning.trainer.records, tuning.trainer.best, tuning.seq2seq
    if run.processes.is_main:

        def write_more(folder: Path) -> None:
            text.write(folder / TEXT)
            write_text(folder / RECORDS, record_lines(step.to_dict() for step in records))

        seq2seq.save(output, write_more)
        shutil.rmtree(run.folder)
        values = {
            "system": given["system"],
            "examples": len(examples),
            "steps": len(records),
            "loss": records[-1].loss,
            "best_step": best.step if best else None,
            "dev": {"accuracy": best.scores.exact_match} if best else None,
            "folder": str(output),
        }
        if given["as_json"]:
            out.print_json(data=values)
        else:
            made = counted(values["examples"], "example"), counted(values["steps"], "step")
            out.print("{system}: {}, {}, loss {loss:.4f} in the last".format(*made, **values))
            if best:
                out.print(f"dev examples, best after step {best.step:,}: {best.scores.exact_match:.1%} right")
        draw(plot, records, output)
    run.processes.close()


@dataclass(frozen=True, slots=True)
class TypedSystem:
    """A system that is asked for tokenised sentences in the casing that somebody typed."""

    system: System
    values: Values

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        return self.system.answers(self.values.as_typed(sentences))
