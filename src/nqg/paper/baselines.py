"""Syntactic Attention (Russin et al., 2019) and CGPS (Li et al., 2019): baselines of the paper's
table 2.

Both read every word in two streams. The semantic stream is an embedding of the word alone. The
syntactic one is another embedding, read by a bidirectional LSTM, and says where a decoder attends
at each step. A token of the target is chosen from the semantic embeddings that it attends to, and
from nothing else: not from other words, nor from what was written before. So a word that was seen
alone can take the place of any other.

The systems differ in what keeps either stream from learning the other's part. Syntactic Attention
drops out numbers of the embeddings. CGPS has few of them, adds noise, and lets their squares cost
something, which bounds what they tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import dropout, normalize, one_hot
from transformers import GenerationConfig, LogitsProcessorList

from nqg.errors import SettingsError, check_at_least
from nqg.files import read_json, write_text
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
    syntactic: int = 200
    # Of the encoder in either direction; the decoder has both.
    units: int = 200
    dropout: float = 0.0
    noise: float = 0.0
    penalty: float = 0.0
    # Of new embeddings: with little of it, words begin alike.
    spread: float = 1.0

    def __post_init__(self) -> None:
        check_at_least(1, self, "semantic", "syntactic", "units")
        check_at_least(0, self, "dropout", "noise", "penalty", "spread")
        if self.dropout >= 1:
            raise SettingsError(f"dropout is {self.dropout}; expected less than 1")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A system that others have published, and how it is fitted."""

    streams: TwoStreamSettings
    training: FineTuningSettings


