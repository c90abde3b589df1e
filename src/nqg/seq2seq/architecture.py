"""Encoder-decoders and decoder-only models behind one interface: logits of targets, and targets
that are generated.

A decoder-only model reads a source, a subword that separates it from the target, and the target.
That subword is to it what the start of the decoder's input is to an encoder-decoder. So a batch is
the same for both: sources, and inputs of the decoder that begin with the start.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from nqg.seq2seq.legal_decoding import LegalContinuations

PROMPT_END = "\n"


def is_decoder_only(model: Any) -> bool:
    """Whether a model has no encoder, as GPT, Llama, Qwen and Gemma."""
    return not getattr(model.config, "is_encoder_decoder", True)


def prepare_decoder_only(model: Any, tokenizer: Any) -> None:
    """Choose the subwords that separate, end and pad the texts of a decoder-only model."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    separator = tokenizer(PROMPT_END, add_special_tokens=False)["input_ids"]
    start = tokenizer.eos_token_id
    if separator and separator[-1] != tokenizer.unk_token_id:
        start = separator[-1]
    config = model.generation_config
    config.decoder_start_token_id = start
    # Chat models may have several ends.
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id


def forward(model: Any, sources: Tensor, mask: Tensor, inputs: Tensor) -> Any:
    """The model's output; its `logits` are those of what follows each of the `inputs`: (B, T, V).

    `sources` and `mask` are (B, S), padded on the right, `inputs` (B, T).
    """
    if not is_decoder_only(model):
        return model(
            input_ids=sources,
            attention_mask=mask,
            decoder_input_ids=inputs,
            use_cache=False,
        )
    # The padding between source and target is masked and has no position.
    whole = torch.cat([mask, torch.ones_like(inputs)], dim=1)  # (B, S + T)
    return model(
        input_ids=torch.cat([sources, inputs], dim=1),
        attention_mask=whole,
        position_ids=(whole.cumsum(1) - 1).clamp(min=0),
        use_cache=False,
        logits_to_keep=inputs.shape[1],
    )


def generate(
    model: Any,
    sources: Tensor,
    mask: Tensor,
    config: GenerationConfig,
    allowed: LogitsProcessor | LegalContinuations | None = None,
) -> Tensor:
    """Generated rows, each with the start before its target; `allowed` sees no source."""
    if not is_decoder_only(model):
        return model.generate(  # type: ignore[no-any-return]
            input_ids=sources,
            attention_mask=mask,
            generation_config=config,
            logits_processor=LogitsProcessorList([allowed] if allowed else []),
        )
    # Padding goes to the left, because a target begins where its source ends.
    width = sources.shape[1]
    padding = width - mask.sum(1, keepdim=True)  # (B, 1)
    columns = torch.arange(width, device=sources.device)
    start = torch.full_like(padding, config.decoder_start_token_id)
    prompts = torch.cat([sources.gather(1, (columns - padding) % width), start], dim=1)
    is_prompt = torch.cat([columns >= padding, torch.ones_like(start).bool()], dim=1)
    processors = LogitsProcessorList([AfterSource(allowed, width)] if allowed else [])
    rows: Tensor = model.generate(
        input_ids=prompts,
        attention_mask=is_prompt.long(),
        generation_config=config,
        logits_processor=processors,
    )
    return rows[:, width:]


class AfterSource(LogitsProcessor):
    """For `generate`: a processor that sees rows from the start of the target on."""

    def __init__(
        self, processor: LogitsProcessor | LegalContinuations, width: int
    ) -> None:
        self.processor, self.width = processor, width

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        """The scores that the processor gives."""
        targets: Any = input_ids[:, self.width :]
        return self.processor(targets, scores)  # type: ignore[no-any-return]
