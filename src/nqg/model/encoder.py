"""Sentence encoders: BERT in plain torch, from scratch or with published weights, and any other of
Hugging Face's.

BERT reads sentences packed, without padding: on a CPU, attention runs over groups of sentences of
equal length, and the last layer is computed only for subwords whose vectors are wanted. Its weights
have the names that they have in Hugging Face's `BertModel`, whose checkpoints it reads;
`transformers` is imported for pre-trained encoders alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from nqg.errors import FormatError, NqgError
from nqg.model.bert_config import (
    EXTRAPOLATED_POSITION_WEIGHT,
    UNLIMITED,
    BertConfig,
    unsupported_reason,
)
from nqg.model.settings import EMBEDDED, ModelSettings
from nqg.model.subwords import SubwordBatch, Tokens, word_tokenizer
from nqg.model_folder import quiet_transformers

# Vectors of words begin with this share of the length that other weights have. What a vector begins
# with is noise, and a word of one training sentence keeps most of it: where the noise happens to be
# like what verbs have learned, it decides how other sentences with that word are read. Chosen on
# training sentences of COGS and GeoQuery; docs/slog.md has the table, and what was in view.
WORD_SHARE = 0.5


class Encoder(nn.Module):
    """What a scorer needs of an encoder: vectors of subwords, their width, and what can be read.

    `forward(sentences, rows)` gives the vectors of the subwords in some rows of a `SubwordBatch`:
    (E, D).
    """

    hidden_size: int
    vocab_size: int
    max_length: int  # subwords of a sentence

    def config_json(self) -> str:
        """Its config as Hugging Face writes it, from which `read_encoder` makes an encoder."""
        raise NotImplementedError("an encoder has the config of its own class")


class Bert(Encoder):
    """The encoder of Devlin et al. (2019), without the layer that sums up a sentence."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.hidden_size = config.hidden_size
        self.vocab_size = config.vocab_size
        self.max_length = config.max_length
        self.embeddings = BertEmbeddings(config)
        layers = nn.ModuleList(
            BertLayer(config) for _ in range(config.num_hidden_layers)
        )
        self.encoder = nn.ModuleDict({"layer": layers})
        if self.embeddings.word_embeddings.weight.is_meta:
            return
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=config.initializer_range)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        with torch.no_grad():
            self.embeddings.word_embeddings.weight.mul_(WORD_SHARE)
        if self.embeddings.neighbours is not None:
            nn.init.normal_(
                self.embeddings.neighbours.weight, std=config.hidden_size**-0.5
            )

    def forward(self, sentences: SubwordBatch[Tensor], rows: Tensor) -> Tensor:
        vectors = self.embeddings(sentences)  # (M, D)
        *layers, last = cast(nn.ModuleList, self.encoder["layer"])
        for layer in layers:
            vectors = layer(vectors, sentences)
        wanted, of_rows = torch.unique(rows, return_inverse=True)
        return cast(Tensor, last(vectors, sentences, wanted).index_select(0, of_rows))

    def config_json(self) -> str:
        return self.config.to_json()


class BertEmbeddings(nn.Module):
    """Subwords and their positions as vectors; every sentence is a first one, of token type 0."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = empty_embedding(config.vocab_size, width)
        self.position_embeddings = empty_embedding(
            config.max_position_embeddings, width
        )
        self.token_type_embeddings = empty_embedding(config.type_vocab_size, width)
        self.neighbours: nn.Linear | None = None
        if config.neighbours:
            self.neighbours = nn.Linear(2 * width, width)
        self.longest = config.longest
        self.LayerNorm = nn.LayerNorm(width, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, sentences: SubwordBatch[Tensor]) -> Tensor:
        table = self.position_embeddings.weight + self.token_type_embeddings.weight[0]
        numbers = sentences.places % sentences.width
        positions = functional.embedding(numbers, table)
        if self.longest and not self.training:
            trained = functional.embedding(numbers.clamp(max=self.longest), table)
            positions = trained.lerp(positions, EXTRAPOLATED_POSITION_WEIGHT)
        words = self.word_embeddings(sentences.ids)
        # The neighbours of the marks around a sentence are those of other sentences: the same
        # marks.
        if self.neighbours is not None:
            words = words + self.neighbours(
                torch.cat([words.roll(1, 0), words.roll(-1, 0)], dim=1)
            )
        return cast(Tensor, self.dropout(self.LayerNorm(words + positions)))  # (M, D)


def empty_embedding(count: int, width: int) -> nn.Embedding:
    """Vectors without values.

    Normal numbers on the "meta" device would load torch's compiler, which takes a second.
    """
    empty = torch.empty(count, width)
    return cast(nn.Embedding, nn.Embedding.from_pretrained(empty, freeze=False))  # type: ignore[no-untyped-call]


class BertLayer(nn.Module):
    """Self-attention and a feed-forward network, the input of each added to its output."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate = nn.ModuleDict({"dense": dense})
        self.output = BertOutput(config.intermediate_size, config)

    def forward(
        self,
        vectors: Tensor,
        sentences: SubwordBatch[Tensor],
        wanted: Tensor | None = None,
    ) -> Tensor:
        """The new vectors of all rows, or of the wanted ones alone: (W, D)."""
        attended = self.attention(vectors, sentences, wanted)
        hidden = functional.gelu(self.intermediate["dense"](attended))
        return cast(Tensor, self.output(hidden, attended))


