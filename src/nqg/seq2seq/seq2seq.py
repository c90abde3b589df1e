"""The sequence-to-sequence model: pre-trained or small and new, saved, loaded, and asked for the
targets of sources.

A saved folder holds weights, tokenizer, codec of targets and settings, and nothing executable.
`nqg.json` is its index, with the checksum of every file. transformers writes weights and tokenizer,
so that the folder can be used without nqg.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import get_hf_file_metadata, hf_hub_url
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from nqg.answers import SEQ2SEQ, Answer, distinct_candidates, exact_match
from nqg.data.example import Example
from nqg.errors import DamagedModel, FormatError, MissingExtra, NqgError, Place
from nqg.extensions import load_extension
from nqg.files import strict_json
from nqg.model.tensors import best_device
from nqg.model_folder import (
    SEQ2SEQ_KIND,
    check_finite,
    check_vocabulary,
    convert_errors,
    model_written,
    quiet_transformers,
)
from nqg.seq2seq.architecture import (
    forward,
    generate,
    is_decoder_only,
    prepare_decoder_only,
)
from nqg.seq2seq.folder import GENERATION_FILE, SEQ2SEQ_VERSION, check_folder
from nqg.seq2seq.legal_decoding import LegalContinuations
from nqg.seq2seq.settings import (
    BASELINE_MODELS,
    FineTuningSettings,
    LoraSettings,
    Seq2seqSettings,
    SmallT5Settings,
    is_new,
)
from nqg.seq2seq.target_codec import TargetCodec, decode, target_subwords
from nqg.seq2seq.tokenizer import tokenize_sources

# How transformers calls causal language models.
CAUSAL = re.compile("ForCausalLM|LMHeadModel")
HUB_TIMEOUT = 10  # seconds until the Hugging Face Hub counts as unreachable
# Bounds of memory: subwords of sources that are read at once, padding included, and logits that are
# held at once when probabilities are computed.
BATCH_SUBWORDS = 2**15
BATCH_LOGITS = 2**27


def check_pretrained(name: str) -> None:
    """Refuse a model that is neither a folder nor stored nor to be downloaded, before anything is
    trained.
    """
    if is_new(name):
        return
    try:
        with quiet_transformers():
            AutoConfig.from_pretrained(
                name, trust_remote_code=False, local_files_only=True
            )
    except (OSError, ValueError) as error:
        if Path(name).exists():
            raise _not_loaded(name, error) from error
        # One request is enough to see whether the rest can be downloaded: transformers would ask
        # for minutes.
        try:
            get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=HUB_TIMEOUT)
        except Exception as refusal:  # those of several HTTP libraries
            raise _not_loaded(name, refusal) from refusal


def _not_loaded(name: str, error: Exception) -> NqgError:
    reason = str(error).strip().split("\n")[0]
    return NqgError(
        f"cannot load the sequence-to-sequence model '{name}': {reason.rstrip('.')}; without a "
        "network, name the folder of its weights, or 'embedded', which needs none"
    )


def load_pretrained(name: str) -> tuple[Any, Any]:
    """A pre-trained encoder-decoder or causal language model and its tokenizer; one that lacks
    weights is refused, never filled at random.
    """
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(name, trust_remote_code=False)
            kind: Any = AutoModelForSeq2SeqLM
            if not config.is_encoder_decoder:
                if not any(map(CAUSAL.search, config.architectures or ())):
                    raise NqgError(
                        f"'{name}' is neither an encoder-decoder nor a causal language model and "
                        "cannot write targets; choose one, for instance google/flan-t5-small, "
                        "t5-base or google/byt5-small"
                    )
                kind = AutoModelForCausalLM
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model, report = kind.from_pretrained(
                name,
                dtype=torch.float32,
                output_loading_info=True,
                trust_remote_code=False,
            )
    except (OSError, ValueError, ImportError) as error:
        raise _not_loaded(name, error) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise NqgError(
            f"the weights of '{name}' are incomplete: {len(missing)} are missing, "
            f"first {missing[0]}"
        )
    if is_decoder_only(model):
        prepare_decoder_only(model, tokenizer)
    return model, tokenizer


def with_lora(model: Any, settings: LoraSettings, seed: int) -> Any:
    """The model with its weights frozen and small trainable ones beside its attention (package
    peft).
    """
    try:
        from peft import LoraConfig, TaskType, get_peft_model
    except ImportError as error:
        raise MissingExtra("fine-tuning with LoRA", "lora") from error
    task = TaskType.CAUSAL_LM if is_decoder_only(model) else TaskType.SEQ_2_SEQ_LM
    config = LoraConfig(
        task_type=task,
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
    # peft warns of a head that never was tied to the embeddings.
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Input and output embeddings are no longer tied"
        )
        return model.merge_and_unload()


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose subwords are the words of `texts`.

    >>> tokenizer = word_tokenizer(["jump twice", "JUMP JUMP"])
    >>> tokenizer.decode(tokenizer("jump JUMP")["input_ids"])
    'jump JUMP </s>'
    """
    text = " ".join(texts)
    special = []
    for name in ("<pad>", "</s>", "<unk>"):
        # The tokenizer would find a special token inside of words, too.
        while name in text:
            name = f"<{name}>"
        special.append(name)
    padding, end, unknown = special
    vocabulary = [*special, *sorted({*text.split()})]
    ids = dict(zip(vocabulary, range(len(vocabulary))))
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, 1)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=padding, eos_token=end, unk_token=unknown
    )


