"""Baselines with two streams: batches against one sentence at a time, what a token may depend on, learning, folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
from transformers import GenerationConfig, LogitsProcessorList

from nqg.data.example import Example
from nqg.errors import FormatError, SettingsError
from nqg.paper.baselines import (
    BASELINES,
    TwoStreamConfig,
    TwoStreams,
    TwoStreamSettings,
    reverse_padded,
)
from nqg.seq2seq.batches import SubwordCorpus, SubwordPair
from nqg.seq2seq.cuda_graphs import CrossEntropy
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, LoraSettings, Seq2seqSettings

WORDS = 9
SIZES = TwoStreamSettings(semantic=3, syntactic=4, units=5)
SENTENCES = st.lists(
    st.lists(st.integers(2, WORDS - 1), min_size=1, max_size=5), min_size=1, max_size=4
)
BRIEF = FineTuningSettings(
    60, 8, optimizer="adamw", learning_rate=0.02, precision="float32"
)
EXAMPLES = [
    *(
        Example(f"{word} twice", f"{word.upper()} {word.upper()}")
        for word in ("walk", "run", "look")
    ),
    *(Example(word, word.upper()) for word in ("walk", "run", "look", "jump")),
]


def new(sizes: TwoStreamSettings = SIZES, seed: int = 0) -> TwoStreams:
    torch.manual_seed(seed)
    return TwoStreams(TwoStreamConfig(WORDS, sizes)).eval()


def padded(sentences: list[list[int]]) -> tuple[Tensor, Tensor]:
    rows = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(each) for each in sentences], batch_first=True
    )
    return rows, (rows > 0).long()


def one_at_a_time(model: TwoStreams, sentence: list[int], steps: int) -> Tensor:
    """The logits of one sentence by the equations, word by word and without padding: (steps, words)."""
    words = torch.tensor(sentence)
    syntactic, semantic = model.syntactic(words), model.semantic(words)
    ahead, behind = model.forwards(syntactic)[0], model.backwards(syntactic.flip(0))[0]
    syntax = [
        torch.cat([one, other])
        for one, other in zip(ahead, behind.flip(0), strict=True)
    ]
    hidden, cell = torch.tanh(model.start(torch.cat([ahead[-1], behind[-1]]))).chunk(2)
    context, found = syntax[0], []
    for _ in range(steps):
        hidden, cell = model.decoder(context, (hidden, cell))
        powers = [torch.exp(hidden @ each) for each in syntax]
        shares = [power / sum(powers) for power in powers]
        context = torch.stack(
            [share * each for share, each in zip(shares, syntax, strict=True)]
        ).sum(0)
        seen = torch.stack(
            [share * each for share, each in zip(shares, semantic, strict=True)]
        ).sum(0)
        found.append(model.output(seen))
    return torch.stack(found)


@given(SENTENCES, st.integers(1, 4))
def test_a_batch_has_the_logits_and_gradients_of_one_sentence_at_a_time(
    sentences: list[list[int]], steps: int
) -> None:
    model, (words, mask) = new(), padded(sentences)

    def gradients(logits: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(
            logits.log_softmax(-1)[..., 2].sum(), list(model.parameters())
        )

    batch = model(
        words, mask, torch.zeros(len(sentences), steps, dtype=torch.long)
    ).logits
    alone = torch.stack([one_at_a_time(model, each, steps) for each in sentences])
    torch.testing.assert_close(batch, alone)
    torch.testing.assert_close(gradients(batch), gradients(alone))


@given(SENTENCES)
def test_rows_are_turned_as_a_packed_sequence_is(sentences: list[list[int]]) -> None:
    words, mask = padded(sentences)
    rows = words.unsqueeze(2).float()
    lstm = torch.nn.LSTM(1, 2, batch_first=True, bidirectional=True)
    behind = torch.nn.LSTM(1, 2, batch_first=True)
    behind.load_state_dict(
        {
            name.removesuffix("_reverse"): each
            for name, each in lstm.state_dict().items()
            if name.endswith("_reverse")
        }
    )
    packed = pack_sequence(
        [torch.tensor(each).float().unsqueeze(1) for each in sentences],
        enforce_sorted=False,
    )
    expected, lengths = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    found = reverse_padded(
        behind(reverse_padded(rows, lengths))[0], lengths
    ) * mask.unsqueeze(2)
    torch.testing.assert_close(found, expected[..., 2:])


def test_a_token_depends_on_the_semantics_of_what_is_looked_at_and_not_on_what_was_written() -> (
    None
):
    model, (words, mask) = new(), padded([[2, 3, 4]])
    written = [torch.full((1, 3), number) for number in (0, 7)]
    assert torch.equal(*(model(words, mask, each).logits for each in written))
    before = model.encode(words, mask)[0].syntax.clone()
    with torch.no_grad():
        model.semantic.weight[3] += 1
    assert torch.equal(
        model.encode(words, mask)[0].syntax, before
    )  # so attention is the same


def test_the_noise_and_the_penalty_are_those_of_the_settings_and_rest_when_it_answers() -> (
    None
):
    settings, (words, mask) = (
        replace(SIZES, noise=0.5, penalty=0.25),
        padded([[2, 3], [4]]),
    )
    model = new(settings)
    inputs = torch.zeros(2, 2, dtype=torch.long)
    quiet = model(words, mask, inputs)
    embedded = [
        each.weight[words[mask == 1]] for each in (model.semantic, model.syntactic)
    ]
    expected = 0.25 * sum(each.square().sum() for each in embedded)
    torch.testing.assert_close(quiet.penalty, expected)
    assert torch.equal(model(words, mask, inputs).logits, quiet.logits)
    model.train()
    assert not torch.equal(model(words, mask, inputs).logits, quiet.logits)
    torch.manual_seed(0)
    noise = model.disturbed(torch.zeros(20_000))
    assert noise.std().item() == pytest.approx(0.5, rel=0.05)
    assert {
        *new(replace(SIZES, dropout=0.5)).train().disturbed(torch.ones(1000)).tolist()
    } == {
        0.0,
        2.0,
    }


def test_the_penalty_is_part_of_the_loss() -> None:
    model = new(replace(SIZES, penalty=0.25))
    batch = SubwordCorpus(
        [SubwordPair((2, 3, 1), (4, 1))], 0, 0, torch.device("cpu")
    ).collate([0])
    loss = CrossEntropy(model, "float32", 0.0).backward(batch, torch.tensor(2.0))
    found = model(batch.sources, batch.mask, batch.inputs)
    logs = found.logits[0].log_softmax(-1)
    assert loss.item() == pytest.approx(
        (-(logs[0, 4] + logs[1, 1]) + found.penalty).item() / 2
    )
    assert found.penalty.item() > 0


@given(SENTENCES)
def test_what_is_written_is_the_likeliest_token_of_every_step_until_the_end(
    sentences: list[list[int]],
) -> None:
    model, (words, mask) = new(seed=3), padded(sentences)
    config = GenerationConfig(max_new_tokens=6)  # type: ignore[no-untyped-call]
    rows = model.generate(words, mask, config, LogitsProcessorList())
    best = model(
        words, mask, torch.zeros(len(sentences), 6, dtype=torch.long)
    ).logits.argmax(-1)
    for row, likeliest in zip(rows[:, 1:].tolist(), best.tolist(), strict=True):
        end = likeliest.index(1) + 1 if 1 in likeliest else len(likeliest)
        assert row[:end] == likeliest[: len(row)][:end]
        assert not any(row[end:])


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_learns_and_its_folder_answers_alike(
    name: str, tmp_path: Path
) -> None:
    trained = FineTuning(
        EXAMPLES, Seq2seqSettings.of(name), replace(BRIEF, steps=80), device="cpu"
    )
    losses = [step.loss for step in trained.steps()]
    assert losses[-1] < losses[0] / 2
    trained.seq2seq.save(tmp_path / "model")
    loaded = Seq2seq.load(tmp_path / "model", "cpu")
    sentences = ["walk twice", "jump twice", "fly"]
    assert loaded.answers(sentences) == trained.seq2seq.answers(sentences)
    assert loaded.settings.prefix == ""


def test_the_same_seed_gives_the_same_weights() -> None:
    def weights(seed: int) -> list[Tensor]:
        brief = replace(BRIEF, steps=3, seed=seed)
        return list(
            Seq2seq.train(
                EXAMPLES, Seq2seqSettings.of("cgps"), brief, device="cpu"
            ).model.parameters()
        )

    assert all(map(torch.equal, weights(1), weights(1)))
    assert not all(map(torch.equal, weights(1), weights(2)))


def test_a_damaged_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    Seq2seq.train(
        EXAMPLES, Seq2seqSettings.of("cgps"), replace(BRIEF, steps=1), device="cpu"
    ).save(folder)
    config = json.loads((folder / "config.json").read_text())
    config["streams"]["units"] = 65
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        FormatError,
        match=r"weights 'forwards.weight_ih_l0' have the shape \(256, 8\), expected",
    ):
        TwoStreams.from_pretrained(folder)
    del config["streams"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FormatError, match=r"config\.json.*streams"):
        TwoStreams.from_pretrained(folder)


def test_what_a_baseline_cannot_do_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="lora freezes pre-trained weights, and 'cgps' has none"
    ):
        Seq2seqSettings("cgps", lora=LoraSettings())
    with pytest.raises(
        SettingsError, match="beams is 4; expected 1, which is all that 'cgps' can do"
    ):
        Seq2seqSettings("cgps", beams=4)
    with pytest.raises(SettingsError, match=r"dropout is 1.5; expected less than 1"):
        TwoStreamSettings(dropout=1.5)
    with pytest.raises(SettingsError, match="units is 0; expected 1 or more"):
        TwoStreamSettings(units=0)
