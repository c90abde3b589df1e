"""The config of BERT, as `config.json` of a model folder has it, and the shapes of its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

# Subwords of a sentence, where neither encoder nor tokenizer has a limit.
UNLIMITED = 1 << 20
# Words behind the longest training sentence have positions that were never trained. Such a position
# is that of the last trained one and, with this weight, its own: with a weight of 0 these words
# would be a set. benchmarks/constants.py varies it, on the longest fifth of training sets.
EXTRAPOLATED_POSITION_WEIGHT = 0.01


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The entries of BERT's `config.json` that matter here, with the defaults that they have there.

    The last two are ours: whether words are seen with their `neighbours`, and how many words the
    `longest` training sentence has, if positions were learned from scratch.
    """

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
    neighbours: bool = False
    longest: int | None = None

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> BertConfig | None:
        """The config of a model that we compute as its authors do; None for any other."""
        is_bert = (
            config.get("model_type") == "bert"
            and config.get("hidden_act", "gelu") == "gelu"
        )
        is_absolute = config.get("position_embedding_type") in (None, "absolute")
        if not is_bert or not is_absolute or unsupported_reason(config):
            return None
        names = config.keys() & {field.name for field in fields(cls)}
        return cls(**{name: config[name] for name in names})

    def to_json(self) -> str:
        config = {"model_type": "bert", "hidden_act": "gelu", **asdict(self)}
        return json.dumps(config, indent=1) + "\n"

    @property
    def max_length(self) -> int:
        """How many subwords of a sentence are read at most."""
        return min(self.max_position_embeddings, self.model_max_length)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all weights by their names, which are those of Hugging Face's
        `BertModel`.
        """
        width = self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "embeddings.word_embeddings.weight": (self.vocab_size, width),
            "embeddings.position_embeddings.weight": (
                self.max_position_embeddings,
                width,
            ),
            "embeddings.token_type_embeddings.weight": (self.type_vocab_size, width),
            "embeddings.LayerNorm.weight": (width,),
            "embeddings.LayerNorm.bias": (width,),
        }

        def linear(name: str, inputs: int, outputs: int) -> None:
            shapes[f"{name}.weight"] = (outputs, inputs)
            shapes[f"{name}.bias"] = (outputs,)

        if self.neighbours:
            linear("embeddings.neighbours", 2 * width, width)
        for number in range(self.num_hidden_layers):
            layer = f"encoder.layer.{number}"
            for name in ("query", "key", "value"):
                linear(f"{layer}.attention.self.{name}", width, width)
            linear(f"{layer}.attention.output.dense", width, width)
            linear(f"{layer}.intermediate.dense", width, self.intermediate_size)
            linear(f"{layer}.output.dense", self.intermediate_size, width)
            for part in ("attention.output", "output"):
                shapes[f"{layer}.{part}.LayerNorm.weight"] = (width,)
                shapes[f"{layer}.{part}.LayerNorm.bias"] = (width,)
        return shapes


def unsupported_reason(config: Mapping[str, Any]) -> str:
    """Why a model of this config cannot be an encoder here; nothing where it can."""
    if config.get("is_encoder_decoder"):
        return "it is an encoder-decoder, whose vectors are those of what it writes; choose an encoder"
    if config.get("is_decoder") or config.get("add_cross_attention"):
        return (
            "it is a decoder, which does not see what follows a word; choose an encoder"
        )
    return ""
