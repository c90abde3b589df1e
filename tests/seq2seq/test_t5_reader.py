"""A saved T5 without torch: torch's answers in NumPy, and about the same by CTranslate2."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import T5Config as PublishedConfig
from transformers import T5ForConditionalGeneration

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import DamagedModel, FormatError, NqgError
from nqg.model_folder import INDEX
from nqg.seq2seq import quantized, t5_reader
from nqg.seq2seq.beam_search import beam_search, best_cells
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.numpy_t5 import DecoderCache, NumpyT5, T5Config, relative_buckets
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from nqg.seq2seq.t5_reader import T5Reader, load_reader
from nqg.types.target_grammar import TargetGrammar

VERBS = ("open", "close", "lock", "find")
OBJECTS = ("door", "window", "gate", "box", "safe")
EXAMPLES = [
    Example(f"{verb} the {thing}", f"{verb} ( {thing} )")
    for verb in VERBS
    for thing in OBJECTS
]
SMALL = Seq2seqSettings(
    embedded=SmallT5Settings(width=32, layers=2, heads=2, dropout=0.0), longest_target=8
)
BRIEF = FineTuningSettings(steps=60, batch_size=20, learning_rate=0.01)
SENTENCES = [example.source for example in EXAMPLES]
BOXES = TargetGrammar.parse("<s> ::= close ( <o> )\n<o> ::= door | box | box box")


@pytest.fixture(autouse=True)
def _cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = tmp_path_factory.mktemp("seq2seq") / "model"
    Seq2seq.train(EXAMPLES, SMALL, BRIEF, device="cpu").save(saved)
    return saved


@pytest.fixture(scope="module")
def in_torch(folder: Path) -> Seq2seq:
    return Seq2seq.load(folder, "cpu")


@pytest.fixture
def is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NQG_FAST")


def assert_same(ours: list[list[Answer]], theirs: list[list[Answer]]) -> None:
    """The same targets in the same order, with the same probabilities within float32."""
    for mine, expected in zip(ours, theirs, strict=True):
        for answer, reference in zip(mine, expected, strict=True):
            assert answer.source == reference.source
            assert answer.system == reference.system
            assert answer.target == reference.target
            assert answer.probability == pytest.approx(
                reference.probability, abs=1e-5, rel=1e-3
            )


def test_numpy_answers_as_torch_does(folder: Path, in_torch: Seq2seq) -> None:
    reader = T5Reader.load(folder)
    assert reader.translator is None
    ours, theirs = reader.answers(SENTENCES), in_torch.answers(SENTENCES)
    assert_same([[answer] for answer in ours], [[answer] for answer in theirs])
    for count in (1, 4):
        free = in_torch.candidates(SENTENCES, count)
        assert_same(reader.candidates(SENTENCES, count), free)
    pairs = [(example.source, example.target) for example in EXAMPLES]
    pairs += [("open the box", "lock ( safe )"), ("open the box", "open " * 20)]
    assert reader.log_probabilities(pairs) == pytest.approx(
        in_torch.log_probabilities(pairs), abs=1e-4
    )
    assert not reader.answers([])
    assert not reader.candidates([], 4)
    assert reader.log_probabilities([]) == []


@pytest.mark.parametrize("count", [1, 5])
def test_numpy_decodes_under_a_grammar_as_torch_does(
    folder: Path, in_torch: Seq2seq, count: int
) -> None:
    ours = LegalSeq2seq(T5Reader.load(folder), BOXES)
    theirs = LegalSeq2seq(in_torch, BOXES)
    assert_same(ours.candidates(SENTENCES, count), theirs.candidates(SENTENCES, count))
    answers = ours.answers(SENTENCES)
    assert [answer.target for answer in answers] == [
        answer.target for answer in theirs.answers(SENTENCES)
    ]
    assert all(BOXES.accepts((answer.target or "").split()) for answer in answers)


def test_a_target_counts_once_however_many_beams_find_it(in_torch: Seq2seq) -> None:
    legal = LegalSeq2seq(in_torch, TargetGrammar.parse("<s> ::= safe the | the"))
    for sentence, candidates in zip(SENTENCES, legal.candidates(SENTENCES, 5)):
        targets = [answer.target or "" for answer in candidates]
        assert sorted(targets) == ["safe the", "the"]
        logs = in_torch.log_probabilities([(sentence, target) for target in targets])
        probabilities = [answer.probability for answer in candidates]
        assert probabilities == pytest.approx(list(map(math.exp, logs)), rel=1e-3)


@pytest.mark.usefixtures("is_fast")
def test_floats_of_ctranslate2_are_those_of_torch(
    folder: Path, in_torch: Seq2seq
) -> None:
    reader = T5Reader.load(folder, quantization="float32")
    assert reader.translator is not None
    ours, theirs = reader.answers(SENTENCES), in_torch.answers(SENTENCES)
    assert_same([[answer] for answer in ours], [[answer] for answer in theirs])
    for mine, expected in zip(
        reader.candidates(SENTENCES, 4), in_torch.candidates(SENTENCES, 4)
    ):
        # The search of CTranslate2 ends earlier, and may find another spelling of a target.
        assert mine[0].target == expected[0].target
        assert mine[0].probability == pytest.approx(expected[0].probability, abs=0.01)
    pairs = [(example.source, example.target) for example in EXAMPLES]
    pairs += [("open the box", "lock ( safe )"), ("open the box", "open " * 20)]
    assert reader.log_probabilities(pairs) == pytest.approx(
        in_torch.log_probabilities(pairs), abs=1e-3
    )
    ours = LegalSeq2seq(reader, BOXES).answers(SENTENCES)
    theirs = LegalSeq2seq(in_torch, BOXES).answers(SENTENCES)
    assert_same([[answer] for answer in ours], [[answer] for answer in theirs])
    assert not reader.answers([])
    assert not reader.candidates([], 4)


@pytest.mark.usefixtures("is_fast")
def test_eight_bits_answer_like_floats_with_about_the_same_probability(
    folder: Path, in_torch: Seq2seq
) -> None:
    answers = T5Reader.load(folder).answers(SENTENCES)
    same = 0
    for answer, exact in zip(answers, in_torch.answers(SENTENCES), strict=True):
        if answer.target == exact.target:
            same += 1
            assert answer.probability == pytest.approx(exact.probability, abs=0.2)
    assert same >= 18


def published(tmp_path: Path, **changes: Any) -> tuple[Any, NumpyT5]:
    """A T5 of some kind with random weights, in torch and in NumPy."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2}
    config = PublishedConfig(
        **{**sizes, "num_heads": 2, "decoder_start_token_id": 0, **changes}
    )
    model: Any = T5ForConditionalGeneration(config).eval()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_(0, 0.3)
    model.save_pretrained(tmp_path)
    read = T5Config.read(tmp_path)
    assert read is not None
    return model, NumpyT5(read, sorted(tmp_path.glob("*.safetensors")))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {"num_decoder_layers": 3, "relative_attention_max_distance": 20},
    ],
)
def test_every_kind_of_t5_has_the_logits_of_torch(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    model, in_numpy = published(tmp_path, **changes)
    rng = np.random.default_rng(0)
    source = rng.integers(2, 30, size=60)
    target = np.concatenate([[0], rng.integers(2, 30, size=(50))])[None]
    with torch.inference_mode():
        expected = model(
            input_ids=torch.from_numpy(source)[None],
            decoder_input_ids=torch.from_numpy(target),
        ).logits.numpy()
    encoded = in_numpy.encode(source.tolist())
    whole, _ = in_numpy.decode(target, encoded, DecoderCache())
    assert whole == pytest.approx(expected, abs=1e-4)
    # In two parts the logits are the same.
    _, state = in_numpy.decode(target[:, :20], encoded, DecoderCache())
    rest, _ = in_numpy.decode(target[:, 20:], encoded, state)
    assert rest == pytest.approx(expected[:, 20:], abs=1e-4)


@pytest.mark.parametrize(
    "changes", [{}, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}]
)
@pytest.mark.usefixtures("is_fast")
def test_every_kind_of_t5_is_converted(tmp_path: Path, changes: dict[str, Any]) -> None:
    _, model = published(tmp_path, **changes)
    translator = quantized.load_translator(model, "random", quantization="float32")
    assert translator is not None
    source, target = [5, 9, 3, 1], [7, 7, 12, 1]
    (scored,) = translator.score_batch(
        [quantized.as_tokens(source)], [quantized.as_tokens(target[:-1])]
    )
    exact = model.log_probabilities(model.encode(source), target)
    assert scored.log_probs == pytest.approx(exact.tolist(), abs=1e-4)


