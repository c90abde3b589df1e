"""T5 on CPUs by CTranslate2 (extra `fast`), with weights in eight bits: many times the sentences a
second.

A model is converted once and stored beside the downloaded datasets; neither torch nor transformers
is needed for it. Subwords are handed over by their numbers. Before a converted model is used, it
scores an answer of the model in floats: where the two disagree by more than rounding, the converted
one is not used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nqg.errors import NqgError
from nqg.files import cache_folder
from nqg.model.numpy_scorer import Float32Array
from nqg.model_folder import folder_written_atomically
from nqg.seq2seq.beam_search import beam_search
from nqg.seq2seq.numpy_t5 import RELU, NumpyT5

# An environment variable: at 0, CTranslate2 is not used.
SWITCH = "NQG_FAST"
# The latest converted models are kept, so many of them.
MAX_CONVERTED = 4
# A bound of work: subwords of the answer that both models score.
PROBE_LENGTH = 8
# Nats a subword by which eight bits may change the loss of that answer. This finds a conversion
# that went wrong, which is off by several nats, and judges no model that was converted rightly.
MAX_LOSS_DIFFERENCE = 0.5


def is_wanted() -> bool:
    """Whether CTranslate2 is installed and not switched off."""
    if os.environ.get(SWITCH) == "0":
        return False
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return False
    return True


def load_translator(
    model: NumpyT5, name: str, *, quantization: str = "int8"
) -> Any | None:
    """A model in CTranslate2, converted if it is not stored yet under `name`, a checksum; None
    where it cannot be.
    """
    if not is_wanted():
        return None
    import ctranslate2

    # The disk may be full, or CTranslate2 may not know such a model.
    try:
        folder = converted(model, name, quantization)
        threads = int(os.environ.get("OMP_NUM_THREADS", 0)) or os.cpu_count() or 1
        return ctranslate2.Translator(str(folder), device="cpu", intra_threads=threads)
    except (NqgError, OSError, RuntimeError, ValueError):
        return None


def converted(model: NumpyT5, name: str, quantization: str) -> Path:
    """The folder of a converted model, written if it is absent."""
    import ctranslate2

    home = cache_folder() / "ctranslate2"
    folder = home / f"{name}-{quantization}"
    if folder.is_dir():
        os.utime(folder)
        return folder
    with folder_written_atomically(folder) as staging:
        specification = t5_specification(model)
        specification.validate()
        specification.optimize(quantization=quantization)
        specification.save(str(staging))
        check_conversion(model, ctranslate2.Translator(str(staging), device="cpu"))
    # Other processes remove old folders, too, and write new ones under names that begin with a dot.
    with suppress(OSError):
        folders = [path for path in home.iterdir() if not path.name.startswith(".")]
        folders.sort(key=lambda path: path.stat().st_mtime)
        for old in folders[:-MAX_CONVERTED]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def check_conversion(model: NumpyT5, translator: Any) -> None:
    """Refuse a converted model that finds an answer of the model much less or more likely."""
    config = model.config
    # Any source serves; this one has subwords of the whole vocabulary.
    numbers = np.linspace(0, config.vocab_size - 1, num=PROBE_LENGTH, dtype=int)
    ids = [*numbers.tolist(), config.eos_token_id]
    (answer,) = beam_search(model, model.encode(ids), beams=1, longest=PROBE_LENGTH)
    target = [number for number in answer.subwords[1:] if number != config.eos_token_id]
    (scored,) = translator.score_batch([as_tokens(ids)], [as_tokens(target)])
    scores = scored.log_probs[: len(answer.subwords) - 1]
    if abs(sum(scores) - answer.score) > MAX_LOSS_DIFFERENCE * len(scores):
        raise NqgError("CTranslate2 does not compute the model as its authors do")


def as_tokens(numbers: Iterable[int]) -> list[str]:
    """Subwords as CTranslate2 reads them, which knows them by names."""
    return list(map(str, numbers))


def t5_specification(model: NumpyT5) -> Any:
    """The model as CTranslate2 describes it."""
    from ctranslate2.specs import Activation, TransformerSpec

    config = model.config
    # CTranslate2 rounds weights in place.
    weights = {name: weight.copy() for name, weight in model.weights.items()}
    is_gated = config.feed_forward_proj != RELU
    specification = TransformerSpec.from_config(
        (config.num_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=True,
        activation=Activation.GELUTanh if is_gated else Activation.RELU,
        ffn_glu=is_gated,
        relative_attention_bias=True,
        rms_norm=True,
    )
    encoder, decoder = specification.encoder, specification.decoder
    encoder.embeddings[0].weight = weights["shared.weight"]
    decoder.embeddings.weight = weights["shared.weight"]
    decoder.projection.weight = model.head.copy()
    if config.scale_decoder_outputs:
        decoder.scale_outputs = config.d_model**-0.5
    for name, stack in (("encoder", encoder), ("decoder", decoder)):
        stack.scale_embeddings = False
        stack.layer_norm.gamma = weights[f"{name}.final_layer_norm.weight"]
        for number, layer in enumerate(stack.layer):
            block = f"{name}.block.{number}.layer"
            attention = layer.self_attention
            _set_attention(attention, weights, f"{block}.0", "SelfAttention", (3,))
            # All layers share the bias of the first.
            first = f"{name}.block.0.layer.0.SelfAttention"
            bias = weights[f"{first}.relative_attention_bias.weight"]
            attention.relative_attention_bias = bias
            farthest = np.int32(config.relative_attention_max_distance)
            attention.relative_attention_max_distance = farthest
            last = 1
            if name == "decoder":
                attention = layer.attention
                _set_attention(
                    attention, weights, f"{block}.1", "EncDecAttention", (1, 2)
                )
                last = 2
            _set_feed_forward(layer.ffn, weights, f"{block}.{last}", is_gated)

    vocabulary = as_tokens(range(len(weights["shared.weight"])))
    specification.register_source_vocabulary(vocabulary)
    specification.register_target_vocabulary(vocabulary)
    settings = specification.config
    settings.layer_norm_epsilon = config.layer_norm_epsilon
    settings.eos_token = str(config.eos_token_id)
    settings.decoder_start_token = str(config.decoder_start_token_id)
    # These are never looked up, but must be names of subwords.
    settings.bos_token = settings.unk_token = str(config.pad_token_id)
    return specification


def _set_attention(
    attention: Any,
    weights: Mapping[str, Float32Array],
    layer: str,
    name: str,
    sizes: tuple[int, ...],
) -> None:
    """Set the weights of an attention, whose first matrices are joined in groups of these sizes."""
    attention.layer_norm.gamma = weights[f"{layer}.layer_norm.weight"]
    attention.queries_scale = 1.0
    parts = [weights[f"{layer}.{name}.{part}.weight"] for part in "qkv"]
    for number, size in enumerate(sizes):
        attention.linear[number].weight = np.concatenate(parts[:size])
        del parts[:size]
    attention.linear[-1].weight = weights[f"{layer}.{name}.o.weight"]


def _set_feed_forward(
    network: Any, weights: Mapping[str, Float32Array], layer: str, is_gated: bool
) -> None:
    network.layer_norm.gamma = weights[f"{layer}.layer_norm.weight"]
    name = f"{layer}.DenseReluDense"
    if is_gated:
        network.linear_0.weight = weights[f"{name}.wi_0.weight"]
        network.linear_0_noact.weight = weights[f"{name}.wi_1.weight"]
    else:
        network.linear_0.weight = weights[f"{name}.wi.weight"]
    network.linear_1.weight = weights[f"{name}.wo.weight"]