def small_t5(
    settings: SmallT5Settings, words: int, seed: int
) -> T5ForConditionalGeneration:
    """A T5 with new weights, which depend on `seed` alone."""
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
    model.config.decoder_start_token_id = config.pad_token_id
    model.generation_config.decoder_start_token_id = config.pad_token_id
    return model


@dataclass(frozen=True)
class Seq2seq:
    """A model with its tokenizer, the codec of its targets, and how it reads and writes.

    >>> from nqg.seq2seq.settings import SmallT5Settings
    >>> tiny = Seq2seqSettings(longest_target=8, embedded=SmallT5Settings(width=16, layers=1, heads=2))
    >>> pairs = [Example("walk", "W"), Example("jump", "J")]
    >>> seq2seq = Seq2seq.train(pairs, tiny, FineTuningSettings(steps=1), device="cpu")
    >>> len(seq2seq.predict(["walk", "jump", "walk"]))
    3
    """

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    spelling: TargetCodec
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
        """A model fine-tuned on `examples`. With `dev`, the weights that did best on them."""
        from nqg.seq2seq.fine_tuning import FineTuning  # which imports this module

        fine_tuning = FineTuning(examples, settings, training, dev=dev, device=device)
        for _ in fine_tuning.steps():
            pass
        return fine_tuning.seq2seq

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Seq2seq:
        """The model in a folder. One that is not a model, or is damaged, is refused with the
        reason.
        """
        folder = Path(folder)
        config, generation = folder / "config.json", folder / GENERATION_FILE

        # 1. The index and the files that it lists. transformers would ignore a damaged file.
        settings, codec = check_folder(folder)
        with convert_errors("damaged", generation):
            if generation.exists():
                text = generation.read_text(encoding="utf-8")
                GenerationConfig.from_dict(strict_json(text, Place(generation, 1)))

        # 2. Model and tokenizer.
        with convert_errors("the model cannot be made", config):
            if settings.model in BASELINE_MODELS:
                model = load_extension(BASELINE_MODELS[settings.model]).from_pretrained(
                    folder
                )
                tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            else:
                model, tokenizer = load_pretrained(str(folder))
            check_finite(model.state_dict(), folder)
            embeddings = model.get_input_embeddings().num_embeddings
            check_vocabulary(tokenizer.get_vocab(), embeddings, config)
            if tokenizer.pad_token_id is None:
                raise FormatError("the tokenizer has no subword for padding", config)

        # 3. A first answer, of one subword.
        loaded = cls(
            model.to(device or best_device()).eval(), tokenizer, codec, settings
        )
        with convert_errors("the model cannot write a target", folder):
            replace(loaded, settings=replace(settings, longest_target=1)).answers(
                ["a sentence"]
            )
        return loaded

    def save(
        self, folder: Path | str, also: Callable[[Path], object] | None = None
    ) -> None:
        """Write everything that `load` needs into a folder, whole or not at all. `also` may add
        files.
        """
        manifest = {
            "kind": SEQ2SEQ_KIND,
            "version": SEQ2SEQ_VERSION,
            "settings": asdict(self.settings),
            "spelling": asdict(self.spelling),
        }
        with model_written(Path(folder), manifest) as staging, quiet_transformers():
            self.model.save_pretrained(staging)
            self.tokenizer.save_pretrained(staging)
            if also is not None:
                also(staging)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self.model.device)

    def too_long(self, sources: Sequence[str]) -> list[int]:
        """The positions of the sources whose ends the model does not read."""
        subwords = tokenize_sources(
            self.tokenizer, self.settings, sources, truncate=False
        )
        longest = self.settings.longest_source
        return [position for position, ids in enumerate(subwords) if len(ids) > longest]

    def predict(
        self, sources: Sequence[str], *, allowed: LogitsProcessor | None = None
    ) -> list[str]:
        """The target of every source. `allowed` may mask subwords as they come."""
        return [answer.target or "" for (answer,) in self._generate(sources, allowed)]

    def answers(
        self, sentences: Iterable[str], *, allowed: LogitsProcessor | None = None
    ) -> list[Answer]:
        """What `predict` gives, with the probability of each target among all texts that the model
        might write.
        """
        return [
            answer
            for (answer,) in self._generate(list(sentences), allowed, is_scored=True)
        ]

    def candidates(
        self,
        sentences: Sequence[str],
        count: int,
        *,
        allowed: LogitsProcessor | LegalContinuations | None = None,
    ) -> list[list[Answer]]:
        """Up to `count` different targets of each sentence that a beam search finds, the likeliest
        first.

        The search has at least `count` beams. Probabilities are those of the free model also where
        `allowed` masks subwords.
        """
        # The baselines cannot search with beams.
        if self.settings.model in BASELINE_MODELS:
            count = 1
        options: dict[str, Any] = {"num_beams": max(count, self.settings.beams)}
        # Padding that a beam writes could not be told from what fills its row.
        if self.tokenizer.pad_token_id != self.tokenizer.eos_token_id:
            options["suppress_tokens"] = [self.tokenizer.pad_token_id]
        found = self._generate(
            sentences, allowed, is_scored=True, count=count, **options
        )
        return list(map(distinct_candidates, found))

    def drawn(
        self,
        sources: Sequence[str],
        count: int = 1,
        *,
        top_p: float = 0.9,
        seed: int = 0,
    ) -> list[list[str]]:
        """Targets of each source, drawn by their probabilities without unlikely subwords (nucleus
        sampling).
        """
        with torch.random.fork_rng(
            devices=[self.device] if self.device.type == "cuda" else []
        ):
            torch.manual_seed(seed)
            drawn = self._generate(
                sources, count=count, num_beams=1, do_sample=True, top_p=top_p, top_k=0
            )
        return [[answer.target or "" for answer in answers] for answers in drawn]

    def exact_match(self, examples: Sequence[Example]) -> float:
        """The share of examples whose target is predicted."""
        predicted = self.predict([example.source for example in examples])
        pairs = zip(predicted, examples)
        return sum(
            exact_match(target, example.target) for target, example in pairs
        ) / len(examples)

    def losses(self, examples: Sequence[Example]) -> list[float]:
        """The cross entropy of each target given its source, in nats a subword."""
        pairs = [(example.source, example.target) for example in examples]
        logs = self.log_probabilities(pairs)
        subwords = self.target_subwords([example.target for example in examples])
        return [-log / len(ids) for log, ids in zip(logs, subwords)]

    @torch.inference_mode()
    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The natural logarithm of p(target | sentence) for each pair (sentence, target).

        Of a target that is longer than the model writes, the beginning counts.
        """
        self.model.eval()
        config = self.model.generation_config
        texts = [sentence for sentence, _ in pairs]
        sources = tokenize_sources(self.tokenizer, self.settings, texts, truncate=True)
        targets = self.target_subwords([target for _, target in pairs])
        log_probabilities = [0.0] * len(pairs)
        for positions in batches_by_length(sources):
            rows, counts = [], []
            for position in positions:
                target = targets[position]
                counts.append(len(target))
                rows.append(torch.tensor([config.decoder_start_token_id, *target]))
            padded = pad_sequence(
                rows, batch_first=True, padding_value=config.pad_token_id
            )
            batch = self._padded([sources[position] for position in positions])
            lengths = torch.tensor(counts, device=self.device)
            logs = self._log_probabilities(batch, padded.to(self.device), lengths)
            for position, log in zip(positions, logs):
                log_probabilities[position] = log
        return log_probabilities

    def target_subwords(self, targets: Sequence[str]) -> list[list[int]]:
        """The subwords of targets, with their ends, as many as the model writes."""
        longest = self.settings.longest_target
        return target_subwords(self.tokenizer, self.spelling, targets, longest)

    @torch.inference_mode()
    def _generate(
        self,
        sources: Sequence[str],
        allowed: LogitsProcessor | LegalContinuations | None = None,
        *,
        is_scored: bool = False,
        count: int = 1,
        **options: Any,
    ) -> list[list[Answer]]:
        """`count` targets of every source, as settings and `options` say, if `is_scored` with their
        probabilities.

        Sources of similar lengths are read together.
        """
        # Whatever the model's own configuration has for other tasks is ignored.
        self.model.eval()
        defaults = self.model.generation_config
        options = {"num_beams": self.settings.beams, "do_sample": False, **options}
        beams = options["num_beams"]
        # The likeliest text is wanted, and not the one whose subwords are likeliest on average.
        if beams > 1:
            options["length_penalty"] = 0.0
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            **options,
            num_return_sequences=count,
            max_new_tokens=self.settings.longest_target,
            decoder_start_token_id=defaults.decoder_start_token_id,
            bos_token_id=defaults.bos_token_id,
            eos_token_id=defaults.eos_token_id,
            pad_token_id=defaults.pad_token_id,
        )
        subwords = tokenize_sources(
            self.tokenizer, self.settings, sources, truncate=True
        )
        answers: list[list[Answer]] = [[] for _ in sources]
        for positions in batches_by_length(subwords, beams):
            batch = self._padded([subwords[position] for position in positions])
            rows = generate(
                self.model,
                batch["input_ids"],
                batch["attention_mask"],
                config,
                allowed,
            )
            # A text ends with its first end; what follows fills its row.
            is_end = rows[:, 1:] == defaults.eos_token_id
            lengths = 1 + (is_end.cumsum(1) == 0).sum(1)
            lengths = lengths.clamp(max=rows.shape[1] - 1)
            logs: Sequence[float | None] = [None] * len(rows)
            if is_scored:
                logs = self._log_probabilities(batch, rows, lengths)
            ids = []
            for row, length in zip(rows.tolist(), lengths.tolist()):
                ids.append(row[1 : 1 + length])
            texts = decode(self.tokenizer, ids)
            for number, (text, log) in enumerate(zip(texts, logs)):
                # A search that finds fewer sequences than it has beams repeats some. What is
                # drawn may well be drawn twice.
                if is_scored and ids[number] in ids[number - number % count : number]:
                    continue
                position = positions[number // count]
                target = self.spelling.decode(text) or None
                probability = None if log is None else math.exp(log)
                answers[position].append(
                    Answer(sources[position], target, probability, SEQ2SEQ)
                )
        return answers

    def _padded(self, ids: list[list[int]]) -> dict[str, Tensor]:
        padded = self.tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(
            self.device
        )
        return {name: padded[name] for name in ("input_ids", "attention_mask")}

    def _log_probabilities(
        self, batch: dict[str, Tensor], rows: Tensor, lengths: Tensor
    ) -> list[float]:
        """The logarithm of each row's probability, several rows a source: much faster than while
        they are written.

        A row has the start and then as many subwords of a target as `lengths` says.
        """
        count = len(rows) // len(batch["input_ids"])
        size = max(1, BATCH_LOGITS // (rows.shape[1] * self.model.config.vocab_size))
        repeated = (ids.repeat_interleave(count, dim=0) for ids in batch.values())
        tensors = (torch.split(tensor, size) for tensor in (rows, lengths, *repeated))
        log_probabilities: list[float] = []
        for chunk, ends, sources, mask in zip(*tensors):
            logits = forward(self.model, sources, mask, chunk[:, :-1]).logits.float()
            if not logits.isfinite().all():
                raise DamagedModel(
                    "the model gives logits that are not numbers: its weights are damaged; "
                    "train it again"
                )
            positions = torch.arange(chunk.shape[1] - 1, device=chunk.device)
            is_unused = positions >= ends[:, None]
            losses = cross_entropy(
                logits.transpose(1, 2), chunk[:, 1:], reduction="none"
            )
            log_probabilities += (-losses.masked_fill(is_unused, 0).sum(1)).tolist()
        return log_probabilities


def batches_by_length(
    subwords: Sequence[Sequence[int]], beams: int = 1
) -> Iterator[list[int]]:
    """Positions in batches of similar lengths, the longest first: a lack of memory shows at once.

    Each beam has the source's keys and values for itself.
    """
    left = sorted(range(len(subwords)), key=lambda position: -len(subwords[position]))
    while left:
        count = max(1, BATCH_SUBWORDS // (beams * len(subwords[left[0]])))
        yield left[:count]
        del left[:count]