@pytest.mark.parametrize("beams", [1, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_the_beam_search_is_that_of_transformers(
    tmp_path: Path, beams: int, seed: int
) -> None:
    model, in_numpy = published(tmp_path)
    source = np.random.default_rng(seed).integers(2, 30, size=6)
    with torch.inference_mode():
        rows = model.generate(
            input_ids=torch.from_numpy(source)[None],
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=12,
            do_sample=False,
            **({"length_penalty": 0.0} if beams > 1 else {}),
        )
    # A row ends with its first end, or with its last subword.
    expected = [[*row, 1] for row in rows[:, 1:].tolist()]
    expected = [row[: row.index(1) + 1][:12] for row in expected]
    encoded = in_numpy.encode(source.tolist())
    searched = beam_search(in_numpy, encoded, beams=beams, longest=12)
    assert [list(hypothesis.subwords[1:]) for hypothesis in searched] == expected
    for hypothesis in searched:
        logs = in_numpy.log_probabilities(encoded, hypothesis.subwords[1:])
        assert hypothesis.score == pytest.approx(float(logs.sum()), abs=1e-4)


@given(st.lists(st.integers(-300, 300), min_size=1), st.booleans())
def test_distances_fall_into_the_buckets_of_transformers(
    distances: list[int], both_ways: bool
) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    expected = T5Attention._relative_position_bucket(  # type: ignore[no-untyped-call]
        torch.tensor(distances), bidirectional=both_ways
    )
    ours = relative_buckets(np.array(distances), 32, 128, both_ways=both_ways)
    assert ours.tolist() == expected.tolist()


@given(
    st.lists(
        st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5]), min_size=3, max_size=3),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 12),
)
def test_the_best_cells_are_the_first_of_all_sorted(
    rows: list[list[float]], count: int
) -> None:
    cells = []
    for number, row in enumerate(rows):
        cells += [(number, column) for column in range(3) if row[column] > -math.inf]
    cells.sort(key=lambda cell: -rows[cell[0]][cell[1]])
    assert best_cells(np.array(rows), count) == cells[:count]


