"""The part of `nqg train` that makes a hybrid: options of the fallback, its training, the calibration of the gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nqg.cli.terminal import err, tracked
from nqg.data.example import Example
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings

if TYPE_CHECKING:
    from nqg.cli.training_run import Task, TrainingRun
    from nqg.inference.fallback import Fallback
    from nqg.inference.gate import Gate
    from nqg.inference.hybrid import GrammarParser
    from nqg.seq2seq.seq2seq import Seq2seq

PANEL = "The fallback, which answers where the grammar does not"
KINDS = ("random", "template", "length")
STATE = "seq2seq.safetensors"

SEQ2SEQ = typer.Option(
    None,
    "--seq2seq",
    metavar="NAME|FOLDER",
    help="Train one too: an encoder-decoder of Hugging Face's, or 'embedded', a small one from scratch.",
    rich_help_panel=PANEL,
)
SEQ2SEQ_STEPS = typer.Option(
    FineTuningSettings().steps, "--seq2seq-steps", metavar="N", min=1, help="Its steps.", rich_help_panel=PANEL
)
SEQ2SEQ_BATCH_SIZE = typer.Option(
    FineTuningSettings().batch_size,
    "--seq2seq-batch-size",
    metavar="N",
    min=1,
    help="Its examples a step.",
    rich_help_panel=PANEL,
)
GATE = typer.Option(
    False,
    "--gate",
    help="Let it answer also where the grammar is not sure; how sure is enough is learned from held-out examples.",
    rich_help_panel=PANEL,
)
HOLD_OUT = typer.Option(
    "template", "--hold-out", metavar="|".join(KINDS), help="Which examples are held out.", rich_help_panel=PANEL
)


@dataclass(frozen=True, slots=True)
class FallbackWish:
    """The fallback that a user wants; `hold_out` says on which examples its gate is calibrated, if it gets one."""

    settings: Seq2seqSettings
    training: FineTuningSettings
    hold_out: str | None = None

    @classmethod
    def chosen(
        cls, name: str | None, *, steps: int, batch_size: int, seed: int, gate: bool, hold_out: str
    ) -> FallbackWish | None:
        """What the options say; None where no fallback is wanted."""
        if hold_out not in KINDS:
            raise typer.BadParameter(f"'{hold_out}' is none of {', '.join(KINDS)}", param_hint="--hold-out")
        if name is None and gate:
            raise typer.BadParameter("a gate needs a fallback; name one with --seq2seq", param_hint="--gate")
        if name is None:
            return None
        training = FineTuningSettings(steps=steps, batch_size=batch_size, seed=seed)
        return cls(Seq2seqSettings(model=name), training, hold_out if gate else None)

    def trained(self, task: Task, run: TrainingRun) -> Callable[[Path], None]:
        """Train it; the result writes it into a model folder. Killed, the same command goes on where it was."""
        from nqg.inference.hybrid import write_fallback

        fallback = self._fitted(task.examples, task.device, run.folder)
        gate = self._gate(self.hold_out, task, run) if self.hold_out else None
        return lambda folder: write_fallback(folder, fallback, gate)

    def _fitted(self, examples: Sequence[Example], device: str | None, folder: Path) -> Seq2seq:
        from nqg.seq2seq.fitting import Seq2seqFitting

        folder.mkdir(parents=True, exist_ok=True)
        fitting = Seq2seqFitting(examples, self.settings, self.training, device=device)
        if fitting.cut.first is not None:
            err.print(str(fitting.cut))
        for _ in tracked(fitting.steps(folder / STATE), "fine-tuning", self.training.steps):
            pass
        return fitting.seq2seq

    def _gate(self, hold_out: str, task: Task, run: TrainingRun) -> Gate:
        """The gate that is best for both parts, fitted anew to the examples that are not held out."""
        from nqg.inference.calibration import HeldOut, cross_fitted, held_out
        from nqg.seq2seq.legal_decoding import LegalSeq2seq

        apart = replace(run, folder=run.folder / "held-out", curves=None)

        def parser(examples: Sequence[Example]) -> GrammarParser:
            return apart.fitted(replace(task, examples=examples, dev=())).parser

        def fallback(examples: Sequence[Example]) -> Fallback:
            seq2seq = self._fitted(examples, task.device, apart.folder)
            return LegalSeq2seq(seq2seq, task.target_grammar) if task.target_grammar else seq2seq

        split = held_out(task.examples, HeldOut(hold_out), seed=self.training.seed)
        gate = cross_fitted(task.examples, split, parser, fallback)
        err.print(f"{gate}; {gate.calibration}")
        return gate
