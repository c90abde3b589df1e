"""`nqg train`: from a file of examples to a model folder; killed, the same command goes on where it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nqg.cli.induce import LIKE, STOPPED, chosen_settings
from nqg.cli.terminal import complain, err, out, report_written, tracked
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import NqgError
from nqg.files import write_text
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.induction.settings import InductionSettings

if TYPE_CHECKING:
    from nqg.forests.forest import Forests
    from nqg.inference.fitting import Fitting
    from nqg.inference.parser import Parser
    from nqg.model.settings import TrainingSettings
    from nqg.model.training import TrainingStep

MOST_NON_TERMINALS = 9  # in a rule of a model folder
METRICS = "training.jsonl"

FILES, MODEL, FITTING = "Files", "The model", "How it is fitted"
DATA = typer.Argument(metavar="TRAIN", help="Examples: a .tsv or .jsonl file, plain or .gz.", show_default=False)
OUTPUT = typer.Option(..., "-o", "--output", metavar="FOLDER", help="Where to write the model.", rich_help_panel=FILES)
DEV = typer.Option(
    None, "--dev", metavar="FILE", help="Examples to try the model on at the end.", rich_help_panel=FILES
)
GRAMMAR = typer.Option(
    None, "--grammar", metavar="FILE", help="Rules from `nqg induce`. Default: induced here.", rich_help_panel=MODEL
)
TARGET_GRAMMAR = typer.Option(
    None,
    "--target-grammar",
    metavar="FILE",
    help="Which programs are legal; others are no answers.",
    rich_help_panel=MODEL,
)
ENCODER = typer.Option(
    None,
    "--encoder",
    metavar="NAME|FOLDER",
    help="A pre-trained encoder of Hugging Face's. Default: a small one, trained from scratch.",
    rich_help_panel=MODEL,
)
STEPS = typer.Option(
    256, "--steps", metavar="N", min=1, help="How many batches to learn from.", rich_help_panel=FITTING
)
BATCH_SIZE = typer.Option(256, "--batch-size", metavar="N", min=1, help="Examples a step.", rich_help_panel=FITTING)
LEARNING_RATE = typer.Option(
    None,
    "--learning-rate",
    metavar="R",
    help="At its highest. Default: 0.001 from scratch, 0.0001 with --encoder.",
    rich_help_panel=FITTING,
    show_default=False,
)
SEED = typer.Option(0, "--seed", metavar="S", help="Another seed, another model.", rich_help_panel=FITTING)
DEVICE = typer.Option(
    None, "--device", metavar="cpu|cuda", help="Default: cuda where there is one.", show_default=False
)
SAVE_EVERY = typer.Option(
    32, "--save-every", metavar="N", min=1, help="Steps that a kill can cost at most.", rich_help_panel=FITTING
)
JSON = typer.Option(False, "--json", help="Print JSON.")


@dataclass(frozen=True, slots=True)
class Scores:
    """How a parser does on examples: the share it gets right, the share it answers, the share of answers right."""

    examples: int
    exact_match: float
    coverage: float
    precision: float | None  # none where nothing was answered

    @classmethod
    def of(cls, parser: Parser, examples: Sequence[Example]) -> Scores:
        """The scores of `parser`."""
        targets = [parse.target for parse in parser.parse_all(example.source for example in examples)]
        answered = sum(target is not None for target in targets)
        wanted = [" ".join(example.target_tokens) for example in examples]
        right = sum(target == goal for target, goal in zip(targets, wanted, strict=True))
        total = len(examples)
        return cls(total, right / total, answered / total, right / answered if answered else None)

    def __str__(self) -> str:
        precision = "-" if self.precision is None else f"{self.precision:.1%}"
        return f"exact match {self.exact_match:.1%}, coverage {self.coverage:.1%}, precision {precision}"


def train(
    data: Path = DATA,
    output: Path = OUTPUT,
    dev: Path | None = DEV,
    grammar: Path | None = GRAMMAR,
    like: str | None = LIKE,
    target_grammar: Path | None = TARGET_GRAMMAR,
    encoder: str | None = ENCODER,
    steps: int = STEPS,
    batch_size: int = BATCH_SIZE,
    learning_rate: float | None = LEARNING_RATE,
    seed: int = SEED,
    save_every: int = SAVE_EVERY,
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Fit the parsing model to pairs of strings; it chooses among the derivations of a grammar.

    Example: nqg train train.tsv -o models/mine --like scan --dev dev.tsv

    Ctrl-C or a kill costs little: FOLDER.training keeps the state of the training, and the same command goes on from
    there to the model that an undisturbed run writes. FOLDER itself appears, or is replaced, when the model is whole.
    """
    _check_output(output)
    if grammar and like:
        raise typer.BadParameter("--like is for inducing a grammar; leave it away with --grammar", param_hint="--like")
    settings = chosen_settings(like, {})
    examples, dev_examples = read_examples(data), read_examples(dev) if dev else []
    legal = TargetGrammar.read(target_grammar) if target_grammar else None

    from nqg.inference.fitting import Fitting
    from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings

    training = TrainingSettings(steps=steps, batch_size=batch_size, learning_rate=learning_rate, seed=seed)
    model, place = ModelSettings(encoder or EMBEDDED), checked_device(device)
    unfinished = output.with_name(f"{output.name}.training")
    unfinished.mkdir(parents=True, exist_ok=True)
    try:
        rules = Grammar.read(grammar, MOST_NON_TERMINALS) if grammar else _induced(examples, settings, unfinished)
        forests = _forests(rules, list(dict.fromkeys(examples)))
        fitting = Fitting(
            rules, examples, forests=forests, target_grammar=legal, model=model, training=training, device=place
        )
        records = _fitted(fitting, examples, unfinished, save_every)
    except KeyboardInterrupt:
        complain(f"interrupted; the same command goes on with what is in {unfinished}")
        raise typer.Exit(STOPPED) from None
    finally:
        if not any(unfinished.iterdir()):
            unfinished.rmdir()
    _write(fitting.parser, records, output)
    shutil.rmtree(unfinished)
    _report(output, fitting, records, Scores.of(fitting.parser, dev_examples) if dev_examples else None, as_json)
    report_written(output)


