"""Learning from examples and forests on disk makes the steps of learning from memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nqg.data.examples import Example, MappedExamples, write_examples
from nqg.data.scan import scan_examples
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model import forests as folder_module
from nqg.model.forest_crf import StreamedData
from nqg.model.forests import ForestFolder, build_folder
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.model.subwords import word_tokenizer
from nqg.training.parser_training import ParserTraining

GRAMMAR = Grammar.parse(
    "walk ### I_WALK\nrun ### I_RUN\nlook ### I_LOOK\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2\n"
    "NT_1 after NT_2 ### NT_2 NT_1\nNT_1 left ### I_TURN_LEFT NT_1\nwalk ### I_RUN"
)
EXAMPLES = [example for example in scan_examples() if len(example.source_tokens) <= 4][:120]
MODEL = ModelSettings(dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=12))
SETTINGS = TrainingSettings(steps=6, batch_size=16, warm_up=2, learning_rate=0.01)


@pytest.fixture
def mapped(tmp_path: Path) -> MappedExamples:
    write_examples(tmp_path / "train.tsv", EXAMPLES)
    return MappedExamples.of(tmp_path / "train.tsv")


@pytest.fixture
def forests(tmp_path: Path, mapped: MappedExamples, monkeypatch: pytest.MonkeyPatch) -> ForestFolder:
    monkeypatch.setattr(folder_module, "PAIRS", 32)
    assert list(build_folder(tmp_path / "forests", GRAMMAR, mapped))[-1] == len(EXAMPLES)
    return ForestFolder.open(tmp_path / "forests")


def fitted(examples: MappedExamples | list[Example], forests: ForestFolder | None) -> ParserTraining:
    return Parser.training(GRAMMAR, examples, forests=forests, model=MODEL, training=SETTINGS, device="cpu")


def test_the_steps_and_the_weights_are_those_of_memory(mapped: MappedExamples, forests: ForestFolder) -> None:
    ours, theirs = fitted(mapped, forests), fitted(EXAMPLES, None)
    assert len(ours.data) == len(theirs.data) < len(EXAMPLES)
    assert ours.trainer.config == theirs.trainer.config
    for one, other in zip(ours.steps(), theirs.steps(), strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
    for name, tensor in theirs.model.scorer.state_dict().items():
        torch.testing.assert_close(ours.model.scorer.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_batch_holds_its_own_examples_alone(mapped: MappedExamples, forests: ForestFolder) -> None:
    data = fitted(mapped, forests).data
    rows, batch = data.rows([20, 2])
    assert (len(rows), list(batch)) == (2, [0, 1])
    whole, same = fitted(EXAMPLES, None).data.rows([20, 2])
    assert (len(whole), same) == (len(data), [20, 2])
    assert rows.sentences == tuple(whole.sentences[number] for number in (20, 2))


def test_a_sentence_too_long_for_the_encoder_is_refused_when_its_batch_comes(
    mapped: MappedExamples, forests: ForestFolder
) -> None:
    tokenizer = fitted(EXAMPLES, None).model.tokenizer
    data = StreamedData.of(GRAMMAR, mapped, forests, tokenizer, longest=4)
    data.rows([0])
    with pytest.raises(NqgError, match="the encoder reads at most 4"):
        data.rows(range(len(data)))


def test_forests_of_other_examples_are_refused(mapped: MappedExamples, forests: ForestFolder) -> None:
    with pytest.raises(NqgError, match="there are 7 examples but forests of 120; expected as many"):
        StreamedData.of(GRAMMAR, EXAMPLES[:7], forests, word_tokenizer([]), 9)


def test_where_nothing_is_derivable_there_is_nothing_to_learn_from(tmp_path: Path) -> None:
    examples = [Example("hop", "HOP")]
    list(build_folder(tmp_path, GRAMMAR, examples))
    with pytest.raises(NqgError, match="there is nothing to learn from"):
        StreamedData.of(GRAMMAR, examples, ForestFolder.open(tmp_path), word_tokenizer([]), 9)
