"""The sequence-to-sequence model: pre-trained or small and new, saved and loaded, asked for the targets of sources.

A saved folder holds weights, tokenizer, spelling and settings, nothing executable, and needs nothing else. `nqg.json`
is its index, with the checksum of every file. Weights and tokenizer are there as transformers writes them, so that the
folder can be used without nqg as well.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from nqg.answers import Answer, exact_match
from nqg.data.example import Example
from nqg.errors import DamagedModel, FormatError, MissingExtra, NqgError, Place
from nqg.extensions import load_extension
from nqg.files import strict_json
from nqg.model_folder import (
    INDEX,
    SEQ2SEQ_KIND,
    check_config,
    check_contents,
    check_finite,
    check_vocabulary,
    convert_errors,
    index_bytes,
    model_written,
    quiet_transformers,
    read_manifest,
    weight_shapes,
)
from nqg.seq2seq.settings import (
    BASELINE_MODELS,
    FineTuningSettings,
    LoraSettings,
    Seq2seqSettings,
    SmallT5Settings,
)
from nqg.seq2seq.spelling import Spelling, decode, tokenize_targets
from nqg.settings_reader import read_dataclass
from nqg.training.processes import best_device

SEQ2SEQ_VERSION = 1  # of the format of a folder
REQUIRED_SEQ2SEQ_FILES = ("config.json", "tokenizer_config.json")
SEQ2SEQ = "seq2seq"  # how its answers call the system
BATCH_SUBWORDS = 2**15  # of sources that are read at once, padding included
BATCH_LOGITS = 2**27  # that are kept at once when probabilities are computed


def load_pretrained(name: str) -> tuple[Any, Any]:
    """A pre-trained encoder-decoder and its tokenizer; one that lacks weights is refused, never filled up at random."""
    try:
        with quiet_transformers():
            if not AutoConfig.from_pretrained(name, trust_remote_code=False).is_encoder_decoder:
                raise NqgError(
                    f"'{name}' is not an encoder-decoder and cannot write targets; choose one, for instance "
                    "google/flan-t5-small, t5-base or google/byt5-small"
                )
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model, report = AutoModelForSeq2SeqLM.from_pretrained(
                name, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
            )
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().split("\n")[0]
        raise NqgError(f"cannot load the sequence-to-sequence model '{name}': {reason}") from error
    if missing := sorted(report["missing_keys"]):
        raise NqgError(
            f"the weights of '{name}' are incomplete: {len(missing)} are missing, first {missing[0]}"
        )
    return model, tokenizer


def with_lora(model: Any, settings: LoraSettings, seed: int) -> Any:
    """The model with its weights frozen and small trainable ones beside its attention (package peft)."""
    try:
        from peft import LoraConfig, TaskType, get_peft_model
    except ImportError as error:
        raise MissingExtra("fine-tuning with LoRA", "lora") from error
    config = LoraConfig(
        task_type=TaskType.SEQ_2_SEQ_LM,
        r=settings.rank,
        lora_alpha=round(settings.scale * settings.rank),
        lora_dropout=settings.dropout,
        target_modules="all-linear",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def merged(model: Any) -> Any:
    """The model with its low-rank updates added to its weights, if it has any."""
    if not hasattr(model, "merge_and_unload"):
        return model
    with (
        warnings.catch_warnings()
    ):  # peft is surprised by a head that never was tied to the embeddings
        warnings.filterwarnings("ignore", message="Input and output embeddings are no longer tied")
        return model.merge_and_unload()


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose subwords are the words of `texts`.

    >>> tokenizer = word_tokenizer(["jump twice", "JUMP JUMP"])
    >>> tokenizer.decode(tokenizer("jump JUMP")["input_ids"])
    'jump JUMP </s>'
    """
    words = sorted({word for text in texts for word in text.split()})
    special = ["<pad>", "</s>", "<unk>"]
    for number in range(len(special)):
        while any(
            special[number] in word for word in words
        ):  # it would be found inside the word too
            special[number] = f"<{special[number]}>"
    padding, end, unknown = special
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, 1)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=padding, eos_token=end, unk_token=unknown
    )