BASELINES: Mapping[str, Baseline] = {
    "syntactic-attention": Baseline(
        TwoStreamSettings(semantic=120, syntactic=200, units=200, dropout=0.5),
        FineTuningSettings(
            4_000,
            32,
            optimizer="adamw",
            learning_rate=1e-3,
            schedule="linear",
            clip=5.0,
            precision="float32",
            freeze_embeddings=False,
            learned=0.0,
        ),
    ),
    "cgps": Baseline(
        TwoStreamSettings(
            semantic=16, syntactic=8, units=64, noise=1.0, penalty=0.01, spread=0.01
        ),
        FineTuningSettings(
            3_000,
            64,
            optimizer="adamw",
            learning_rate=1e-2,
            schedule="linear",
            clip=1.0,
            precision="float32",
            freeze_embeddings=False,
            learned=0.0,
        ),
    ),
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
    state: tuple[Tensor, Tensor]  # of the decoder, (B, 2 units) each


class TwoStreams(nn.Module):
    """A model with the interface of those of transformers, as far as `Seq2seq` and its training use
    it.
    """

    def __init__(self, config: TwoStreamConfig) -> None:
        super().__init__()
        sizes = config.streams
        both = 2 * sizes.units
        self.config = config
        self.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            decoder_start_token_id=PADDING, pad_token_id=PADDING, eos_token_id=END_ID
        )
        self.semantic = nn.Embedding(config.vocab_size, sizes.semantic, PADDING)
        self.syntactic = nn.Embedding(config.vocab_size, sizes.syntactic, PADDING)
        self.forwards = nn.LSTM(sizes.syntactic, sizes.units, batch_first=True)
        self.backwards = nn.LSTM(sizes.syntactic, sizes.units, batch_first=True)
        self.start = nn.Linear(both, 2 * both)
        self.decoder = nn.LSTMCell(both, both)
        self.output = nn.Linear(sizes.semantic, config.vocab_size)
        with torch.no_grad():
            for embeddings in (self.semantic, self.syntactic):
                embeddings.weight.mul_(sizes.spread)
            # The end of a source means the end of the target, lest it be taken for the meaning of a
            # word seen alone.
            self.output.weight[END_ID] = normalize(self.semantic.weight[END_ID], dim=0)

    @classmethod
    def new(cls, name: str, words: int, seed: int) -> TwoStreams:
        """A baseline with new weights, which `seed` alone decides."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(TwoStreamConfig(words, BASELINES[name].streams))

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
        sources, penalty = self.encode(input_ids, attention_mask)
        state, context, attentions = sources.state, sources.syntax[:, 0], []
        for _ in range(decoder_input_ids.shape[1]):
            state, context, attention = self.attend(sources, state, context)
            attentions.append(attention)
        semantics = torch.stack(attentions, 1) @ sources.semantics  # (B, T, semantic)
        return TwoStreamOutput(self.output(semantics), penalty)

    def encode(self, words: Tensor, mask: Tensor) -> tuple[TwoStreamSources, Tensor]:
        """The sources in both streams, and what their embeddings cost."""
        settings, lengths = self.config.streams, mask.sum(1)
        semantic, syntactic = self.semantic(words), self.syntactic(words)
        # Padding costs nothing.
        squares = (semantic.square().sum(-1) + syntactic.square().sum(-1)) * mask
        if self.training:
            semantic, syntactic = self.disturbed(semantic), self.disturbed(syntactic)
        # Two directions of one layer, with padding behind the words in both.
        ahead, _ = self.forwards(syntactic)
        behind, _ = self.backwards(reverse_padded(syntactic, lengths))
        syntax = torch.cat([ahead, reverse_padded(behind, lengths)], -1)
        # The decoder begins with what both directions end with.
        is_last = one_hot(lengths - 1, words.shape[1]).to(syntax.dtype)  # (B, S)
        ends = is_last.unsqueeze(1) @ torch.cat([ahead, behind], -1)  # (B, 1, 2 units)
        hidden, cell = self.start(ends.squeeze(1)).tanh().chunk(2, -1)
        unseen = torch.zeros_like(is_last).masked_fill(mask == 0, -torch.inf)
        sources = TwoStreamSources(syntax, semantic, unseen, (hidden, cell))
        return sources, settings.penalty * squares.sum()

    def disturbed(self, embeddings: Tensor) -> Tensor:
        settings = self.config.streams
        if settings.noise:
            embeddings = embeddings + settings.noise * torch.randn_like(embeddings)
        return dropout(embeddings, settings.dropout) if settings.dropout else embeddings

    def attend(
        self, sources: TwoStreamSources, state: tuple[Tensor, Tensor], context: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
        """One step of the decoder: its next state, what it sees of the syntax, and where it
        attentions.
        """
        state = self.decoder(context, state)
        energies = torch.baddbmm(
            sources.hidden.unsqueeze(2), sources.syntax, state[0].unsqueeze(2)
        )
        attention = energies.squeeze(2).softmax(-1)  # (B, S)
        return state, (attention.unsqueeze(1) @ sources.syntax).squeeze(1), attention

    @torch.inference_mode()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        generation_config: GenerationConfig,
        logits_processor: LogitsProcessorList,
    ) -> Tensor:
        """The likeliest tokens, after the one that begins every target, until all rows have ended."""
        sources, _ = self.encode(input_ids, attention_mask)
        state, context = sources.state, sources.syntax[:, 0]
        # Rows that have ended are filled with padding.
        written = input_ids.new_full((len(input_ids), 1), PADDING)
        has_ended = torch.zeros_like(written[:, 0], dtype=torch.bool)
        for _ in range(int(generation_config.max_new_tokens or 0)):
            state, context, attention = self.attend(sources, state, context)
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
        place = folder / CONFIG
        config = read_dataclass(
            TwoStreamConfig, read_json(place), "the model", place, complete=True
        )
        shapes = weight_shapes(folder / WEIGHTS)
        # On no device, so that a config cannot ask for memory that no weights fill.
        with torch.device("meta"):
            check_shapes(cls(config), shapes, folder / WEIGHTS)
        model = cls(config)
        model.load_state_dict(load_file(folder / WEIGHTS))
        return model


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
