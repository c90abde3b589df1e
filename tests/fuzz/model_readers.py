"""Readers that need PyTorch: the files of model folders and the states of trainings.

A folder's checksums would hide what is behind them, so damaged files are *sealed*: the index vouches for them, as that
of a hostile folder would. `model, unsealed` leaves the checksums as they were.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz.readers import Reader
from fuzz.seeds import EXAMPLES
from nqg.grammar.grammar import Grammar
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.model_folder import INDEX
from nqg.pipeline.parser import fit_parser
from nqg.preprocessing.training_text import fit_text
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from nqg.training.parser_training import ParserTraining
from nqg.types.target_grammar import TargetGrammar

GRAMMAR = Grammar.parse("jump ### J\nrun ### R\nNT_1 twice ### NT_1 NT_1")
LEGAL = TargetGrammar.parse("<q> ::= J | R | J J | R R")
TINY = ModelSettings(
    dimension=4, embedded=EncoderSettings(hidden_size=4, layers=1, heads=1, longest=8)
)
BRIEF = TrainingSettings(steps=2, batch_size=2)
TINY_T5 = Seq2seqSettings(
    longest_target=2, embedded=SmallT5Settings(width=4, layers=1, heads=1)
)

MODEL_FILES = (
    INDEX,
    "grammar.txt",
    "target.grammar",
    "config.json",
    "tokenizer.json",
    "text.json",
)
SEQ2SEQ_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
WEIGHTS, RECORDS, RULES, STATE = (
    "model.safetensors",
    "training.jsonl",
    "rules.txt",
    "state.safetensors",
)


def write_model(folder: Path) -> None:
    """A small parser as a model folder."""

    text = fit_text(EXAMPLES)
    parser = fit_parser(
        GRAMMAR,
        EXAMPLES,
        target_grammar=LEGAL,
        model=TINY,
        training=BRIEF,
        device="cpu",
        text=text,
    )
    parser.save(folder / "model")


def write_model_with_rules(folder: Path) -> None:
    """The same with rules by hand."""
    from nqg.inference.parser import Parser

    write_model(folder)
    Parser.load(folder / "model", "cpu").with_rules(
        ["run run ### R R", "dash ### R"]
    ).save(folder / "model")


def write_seq2seq(folder: Path) -> None:
    """A small fine-tuned model as a folder."""
    from nqg.seq2seq.seq2seq import Seq2seq

    training = FineTuningSettings(steps=1, batch_size=2)
    Seq2seq.train(EXAMPLES, TINY_T5, training, device="cpu").save(folder / "model")


@cache
def _training() -> Any:
    from nqg.inference.parser import Parser

    return ParserTraining(
        GRAMMAR, EXAMPLES, Parser, model=TINY, training=BRIEF, device="cpu"
    )


@cache
def _fine_tuning() -> Any:
    from nqg.seq2seq.fine_tuning import FineTuning

    return FineTuning(
        EXAMPLES, TINY_T5, FineTuningSettings(steps=1, batch_size=2), device="cpu"
    )


def write_state(folder: Path) -> None:
    """The state of a training after its first step."""
    next(_training().steps(folder / STATE, 1))


def write_fine_tuning_state(folder: Path) -> None:
    """The state of a fine-tuning at its end."""
    list(_fine_tuning().steps(folder / STATE))


@cache
def _seed(write: Callable[[Path], None], file: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return (Path(folder) / file).read_bytes()


def _load_model(path: Path) -> object:
    from nqg.inference.parser import Parser

    return [
        parse.target
        for parse in Parser.load(path.parent, "cpu").answers(["jump twice", "fly"])
    ]


@cache
def _parser() -> Any:

    return fit_parser(
        GRAMMAR,
        EXAMPLES,
        target_grammar=LEGAL,
        model=TINY,
        training=BRIEF,
        device="cpu",
    )


def _add_rules(path: Path) -> object:
    from nqg.inference.rules_by_hand import read_rules, with_rules

    model = _parser().model
    rules = read_rules(path, model.text)
    return with_rules(model, rules, rules).grammar.typing


def _load_seq2seq(path: Path) -> Any:
    """A fallback, which was asked for the first piece of a target already."""
    from nqg.seq2seq.seq2seq import Seq2seq

    return Seq2seq.load(path.parent, "cpu")


def _ask_seq2seq(path: Path) -> object:
    return _load_seq2seq(path).predict(["jump twice"])


def _sealed(load: Callable[[Path], object], path: Path) -> object:
    if path.name != INDEX:
        index = json.loads((path.parent / INDEX).read_text())
        index["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        (path.parent / INDEX).write_text(json.dumps(index))
    return load(path)


def _restore(path: Path) -> None:
    from nqg.training.resume import restore

    restore(path, _training().trainer)


def _restore_fine_tuning(path: Path) -> None:
    from nqg.training.resume import restore

    restore(path, _fine_tuning().trainer)


def _header(raw: bytes) -> bytes:
    """The JSON in front of the tensors of a safetensors file."""
    (size,) = struct.unpack("<Q", raw[:8])
    return raw[8 : 8 + size]


def _with_header(
    read: Callable[[Path], object], write: Callable[[Path], None], file: str, path: Path
) -> object:
    """Read a file whose header is what lies at `path`, its size right, before the tensors of a valid one."""
    header, valid = path.read_bytes(), _seed(write, file)
    path.write_bytes(
        struct.pack("<Q", len(header)) + header + valid[8 + len(_header(valid)) :]
    )
    return read(path)


def _of_folder(
    file: str,
    write: Callable[[Path], None],
    load: Callable[[Path], object],
    *,
    sealed: bool = True,
) -> Reader:
    read = partial(_sealed, load) if sealed else load
    return Reader(
        f"model/{file}", read, lambda: (_seed(write, f"model/{file}"),), write
    )


def _of_header(
    file: str, write: Callable[[Path], None], read: Callable[[Path], object]
) -> Reader:
    around = write if "/" in file else lambda folder: None
    return Reader(
        file,
        partial(_with_header, read, write, file),
        lambda: (_header(_seed(write, file)),),
        around,
    )


MODEL_READERS: Mapping[str, Reader] = {
    **{
        f"model/{file}": _of_folder(file, write_model, _load_model)
        for file in (*MODEL_FILES, WEIGHTS, RECORDS)
    },
    f"model/{RULES}": _of_folder(RULES, write_model_with_rules, _load_model),
    "rules by hand": Reader(
        "rules.txt", _add_rules, lambda: (b"# mine\nrun run ### R R\ndash ### R\n",)
    ),
    "model/weights header": _of_header(
        f"model/{WEIGHTS}", write_model, partial(_sealed, _load_model)
    ),
    "model, unsealed": _of_folder(
        "config.json", write_model, _load_model, sealed=False
    ),
    f"seq2seq/{INDEX}": _of_folder(
        INDEX, write_seq2seq, _ask_seq2seq
    ),  # which says how long a target may be
    **{
        f"seq2seq/{file}": _of_folder(file, write_seq2seq, _load_seq2seq)
        for file in (*SEQ2SEQ_FILES, WEIGHTS)
    },
    "seq2seq/weights header": _of_header(
        f"model/{WEIGHTS}", write_seq2seq, partial(_sealed, _load_seq2seq)
    ),
    "training state": Reader(STATE, _restore, lambda: (_seed(write_state, STATE),)),
    "training state header": _of_header(STATE, write_state, _restore),
    "fine-tuning state": Reader(
        STATE, _restore_fine_tuning, lambda: (_seed(write_fine_tuning_state, STATE),)
    ),
    "fine-tuning state header": _of_header(
        STATE, write_fine_tuning_state, _restore_fine_tuning
    ),
}
