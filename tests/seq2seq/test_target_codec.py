"""Targets survive tokenizers: any text through tokenizers that lose symbols, capitals, spaces, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from nqg.data.example_files import read_examples
from nqg.errors import NqgError, SettingsError
from nqg.paper.spider import load_spider_ssp, nqg_examples
from nqg.seq2seq.seq2seq import word_tokenizer
from nqg.seq2seq.target_codec import TargetCodec, fit_codec, round_trips, unrecoverable

pytest_plugins = ["seq2seq_fixtures"]

ASCII = [chr(code) for code in range(33, 127)]
SIGNS = list("•–§¶éßж")


def like_t5() -> Any:
    """Pieces of one character, `▁` for spaces, symbols of its own composed away, no `<`, `{`, `}`, `~`."""
    known = [character for character in [*ASCII, *SIGNS] if character not in "<{}~^`\\"]
    pieces = [
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", -9.0),
        ("▁", -2.0),
        *((piece, -3.0) for piece in known),
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return wrapped(tokenizer, "<pad>", "</s>", "<unk>")


def like_bert() -> Any:
    """Lower case without accents, punctuation marks apart, spaces forgotten, and tidied up when decoded."""
    lower = [
        character
        for character in [*ASCII, *SIGNS]
        if not character.isupper() and character != "é"
    ]
    vocabulary = [
        "[PAD]",
        "[SEP]",
        "[UNK]",
        *lower,
        *(f"##{character}" for character in lower),
    ]
    tokenizer = Tokenizer(
        models.WordPiece(
            dict(zip(vocabulary, range(999), strict=False)), unk_token="[UNK]"
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", 1)]
    )
    return wrapped(tokenizer, "[PAD]", "[SEP]", "[UNK]")


def byte_level() -> Any:
    """Bytes as GPT-2 writes them: nothing is lost but what looks like a special token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {
        piece: number
        for number, piece in enumerate(["<pad>", "</s>", "<unk>", *alphabet])
    }
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return wrapped(tokenizer, "<pad>", "</s>", "<unk>")


def wrapped(tokenizer: Tokenizer, padding: str, end: str, unknown: str) -> Any:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=padding, eos_token=end, unk_token=unknown
    )


BUILT: dict[str, Callable[[], Any]] = {
    "like T5": like_t5,
    "like BERT": like_bert,
    "byte level": byte_level,
    "ByT5": ByT5Tokenizer,
}
TEXT = st.text(
    st.sampled_from([*"ab1 _-<>{}~^`.,'()=I\n\t", "é", "²", "…"]),
    min_size=1,
    max_size=12,
)
ODD = [
    "select a from b where c <= 3 and d != '{ x }'",
    "I_TURN_LEFT I_JUMP",
    "a__b ___ x_ _y  two  spaces\nand\tlines",
    "t1.name , t2 . name ( n't ) 's",
    "[SEP] a [PAD]",
]


def survives(tokenizer: Any, targets: Sequence[str]) -> TargetCodec:
    codec = fit_codec(tokenizer, targets)
    assert round_trips(tokenizer, codec, targets) == [
        " ".join(target.split()) for target in targets
    ]
    return codec


@pytest.mark.parametrize("make", BUILT.values(), ids=BUILT)
def test_odd_targets_survive_every_tokenizer(make: Callable[[], Any]) -> None:
    survives(make(), ODD)


@pytest.mark.parametrize("make", BUILT.values(), ids=BUILT)
@settings(max_examples=25)
@given(targets=st.lists(TEXT, min_size=1, max_size=4))
def test_any_targets_survive_every_tokenizer(
    make: Callable[[], Any], targets: list[str]
) -> None:
    assume(
        not any(
            "</s>" in target or "<pad>" in target or "<unk>" in target
            for target in targets
        )
    )
    survives(make(), targets)


@given(targets=st.lists(TEXT, min_size=1, max_size=4))
def test_any_targets_survive_the_embedded_tokenizer_untouched(
    targets: list[str],
) -> None:
    assert survives(word_tokenizer(targets), targets) == TargetCodec()


def test_a_tokenizer_that_loses_nothing_needs_no_stand_ins() -> None:
    assert fit_codec(byte_level(), ODD) == TargetCodec()


def test_only_what_is_lost_gets_a_stand_in_that_no_target_holds() -> None:
    codec = survives(like_t5(), ["a < b", "{ x } • y"])
    assert sorted(codec.stand_ins) == ["<", "{", "}"]
    assert codec.space is None
    assert not set(codec.stand_ins.values()) & set("a < b { x } • y")
    assert len(set(codec.stand_ins.values())) == 3


def test_stand_ins_are_signs_that_unseen_targets_are_unlikely_to_hold() -> None:
    assert all(
        not sign.isascii()
        for sign in fit_codec(like_t5(), ["a < b"]).stand_ins.values()
    )


def test_spaces_that_a_tokenizer_forgets_are_marked() -> None:
    codec = survives(like_bert(), ["loc_1 ( a )", "loc _ 1 ( a )"])
    assert codec.space is not None
    assert codec.encode("loc_1 ( a )") != codec.encode("loc _ 1 ( a )")


def test_a_word_that_looks_like_a_special_token_survives() -> None:
    survives(byte_level(), ["a </s> b", "x<pad>y"])


def test_the_choice_is_the_same_whatever_the_order_of_the_targets() -> None:
    assert fit_codec(like_t5(), ODD) == fit_codec(like_t5(), ODD[::-1])


