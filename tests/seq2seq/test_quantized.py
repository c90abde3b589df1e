"""A fallback on CPUs by CTranslate2: the answers of PyTorch within rounding, legal ones, and when it is not used."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nqg.answers import exact_match
from nqg.data.example import Example
from nqg.seq2seq import quantized
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.quantized import QuantizedSeq2seq, convert
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from nqg.types.target_grammar import TargetGrammar

VERBS, OBJECTS = (
    ("open", "close", "lock", "find"),
    ("door", "window", "gate", "box", "safe"),
)
EXAMPLES = [
    Example(f"{verb} the {thing}", f"{verb} ( {thing} )")
    for verb in VERBS
    for thing in OBJECTS
]
SMALL = Seq2seqSettings(
    embedded=SmallT5Settings(width=32, layers=1, heads=2, dropout=0.0), longest_target=8
)
BRIEF = FineTuningSettings(steps=120, batch_size=20, learning_rate=0.01)
SENTENCES = [example.source for example in EXAMPLES]


@pytest.fixture(autouse=True)
def _cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("NQG_FAST", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = tmp_path_factory.mktemp("seq2seq") / "model"
    Seq2seq.train(EXAMPLES, SMALL, BRIEF, device="cpu").save(saved)
    return saved


def load(folder: Path, grammar: TargetGrammar | None = None) -> QuantizedSeq2seq:
    found = QuantizedSeq2seq.load(Seq2seq.load(folder, "cpu"), folder, grammar)
    assert found is not None
    return found


def test_eight_bits_answer_like_floats_with_about_the_same_probability(
    folder: Path,
) -> None:
    fast = load(folder)
    answers, slow = fast.answers(SENTENCES), fast.seq2seq.answers(SENTENCES)
    right = [
        sum(map(exact_match, targets, (each.target for each in EXAMPLES)))
        for targets in (
            [answer.target for answer in answers],
            [answer.target for answer in slow],
        )
    ]
    assert right[0] == right[1] >= 18
    for one, other in zip(answers, slow, strict=True):
        assert (one.source, one.system) == (other.source, other.system)
        if one.target == other.target:
            assert one.probability == pytest.approx(other.probability, abs=0.2)
    assert not fast.answers([])


def test_a_head_of_its_own_that_is_not_scaled_gives_the_same_losses(
    folder: Path,
) -> None:
    free = Seq2seq.load(folder, "cpu")
    free.model.config.scale_decoder_outputs = False  # as that of flan-t5
    with torch.no_grad():
        free.model.lm_head.weight = torch.nn.Parameter(
            free.model.lm_head.weight.clone() / math.sqrt(32)
        )
    free.save(folder.with_name("untied"))
    fast = load(folder.with_name("untied"))
    assert fast.seq2seq.model.config.scale_decoder_outputs is False
    pairs = [(EXAMPLES[3].source, EXAMPLES[3].target)]
    assert fast.log_probabilities(pairs) == pytest.approx(
        fast.seq2seq.log_probabilities(pairs), abs=0.5
    )


def test_candidates_and_their_scores_are_those_of_floats_within_rounding(
    folder: Path,
) -> None:
    fast = load(folder)
    free = fast.seq2seq.candidates(SENTENCES, 4)
    for sentence, ours, theirs in zip(
        SENTENCES, fast.candidates(SENTENCES, 4), free, strict=True
    ):
        targets = [answer.target or "" for answer in ours]
        assert 1 <= len(set(targets)) == len(targets) <= 4
        probabilities = [answer.probability or 0.0 for answer in ours]
        assert probabilities == sorted(probabilities, reverse=True)
        assert {targets[0]} <= {answer.target for answer in theirs}
        pairs = [(sentence, target) for target in targets]
        scores = fast.log_probabilities(pairs)
        assert probabilities == pytest.approx([*map(math.exp, scores)], abs=0.02)
        exact = [*map(math.exp, fast.seq2seq.log_probabilities(pairs))]
        assert probabilities == pytest.approx(exact, abs=0.2)
    assert fast.candidates([], 4) == []
    assert fast.log_probabilities([]) == []


def test_what_is_illegal_is_decoded_again_under_the_grammar(folder: Path) -> None:
    grammar = TargetGrammar.parse("<s> ::= close ( <o> )\n<o> ::= door | box")
    fast = load(folder, grammar)
    found = fast.answers(SENTENCES)
    assert [each.target for each in found] == [
        each.target for each in LegalSeq2seq(fast.seq2seq, grammar).answers(SENTENCES)
    ]
    assert all(
        each.target is None or grammar.accepts(each.target.split()) for each in found
    )
    for candidates in fast.candidates(SENTENCES, 3):
        assert candidates
        for answer in candidates:
            assert answer.target
            assert grammar.accepts(answer.target.split())


def test_a_folder_is_converted_once_and_few_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantized, "MAX_CONVERTED", 2)
    free = Seq2seq.load(folder, "cpu")
    first = convert(free, "a")
    before = (first / "model.bin").stat().st_ino
    assert convert(free, "a") == first
    assert (first / "model.bin").stat().st_ino == before
    for name in ("b", "c"):
        convert(free, name)
    assert sorted(path.name for path in first.parent.iterdir()) == ["b", "c"]


def test_what_another_process_writes_or_removes_is_let_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = Seq2seq.load(folder, "cpu")
    home = convert(free, "a").parent
    (home / ".x.1234.part").mkdir()
    (home / "gone").symlink_to("nowhere")  # whose age nobody can tell
    monkeypatch.setattr(quantized, "MAX_CONVERTED", 1)
    assert convert(free, "b").is_dir()
    (home / "gone").unlink()
    assert convert(free, "c").is_dir()
    assert sorted(path.name for path in home.iterdir()) == [".x.1234.part", "c"]


def test_where_it_cannot_or_disagrees_pytorch_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = Seq2seq.load(folder, "cpu")
    assert (
        QuantizedSeq2seq.load(
            replace(free, settings=replace(SMALL, model="cgps")), folder
        )
        is None
    )
    monkeypatch.setenv("NQG_FAST", "0")
    assert QuantizedSeq2seq.load(free, folder) is None
    monkeypatch.delenv("NQG_FAST")
    monkeypatch.setattr(QuantizedSeq2seq, "log_probabilities", lambda *_: [-999.0])
    assert QuantizedSeq2seq.load(free, folder) is None
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert QuantizedSeq2seq.load(free, folder) is None
