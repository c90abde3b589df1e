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
    Cgps,
    SyntacticAttention,
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
    return TwoStreams.of(TwoStreamConfig(WORDS, sizes)).eval()


def padded(sentences: list[list[int]]) -> tuple[Tensor, Tensor]:
    rows = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(each) for each in sentences], batch_first=True
    )
    return rows, (rows > 0).long()


def one_at_a_time(model: TwoStreams, sentence: list[int], steps: int) -> Tensor:
    """The logits of one sentence by the equations, word by word and without padding: (steps, words)."""
    if isinstance(model, SyntacticAttention):
        sentence = [model.start_id, *sentence]
    words = torch.tensor(sentence)
    rows, semantic = model.syntactic(words), model.semantic(words)
    size = 2 * model.config.streams.units
    hidden, cell = torch.zeros(size), torch.zeros(size)
    found = []
    if isinstance(model, SyntacticAttention):
        ahead = model.context.forwards(rows)[0]
        behind = model.context.backwards(rows.flip(0))[0].flip(0)
        roles: list[Tensor] = [model.start_role]
        roles += map(torch.cat, zip(ahead[:-2], behind[2:], strict=True))
        rows = torch.stack([*roles, model.end_role])
    assert isinstance(model, SyntacticAttention | Cgps)
    ahead = model.reader.forwards(rows)[0]
    behind = model.reader.backwards(rows.flip(0))[0].flip(0)
    syntax = torch.cat([ahead, behind], 1)
    ends = torch.cat([ahead[-1], behind[0]])
    if isinstance(model, SyntacticAttention):
        query = torch.relu(model.first_query(ends))
        for _ in range(steps):
            shares = torch.softmax(syntax @ query, 0)
            found.append(model.output(shares @ semantic))
            hidden, cell = model.decoder(shares @ syntax, (hidden, cell))
            query = hidden
        return torch.stack(found)
    hidden, seen = ends, torch.zeros(size)
    for _ in range(steps):
        hidden, cell = model.decoder(seen, (hidden, cell))
        context = torch.softmax(syntax @ hidden, 0) @ syntax
        seen = model.attended(torch.cat([hidden, context]))
        within = min(len(words), model.config.streams.positions)
        shares = torch.softmax(model.position(seen)[:within], 0)
        found.append(model.output(shares @ semantic[:within]))
    return torch.stack(found)