class BertAttention(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.self = nn.ModuleDict(
            {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        )
        self.output = BertOutput(width, config)
        self.heads = config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob

    def forward(
        self, vectors: Tensor, sentences: SubwordBatch[Tensor], wanted: Tensor | None
    ) -> Tensor:
        """Self-attention of all rows, or of the wanted ones: (W, D)."""
        # One matrix product gives queries, keys and values together.
        layers = cast(list[nn.Linear], list(self.self.values()))
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        packed = functional.linear(vectors, weight, bias)
        attend = self.attend if packed.device.type == "cpu" else self.attend_padded
        context = attend(packed.view(len(packed), 3, self.heads, -1), sentences)
        # All rows are attended to, but only the wanted ones are needed from here on.
        if wanted is not None:
            context, vectors = (
                context.index_select(0, wanted),
                vectors.index_select(0, wanted),
            )
        return cast(Tensor, self.output(context, vectors))

    def attend(self, packed: Tensor, sentences: SubwordBatch[Tensor]) -> Tensor:
        """Attention of queries, keys and values in groups of sentences of equal length.

        The shapes are (M, 3, heads, D / heads) and (M, D).
        """
        groups = [
            (len(list(group)), length) for length, group in groupby(sentences.lengths)
        ]
        groups_of_rows = torch.split(
            packed, [count * length for count, length in groups]
        )
        contexts = []
        for rows, group in zip(groups_of_rows, groups):
            contexts.append(self._attend(rows.view(*group, *rows.shape[1:])))
        return torch.cat(contexts)

    def attend_padded(self, packed: Tensor, sentences: SubwordBatch[Tensor]) -> Tensor:
        """The same of all sentences at once: more products, but fewer operations for a GPU to
        start.
        """
        table = self._attend(padded(sentences, packed), mask(sentences)[:, None, None])
        return table.index_select(0, sentences.places)

    def _attend(self, table: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention within sentences of one length: (B, T, 3, heads, D / heads) to (B * T, D)."""
        query, key, value = table.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        context = functional.scaled_dot_product_attention(
            query, key, value, mask, dropout
        )
        return context.transpose(1, 2).flatten(2).flatten(0, 1)


class BertOutput(nn.Module):
    """A linear layer whose output is added to vectors of the same rows, and the sum normalised."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, inputs: Tensor, vectors: Tensor) -> Tensor:
        return cast(
            Tensor, self.LayerNorm(self.dropout(self.dense(inputs)) + vectors)
        )  # (M, D)


def padded(sentences: SubwordBatch[Tensor], rows: Tensor, padding: float = 0) -> Tensor:
    """Rows as a table with one line for each sentence: (M, ...) to (B, width, ...)."""
    count, width, columns = len(sentences.lengths), sentences.width, rows.shape[1:]
    table = rows.new_full((count * width, *columns), padding)
    return table.index_copy(0, sentences.places, rows).view(count, width, *columns)


def mask(sentences: SubwordBatch[Tensor]) -> Tensor:
    """Which cells of such a table hold a subword: (B, width)."""
    return padded(sentences, torch.ones_like(sentences.places, dtype=torch.bool))


class TransformersEncoder(Encoder):
    """An encoder of Hugging Face's, which reads sentences padded."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        # The pooler sums up a sentence in one vector, which nothing reads.
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.model = model
        self.hidden_size = int(model.config.hidden_size)
        self.vocab_size = int(model.get_input_embeddings().num_embeddings)
        self.max_length = int(model.config.model_max_length)

    def forward(self, sentences: SubwordBatch[Tensor], rows: Tensor) -> Tensor:
        ids = padded(sentences, sentences.ids, self.model.config.pad_token_id or 0)
        outputs = self.model(input_ids=ids, attention_mask=mask(sentences).long())
        vectors: Tensor = outputs.last_hidden_state
        return vectors.flatten(0, 1).index_select(
            0, sentences.places.index_select(0, rows)
        )

    def config_json(self) -> str:
        return cast(str, self.model.config.to_json_string())


def new_encoder(
    settings: ModelSettings,
    sentences: Sequence[Tokens],
    *,
    neighbours: bool = False,
    longest: int | None = None,
) -> tuple[Encoder, Tokenizer]:
    """The encoder that `settings` name, and its tokenizer; the embedded one reads just the words of
    `sentences`.

    With `neighbours` it sees words with those beside them: attention would need many examples to
    learn how much the word before a name says about it. `longest` is the number of words of the
    longest training sentence.
    """
    if settings.encoder != EMBEDDED:
        return load_encoder(settings.encoder)
    tokenizer, sizes = word_tokenizer(sentences), settings.embedded
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=4 * sizes.hidden_size,
        # Without dropout torch's fused attention serves, which saves a tenth of a step on CPUs.
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=sizes.longest,
        model_max_length=sizes.longest,
        neighbours=neighbours,
        longest=longest,
    )
    return Bert(config), tokenizer


def check_encoder(name: str) -> None:
    """Refuse an encoder that does not exist or cannot be used, before anything is trained."""
    if name == EMBEDDED:
        return
    from transformers import AutoConfig

    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise NqgError(f"the encoder '{name}' could not be loaded: {error}") from error
    _check_config(name, config.to_dict())


def _check_config(name: str, config: Mapping[str, Any]) -> None:
    """Refuse what the scorer cannot use."""
    reason = unsupported_reason(config)
    if reason:
        raise NqgError(
            f"the encoder '{name}' cannot be used: {reason}, for instance bert-base-uncased"
        )


def load_encoder(name: str) -> tuple[Encoder, Tokenizer]:
    """A pre-trained encoder and its tokenizer, by hub name or folder."""
    from transformers import AutoModel, AutoTokenizer

    try:
        with quiet_transformers():
            model = AutoModel.from_pretrained(
                name, dtype=torch.float32, trust_remote_code=False
            )
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise NqgError(f"the encoder '{name}' could not be loaded: {error}") from error
    _check_config(name, model.config.to_dict())
    if not hasattr(tokenizer, "backend_tokenizer"):
        missing = "does not say which word a subword belongs to"
        raise NqgError(f"the tokenizer of the encoder '{name}' {missing}: try another")
    # Neither limit is reliable alone: a tokenizer without one gives a huge number.
    positions = getattr(model.config, "max_position_embeddings", None) or UNLIMITED
    model.config.model_max_length = min(
        int(tokenizer.model_max_length), positions, UNLIMITED
    )
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    # The lengths of sentences are checked elsewhere: nothing may be cut off here.
    subwords = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    subwords.no_truncation()
    subwords.no_padding()
    config = BertConfig.from_dict(model.config.to_dict())
    if config is None:
        return TransformersEncoder(model), subwords
    bert = Bert(config)
    # `Bert` has no pooler, whose weights it would refuse.
    model.pooler = None
    bert.load_state_dict(model.state_dict())
    return bert, subwords


def read_encoder(config: Path) -> Encoder:
    """An encoder by its `config.json`, its weights not yet set; code that a config may name is
    never run.
    """
    values = json.loads(config.read_text(encoding="utf-8"))
    reason = unsupported_reason(values)
    if reason:
        raise FormatError(f"the encoder cannot be used: {reason}", config)
    bert = BertConfig.from_dict(values)
    if bert is not None:
        return Bert(bert)
    from transformers import AutoConfig, AutoModel

    with quiet_transformers():
        published = AutoConfig.from_pretrained(config.parent, trust_remote_code=False)
        model = AutoModel.from_config(
            published, dtype=torch.float32, trust_remote_code=False
        )  # type: ignore[no-untyped-call]
        return TransformersEncoder(model)
