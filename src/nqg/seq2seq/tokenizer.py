"""The subwords of sources and targets: the part of a tokenizer of transformers that nqg uses, also
without transformers.

`SubwordTokenizer` reads the files that transformers has written, with the library (tokenizers) that
transformers uses itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from nqg.model_folder import TOKENIZER_FILE
from nqg.seq2seq.folder import TOKENIZER_CONFIG
from nqg.seq2seq.settings import Seq2seqSettings


class SubwordTokenizer:
    """A saved tokenizer, with the methods of transformers' tokenizers that nqg calls."""

    def __init__(self, tokenizer: Tokenizer, special: dict[str, Any]) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.truncating: dict[int, Tokenizer] = {}
        self.bos_token_id = self._special_id(special.get("bos_token"))
        self.cls_token_id = self._special_id(special.get("cls_token"))
        self.eos_token_id = self._special_id(special.get("eos_token"))
        self.pad_token_id = self._special_id(special.get("pad_token"))

    @classmethod
    def read(cls, folder: Path) -> SubwordTokenizer:
        """The tokenizer in a folder."""
        special = json.loads((folder / TOKENIZER_CONFIG).read_text(encoding="utf-8"))
        return cls(Tokenizer.from_file(str(folder / TOKENIZER_FILE)), special)

    def _special_id(self, token: Any) -> int | None:
        """The number of a special token, which a config may describe with its properties."""
        if isinstance(token, dict):
            token = token.get("content")
        return None if token is None else self.tokenizer.token_to_id(token)

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def __call__(
        self,
        text: Sequence[str] | None = None,
        *,
        text_target: Sequence[str] = (),
        truncation: bool = False,
        max_length: int = 0,
        verbose: bool = False,
    ) -> dict[str, list[list[int]]]:
        """The subwords of texts, or of targets, with the special ones around them."""
        tokenizer = self.tokenizer
        if truncation:
            tokenizer = self._truncating(max_length)
        encodings = tokenizer.encode_batch(list(text_target if text is None else text))
        return {"input_ids": [encoding.ids for encoding in encodings]}

    def _truncating(self, length: int) -> Tokenizer:
        """The tokenizer that leaves out what is longer; made once, so that threads can share it."""
        if length not in self.truncating:
            tokenizer = Tokenizer.from_str(self.tokenizer.to_str())
            tokenizer.enable_truncation(length)
            self.truncating[length] = tokenizer
        return self.truncating[length]

    def batch_decode(
        self,
        ids: Sequence[Sequence[int]],
        *,
        skip_special_tokens: bool,
        clean_up_tokenization_spaces: bool = False,
    ) -> list[str]:
        """The texts of subwords; nothing is ever cleaned up."""
        texts: list[str] = self.tokenizer.decode_batch(
            list(ids), skip_special_tokens=skip_special_tokens
        )
        return texts

    def get_vocab(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        return vocabulary


def tokenize_sources(
    tokenizer: Any, settings: Seq2seqSettings, sources: Sequence[str], *, truncate: bool
) -> list[list[int]]:
    """The subwords of sources after the prefix, all of them or as many as the model reads."""
    if not sources:
        return []
    texts = [settings.prefix + source for source in sources]
    longest = settings.longest_source
    encoded = tokenizer(texts, truncation=truncate, max_length=longest, verbose=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids
