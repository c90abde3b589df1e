"""Sentence encoders: BERT in plain torch, from scratch or with published weights, and any other of Hugging Face's.

BERT reads sentences packed, without padding: on a CPU, attention runs over groups of sentences of equal length, and the
last layer is computed only for subwords whose vectors are wanted. Its weights have the names that they have in Hugging
Face's `BertModel`, whose checkpoints it reads; `transformers` is imported for pre-trained encoders alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from nqg.errors import FormatError, NqgError
from nqg.model.settings import EMBEDDED, ModelSettings
from nqg.model.subwords import SubwordBatch, Tokens, word_tokenizer
from nqg.model_folder import quiet_transformers

UNLIMITED = 1 << 20  # subwords of a sentence, where neither encoder nor tokenizer has a limit
OWN_PLACE = 0.01  # share of a place of which nothing was learned: without it words there would be a mere set


class Encoder(nn.Module):
    """What a scorer needs of an encoder: vectors of subwords, how wide they are, and what can be read."""

    hidden_size: int
    vocab_size: int
    max_length: int  # subwords of a sentence

    def forward(self, sentences: SubwordBatch, rows: Tensor) -> Tensor:
        """The vectors of the subwords in some rows of the batch: (E, D)."""
        raise NotImplementedError("an encoder computes vectors in a class of its own")

    def config_json(self) -> str:
        """Its config as Hugging Face writes it, by which `read_encoder` makes another of its kind."""
        raise NotImplementedError("an encoder has the config of its own class")


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The entries of BERT's `config.json` that matter here, with the defaults that they have there."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    model_max_length: int = UNLIMITED  # of the tokenizer
    neighbours: bool = False  # ours: words are seen with those beside them
    longest: int | None = (
        None  # ours: words of the longest training sentence, if positions were learned from scratch
    )

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> BertConfig | None:
        """The config of a model that `Bert` computes as its authors do; None for any other."""
        is_bert = config.get("model_type") == "bert" and config.get("hidden_act", "gelu") == "gelu"
        is_absolute = config.get("position_embedding_type") in (None, "absolute")
        if not is_bert or not is_absolute or objection(config):
            return None
        return cls(**{each.name: config[each.name] for each in fields(cls) if each.name in config})

    def to_dict(self) -> dict[str, Any]:
        return {"model_type": "bert", "hidden_act": "gelu", **asdict(self)}


class Bert(Encoder):
    """The encoder of Devlin et al. (2019), without the layer that sums up a sentence."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.hidden_size, self.vocab_size = config.hidden_size, config.vocab_size
        self.max_length = min(config.max_position_embeddings, config.model_max_length)
        self.embeddings = BertEmbeddings(config)
        layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})
        if not self.embeddings.word_embeddings.weight.is_meta:
            self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.initializer_range)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        if self.embeddings.neighbours is not None:
            nn.init.normal_(self.embeddings.neighbours.weight, std=self.config.hidden_size**-0.5)

    def forward(self, sentences: SubwordBatch, rows: Tensor) -> Tensor:
        vectors = self.embeddings(sentences)  # (M, D)
        *layers, last = cast(nn.ModuleList, self.encoder["layer"])
        for layer in layers:
            vectors = layer(vectors, sentences)
        wanted, places = torch.unique(rows, return_inverse=True)
        return cast(Tensor, last(vectors, sentences, wanted).index_select(0, places))

    def config_json(self) -> str:
        return json.dumps(self.config.to_dict(), indent=1) + "\n"


