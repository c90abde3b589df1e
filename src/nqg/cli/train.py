"""`nqg train`: from a file of examples to a model folder, with a fallback if wanted; a killed run can be continued.

FOLDER.training holds what a run needs to continue: the grammar, forests, and the states of both trainings. It is
removed when the model is complete.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import typer

from nqg.answers import System
from nqg.cli.fallback import FallbackOptions, TypedSystem, check_baseline, train_baseline
from nqg.cli.settings import LIKE, SETTINGS, project_settings, setting_option
from nqg.cli.terminal import DEVICE, EXAMPLES, JSON, err, out
from nqg.cli.training_run import TrainingRun, TrainingTask, draw, earlier_model
from nqg.data.dataset import Split
from nqg.data.examples import Example
from nqg.errors import NqgError, SettingsError, counted
from nqg.evaluation.calibration import (
    LEAST_PRECISION,
    MOST_EXAMPLES,
    GateTrial,
    HeldOut,
    fitted_calibrator,
    fold_trials,
    folds,
    used_rules,
)
from nqg.evaluation.metrics import Scores, score
from nqg.files import read_json, write_text
from nqg.grammar.grammar import Grammar
from nqg.grammar.slots import with_values
from nqg.induction.settings import InductionSettings
from nqg.inference.parser import Parser
from nqg.model.checkpoint import Measurement, Provenance
from nqg.model.settings import TrainingSettings
from nqg.plotting import check_picture
from nqg.run_config import DataFingerprint, RunConfig, sha256
from nqg.seq2seq.settings import BASELINES, FineTuningSettings
from nqg.settings_reader import read_dataclass
from nqg.text.preprocessing import TextSettings
from nqg.training.parser_training import ParserTraining, distinct

HELD_OUT = [kind.value for kind in HeldOut]
Brief = TypeVar("Brief", TrainingSettings, FineTuningSettings)
FOLD_STEPS = 1.75  # of all folds together, for each step of the model's own training
# Where any words may be text, a model is the surer of itself the longer it was trained: then folds have all steps.
TEXT_FOLDS = 5

file_option = partial(typer.Option, rich_help_panel="Files")
OUTPUT = file_option(..., "-o", "--output", metavar="FOLDER", help="Where to write the model.")
PLOT = file_option(None, "--plot", metavar="FILE", help="Draw loss and dev accuracy over the steps, .png or .svg.")

FEWEST_TO_JUDGE = 10  # answers to held-out examples
NONE_RIGHT = (
    "warning: none of these was right, so what the model does with new combinations is not to be trusted: read the "
    "rules (`nqg inspect`), and give more examples of each construction. docs/your-data.md tells more"
)

model_option = partial(typer.Option, None, rich_help_panel="Model")
SYSTEM = model_option(
    "--system",
    metavar="NAME",
    help=f"Train a system without a grammar instead, for comparison: {' or '.join(BASELINES)}.",
)
GRAMMAR = model_option(
    "--grammar", metavar="FILE", help="Rules from `nqg induce`.", show_default="induced from the examples"
)
FROM = model_option(
    "--from",
    metavar="MODEL",
    help="Go on from a model of a part of TRAIN: with its rules, settings, slots and types, unless others are said.",
)
BY_HAND = model_option(
    "--rules",
    metavar="FILE|none",
    help="Rules written by hand: the search begins with them, and all are kept.",
    show_default="those of --from, or of the model that is replaced",
)
TARGET_GRAMMAR = model_option(
    "--target-grammar",
    metavar="FILE|funql|inferred|none",
    help="A grammar of the legal programs; others are never answers.",
    show_default="inferred from TRAIN; none with --forests",
)
DATABASE = model_option(
    "--database",
    metavar="FILE|URL",
    help="Programs are SQL over this database, SQLite or a URL of SQLAlchemy's: its schema says which are legal.",
)
TYPED = model_option(
    "--typed/--untyped",
    metavar="",
    help="Derive legal programs only; the paper's parser derives all, and abstains where an illegal one is best.",
    show_default="typed",
)
KEEP_GOING = typer.Option(
    False, "--keep-going", metavar="", help="Leave out examples with illegal programs.", rich_help_panel="Model"
)
ENCODER = model_option(
    "--encoder",
    metavar="NAME|FOLDER",
    help="A pre-trained encoder from Hugging Face.",
    show_default="a small one, from scratch",
)

text_setting = partial(setting_option, TextSettings(), panel="Text, which becomes tokens in the way that suits TRAIN")
SENTENCES = text_setting("sentences", "auto|words|spaces", "Cut raw sentences into words, or at spaces alone.")
CASING = text_setting("casing", "auto|lower|keep", "Ignore or keep capital letters.")
PROGRAMS = text_setting("programs", "auto|code|spaces", "Cut programs like code, `on(lamp)`, or at spaces alone.")
TODAY = text_setting(
    "today",
    "DATE",
    "The day that relative dates in TRAIN refer to, 2026-11-16, if programs have dates for them.",
    show_default="they stay as they are said",
)

training_setting = partial(setting_option, TrainingSettings())
optimisation = partial(training_setting, panel="Optimisation")
STEPS = optimisation("steps", "N", "Number of training steps.")
BATCH_SIZE = optimisation("batch_size", "N", "Examples per step.", show_default="a quarter of all, but 32 to 256")
LEARNED = optimisation("learned", "LOSS", "Stop early when the loss stays below this.")
LEARNING_RATE = optimisation(
    "learning_rate", "R", "Peak learning rate.", show_default="0.001 from scratch, 0.0001 with --encoder"
)
WARM_UP = optimisation(
    "warm_up", "N", "Steps until the peak learning rate.", show_default="16 from scratch, 100 with --encoder"
)
WEIGHT_DECAY = optimisation("weight_decay", "R", "Weight decay of AdamW.")
CLIP = optimisation("clip", "NORM", "Clip gradients to this norm.")
SEED = optimisation("seed", "S", "Seed of initial weights, batches and dropout.")

DEV = typer.Option(
    None,
    "--dev",
    metavar="FILE",
    help="Evaluate on these examples while training, and keep the best weights.",
    rich_help_panel="Early stopping",
)
stopping = partial(training_setting, panel="Early stopping")
EVALUATE_EVERY = stopping("evaluate_every", "N", "Steps between two evaluations.")
PATIENCE = stopping("patience", "N", "Stop after this many evaluations without improvement.")

running_option = partial(typer.Option, rich_help_panel="Running")
PRECISION = training_setting(
    "precision", "auto|bf16|float32", "Precision of the encoder; auto is bf16 on GPUs.", panel="Running"
)
SAVE_EVERY = running_option(
    None,
    "--save-every",
    metavar="N",
    min=1,
    help="Steps that a kill can cost at most.",
    show_default="32; of a fallback or with --system, 500",
)
NO_CACHE = running_option(False, "--no-cache", metavar="", help="Rebuild forests, and do not keep them for next time.")
FORESTS = running_option(
    None,
    "--forests",
    metavar="FOLDER",
    help="Keep forests in this folder and read them batch by batch, for corpora larger than memory.",
)
TENSORBOARD = running_option(None, "--tensorboard", metavar="FOLDER", help="Write TensorBoard curves to this folder.")

fallback_option = partial(typer.Option, rich_help_panel="Fallback, for sentences that the grammar does not answer")
SEQ2SEQ = fallback_option(
    None,
    "--seq2seq",
    metavar="NAME|FOLDER",
    help="Also train a fallback: an encoder-decoder from Hugging Face, or 'embedded', a small one from scratch.",
)
SEQ2SEQ_STEPS = fallback_option(
    None, "--seq2seq-steps", metavar="N", help="Its training steps.", show_default=str(FineTuningSettings().steps)
)
SEQ2SEQ_BATCH_SIZE = fallback_option(
    None,
    "--seq2seq-batch-size",
    metavar="N",
    help="Its examples per step.",
    show_default=f"{FineTuningSettings().batch_size}; from scratch a quarter of all, but 32 to 128",
)
AUGMENT = fallback_option(
    None,
    "--augment",
    metavar="N",
    min=1,
    help="Also teach it what the grammar knows: of N pairs drawn from it, the likelier half (20000 is a good number).",
    show_default="the examples alone",
)
GATE = fallback_option(
    False,
    "--gate",
    metavar="",
    help="Also use it where the grammar is unsure; the threshold is learned from held-out examples.",
)

confidence_option = partial(typer.Option, rich_help_panel="Confidence, learned from examples that are held out in turn")
FOLDS_OPTION = confidence_option(
    None,
    "--folds",
    metavar="K",
    min=0,
    help="Hold out a K-th each time, and train on the rest; 0: no confidence.",
    show_default="8; with free text, or of fewer than 200 examples, 5; of more than 2,000 4",
)
HOLD_OUT = confidence_option(
    None,
    "--hold-out",
    metavar="KIND",
    help=f"What is held out together: {', '.join(HELD_OUT)}.",
    show_default=HeldOut.TEMPLATE.value,
)
PRECISION_WANTED = confidence_option(
    None,
    "--least-precision",
    metavar="P",
    min=0.0,
    max=1.0,
    help="With free text, abstain below the confidence from which on held-out answers are right this often.",
    show_default=str(LEAST_PRECISION),
)


def train(
    context: typer.Context,
    data: Path = EXAMPLES,
    output: Path = OUTPUT,
    settings: Path | None = SETTINGS,
    plot: Path | None = PLOT,
    system: str | None = SYSTEM,
    grammar: Path | None = GRAMMAR,
    earlier: Path | None = FROM,
    like: str | None = LIKE,
    sentences: str | None = SENTENCES,
    casing: str | None = CASING,
    programs: str | None = PROGRAMS,
    today: str | None = TODAY,
    rules: str | None = BY_HAND,
    target_grammar: str | None = TARGET_GRAMMAR,
    database: str | None = DATABASE,
    typed: bool | None = TYPED,
    keep_going: bool = KEEP_GOING,
    encoder: str | None = ENCODER,
    steps: int | None = STEPS,
    batch_size: int | None = BATCH_SIZE,
    learned: float | None = LEARNED,
    learning_rate: float | None = LEARNING_RATE,
    warm_up: int | None = WARM_UP,
    weight_decay: float | None = WEIGHT_DECAY,
    clip: float | None = CLIP,
    seed: int | None = SEED,
    dev: Path | None = DEV,
    evaluate_every: int | None = EVALUATE_EVERY,
    patience: int | None = PATIENCE,
    precision: str | None = PRECISION,
    save_every: int | None = SAVE_EVERY,
    no_cache: bool = NO_CACHE,
    forests: Path | None = FORESTS,
    tensorboard: Path | None = TENSORBOARD,
    device: str | None = DEVICE,
    seq2seq: str | None = SEQ2SEQ,
    seq2seq_steps: int | None = SEQ2SEQ_STEPS,
    seq2seq_batch_size: int | None = SEQ2SEQ_BATCH_SIZE,
    augment: int | None = AUGMENT,
    gate: bool = GATE,
    fold_count: int | None = FOLDS_OPTION,
    hold_out: str | None = HOLD_OUT,
    least_precision: float | None = PRECISION_WANTED,
    as_json: bool = JSON,
) -> None:
    """Train a parser: a grammar, and a model that ranks its derivations.

    Example: nqg train train.tsv -o models/mine --like scan --dev dev.tsv

    Little is lost to Ctrl-C or a kill: the same command goes on from what is in
    FOLDER.training. FOLDER is written, or replaced, when the model is complete.
    """
    _check(context.params)
    chosen = project_settings(context.params, before := earlier_model(context.params))
    fallback = FallbackOptions.chosen(chosen, gate=gate)
    if system is not None and fallback:
        train_baseline(context, chosen, fallback)
        return
    validation = CrossValidation.chosen(fold_count, hold_out or HeldOut.TEMPLATE.value, gate=gate)
    task = TrainingTask.read(context.params, chosen, before)
    run = TrainingRun.towards(output, task.device, save_every=save_every, use_cache=not no_cache, curves=tensorboard)
    context.with_resource(run.locked())
    context.with_resource(task.threads())
    with run.continued_later():
        training = run.trained(task := run.with_settings(task))
        pairs, known = task.as_typed(task.examples), training.model.grammar
        second = fallback.fine_tuned(pairs, task.device, run, grammar=known).seq2seq if fallback else None
        trials = validation.trials(task, run, training, fallback) if validation else []
    if run.processes.is_main:
        if trials:
            least = LEAST_PRECISION if least_precision is None else least_precision
            calibrator = fitted_calibrator(Parser(training.model), task.examples, trials, least)
            training.model = replace(training.model, calibrator=calibrator)
        training.model = task.with_rules_by_hand(training.model)
        write_more = fallback.writer(second, training.model, trials) if fallback and second else None
        _print_report(training, task, _save(training, task, output, dev, write_more), output, as_json)
        shutil.rmtree(run.folder)
        draw(plot, training.trainer.records, output)
    run.processes.close()


def _check(given: Mapping[str, Any]) -> None:
    """Refuse what cannot be written or makes no sense, before hours are spent."""
    output: Path = given["output"]
    check_picture(given["plot"])
    if given["system"] is not None:
        check_baseline(given)
    if not output.name:
        raise NqgError(f"{output}: expected a folder of the model's own, found the current one; choose another with -o")
    if output.exists() and not output.is_dir():
        raise NqgError(f"{output}: expected a folder to write the model to, found a file")
    if output.is_dir() and any(output.iterdir()) and not (output / "nqg.json").exists():
        raise NqgError(f"{output}: the folder is not empty and not a model folder; choose another with -o")


@dataclass(frozen=True, slots=True)
class FoldRecord:
    """What came of one fold, and the fingerprint of what it began with."""

    config: str
    trials: tuple[GateTrial, ...]


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How confidence is learned: for each fold a parser, and for a gate a fallback too, is trained without it."""

    folds: int | None  # None: as many as suit the number of examples
    kind: HeldOut

    @classmethod
    def chosen(cls, count: int | None, kind: str, *, gate: bool) -> CrossValidation | None:
        if kind not in HELD_OUT:
            raise typer.BadParameter(f"'{kind}' is none of {', '.join(HELD_OUT)}", param_hint="--hold-out")
        if count == 1 or (gate and count == 0):
            expected = "2 or more" if gate else "2 or more, or 0 for no confidence"
            raise typer.BadParameter(f"expected {expected}, found {count}", param_hint="--folds")
        return None if count == 0 else cls(count, HeldOut(kind))

    def trials(
        self, task: TrainingTask, run: TrainingRun, trained: ParserTraining, fallback: FallbackOptions | None
    ) -> list[GateTrial]:
        """What parts that were trained without a fold say of it, fold by fold; those done are in the run's folder."""
        seed, best = task.training.seed, trained.trainer.best
        chosen = sorted(random.Random(seed).sample(range(len(task.examples)), min(len(task.examples), MOST_EXAMPLES)))
        examples = [task.examples[number] for number in chosen]
        warm_up, has_text = task.training.warm_up_steps(task.model.encoder), bool(task.text.slots.free_text)
        made, rules = task.training.steps, task.rules
        if not has_text:  # which is learned from little, and must not be judged by rules that a fold gave rise to
            made, rules = trained.trainer.made, trained.model.grammar
        training = replace(task.training, steps=best.step if best else made, warm_up=warm_up)
        task = replace(task, examples=examples, dev=(), forests=None, training=training, rules=rules, seeds=())
        config = RunConfig.of(
            "folds",
            examples,
            task.model,
            task.training,
            rules=sha256(str(task.rules)),
            by_hand=sha256(str(task.by_hand)),
            target_grammar=sha256(str(task.target_grammar)),
            folds=str(self),
            fallback=str(fallback),
        ).fingerprint
        try:
            splits = folds(examples, self.kind, self.folds or (TEXT_FOLDS if has_text else None), seed=seed)
        except SettingsError as error:  # of examples too few, or too much alike
            if fallback and fallback.has_gate:
                raise
            err.print(f"no confidence can be learned: {error}")
            return []
        found: list[GateTrial] = []
        for number, split in enumerate(splits, start=1):
            label, folder = f"fold {number} of {len(splits)} · ", run.folder / f"fold-{number}"
            record = folder.with_suffix(".json")
            known = read_dataclass(FoldRecord, read_json(record), "the fold", record) if record.exists() else None
            if known is None or known.config != config:
                apart = replace(run, folder=folder, cache=None, curves=None, label=label)
                share = 1.0 if has_text else min(1.0, FOLD_STEPS / len(splits))
                known = FoldRecord(config, tuple(self._tried(task, apart, split, fallback, share)))
                if run.processes.is_main:
                    write_text(record, json.dumps(asdict(known)) + "\n")
                    shutil.rmtree(folder, ignore_errors=True)
            found += known.trials
        return found

    def _tried(
        self, task: TrainingTask, run: TrainingRun, split: Split, fallback: FallbackOptions | None, share: float
    ) -> list[GateTrial]:
        """What comes of one fold, with a `share` of the steps."""

        def shorter(settings: Brief) -> Brief:
            steps, warm_up = (round(share * each) for each in (settings.steps, settings.warm_up or 0))
            return replace(settings, steps=max(1, steps), warm_up=warm_up)

        grammars: list[Grammar] = []  # that of the fold's parser, which teaches its fallback

        def parser(examples: Sequence[Example]) -> System:
            if isinstance(task.rules, Grammar):
                rules: Grammar | InductionSettings = used_rules(task.rules, examples)
            else:  # a simpler search will do: rules that are a little worse make confidence no higher
                rules = replace(task.rules or InductionSettings.automatic(), returning=False)
            brief = replace(task, examples=examples, rules=rules, training=shorter(task.training))
            trained = run.trained(brief).model
            grammars.append(trained.grammar)
            return Parser(trained)

        def second(examples: Sequence[Example]) -> System:
            from nqg.seq2seq.legal_decoding import LegalSeq2seq

            assert fallback is not None, "asked for by a gate"
            brief = replace(fallback, training=shorter(fallback.training))
            learned = task.as_typed(examples)
            seq2seq = brief.fine_tuned(learned, task.device, run, grammar=grammars[-1]).seq2seq
            legal = task.target_grammar and with_values(task.target_grammar, task.text.slots.quotes)
            system: System = LegalSeq2seq(seq2seq, legal) if legal else seq2seq
            return TypedSystem(system, task.values) if task.values else system

        return fold_trials(task.examples, split, parser, second if fallback and fallback.has_gate else None)