@pytest.mark.parametrize("positions", [0, 3, 8])
@given(sentences=SENTENCES, steps=st.integers(1, 4))
def test_a_batch_has_the_logits_and_gradients_of_one_sentence_at_a_time(
    positions: int, sentences: list[list[int]], steps: int
) -> None:
    model, (words, mask) = new(replace(SIZES, positions=positions)), padded(sentences)

    def gradients(logits: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(
            logits.log_softmax(-1)[..., 2].sum(),
            list(model.parameters()),
            allow_unused=True,
            materialize_grads=True,
        )

    batch = model(
        words, mask, torch.zeros(len(sentences), steps, dtype=torch.long)
    ).logits
    alone = torch.stack([one_at_a_time(model, each, steps) for each in sentences])
    torch.testing.assert_close(batch, alone)
    torch.testing.assert_close(gradients(batch), gradients(alone))


@given(st.lists(st.integers(2, WORDS - 1), min_size=1, max_size=6), st.data())
def test_the_role_of_a_word_does_not_change_when_the_word_is_exchanged(
    sentence: list[int], data: st.DataObject
) -> None:
    model = new()
    assert isinstance(model, SyntacticAttention)
    place = data.draw(st.integers(0, len(sentence) - 1))
    other = [*sentence]
    other[place] = data.draw(st.integers(2, WORDS - 1))

    def roles(words: list[int]) -> Tensor:
        ids = torch.tensor([[model.start_id, *words, 1]])
        return model.roles(model.syntactic(ids), torch.tensor([ids.shape[1]]))[0]

    before, after = roles(sentence), roles(other)
    assert before.shape == (len(sentence) + 2, 2 * SIZES.syntactic)
    assert torch.equal(before[place + 1], after[place + 1])
    assert torch.equal(before[0], model.start_role)
    assert torch.equal(before[-1], model.end_role)
    # A neighbour's role does tell the word.
    if other != sentence and len(sentence) > 1:
        neighbour = place if place else place + 2
        assert not torch.equal(before[neighbour], after[neighbour])


def test_the_first_query_of_syntactic_attention_meets_a_zero_state() -> None:
    model, (words, mask) = new(), padded([[2, 3, 1], [4, 1]])
    sources, state, _ = model.encode(words, mask)
    assert sources.syntax.shape == (2, 4, 2 * SIZES.units)
    assert sources.semantics.shape == (2, 4, SIZES.semantic)
    assert not state.hidden.any()
    assert not state.cell.any()
    attention, _ = model.attend(sources, state)
    expected = (sources.syntax @ state.query.unsqueeze(2)).squeeze(2) + sources.hidden
    torch.testing.assert_close(attention, expected.softmax(-1))


def test_the_published_sizes() -> None:
    attention = TwoStreams.new("syntactic-attention", WORDS, 0)
    assert isinstance(attention, SyntacticAttention)
    assert attention.syntactic.embedding_dim == 100
    assert attention.context.forwards.hidden_size == 100
    assert attention.reader.forwards.hidden_size == 200
    assert attention.decoder.hidden_size == 400
    cgps = TwoStreams.new("cgps", WORDS, 0)
    assert isinstance(cgps, Cgps)
    assert cgps.reader.forwards.hidden_size == 32
    assert cgps.decoder.hidden_size == 64


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
        replace(SIZES, positions=8, noise=0.5, penalty=0.25),
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
    model = new(replace(SIZES, positions=8, penalty=0.25))
    batch = SubwordCorpus(
        [SubwordPair((2, 3, 1), (4, 1))], 0, 0, torch.device("cpu")
    ).collate([0])
    loss = CrossEntropy(model, "float32").backward(batch, torch.tensor(2.0))
    found = model(batch.sources, batch.mask, batch.inputs)
    logs = found.logits[0].log_softmax(-1)
    assert loss.item() == pytest.approx(
        (-(logs[0, 4] + logs[1, 1]) + found.penalty).item() / 2
    )
    assert found.penalty.item() > 0


@pytest.mark.parametrize("positions", [0, 8])
@given(sentences=SENTENCES)
def test_what_is_written_is_the_likeliest_token_of_every_step_until_the_end(
    positions: int, sentences: list[list[int]]
) -> None:
    sizes = replace(SIZES, positions=positions)
    model, (words, mask) = new(sizes, seed=3), padded(sentences)
    config = GenerationConfig(max_new_tokens=6)  # type: ignore[no-untyped-call]
    rows = model.generate(words, mask, config, LogitsProcessorList())
    best = model(
        words, mask, torch.zeros(len(sentences), 6, dtype=torch.long)
    ).logits.argmax(-1)
    for row, likeliest in zip(rows[:, 1:].tolist(), best.tolist(), strict=True):
        end = likeliest.index(1) + 1 if 1 in likeliest else len(likeliest)
        assert row[:end] == likeliest[: len(row)][:end]
        assert not any(row[end:])


@pytest.mark.parametrize(
    ("name", "rate"), [("syntactic-attention", 0.001), ("cgps", 0.02)]
)
def test_a_baseline_learns_and_its_folder_answers_alike(
    name: str, rate: float, tmp_path: Path
) -> None:
    brief = replace(BRIEF, steps=80, learning_rate=rate)
    trained = FineTuning(EXAMPLES, Seq2seqSettings.of(name), brief, device="cpu")
    losses = [step.loss for step in trained.steps()]
    assert losses[-1] < losses[0] / 2
    trained.seq2seq.save(tmp_path / "model")
    loaded = Seq2seq.load(tmp_path / "model", "cpu")
    sentences = ["walk twice", "jump twice", "fly"]
    assert loaded.answers(sentences) == trained.seq2seq.answers(sentences)
    assert loaded.settings.prefix == ""


@pytest.mark.parametrize("name", BASELINES)
def test_the_same_seed_gives_the_same_weights(name: str) -> None:
    def weights(seed: int) -> list[Tensor]:
        brief = replace(BRIEF, steps=3, seed=seed)
        return list(
            Seq2seq.train(
                EXAMPLES, Seq2seqSettings.of(name), brief, device="cpu"
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
        match=r"weights '.*' have the shape .*, expected",
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