def checked_device(name: str | None) -> str | None:
    """The device that a user named, if there is one."""
    import torch

    if name not in (None, "cpu", "cuda"):
        raise typer.BadParameter(f"'{name}' is neither 'cpu' nor 'cuda'", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise NqgError("there is no GPU that torch can use; leave --device away, or say --device cpu")
    return name


def _check_output(output: Path) -> None:
    """Refuse, before any work is done, to replace what is no model."""
    if not output.name:
        raise NqgError(f"{output}: expected a folder of the model's own, found the current one; choose another with -o")
    if output.exists() and not output.is_dir():
        raise NqgError(f"{output}: expected a folder to write the model to, found a file")
    if output.is_dir() and any(output.iterdir()) and not (output / "nqg.json").exists():
        raise NqgError(f"{output}: the folder holds something that is no model; choose another with -o")


def _induced(examples: Sequence[Example], settings: InductionSettings, folder: Path) -> Grammar:
    """The grammar of the examples; a training that goes on finds it where it left it."""
    from nqg.cli.induction_run import run
    from nqg.induction.origin import Origin

    path, origin = folder / "grammar.txt", Origin.of(examples, settings)
    if path.exists() and path.read_text().startswith("\n".join(origin.comments()) + "\n"):
        return Grammar.read(path, MOST_NON_TERMINALS)
    induced = run(examples, settings)
    if not induced.is_finished:
        raise KeyboardInterrupt
    induced.write(path)
    err.print(f"{len(induced.grammar):,} rules induced from {len(examples):,} examples")
    return induced.grammar


def _forests(grammar: Grammar, examples: Sequence[Example]) -> Forests:
    """The forests of the examples, with a bar while they are built."""
    from nqg.forests.build import PART_SIZE, forest_parts
    from nqg.forests.forest import joined

    parts = tracked(forest_parts(grammar, examples), "building forests", -(-len(examples) // PART_SIZE))
    return joined(parts)


def _fitted(fitting: Fitting, examples: Sequence[Example], folder: Path, save_every: int) -> list[TrainingStep]:
    """Train to the end, from the beginning or from the state in `folder`; the records of all steps."""
    from nqg.model.resume import TrainingOrigin, restored, saved_steps

    model, settings = fitting.parser.model, fitting.training
    training = fitting.under_way
    origin = TrainingOrigin.of(model.grammar, examples, model.settings, settings)
    state = folder / "state.safetensors"
    past = restored(state, training, origin) if state.exists() else []
    if past:
        err.print(f"{state}: going on after step {len(past):,}")
    steps = saved_steps(training, state, origin, past, save_every)
    return [*past, *_drawn(steps, settings, len(past))]


def _drawn(steps: Iterable[TrainingStep], settings: TrainingSettings, made: int) -> Iterator[TrainingStep]:
    """The steps, with a bar on stderr; nothing is drawn where stderr is no terminal."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[speed]} examples/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as progress:
        bar = progress.add_task("training", total=settings.steps, completed=made, loss="-", speed="-")
        for step in steps:
            speed = (progress.tasks[bar].speed or 0.0) * settings.batch_size
            progress.update(bar, completed=step.number, loss=f"{step.loss:.4f}", speed=f"{speed:,.0f}")
            yield step


def _write(parser: Parser, records: Sequence[TrainingStep], output: Path) -> None:
    """The model folder, and in it a line of JSON for every step."""
    parser.save(output)
    lines = ({"step": step.number, "loss": step.loss, "learning_rate": step.learning_rate} for step in records)
    write_text(output / METRICS, "".join(f"{json.dumps(line)}\n" for line in lines))


def _report(
    output: Path, fitting: Fitting, records: Sequence[TrainingStep], scores: Scores | None, as_json: bool
) -> None:
    facts: dict[str, Any] = {
        "rules": len(fitting.parser.grammar),
        "examples": len(fitting.data),
        "steps": len(records),
        "loss": records[-1].loss,
        "dev": asdict(scores) if scores else None,
        "folder": str(output),
    }
    if as_json:
        out.print_json(data=facts)
        return
    out.print("{examples:,} examples, {rules:,} rules, {steps:,} steps, loss {loss:.4f} in the last".format(**facts))
    if scores:
        out.print(f"{scores.examples:,} dev examples: {scores}")