def test_which_reader_is_loaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(load_reader(folder, "cpu"), Seq2seq)
    monkeypatch.delenv("NQG_FAST")
    assert isinstance(load_reader(folder, "cpu"), T5Reader)
    monkeypatch.setattr(quantized, "MAX_LOSS_DIFFERENCE", 0.0)
    other = tmp_path / "other"
    Seq2seq.train(EXAMPLES[:2], SMALL, replace(BRIEF, steps=1), device="cpu").save(
        other
    )
    rounded = load_reader(other, "cpu")
    assert isinstance(rounded, T5Reader)
    assert rounded.translator is None  # eight bits are never exact
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert isinstance(load_reader(folder, "cpu"), Seq2seq)
    monkeypatch.setattr(t5_reader, "find_spec", lambda _: None)
    assert isinstance(load_reader(folder, "cpu"), T5Reader)


def test_models_that_are_no_t5_are_refused(folder: Path) -> None:
    assert t5_reader.t5_config(folder, replace(SMALL, model="cgps")) is None
    config = json.loads((folder / "config.json").read_text())
    for changes in (
        {"model_type": "bart"},
        {"feed_forward_proj": "gated-silu"},
        {"eos_token_id": [1, 2]},
        {"num_heads": None},
    ):
        other = folder.with_name("other")
        other.mkdir(exist_ok=True)
        altered = {**config, **changes}
        kept = {name: value for name, value in altered.items() if value is not None}
        (other / "config.json").write_text(json.dumps(kept))
        assert T5Config.read(other) is None


def test_a_saved_reader_is_the_folder_it_came_from(
    folder: Path, tmp_path: Path
) -> None:
    reader = T5Reader.load(folder)
    reader.save(tmp_path / "copy")
    copy = T5Reader.load(tmp_path / "copy")
    assert copy.answers(SENTENCES) == reader.answers(SENTENCES)
    (tmp_path / "copy" / INDEX).write_text("{}")
    with pytest.raises(NqgError, match=r"was changed or removed .*; load it again"):
        copy.save(tmp_path / "third")


def test_damaged_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    model = Seq2seq.load(folder, "cpu")
    with torch.no_grad():
        model.model.shared.weight[3, 3] = torch.nan
    model.save(tmp_path / "nan")
    with pytest.raises(FormatError, match=r"the weights '.*' are not all numbers"):
        T5Reader.load(tmp_path / "nan")
    with torch.no_grad():
        model.model.shared.weight[3, 3] = 1e3
        model.model.decoder.final_layer_norm.weight[:] = 3e38
    model.save(tmp_path / "large")
    with pytest.raises(DamagedModel, match="logits that are not numbers"):
        T5Reader.load(tmp_path / "large")


@pytest.mark.usefixtures("is_fast")
def test_a_model_is_converted_once_and_few_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantized, "MAX_CONVERTED", 2)
    model = T5Reader.load(folder).model
    first = quantized.converted(model, "a", "int8")
    before = (first / "model.bin").stat().st_ino
    assert quantized.converted(model, "a", "int8") == first
    assert (first / "model.bin").stat().st_ino == before
    home = first.parent
    (home / ".x.1234.part").mkdir()
    (home / "gone").symlink_to("nowhere")  # whose age nobody can tell
    quantized.converted(model, "b", "int8")
    (home / "gone").unlink()
    quantized.converted(model, "c", "int8")
    names = sorted(path.name for path in home.iterdir())
    assert names == [".x.1234.part", "b-int8", "c-int8"]


def test_reading_loads_neither_torch_nor_transformers(folder: Path) -> None:
    program = (
        "import sys; sys.modules.update(torch=None, transformers=None)\n"
        "from nqg.seq2seq.t5_reader import load_reader; from pathlib import Path\n"
        f"print(load_reader(Path({str(folder)!r})).answers(['open the box'])[0].target)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    expected = T5Reader.load(folder).answers(["open the box"])[0].target
    assert shown.stdout.strip() == expected
