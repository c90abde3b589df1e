"""Syntactic Attention (Russin et al., 2019) and CGPS (Li et al., 2019): baselines of the paper's
table 2.

Both read every word in two streams. The semantic stream is an embedding of the word alone. The
syntactic one is another embedding, read by bidirectional LSTMs, and says where a decoder attends
at each step. A token of the target is chosen from the semantic embeddings that it attends to, and
from nothing else: not from other words, nor from what was written before. So a word that was seen
alone can take the place of any other.

The systems differ in what keeps either stream from learning the other's part. Syntactic Attention
leaves a word out of its own role, which a second LSTM reads, and drops out numbers of the
embeddings. CGPS has few of them, adds noise, lets their squares cost something, and attends to
meanings by their position in the sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import dropout, normalize, one_hot, pad
from transformers import GenerationConfig, LogitsProcessorList

from nqg.errors import SettingsError, check_at_least
from nqg.files import read_json, write_text
from nqg.model.scorer import module_shapes
from nqg.model_folder import check_shapes, weight_shapes
from nqg.seq2seq.settings import FineTuningSettings
from nqg.settings_reader import read_dataclass

# Ids of `word_tokenizer`.
PADDING, END_ID = 0, 1
WEIGHTS, CONFIG = "model.safetensors", "config.json"


@dataclass(frozen=True, slots=True)
class TwoStreamSettings:
    """The sizes of a model with two streams, and what disturbs its embeddings.

    `noise` is the standard deviation of what is added to them in training, `penalty` what a square
    of theirs costs.
    """

    semantic: int = 120
    syntactic: int = 100
    # Of the encoder in either direction; the decoder has both.
    units: int = 200
    # Meanings are attended to by position, up to that many words; 0 is attention by roles, from
    # which words are left out.
    positions: int = 0
    dropout: float = 0.0
    noise: float = 0.0
    penalty: float = 0.0
    # Of new embeddings: with little of it, words begin alike.
    spread: float = 1.0

    def __post_init__(self) -> None:
        check_at_least(1, self, "semantic", "syntactic", "units")
        check_at_least(0, self, "positions", "dropout", "noise", "penalty", "spread")
        if self.dropout >= 1:
            raise SettingsError(f"dropout is {self.dropout}; expected less than 1")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A system that others have published, and how it is fitted."""

    streams: TwoStreamSettings
    training: FineTuningSettings


_FROM_SCRATCH = FineTuningSettings(
    optimizer="adamw",
    schedule="linear",
    precision="float32",
    freeze_embeddings=False,
    learned=0.0,
)
_SYNTACTIC_ATTENTION = Baseline(
    TwoStreamSettings(semantic=120, syntactic=100, units=200, dropout=0.5),
    replace(
        _FROM_SCRATCH,
        steps=4_000,
        batch_size=32,
        learning_rate=1e-3,
        # Without a warm-up, attention of more seeds never leaves one word (training loss, GeoQuery).
        warm_up=400,
        clip=5.0,
    ),
)
_CGPS = Baseline(
    TwoStreamSettings(
        semantic=16,
        syntactic=8,
        units=32,
        positions=64,
        noise=1.0,
        penalty=0.01,
        spread=0.01,
    ),
    replace(_FROM_SCRATCH, steps=3_000, batch_size=64, learning_rate=1e-2, clip=1.0),
)
BASELINES: Mapping[str, Baseline] = {
    "syntactic-attention": _SYNTACTIC_ATTENTION,
    "cgps": _CGPS,
}


@dataclass(frozen=True, slots=True)
class TwoStreamConfig:
    """What `config.json` says of a model."""

    vocab_size: int
    streams: TwoStreamSettings


@dataclass(frozen=True, slots=True)
class TwoStreamOutput:
    """The logits of every token of targets, and what the embeddings of all sources cost."""

    logits: Tensor  # (B, T, words)
    penalty: Tensor


@dataclass(frozen=True, slots=True)
class TwoStreamSources:
    """Sources as a decoder reads them: B of them, of S words."""

    syntax: Tensor  # (B, S, 2 units)
    semantics: Tensor  # (B, S, semantic)
    hidden: Tensor  # (B, S), minus infinity where there is no word