def test_what_cannot_survive_is_refused_with_examples() -> None:
    with pytest.raises(NqgError) as refused:
        fit_codec(
            word_tokenizer(["known words"]), ["known words", "known strangers", "more"]
        )
    words = str(refused.value)
    assert (
        "cannot represent 2 of 3 different targets, even with stand-ins: 'more' comes back as ''"
        in words
    )
    assert "'known strangers' comes back as 'known'" in words
    assert "choose a model with another tokenizer" in words


def test_losses_are_told_with_what_becomes_of_the_target() -> None:
    assert unrecoverable(like_t5(), TargetCodec(), ["a < b", "a = b"]) == [
        ("a < b", "a b")
    ]


REAL = ["t5-tokenizer", "flan-t5-small", "bert-tiny", "minilm", "mpnet-base"]


@pytest.fixture(scope="module")
def real_targets(real_data: Path) -> list[str]:
    """All different targets of GeoQuery, SCAN and Spider-SSP, the last as SQL and as grammars read it."""
    geoquery = [
        example.target
        for example in read_examples(real_data / "geoquery" / "expected_dataset.tsv")
    ]
    scan = [
        line.split(" OUT: ")[1]
        for line in (real_data / "scan" / "tasks.txt").read_text().splitlines()
    ]
    spider = load_spider_ssp(real_data / "spider" / "train_spider.json")
    return sorted(
        {
            *geoquery,
            *scan,
            *(example.target for example in [*spider, *nqg_examples(spider)]),
        }
    )


@pytest.mark.parametrize("name", REAL)
def test_all_real_targets_survive_every_tokenizer_at_hand(
    name: str, real_targets: list[str], real_models: Path
) -> None:
    survives(AutoTokenizer.from_pretrained(real_models / name), real_targets)


@pytest.mark.parametrize("make", BUILT.values(), ids=BUILT)
def test_real_targets_survive_the_tokenizers_built_here(
    make: Callable[[], Any], real_targets: list[str]
) -> None:
    survives(make(), real_targets[::20])


def test_all_real_targets_survive_the_embedded_tokenizer(
    real_targets: list[str],
) -> None:
    assert fit_codec(word_tokenizer(real_targets), real_targets) == TargetCodec()


def words_like_t5(*words: str) -> Any:
    """`like_t5` with whole words among its subwords."""
    plain = like_t5().get_vocab()
    pieces = [(piece, -3.0) for piece in sorted(plain, key=plain.__getitem__)]
    tokenizer = Tokenizer(
        models.Unigram([*pieces, *((f"▁{word}", -1.0) for word in words)], unk_id=2)
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = (
        normalizers.NFKC(),
        pre_tokenizers.Metaspace(),
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return wrapped(tokenizer, "<pad>", "</s>", "<unk>")


ACTIONS = ["I_TURN_LEFT I_JUMP " * 30, "I_TURN_RIGHT I_WALK " * 30, "I_RUN"] * 5


def test_few_long_tokens_are_written_as_the_words_in_them() -> None:
    tokenizer = words_like_t5("turn", "left", "right", "jump", "house", "table")
    codec = fit_codec(tokenizer, ACTIONS)
    words = {
        "I_TURN_LEFT": "left",
        "I_TURN_RIGHT": "right",
        "I_JUMP": "jump",
        "I_WALK": "table",
        "I_RUN": "house",
    }
    assert codec.words == words | {
        "I_RUN": "turn",
        "I_WALK": "house",
    }  # free ones in the order of the vocabulary
    assert codec.encode("I_TURN_LEFT I_JUMP") == "left jump"
    assert not unrecoverable(tokenizer, codec, [target.strip() for target in ACTIONS])


def test_short_targets_many_tokens_and_whoever_asks_for_it_keep_their_own_words() -> (
    None
):
    tokenizer = words_like_t5("left", "right", "jump")
    assert not fit_codec(tokenizer, ["left right " * 300, "jump"]).words
    assert not fit_codec(tokenizer, [f"I_TOKEN_{number}" for number in range(50)]).words
    assert not fit_codec(tokenizer, ACTIONS, one_subword=False).words
    assert fit_codec(tokenizer, ["I_JUMP"], one_subword=True).words == {
        "I_JUMP": "jump"
    }


TOKENS = st.sampled_from(
    ["I_JUMP", "I_JUMP_LEFT", "left", "jump", "a(b", "x_1", "<", "JUMP", "é"]
)
TARGET = st.lists(TOKENS, min_size=1, max_size=6).map(" ".join)


@settings(max_examples=50)
@given(
    targets=st.lists(TARGET, min_size=1, max_size=5),
    others=st.lists(TARGET, max_size=5),
)
def test_words_for_tokens_lose_nothing_of_any_target(
    targets: list[str], others: list[str]
) -> None:
    tokenizer = words_like_t5("left", "jump", "house", "table", "tree")
    codec = fit_codec(tokenizer, targets, one_subword=True)
    assert round_trips(tokenizer, codec, targets) == targets
    assert [codec.decode(codec.encode(other)) for other in others] == others
    assert codec == fit_codec(tokenizer, targets[::-1], one_subword=True)


def test_a_word_for_two_tokens_is_refused() -> None:
    with pytest.raises(SettingsError, match="should all be different"):
        TargetCodec(words={"a": "x", "b": "x"})