def small_t5(settings: SmallT5Settings, words: int, seed: int) -> T5ForConditionalGeneration:
    """A T5 with new weights, which `seed` alone decides."""
    config = T5Config(
        vocab_size=words,
        d_model=settings.width,
        d_kv=settings.width // settings.heads,
        d_ff=4 * settings.width,
        num_layers=settings.layers,
        num_heads=settings.heads,
        dropout_rate=settings.dropout,
        pad_token_id=0,
        eos_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = T5ForConditionalGeneration(config)
    for place in (model.config, model.generation_config):
        place.decoder_start_token_id = config.pad_token_id
    return model


@dataclass(frozen=True)
class Seq2seq:
    """A model with its tokenizer, the spelling of its targets, and how it reads and writes."""

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    spelling: Spelling
    settings: Seq2seqSettings

    @classmethod
    def train(
        cls,
        examples: Sequence[Example],
        settings: Seq2seqSettings = Seq2seqSettings(),  # noqa: B008 (frozen)
        training: FineTuningSettings = FineTuningSettings(),  # noqa: B008 (frozen)
        *,
        dev: Sequence[Example] = (),
        device: str | None = None,
    ) -> Seq2seq:
        """A model fine-tuned on `examples`; with `dev`, the weights that did best on them."""
        from nqg.seq2seq.fine_tuning import FineTuning  # which imports this module

        fine_tuning = FineTuning(examples, settings, training, dev=dev, device=device)
        for _ in fine_tuning.steps():
            pass
        return fine_tuning.seq2seq

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Seq2seq:
        """The model in a folder; one that is not a model, or is damaged, is refused with the reason."""
        folder = Path(folder)
        place, config = folder / INDEX, folder / "config.json"
        manifest = read_manifest(folder, index_bytes(folder), SEQ2SEQ_KIND, SEQ2SEQ_VERSION)
        with convert_errors("its files cannot be checked", place):
            check_contents(folder, manifest.get("files"), REQUIRED_SEQ2SEQ_FILES)
        settings = read_dataclass(
            Seq2seqSettings, manifest.get("settings"), "'settings'", place, complete=True
        )
        spelling = read_dataclass(
            Spelling, manifest.get("spelling"), "'spelling'", place, complete=True
        )
        generation = folder / "generation_config.json"
        with convert_errors("damaged", generation):  # which transformers would pass over in silence
            if generation.exists():
                GenerationConfig.from_dict(
                    strict_json(generation.read_text(encoding="utf-8"), Place(generation, 1))
                )
        check_config(config, weight_shapes(*sorted(folder.glob("*.safetensors"))))
        with convert_errors("the model cannot be made", config):
            if settings.model in BASELINE_MODELS:
                model = load_extension(BASELINE_MODELS[settings.model]).from_pretrained(folder)
                tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            else:
                model, tokenizer = load_pretrained(str(folder))
            check_finite(model.state_dict(), folder)
            check_vocabulary(
                tokenizer.get_vocab(), model.get_input_embeddings().num_embeddings, config
            )
            if tokenizer.pad_token_id is None:
                raise FormatError("the tokenizer has no subword for padding", config)
        loaded = cls(model.to(device or best_device()).eval(), tokenizer, spelling, settings)
        with convert_errors("the model cannot write a target", folder):
            replace(loaded, settings=replace(settings, longest_target=1)).answers(["a sentence"])
        return loaded

    def save(self, folder: Path | str, also: Callable[[Path], object] | None = None) -> None:
        """Write everything that `load` needs into a folder, whole or not at all; `also` may add files."""
        manifest = {
            "kind": SEQ2SEQ_KIND,
            "version": SEQ2SEQ_VERSION,
            "settings": asdict(self.settings),
            "spelling": asdict(self.spelling),
        }
        with model_written(Path(folder), manifest) as part, quiet_transformers():
            self.model.save_pretrained(part)
            self.tokenizer.save_pretrained(part)
            if also is not None:
                also(part)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self.model.device)

    def too_long(self, sources: Sequence[str]) -> list[int]:
        """The positions of the sources whose ends the model does not read."""
        lengths = map(len, tokenize_sources(self.tokenizer, self.settings, sources, truncate=False))
        return [
            position
            for position, length in enumerate(lengths)
            if length > self.settings.longest_source
        ]

    def predict(
        self, sources: Sequence[str], *, allowed: LogitsProcessor | None = None
    ) -> list[str]:
        """The target of every source; `allowed` may rule subwords out as they come."""
        return [target for ((target, _),) in self._generate(sources, allowed)]

    def answers(
        self, sentences: Iterable[str], *, allowed: LogitsProcessor | None = None
    ) -> list[Answer]:
        """What `predict` gives, with the probability of each target among all texts that the model might write."""
        sources = list(sentences)
        found = zip(sources, self._generate(sources, allowed, is_scored=True), strict=True)
        return [
            Answer(source, target or None, probability, SEQ2SEQ)
            for source, ((target, probability),) in found
        ]

    def candidates(self, sources: Sequence[str], count: int) -> list[list[Answer]]:
        """The likeliest targets of each source that a search with `count` beams finds, the likeliest first."""
        found = zip(
            sources,
            self._generate(sources, is_scored=True, count=count, num_beams=count),
            strict=True,
        )
        return [
            [Answer(source, target or None, own, SEQ2SEQ) for target, own in each]
            for source, each in found
        ]

    def drawn(
        self, sources: Sequence[str], count: int = 1, *, top_p: float = 0.9, seed: int = 0
    ) -> list[list[str]]:
        """Targets of each source, drawn by their probabilities without unlikely subwords (nucleus sampling)."""
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            found = self._generate(
                sources, count=count, num_beams=1, do_sample=True, top_p=top_p, top_k=0
            )
        return [[target for target, _ in each] for each in found]

    def exact_match(self, examples: Sequence[Example]) -> float:
        """The share of examples whose target is predicted."""
        pairs = zip(self.predict([example.source for example in examples]), examples, strict=True)
        return sum(exact_match(target, example.target) for target, example in pairs) / len(examples)

    @torch.inference_mode()
    def losses(self, examples: Sequence[Example]) -> list[float]:
        """The cross entropy of each target given its source, in nats a subword."""
        self.model.eval()
        sources = tokenize_sources(
            self.tokenizer, self.settings, [each.source for each in examples], truncate=True
        )
        targets = tokenize_targets(
            self.tokenizer, [self.spelling.spelled(each.target) for each in examples]
        )
        longest, padding = self.settings.longest_target, self.model.generation_config.pad_token_id
        start, found = self.model.generation_config.decoder_start_token_id, dict[int, float]()
        for positions in batches_by_length(sources):
            batch = self._padded([sources[position] for position in positions])
            rows = [[start, *targets[position][:longest]] for position in positions]
            width = max(map(len, rows))
            filled = torch.tensor(
                [[*row, *[padding] * (width - len(row))] for row in rows], device=self.device
            )
            logs = self._log_probabilities(batch, filled)
            found.update(
                (at, -log / (len(row) - 1))
                for at, log, row in zip(positions, logs, rows, strict=True)
            )
        return [found[position] for position in range(len(sources))]

    @torch.inference_mode()
    def _generate(
        self,
        sources: Sequence[str],
        allowed: LogitsProcessor | None = None,
        *,
        is_scored: bool = False,
        count: int = 1,
        **how: Any,
    ) -> list[list[tuple[str, float | None]]]:
        """`count` targets of every source and, if asked for, their probabilities, written as settings and `how` say.

        Sources of like lengths are read together.
        """
        self.model.eval()
        own = self.model.generation_config
        chosen = {
            "num_beams": self.settings.beams,
            "do_sample": False,
            "num_return_sequences": count,
            **how,
        }
        if chosen["num_beams"] > 1:
            chosen["length_penalty"] = (
                0.0  # the likeliest text is wanted, not that of the likeliest subwords
            )
        config = GenerationConfig(  # type: ignore[no-untyped-call]  # whatever it has for other tasks is left aside
            **chosen,
            max_new_tokens=self.settings.longest_target,
            decoder_start_token_id=own.decoder_start_token_id,
            bos_token_id=own.bos_token_id,
            eos_token_id=own.eos_token_id,
            pad_token_id=own.pad_token_id,
        )
        rules = LogitsProcessorList([allowed] if allowed else [])
        subwords = tokenize_sources(self.tokenizer, self.settings, sources, truncate=True)
        found: dict[int, list[tuple[str, float | None]]] = {}
        for positions in batches_by_length(subwords, chosen["num_beams"]):
            batch = self._padded([subwords[position] for position in positions])
            rows = self.model.generate(**batch, generation_config=config, logits_processor=rules)
            ends = (rows[:, 1:] == own.eos_token_id).cumsum(
                1
            )  # a beam search fills up with ends, not with padding
            rows[:, 2:][ends[:, :-1] > 0] = own.pad_token_id
            targets = [self.spelling.read(text) for text in decode(self.tokenizer, rows.tolist())]
            repeated = {name: ids.repeat_interleave(count, dim=0) for name, ids in batch.items()}
            logs = self._log_probabilities(repeated, rows) if is_scored else None
            probabilities = (
                [None] * len(targets) if logs is None else [math.exp(log) for log in logs]
            )
            pairs = list(zip(targets, probabilities, strict=True))
            found.update(
                (at, pairs[count * row : count * (row + 1)]) for row, at in enumerate(positions)
            )
        return [found[position] for position in range(len(subwords))]

    def _padded(self, ids: list[list[int]]) -> dict[str, Tensor]:
        padded = self.tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(self.device)
        return {name: padded[name] for name in ("input_ids", "attention_mask")}

    def _log_probabilities(self, batch: dict[str, Tensor], rows: Tensor) -> list[float]:
        """The logarithm of each row's probability, read as a whole: much quicker than asking while it is written."""
        found: list[float] = []
        size = max(1, BATCH_LOGITS // (rows.shape[1] * self.model.config.vocab_size))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            sources = {name: ids[start : start + size] for name, ids in batch.items()}
            logits = self.model(**sources, decoder_input_ids=part[:, :-1]).logits.float()
            if not logits.isfinite().all():
                raise DamagedModel(
                    "the model gives logits that are not numbers: its weights are damaged; train it again"
                )
            is_filled = part[:, 1:] == self.model.generation_config.pad_token_id
            is_unused = (
                is_filled.flip(1).cumprod(1).flip(1).bool()
            )  # after the end; a beam may write padding, too
            losses = cross_entropy(logits.transpose(1, 2), part[:, 1:], reduction="none")
            found += (-losses.masked_fill(is_unused, 0).sum(1)).tolist()
        return found


def tokenize_sources(
    tokenizer: Any, settings: Seq2seqSettings, sources: Sequence[str], *, truncate: bool
) -> list[list[int]]:
    """The subwords of sources after the prefix, all of them or as many as the model reads."""
    texts = [settings.prefix + source for source in sources]
    limits = (
        {"truncation": True, "max_length": settings.longest_source}
        if truncate
        else {"verbose": False}
    )
    ids: list[list[int]] = tokenizer(texts, **limits)["input_ids"] if texts else []
    return ids


def batches_by_length(subwords: Sequence[Sequence[int]], beams: int = 1) -> Iterator[list[int]]:
    """Positions in batches of like lengths, the longest first: if memory is short, it shows at once.

    Each beam has the source's keys and values for itself.
    """
    left = sorted(range(len(subwords)), key=lambda position: (-len(subwords[position]), position))
    while left:
        count = max(1, BATCH_SUBWORDS // (beams * len(subwords[left[0]])))
        yield left[:count]
        del left[:count]