def _save(
    training: ParserTraining,
    task: TrainingTask,
    output: Path,
    dev: Path | None,
    write_more: Callable[[Path], None] | None,
) -> Scores | None:
    """Write the model folder, with the records of all steps and the scores on the dev examples, if there are any."""
    parser, scores = Parser(training.model), None  # of tokens; the model that is saved takes raw text
    provenance = Provenance.of(task.examples, training.settings, (step.to_dict() for step in training.trainer.records))
    if isinstance(task.rules, InductionSettings):
        provenance = replace(provenance, induction=asdict(task.rules))
    if task.values is not None:
        provenance = replace(provenance, sentences=tuple(task.values.as_typed(provenance.sentences)))
    if dev:
        answers = parser.answers(example.source for example in task.dev)
        scores = score([answer.target for answer in answers], [example.target for example in task.dev])
        shares = {"accuracy": scores.accuracy, "coverage": scores.coverage, "precision": scores.precision}
        provenance = replace(provenance, measurements=(Measurement(DataFingerprint.of(task.dev, dev.name), shares),))
    model = replace(training.model, text=task.text, sql=task.sql)
    if task.values is not None:
        model = replace(model, grammar=replace(model.grammar, slots=task.text.slots))
    Parser(model).save(output, provenance=provenance, also=write_more)
    return scores