class BertEmbeddings(nn.Module):
    """Subwords and their positions as vectors; every sentence is a first one, of token type 0."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = empty_embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = empty_embedding(
            config.max_position_embeddings, config.hidden_size
        )
        self.token_type_embeddings = empty_embedding(config.type_vocab_size, config.hidden_size)
        self.neighbours = (
            nn.Linear(2 * config.hidden_size, config.hidden_size) if config.neighbours else None
        )
        self.longest = config.longest
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, sentences: SubwordBatch) -> Tensor:
        others = self.position_embeddings.weight + self.token_type_embeddings.weight[0]
        places = sentences.places % sentences.width
        positions = functional.embedding(places, others)
        if self.longest and not self.training:  # nothing was learned about words further behind
            learned = functional.embedding(places.clamp(max=self.longest), others)
            positions = learned.lerp(positions, OWN_PLACE)
        words = self.word_embeddings(sentences.ids)
        if (
            self.neighbours is not None
        ):  # of the marks around a sentence those around others, which are the same
            words = words + self.neighbours(torch.cat([words.roll(1, 0), words.roll(-1, 0)], dim=1))
        return cast(Tensor, self.dropout(self.LayerNorm(words + positions)))  # (M, D)


def empty_embedding(count: int, width: int) -> nn.Embedding:
    """Vectors without values: normal numbers on the "meta" device would load torch's compiler, which takes a second."""
    empty = torch.empty(count, width)
    return cast(nn.Embedding, nn.Embedding.from_pretrained(empty, freeze=False))  # type: ignore[no-untyped-call]


class BertLayer(nn.Module):
    """Self-attention and a feed-forward network, the input of each added to its output."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = nn.ModuleDict(
            {"dense": nn.Linear(config.hidden_size, config.intermediate_size)}
        )
        self.output = BertOutput(config.intermediate_size, config)

    def forward(
        self, vectors: Tensor, sentences: SubwordBatch, wanted: Tensor | None = None
    ) -> Tensor:
        """The new vectors of all rows, or of the wanted ones alone: (W, D)."""
        attended = self.attention(vectors, sentences, wanted)
        return cast(
            Tensor, self.output(functional.gelu(self.intermediate["dense"](attended)), attended)
        )


class BertAttention(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.self = nn.ModuleDict(
            {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        )
        self.output = BertOutput(width, config)
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob

    def forward(self, vectors: Tensor, sentences: SubwordBatch, wanted: Tensor | None) -> Tensor:
        """What subwords gather from others in their sentence, of all rows or of the wanted ones: (W, D)."""
        parts = cast(list[nn.Linear], list(self.self.values()))
        weight, bias = (
            torch.cat([part.weight for part in parts]),
            torch.cat([part.bias for part in parts]),
        )
        attend = self.attend if vectors.device.type == "cpu" else self.attend_padded
        context = attend(
            functional.linear(vectors, weight, bias),
            sentences,
            self.dropout if self.training else 0.0,
        )
        if wanted is not None:
            context, vectors = context.index_select(0, wanted), vectors.index_select(0, wanted)
        return cast(Tensor, self.output(context, vectors))

    def attend(self, packed: Tensor, sentences: SubwordBatch, p: float) -> Tensor:
        """Attention, with dropout `p`, of rows that hold a query, a key and a value: (M, 3D) to (M, D)."""
        groups = [(len(list(group)), length) for length, group in groupby(sentences.lengths)]
        contexts = []
        for rows, group in zip(
            torch.split(packed, [math.prod(group) for group in groups]), groups, strict=True
        ):
            query, key, value = rows.view(*group, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            context = functional.scaled_dot_product_attention(query, key, value, dropout_p=p)
            contexts.append(context.transpose(1, 2).reshape(len(rows), -1))
        return torch.cat(contexts)

    def attend_padded(self, packed: Tensor, sentences: SubwordBatch, p: float) -> Tensor:
        """The same of all sentences at once: more products, but fewer operations for a GPU to begin."""
        query, key, value = sentences.padded(packed.view(len(packed), 3, self.heads, -1)).permute(
            2, 0, 3, 1, 4
        )
        mask = sentences.mask()[:, None, None]
        context = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=p
        )
        rows = context.transpose(1, 2).reshape(len(sentences.lengths) * sentences.width, -1)
        return rows.index_select(0, sentences.places)


class BertOutput(nn.Module):
    """A linear layer whose output is added to vectors of the same rows, and the sum normalised."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, inputs: Tensor, vectors: Tensor) -> Tensor:
        return cast(Tensor, self.LayerNorm(self.dropout(self.dense(inputs)) + vectors))  # (M, D)


