"""The scorer in NumPy against the one in torch, which has trained the weights."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from conftest import PROJECT
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model import checkpoint
from nqg.model.checkpoint import read_weights
from nqg.model.encoder import Bert, new_encoder
from nqg.model.numpy_scorer import NumpyScorer, erf, scorer_shapes
from nqg.model.scorer import Scorer, module_shapes, read_scorer
from nqg.model.settings import EncoderSettings, ModelSettings
from nqg.model.subwords import tokenize
from scoring import score_table

MODELS = PROJECT / "tests" / "models"
GRAMMAR = Grammar.parse(
    "jump ### J\nwalk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2"
)
WORDS = ("jump", "walk", "twice", "and")
SENTENCES = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(tuple),
    min_size=1,
    max_size=4,
)


def random_scorer(
    seed: int, layers: int, neighbours: bool, longest: int | None
) -> tuple[Scorer, ModelSettings]:
    """A scorer with weights so large that all parts of the formula matter."""
    torch.manual_seed(seed)
    settings = ModelSettings(
        dimension=6, embedded=EncoderSettings(hidden_size=8, layers=layers, heads=2)
    )
    encoder, _ = new_encoder(settings, [WORDS], neighbours=neighbours, longest=longest)
    scorer = Scorer(encoder, len(GRAMMAR), settings.dimension)
    with torch.no_grad():
        for weight in scorer.parameters():
            weight.normal_(std=0.5)
    return scorer, settings


@given(
    SENTENCES,
    st.integers(0, 99),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_scores_are_those_of_torch(
    sentences: list[tuple[str, ...]],
    seed: int,
    layers: int,
    neighbours: bool,
    longest: int | None,
) -> None:
    scorer, settings = random_scorer(seed, layers, neighbours, longest)
    _, tokenizer = new_encoder(settings, [WORDS])
    full = charts(GRAMMAR, sentences, prune=False)
    subwords = tokenize(tokenizer, sentences)
    charted = np.flatnonzero(np.diff(full.first_node)).tolist()
    if not charted:
        return
    full = full.select(charted)
    subwords = [subwords[number] for number in charted]
    in_numpy = scorer.for_inference(settings)
    assert isinstance(in_numpy, NumpyScorer)
    ours = score_table(in_numpy, subwords, full)
    theirs = score_table(scorer, subwords, full)
    np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=2e-6)


def test_the_shapes_of_weights_are_those_of_torch() -> None:
    for neighbours in (False, True):
        scorer, settings = random_scorer(0, 2, neighbours, None)
        assert isinstance(scorer.encoder, Bert)
        shapes = scorer_shapes(scorer.encoder.config, len(GRAMMAR), settings.dimension)
        assert shapes == module_shapes(scorer)


def test_the_error_function_is_exact_to_seven_digits() -> None:
    values = np.linspace(-6, 6, 10_001, dtype=np.float32)
    exact = np.array([math.erf(value) for value in values])
    assert np.abs(erf(values) - exact).max() < 5e-7


@pytest.mark.parametrize("name", ["v4", "v4-whole", "v4-sql"])
def test_stored_models_answer_as_with_torch(name: str) -> None:
    folder = MODELS / name
    parser = Parser.load(folder)
    model = parser.model
    torch_scorer = read_scorer(folder, len(model.trained_rules), model.settings, "cpu")
    with_torch = Parser(replace(model, scorer=torch_scorer))
    sentences = model.provenance.sentences or ("run twice", "jump")
    for sentence in sentences:
        one, other = parser.parse(sentence), with_torch.parse(sentence)
        assert one.target == other.target
        if one.reading and other.reading:
            assert one.reading.derivation == other.reading.derivation
            assert one.probability == pytest.approx(other.probability, abs=1e-5)


def test_weights_are_read_in_any_precision(tmp_path: Path) -> None:
    values = torch.tensor([[1.5, -2.0], [0.25, 3.0]])
    weights = {
        "half": values.half(),
        "brain": values.bfloat16(),
        "double": values.double(),
    }
    save_file(weights, tmp_path / "weights.safetensors")
    for weight in read_weights(tmp_path / "weights.safetensors").values():
        assert weight.dtype == np.float32
        np.testing.assert_array_equal(weight, values.numpy())


def test_without_torch_every_bert_is_read_in_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Parser.load(MODELS / "v4").model
    published = replace(model.settings, encoder="google/bert_uncased_L-2_H-128_A-2")
    Parser(replace(model, settings=published)).save(tmp_path / "model")
    in_torch = Parser.load(tmp_path / "model", "cpu")
    assert isinstance(in_torch.model.scorer, Scorer)
    monkeypatch.setattr(checkpoint, "find_spec", lambda _: None)
    in_numpy = Parser.load(tmp_path / "model")
    assert isinstance(in_numpy.model.scorer, NumpyScorer)
    for sentence in ("run twice", "jump", "walk twice"):
        ours, theirs = in_numpy.parse(sentence), in_torch.parse(sentence)
        assert ours.target == theirs.target
        assert ours.probability == pytest.approx(theirs.probability, abs=1e-5)