@dataclass(frozen=True, slots=True)
class DecoderState:
    """What a decoder knows before a step."""

    # What attends next (Syntactic Attention), or what was seen last (CGPS).
    query: Tensor  # (B, 2 units)
    hidden: Tensor  # (B, 2 units)
    cell: Tensor  # (B, 2 units)


class BidirectionalLstm(nn.Module):
    """One layer in two directions, with padding behind the words in both."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(inputs, units, batch_first=True)
        self.backwards = nn.LSTM(inputs, units, batch_first=True)

    def forward(self, rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The states of each direction at every word: (B, S, units) each."""
        ahead, _ = self.forwards(rows)
        behind, _ = self.backwards(reverse_padded(rows, lengths))
        return ahead, reverse_padded(behind, lengths)


class TwoStreams(nn.Module):
    """A model with the interface of those of transformers, as far as `Seq2seq` and its training use
    it; subclasses say how syntax is read and where a decoder attends.
    """

    def __init__(self, config: TwoStreamConfig) -> None:
        super().__init__()
        sizes = config.streams
        self.config = config
        self.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            decoder_start_token_id=PADDING, pad_token_id=PADDING, eos_token_id=END_ID
        )
        # One more row: the start of a source, which the tokenizer does not write.
        self.start_id = config.vocab_size
        rows = config.vocab_size + 1
        self.semantic = nn.Embedding(rows, sizes.semantic, PADDING)
        self.syntactic = nn.Embedding(rows, sizes.syntactic, PADDING)
        self.output = nn.Linear(sizes.semantic, config.vocab_size)
        with torch.no_grad():
            for embeddings in (self.semantic, self.syntactic):
                embeddings.weight.mul_(sizes.spread)
            # The end of a source means the end of the target, lest it be taken for the meaning of a
            # word seen alone. Neither paper has this tie.
            self.output.weight[END_ID] = normalize(self.semantic.weight[END_ID], dim=0)

    @staticmethod
    def of(config: TwoStreamConfig) -> TwoStreams:
        """The model that a config describes."""
        if config.streams.positions:
            return Cgps(config)
        return SyntacticAttention(config)

    @classmethod
    def new(cls, name: str, words: int, seed: int) -> TwoStreams:
        """A baseline with new weights, which `seed` alone decides."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls.of(TwoStreamConfig(words, BASELINES[name].streams))

    @property
    def device(self) -> torch.device:
        return self.output.weight.device

    def get_input_embeddings(self) -> nn.Embedding:
        return self.semantic

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        decoder_input_ids: Tensor,
        use_cache: bool = False,
    ) -> TwoStreamOutput:
        """The logits of as many tokens as `decoder_input_ids` has, whatever they are."""
        # The decoder reads nothing of what it writes: only attention moves.
        sources, state, penalty = self.encode(input_ids, attention_mask)
        attentions = []
        for _ in range(decoder_input_ids.shape[1]):
            attention, state = self.attend(sources, state)
            attentions.append(attention)
        semantics = torch.stack(attentions, 1) @ sources.semantics  # (B, T, semantic)
        return TwoStreamOutput(self.output(semantics), penalty)

    def encode(
        self, words: Tensor, mask: Tensor
    ) -> tuple[TwoStreamSources, DecoderState, Tensor]:
        """The sources in both streams, how the decoder begins, and what the embeddings cost."""
        semantic, syntactic = self.semantic(words), self.syntactic(words)
        # Padding costs nothing.
        squares = (semantic.square().sum(-1) + syntactic.square().sum(-1)) * mask
        if self.training:
            semantic, syntactic = self.disturbed(semantic), self.disturbed(syntactic)
        syntax, state = self.read(syntactic, mask.sum(1))
        unseen = torch.zeros_like(mask, dtype=syntax.dtype)
        unseen = unseen.masked_fill(mask == 0, -torch.inf)
        sources = TwoStreamSources(syntax, semantic, unseen)
        return sources, state, self.config.streams.penalty * squares.sum()

    def read(self, syntactic: Tensor, lengths: Tensor) -> tuple[Tensor, DecoderState]:
        """The syntax of every word from its embeddings, and how the decoder begins."""
        raise NotImplementedError

    def attend(
        self, sources: TwoStreamSources, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        """One step of the decoder: where it attends, (B, S), and its next state."""
        raise NotImplementedError

    def disturbed(self, embeddings: Tensor) -> Tensor:
        settings = self.config.streams
        if settings.noise:
            embeddings = embeddings + settings.noise * torch.randn_like(embeddings)
        return dropout(embeddings, settings.dropout) if settings.dropout else embeddings

    @torch.inference_mode()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        generation_config: GenerationConfig,
        logits_processor: LogitsProcessorList,
    ) -> Tensor:
        """The likeliest tokens, after the one that begins every target, until all rows have ended."""
        sources, state, _ = self.encode(input_ids, attention_mask)
        # Rows that have ended are filled with padding.
        written = input_ids.new_full((len(input_ids), 1), PADDING)
        has_ended = torch.zeros_like(written[:, 0], dtype=torch.bool)
        for _ in range(int(generation_config.max_new_tokens or 0)):
            attention, state = self.attend(sources, state)
            logits: Any = self.output(
                (attention.unsqueeze(1) @ sources.semantics).squeeze(1)
            )
            chosen = logits_processor(written, logits).argmax(-1)  # type: ignore[arg-type]
            written = torch.cat(
                [written, chosen.masked_fill(has_ended, PADDING).unsqueeze(1)], 1
            )
            has_ended |= chosen == END_ID
            if has_ended.all():
                break
        return written

    def save_pretrained(self, folder: Path) -> None:
        write_text(folder / CONFIG, json.dumps(asdict(self.config), indent=1) + "\n")
        save_file(
            {
                name: weight.contiguous().cpu()
                for name, weight in self.state_dict().items()
            },
            folder / WEIGHTS,
        )

    @classmethod
    def from_pretrained(cls, folder: Path) -> TwoStreams:
        config_file = folder / CONFIG
        config = read_dataclass(
            TwoStreamConfig,
            read_json(config_file),
            "the model",
            config_file,
            complete=True,
        )
        shapes = weight_shapes(folder / WEIGHTS)
        # On no device, so that a config cannot ask for memory that no weights fill.
        with torch.device("meta"):
            needed = module_shapes(cls.of(config))
        check_shapes(needed, shapes, folder / WEIGHTS)
        model = cls.of(config)
        model.load_state_dict(load_file(folder / WEIGHTS))
        return model


class SyntacticAttention(TwoStreams):
    """Russin et al.'s model: attention by roles, which are what stands around a word."""

    def __init__(self, config: TwoStreamConfig) -> None:
        super().__init__(config)
        sizes = config.streams
        both = 2 * sizes.units
        role = 2 * sizes.syntactic
        self.context = BidirectionalLstm(sizes.syntactic, sizes.syntactic)
        self.start_role = nn.Parameter(torch.randn(role))
        self.end_role = nn.Parameter(torch.randn(role))
        self.reader = BidirectionalLstm(role, sizes.units)
        self.first_query = nn.Linear(both, both)
        self.decoder = nn.LSTMCell(both, both)

    def encode(
        self, words: Tensor, mask: Tensor
    ) -> tuple[TwoStreamSources, DecoderState, Tensor]:
        starts = words.new_full((len(words), 1), self.start_id)
        with_start = torch.cat([starts, words], 1)
        return super().encode(with_start, torch.cat([mask[:, :1], mask], 1))

    def roles(self, syntactic: Tensor, lengths: Tensor) -> Tensor:
        """The forward state before each word beside the backward state behind it; learned roles
        at both ends: (B, S, 2 syntactic).
        """
        ahead, behind = self.context(syntactic, lengths)
        nothing = torch.zeros_like(ahead[:, :1])
        before = torch.cat([nothing, ahead[:, :-1]], 1)
        after = torch.cat([behind[:, 1:], nothing], 1)
        roles = torch.cat([before, after], -1)
        places = torch.arange(roles.shape[1], device=roles.device)
        is_first = (places == 0).view(1, -1, 1)
        is_last = (places == lengths.unsqueeze(1) - 1).unsqueeze(2)
        roles = torch.where(is_first, self.start_role, roles)
        return torch.where(is_last, self.end_role, roles)

    def read(self, syntactic: Tensor, lengths: Tensor) -> tuple[Tensor, DecoderState]:
        ahead, behind = self.reader(self.roles(syntactic, lengths), lengths)
        # The first query comes from what both directions end with; the state is zero.
        ends = torch.cat([last_of(ahead, lengths), behind[:, 0]], -1)
        query = self.first_query(ends).relu()
        nothing = torch.zeros_like(query)
        return torch.cat([ahead, behind], -1), DecoderState(query, nothing, nothing)

    def attend(
        self, sources: TwoStreamSources, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        attention, context = attend_by_content(sources, state.query)
        hidden, cell = self.decoder(context, (state.hidden, state.cell))
        return attention, DecoderState(hidden, hidden, cell)


class Cgps(TwoStreams):
    """Li et al.'s model: attention by content moves the decoder, attention by absolute position
    chooses the meanings.
    """

    def __init__(self, config: TwoStreamConfig) -> None:
        super().__init__(config)
        sizes = config.streams
        both = 2 * sizes.units
        self.reader = BidirectionalLstm(sizes.syntactic, sizes.units)
        self.decoder = nn.LSTMCell(both, both)
        self.attended = nn.Linear(2 * both, both, bias=False)
        self.position = nn.Linear(both, sizes.positions)

    def read(self, syntactic: Tensor, lengths: Tensor) -> tuple[Tensor, DecoderState]:
        ahead, behind = self.reader(syntactic, lengths)
        # The decoder begins with the states that both directions end with, and an empty cell.
        hidden = torch.cat([last_of(ahead, lengths), behind[:, 0]], -1)
        nothing = torch.zeros_like(hidden)
        return torch.cat([ahead, behind], -1), DecoderState(nothing, hidden, nothing)

    def attend(
        self, sources: TwoStreamSources, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        hidden, cell = self.decoder(state.query, (state.hidden, state.cell))
        _, context = attend_by_content(sources, hidden)
        attended = self.attended(torch.cat([hidden, context], -1))
        scores = self.position(attended)  # (B, positions)
        # Words behind the last position are never attended to.
        missing = max(0, sources.hidden.shape[1] - scores.shape[1])
        scores = pad(scores, (0, missing), value=-torch.inf)
        scores = scores[:, : sources.hidden.shape[1]] + sources.hidden
        return scores.softmax(-1), DecoderState(attended, hidden, cell)


def attend_by_content(
    sources: TwoStreamSources, query: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention by the product of a query with the syntax, (B, S), and what it sees of the syntax."""
    energies = torch.baddbmm(
        sources.hidden.unsqueeze(2), sources.syntax, query.unsqueeze(2)
    )
    attention = energies.squeeze(2).softmax(-1)
    return attention, (attention.unsqueeze(1) @ sources.syntax).squeeze(1)


def last_of(rows: Tensor, lengths: Tensor) -> Tensor:
    """The row of the last word of each sentence: (B, units)."""
    is_last = one_hot(lengths - 1, rows.shape[1]).to(rows.dtype)  # (B, S)
    return (is_last.unsqueeze(1) @ rows).squeeze(1)


def reverse_padded(rows: Tensor, lengths: Tensor) -> Tensor:
    """Rows of words back to front, padding left at its place: what a packed sequence does, without
    asking the host.

    >>> reverse_padded(torch.tensor([[[1], [2], [3], [0]]]), torch.tensor([3])).flatten().tolist()
    [3, 2, 1, 0]
    """
    places = torch.arange(rows.shape[1], device=rows.device)
    back = lengths.unsqueeze(1) - 1 - places
    order = torch.where(back >= 0, back, places)  # (B, S)
    return rows.gather(1, order.unsqueeze(2).expand_as(rows))