class TransformersEncoder(Encoder):
    """An encoder of Hugging Face's, which reads sentences padded."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # it sums up a sentence in one vector, which nothing reads
        self.model = model
        self.hidden_size = int(model.config.hidden_size)
        self.vocab_size = int(model.get_input_embeddings().num_embeddings)
        self.max_length = int(model.config.model_max_length)

    def forward(self, sentences: SubwordBatch, rows: Tensor) -> Tensor:
        ids = sentences.padded(sentences.ids, self.model.config.pad_token_id or 0)
        vectors = self.model(
            input_ids=ids, attention_mask=sentences.mask().long()
        ).last_hidden_state
        return cast(
            Tensor, vectors.flatten(0, 1).index_select(0, sentences.places.index_select(0, rows))
        )

    def config_json(self) -> str:
        return cast(str, self.model.config.to_json_string())


def objection(config: Mapping[str, Any]) -> str:
    """Why a model of this config cannot be an encoder here; nothing where it can."""
    if config.get("is_encoder_decoder"):
        return (
            "it is an encoder-decoder, whose vectors are those of what it writes; choose an encoder"
        )
    if config.get("is_decoder") or config.get("add_cross_attention"):
        return "it is a decoder, which does not see what follows a word; choose an encoder"
    return ""


def new_encoder(
    settings: ModelSettings,
    sentences: Sequence[Tokens],
    *,
    neighbours: bool = False,
    longest: int | None = None,
) -> tuple[Encoder, Tokenizer]:
    """The encoder that `settings` name and its tokenizer; the embedded one reads just the words of `sentences`.

    It sees words with their `neighbours` where that is asked for: attention would need many examples to find out how
    much the word before a name says about it. Words behind as many as the `longest` training sentence has are seen
    next to the place of its last one.
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
        attention_probs_dropout_prob=0.0,  # so that torch's fused attention serves: a tenth of a step on CPUs
        max_position_embeddings=sizes.longest,
        model_max_length=sizes.longest,
        neighbours=neighbours,
        longest=longest,
    )
    return Bert(config), tokenizer


def load_encoder(name: str) -> tuple[Encoder, Tokenizer]:
    """A pre-trained encoder and its tokenizer, by hub name or folder."""
    from transformers import AutoModel, AutoTokenizer

    try:
        with quiet_transformers():
            model = AutoModel.from_pretrained(name, dtype=torch.float32, trust_remote_code=False)
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise NqgError(f"the encoder '{name}' could not be loaded: {error}") from error
    if reason := objection(model.config.to_dict()):
        raise NqgError(
            f"the encoder '{name}' cannot be used: {reason}, for instance bert-base-uncased"
        )
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise NqgError(
            f"the tokenizer of the encoder '{name}' does not say which word a subword belongs to: try another"
        )
    positions = getattr(model.config, "max_position_embeddings", None) or UNLIMITED
    model.config.model_max_length = min(int(tokenizer.model_max_length), positions, UNLIMITED)
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    subwords = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    subwords.no_truncation()
    subwords.no_padding()
    config = BertConfig.from_dict(model.config.to_dict())
    if config is None:
        return TransformersEncoder(model), subwords
    bert = Bert(config)
    bert.load_state_dict(
        {key: value for key, value in model.state_dict().items() if not key.startswith("pooler.")}
    )
    return bert, subwords


def read_encoder(config: Path) -> Encoder:
    """An encoder by its `config.json`, its weights not yet set; code that a config may name is never run."""
    values = json.loads(config.read_text(encoding="utf-8"))
    if reason := objection(values):
        raise FormatError(f"the encoder cannot be used: {reason}", config)
    bert = BertConfig.from_dict(values)
    if bert is not None:
        return Bert(bert)
    from transformers import AutoConfig, AutoModel

    with quiet_transformers():
        found = AutoConfig.from_pretrained(config.parent, trust_remote_code=False)
        model = AutoModel.from_config(found, dtype=torch.float32, trust_remote_code=False)  # type: ignore[no-untyped-call]
        return TransformersEncoder(model)
