"""The part of `nqg train` that makes a hybrid: options of the fallback, its training, the calibration of the gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nqg.cli.settings import ProjectSettings
from nqg.cli.terminal import err, tracked
from nqg.cli.training_options import option
from nqg.data.examples import Example
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings

if TYPE_CHECKING:
    from nqg.answers import System
    from nqg.cli.training_run import Task, TrainingRun
    from nqg.inference.hybrid import Gate
    from nqg.seq2seq.seq2seq import Seq2seq

PANEL = "The fallback, which answers where the grammar does not"
KINDS = ("random", "template", "length")
STATE = "seq2seq.safetensors"

SEQ2SEQ = option(
    "--seq2seq",
    "NAME|FOLDER",
    "Train one too: an encoder-decoder of Hugging Face's, or 'embedded', a small one from scratch.",
    PANEL,
)
SEQ2SEQ_STEPS = option("--seq2seq-steps", "N", f"Its steps. Default: {FineTuningSettings().steps}.", PANEL, min=1)
SEQ2SEQ_BATCH_SIZE = option(
    "--seq2seq-batch-size", "N", f"Its examples a step. Default: {FineTuningSettings().batch_size}.", PANEL, min=1
)
GATE = option(
    "--gate",
    None,
    "Let it answer also where the grammar is not sure; how sure is enough is learned from held-out examples.",
    PANEL,
    default=False,
)
HOLD_OUT = option(
    "--hold-out",
    "KIND",
    f"Which examples are held out for --gate: {', '.join(KINDS)}. Default: template.",
    PANEL,
    default="template",
)


@dataclass(frozen=True, slots=True)
class FallbackWish:
    """The fallback that a user wants; `hold_out` says on which examples its gate is calibrated, if it gets one."""

    settings: Seq2seqSettings
    training: FineTuningSettings
    hold_out: str | None = None

    @classmethod
    def chosen(cls, settings: ProjectSettings, *, gate: bool, hold_out: str) -> FallbackWish | None:
        """What settings and options say; None where no fallback is wanted."""
        if hold_out not in KINDS:
            raise typer.BadParameter(f"'{hold_out}' is none of {', '.join(KINDS)}", param_hint="--hold-out")
        if settings.seq2seq is None and gate:
            raise typer.BadParameter("a gate needs a fallback; name one with --seq2seq", param_hint="--gate")
        if settings.seq2seq is None:
            return None
        return cls(settings.seq2seq, settings.fine_tuning, hold_out if gate else None)

    def trained(self, task: Task, run: TrainingRun) -> Callable[[Path], None]:
        """Train it; the result writes it into a model folder. Killed, the same command goes on where it was."""
        from nqg.inference.hybrid import write_fallback

        fallback = self._fitted(task.examples, task.device, run.folder)
        gate = self._gate(self.hold_out, task, run) if self.hold_out else None
        return lambda folder: write_fallback(folder, fallback, gate)

    def _fitted(self, examples: Sequence[Example], device: str | None, folder: Path) -> Seq2seq:
        from nqg.seq2seq.fine_tuning import FineTuning

        folder.mkdir(parents=True, exist_ok=True)
        fine_tuning = FineTuning(examples, self.settings, self.training, device=device)
        if fine_tuning.truncation.first is not None:
            err.print(str(fine_tuning.truncation))
        for _ in tracked(fine_tuning.steps(folder / STATE), "fine-tuning", self.training.steps):
            pass
        return fine_tuning.seq2seq

    def _gate(self, hold_out: str, task: Task, run: TrainingRun) -> Gate:
        """The gate that is best for both parts, fitted anew to the examples that are not held out."""
        from nqg.evaluation.calibration import HeldOut, cross_fitted, held_out
        from nqg.inference.parser import Parser
        from nqg.seq2seq.legal_decoding import LegalSeq2seq

        apart = replace(run, folder=run.folder / "held-out", curves=None)

        def parser(examples: Sequence[Example]) -> System:
            return Parser(apart.trained(replace(task, examples=examples, dev=())).model)

        def fallback(examples: Sequence[Example]) -> System:
            seq2seq = self._fitted(examples, task.device, apart.folder)
            return LegalSeq2seq(seq2seq, task.target_grammar) if task.target_grammar else seq2seq

        split = held_out(task.examples, HeldOut(hold_out), seed=self.training.seed)
        gate = cross_fitted(task.examples, split, parser, fallback)
        err.print(f"{gate}; {gate.calibration}")
        return gate
