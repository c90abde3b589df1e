"""One training under the eyes of a user: grammar and forests from before or anew, drawn as it goes, taken up again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nqg.cli.terminal import err, out, progress_bar, tracked
from nqg.data.examples import Example
from nqg.errors import MissingExtra, NqgError
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.induction.settings import InductionSettings
from nqg.inference.parser import Parser
from nqg.model.forest_storage import ForestCache, ForestFolder, build_folder
from nqg.model.forests import PART_SIZE, Forests, forest_parts, joined
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model_folder import held
from nqg.training.parser_training import ParserTraining, distinct
from nqg.training.processes import Processes
from nqg.training.records import TrainingStep
from nqg.training.resume import restore, saved_steps


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be learned and how; `rules` are a grammar, or the settings to induce one with."""

    examples: Sequence[Example]
    dev: Sequence[Example]
    rules: Grammar | InductionSettings
    target_grammar: TargetGrammar | None
    model: ModelSettings
    training: TrainingSettings
    device: str | None
    forests: Path | None = None  # the folder to keep forests in, where memory is not to hold them


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Where a training keeps what it needs to go on, how often it does, and who takes part."""

    folder: Path
    save_every: int
    cache: ForestCache | None
    curves: Path | None  # where TensorBoard's files go
    processes: Processes

    @classmethod
    def towards(
        cls, output: Path, device: str | None, *, save_every: int, use_cache: bool, curves: Path | None
    ) -> TrainingRun:
        """The run that leads to a model at `output`; of several processes, the main one speaks."""
        if curves:
            curves_writer()  # which may be missing, better now than after an hour
        processes = Processes.launched(device)
        if not processes.is_main:
            err.quiet = out.quiet = True
        cache = ForestCache.of_this_machine() if use_cache else None
        return cls(output.with_name(f"{output.name}.training"), save_every, cache, curves, processes)

    @property
    def state(self) -> Path:
        """The file that holds the state of the training."""
        return self.folder / "state.safetensors"

    def alone(self) -> AbstractContextManager[None]:
        """Keep other trainings of the same model away, until the block ends."""
        return held(self.folder, wait=False) if self.processes.is_main else nullcontext()

    def trained(self, task: Task) -> ParserTraining:
        """Train to the end, from the beginning or from where the state is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            training = self._prepared(task)
            self._train(training)
        finally:
            if self.processes.is_main and not any(self.folder.iterdir()):
                self.folder.rmdir()
        return training

    def _prepared(self, task: Task) -> ParserTraining:
        with self.processes.main_first():
            rules = task.rules
            grammar = rules if isinstance(rules, Grammar) else _induced(task.examples, rules, self.folder)
            forests = self._forests(grammar, distinct(task.examples), task.forests)
        return Parser.training(
            grammar,
            task.examples,
            dev=task.dev,
            forests=forests,
            target_grammar=task.target_grammar,
            model=task.model,
            training=task.training,
            device=task.device,
            processes=self.processes,
        )

    def _forests(self, grammar: Grammar, examples: Sequence[Example], folder: Path | None) -> Forests | ForestFolder:
        """In memory, or in a folder where that is wanted, or where processes would each have to hold all of them."""
        if folder is None and self.processes.count == 1:
            return _forests(grammar, examples, self.cache)
        return _folder(grammar, examples, folder or self.folder / "forests")

    def _train(self, training: ParserTraining) -> None:
        trainer = training.trainer
        if self.state.exists():
            restore(self.state, trainer)
            err.print(f"{self.state}: continuing after step {trainer.made:,}")
        steps = saved_steps(trainer, self.state, self.save_every)
        with _curves(self.curves if self.processes.is_main else None, trainer.made) as curves:
            for step in _drawn(steps, training.settings):
                curves.add(step)


def _induced(examples: Sequence[Example], settings: InductionSettings, folder: Path) -> Grammar:
    """The grammar of the examples; a training that goes on finds it where it left it."""
    from nqg.cli.induce import run
    from nqg.induction.trace import grammar_comments, induction_config

    path, comments = folder / "grammar.txt", grammar_comments(induction_config(examples, settings))
    if path.exists() and path.read_text().startswith("\n".join(comments) + "\n"):
        return Grammar.read(path, settings.max_non_terminals)
    found = run(examples, settings)
    if not found.is_finished:
        raise KeyboardInterrupt
    found.write(path)
    err.print(f"{len(found.grammar):,} rules induced from {len(examples):,} examples")
    return found.grammar


def _forests(grammar: Grammar, examples: Sequence[Example], cache: ForestCache | None) -> Forests:
    """The forests of the examples: those of an earlier training, or new ones, with a bar while they are built."""
    if cache and (found := cache.find(grammar, examples)):
        return found
    forests = joined(tracked(forest_parts(grammar, examples), "building forests", -(-len(examples) // PART_SIZE)))
    if cache:
        try:
            cache.add(grammar, examples, forests)
        except NqgError as error:
            err.print(f"{error}; going on without")
    return forests


def _folder(grammar: Grammar, examples: Sequence[Example], folder: Path) -> ForestFolder:
    """The forests of the examples on disk; parts that are there already are not built again."""
    with progress_bar() as progress:
        for done in build_folder(folder, grammar, examples):
            progress("building forests", done, len(examples))
    return ForestFolder.open(folder)


def _drawn(steps: Iterable[TrainingStep], settings: TrainingSettings) -> Iterator[TrainingStep]:
    """The steps, with a bar on stderr; nothing is drawn where stderr is no terminal."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[dev]}"),
        TextColumn("{task.fields[speed]} examples/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as progress:
        bar = progress.add_task("training", total=settings.steps, loss="-", dev="", speed="-")
        for step in steps:
            speed = (progress.tasks[bar].speed or 0.0) * settings.batch_size
            dev: dict[str, Any] = {"dev": f"dev {step.dev.exact_match:.1%}"} if step.dev else {}
            progress.update(bar, completed=step.number, loss=f"{step.loss:.4f}", speed=f"{speed:,.0f}", **dev)
            yield step


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of a training for TensorBoard; without a writer, none."""

    writer: Any = None

    def add(self, step: TrainingStep) -> None:
        """Draw the curves on by one step."""
        if self.writer is None:
            return
        for name, value in step.to_dict().items():
            if name != "step" and value is not None:
                self.writer.add_scalar(name.replace("dev_", "dev/"), value, step.number)


def curves_writer() -> Any:
    """TensorBoard's class of writers, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("drawing curves with TensorBoard", "tensorboard") from error
    return SummaryWriter


@contextmanager
def _curves(folder: Path | None, made: int) -> Iterator[Curves]:
    if folder is None:
        yield Curves()
        return
    with curves_writer()(folder, purge_step=made + 1) as writer:
        yield Curves(writer)