def _print_report(
    training: ParserTraining, task: TrainingTask, scores: Scores | None, output: Path, as_json: bool
) -> None:
    records, best, calibrator = training.trainer.records, training.trainer.best, training.model.calibrator
    values: dict[str, Any] = {
        "rules": len(training.model.grammar),
        "examples": len(training.data),
        "left_out": len(distinct(task.examples)) - len(training.data),
        "steps": len(records),
        "loss": records[-1].loss,
        "best_step": best.step if best else None,
        "dev": scores.to_dict() if scores else None,
        "held_out": {"answers": calibrator.trials, "right": calibrator.right} if calibrator else None,
        "folder": str(output),
    }
    if as_json:
        out.print_json(data=values)
        return
    repeated = len(task.examples) - len(distinct(task.examples))
    shown = [counted(values[f"{name}s"], name) for name in ("example", "rule", "step")]
    shown[0] += f" (without {repeated:,} repeated)" if repeated else ""
    out.print(f"{', '.join(shown)}, loss {values['loss']:.4f} in the last")
    if values["left_out"]:
        reason = "no derivation yields their program; `nqg evaluate` with --breakdown on the training file shows which"
        err.print(f"warning: nothing was learned from {counted(values['left_out'], 'example')}: {reason}")
    if scores:
        out.print(f"{scores.examples:,} dev examples, best after step {values['best_step']:,}: {scores}")
    if calibrator:
        out.print(str(calibrator))
        if calibrator.trials >= FEWEST_TO_JUDGE and not calibrator.right:
            err.print(NONE_RIGHT)
