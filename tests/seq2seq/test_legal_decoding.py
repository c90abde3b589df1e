"""Decoding under a grammar of legal targets: what may follow, beside brute force, and what models then write."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    ByT5Tokenizer,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.paper.funql import funql_target_grammar
from nqg.seq2seq.legal_decoding import (
    DecodingState,
    LegalContinuations,
    LegalSeq2seq,
    LegalTargets,
    restricted,
)
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from nqg.seq2seq.target_codec import TargetCodec
from nqg.types.target_grammar import TargetGrammar, Wildcard
from oracles import is_legal_beginning, target_languages
from strategies import random_target, target_grammars

PAD, END, UNKNOWN = 0, 1, 2
LETTERS = ("a", "b", "7", "-", "'", " ")
TOKENS = ("a", "b", "ab", "abb", "ba", "7", "'")
CALLS = TargetGrammar.parse("<s> ::= f ( <s> ) | near ( <s> , <s> ) | x_1 | x_2")


@dataclass(frozen=True)
class FakeTokenizer:
    """Word pieces that are written one after the other; the first of a text loses its space, as T5's does."""

    pieces: tuple[str, ...]
    eos_token_id: int = END
    bos_token_id: int | None = None
    cls_token_id: int | None = None

    @classmethod
    def of(cls, pieces: Iterable[str]) -> FakeTokenizer:
        return cls(("", "", "", *dict.fromkeys(pieces)))

    def __len__(self) -> int:
        return len(self.pieces)

    def __call__(
        self, text_target: Sequence[str], **_: bool
    ) -> dict[str, list[list[int]]]:
        """As far as it is needed: only the piece that every text opens with, and the end."""
        opening = [] if self.bos_token_id is None else [self.bos_token_id]
        return {"input_ids": [[*opening, self.eos_token_id] for _ in text_target]}

    def text(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[number] for number in ids)

    def batch_decode(self, rows: Sequence[Sequence[int]], **_: bool) -> list[str]:
        return [self.text(row).removeprefix(" ") for row in rows]


def vocabularies() -> st.SearchStrategy[FakeTokenizer]:
    """Every letter and the space alone, so that every text can be written, and some longer pieces."""
    longer = st.lists(st.text("ab7-' ", min_size=2, max_size=4), max_size=12)
    return longer.map(lambda pieces: FakeTokenizer.of([*LETTERS, *pieces]))


def poor_vocabularies() -> st.SearchStrategy[FakeTokenizer]:
    """All tokens as whole words, and some pieces after which there may be no way to the end of a token."""
    whole = [f" {token}" for token in TOKENS]
    some = st.lists(st.text("ab7-.' ", min_size=1, max_size=3), max_size=8)
    return some.map(lambda pieces: FakeTokenizer.of(["x", *whole, *pieces]))


def grammars() -> st.SearchStrategy[TargetGrammar]:
    return target_grammars(terminals=st.sampled_from(TOKENS))


def state_after(legal: LegalTargets, ids: Iterable[int]) -> DecodingState:
    place = legal.start()
    for number in ids:
        after = legal.after(place, number)
        assert after is not None
        place = after
    return place


# What may follow


@settings(max_examples=80)
@given(grammars(), vocabularies(), st.randoms(use_true_random=False))
def test_exactly_the_pieces_may_follow_that_leave_a_beginning_of_a_legal_target(
    grammar: TargetGrammar, tokenizer: FakeTokenizer, rng: random.Random
) -> None:
    legal = LegalTargets(grammar, tokenizer, TargetCodec())
    place, ids = legal.start(), list[int]()
    for _ in range(5):
        allowed = set(legal.allowed(place).tolist())
        text = tokenizer.text(ids)
        pieces = range(3, len(tokenizer))
        assert allowed - {END} == {
            number
            for number in pieces
            if is_legal_beginning(grammar, text + tokenizer.pieces[number])
        }
        assert (END in allowed) == (
            grammar.accepts(text.split()) and not text.endswith(" ")
        )
        if not allowed - {END}:
            break
        ids.append(rng.choice(sorted(allowed - {END})))
        place = state_after(legal, ids)


@settings(max_examples=150)
@given(grammars(), poor_vocabularies(), st.randoms(use_true_random=False))
def test_there_is_always_a_way_on_even_where_letters_are_missing(
    grammar: TargetGrammar, tokenizer: FakeTokenizer, rng: random.Random
) -> None:
    legal = LegalTargets(grammar, tokenizer, TargetCodec())
    place, ids = legal.start(), list[int]()
    for _ in range(12):
        ids.append(rng.choice(legal.allowed(place).tolist()))
        if ids[-1] == END:
            assert grammar.accepts(tokenizer.text(ids).split())
            break
        place = state_after(legal, ids)


@settings(max_examples=50)
@given(grammars(), vocabularies(), st.randoms(use_true_random=False))
def test_every_legal_target_can_be_written_however_it_is_cut(
    grammar: TargetGrammar, tokenizer: FakeTokenizer, rng: random.Random
) -> None:
    legal = LegalTargets(grammar, tokenizer, TargetCodec())
    target = " ".join(random_target(grammar, 8, rng)).replace("unknown", "bb")
    place, start = legal.start(), 0
    while start < len(target):
        fitting = [
            number
            for number in range(3, len(tokenizer))
            if target.startswith(tokenizer.pieces[number], start)
        ]
        if not fitting:
            return  # a wildcard's token in letters that nothing writes
        chosen = rng.choice(fitting)
        assert chosen in legal.allowed(place)
        after = legal.after(place, chosen)
        assert after is not None
        place, start = after, start + len(tokenizer.pieces[chosen])
    assert END in legal.allowed(place)


def test_a_piece_that_leads_into_a_blind_alley_may_not_follow() -> None:
    tokenizer = FakeTokenizer.of(
        ["z", " ne", " near", " n", "ar", " (", " x_1", " )", " ,", " f", " x_2"]
    )
    legal = LegalTargets(CALLS, tokenizer, TargetCodec())
    allowed = {tokenizer.pieces[number] for number in legal.allowed(legal.start())}
    assert allowed == {
        " ne",
        " near",
        " x_1",
        " x_2",
        " f",
    }  # nothing could end what " n" begins


def test_the_end_of_a_token_is_not_the_end_of_a_target() -> None:
    tokenizer = FakeTokenizer.of([*"near(),f x_12", " x", " ("])
    legal = LegalTargets(CALLS, tokenizer, TargetCodec())
    number = {piece: at for at, piece in enumerate(tokenizer.pieces)}
    complete = state_after(legal, [number[piece] for piece in (" x", "_", "1")])
    assert legal.allowed(complete).tolist() == [END]
    unfinished = state_after(legal, [number[piece] for piece in "f ("])
    assert {tokenizer.pieces[each] for each in legal.allowed(unfinished)} == {" ", " x"}


# Spellings


def test_stand_ins_are_written_and_read() -> None:
    grammar = TargetGrammar.parse("<s> ::= x < <.>")
    tokenizer = FakeTokenizer.of([*"x• 3", "<"])
    legal = LegalTargets(grammar, tokenizer, TargetCodec({"<": "•"}))
    ids = [tokenizer.pieces.index(letter) for letter in "x • •"]
    assert END in legal.allowed(state_after(legal, ids))
    before = state_after(legal, ids[:2])
    assert {tokenizer.pieces[number] for number in legal.allowed(before)} == {"•"}


def test_where_a_mark_stands_between_tokens_spaces_mean_nothing() -> None:
    spelling = TargetCodec(space="–")
    tokenizer = FakeTokenizer.of(
        ["f", " f", "(", " (", "–", " –", "x_", "1", " 1", "2", ")", "near", ",", " "]
    )
    legal = LegalTargets(CALLS, tokenizer, spelling)
    ids = [
        tokenizer.pieces.index(piece)
        for piece in (" f", " –", "(", "–", "x_", " 1", "–", ")")
    ]
    for end in range(len(ids)):
        assert ids[end] in legal.allowed(state_after(legal, ids[:end]))
    assert END in legal.allowed(state_after(legal, ids))
    assert spelling.decode(tokenizer.text(ids)) == "f ( x_1 )"
    assert {tokenizer.pieces[number] for number in legal.allowed(legal.start())} == {
        "f",
        " f",
        "near",
        "x_",
    }


def test_targets_with_tokens_that_the_pieces_cannot_write_are_left_out() -> None:
    tokenizer = FakeTokenizer.of([" f", " (", " )", " near", " x_", "1"])
    legal = LegalTargets(CALLS, tokenizer, TargetCodec())
    assert str(legal.grammar) == "<s> ::= f ( <s> ) | x_1\n"


def test_a_language_that_the_pieces_cannot_write_at_all_is_refused_with_what_they_lack() -> (
    None
):
    tokenizer = FakeTokenizer.of([" f", " (", " )", " near", " x_"])
    with pytest.raises(
        NqgError,
        match=r"no legal target can be written in the .* subwords: they lack ',', 'x_1', 'x_2'",
    ):
        LegalTargets(CALLS, tokenizer, TargetCodec())


@settings(max_examples=50)
@given(grammars(), st.sets(st.sampled_from(TOKENS)))
def test_a_restricted_grammar_derives_exactly_the_targets_of_the_tokens_left(
    grammar: TargetGrammar, kept: set[str]
) -> None:
    named = {
        symbol
        for each in grammar.productions
        for symbol in each.right
        if isinstance(symbol, str)
    }
    whole = target_languages(grammar.productions, TOKENS, longest=2)[grammar.start]
    try:
        fewer = restricted(grammar, kept)
    except NqgError:
        is_wild = not named and not any(
            Wildcard.NUMBER in each.right for each in grammar.productions
        )
        assert not any(set(target) <= kept or is_wild for target in whole)
        return
    assert fewer.start == grammar.start
    assert {target for target in whole if set(target) <= kept} <= {
        target for target in whole if fewer.accepts(target)
    }
    left = {
        symbol
        for each in fewer.productions
        for symbol in each.right
        if isinstance(symbol, str)
    }
    assert left <= kept


def test_pieces_that_are_parts_of_characters_never_follow_a_wildcard() -> None:
    grammar = TargetGrammar.parse("<s> ::= <...>")
    tokenizer = FakeTokenizer.of(["a", " a", "\N{REPLACEMENT CHARACTER}", "\n", "  a"])
    legal = LegalTargets(grammar, tokenizer, TargetCodec())
    assert {tokenizer.pieces[number] for number in legal.allowed(legal.start())} == {
        "a",
        " a",
    }


def test_a_bare_separator_may_not_follow_where_pieces_have_their_own() -> None:
    tokenizer = FakeTokenizer.of([" a", " ", "a "])
    legal = LegalTargets(TargetGrammar.parse("<s> ::= <...>"), tokenizer, TargetCodec())
    process = LegalContinuations(legal)
    masked = process(torch.tensor([[PAD]]), torch.zeros(1, len(tokenizer)))
    assert [
        tokenizer.pieces[number] for number in torch.nonzero(masked[0] == 0).flatten()
    ] == [" a"]


# Tokenizers


def trained_tokenizer(
    model: Any, trainer: Any, pre_tokenizer: Any, decoder: Any, targets: Sequence[str]
) -> Any:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
    tokenizer.train_from_iterator(
        targets, trainer(special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False)
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )


@pytest.mark.parametrize(
    "kind",
    [
        (models.BPE, trainers.BpeTrainer, pre_tokenizers.Metaspace, decoders.Metaspace),
        (
            models.Unigram,
            trainers.UnigramTrainer,
            pre_tokenizers.Metaspace,
            decoders.Metaspace,
        ),
        (models.BPE, trainers.BpeTrainer, pre_tokenizers.ByteLevel, decoders.ByteLevel),
        (
            models.WordLevel,
            trainers.WordLevelTrainer,
            pre_tokenizers.WhitespaceSplit,
            lambda: None,
        ),
        None,
    ],
    ids=["BPE", "unigram", "bytes", "words", "ByT5"],
)
def test_what_any_tokenizer_makes_of_a_legal_target_may_be_written(kind: Any) -> None:
    rng = random.Random(0)
    grammar = funql_target_grammar()
    targets = [" ".join(random_target(grammar, 12, rng)) for _ in range(200)]
    named = [" ".join(grammar.recogniser.terminals)]
    tokenizer = (
        ByT5Tokenizer()
        if kind is None
        else trained_tokenizer(
            kind[0](), kind[1], kind[2](), kind[3](), targets + named
        )
    )
    legal = LegalTargets(grammar, tokenizer, TargetCodec())
    for ids in tokenizer(targets).input_ids[:10]:
        pieces = [number for number in ids if number != tokenizer.eos_token_id]
        for end in range(len(pieces)):
            assert pieces[end] in legal.allowed(state_after(legal, pieces[:end]))
        assert tokenizer.eos_token_id in legal.allowed(state_after(legal, pieces))


# Models


def random_model(tokenizer: FakeTokenizer, seed: int) -> Any:
    """A tiny T5 that was never trained, with weights large enough that it has clear, absurd preferences."""
    config = T5Config(  # type: ignore[call-arg]
        vocab_size=len(tokenizer)
        + 2,  # T5's table of embeddings is larger than its vocabulary
        d_model=8,
        d_kv=4,
        d_ff=8,
        num_layers=1,
        num_heads=2,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
    )
    model: Any = T5ForConditionalGeneration(config)
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_(0, 1, generator=generator)
    return model


def generated(
    model: Any, legal: LegalTargets, sentences: int, beams: int
) -> list[list[int]]:
    source = torch.arange(3 * sentences).reshape(sentences, 3) % model.config.vocab_size
    rows = model.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        logits_processor=LogitsProcessorList([LegalContinuations(legal)]),
        max_new_tokens=20,
        num_beams=beams,
        do_sample=False,
    )
    return [row[1:] for row in rows.tolist()]


@settings(max_examples=25)
@given(grammars(), vocabularies(), st.integers(0, 1000), st.sampled_from([1, 3]))
def test_whatever_a_model_finishes_is_legal(
    grammar: TargetGrammar, tokenizer: FakeTokenizer, seed: int, beams: int
) -> None:
    legal = LegalTargets(grammar, tokenizer, TargetCodec())
    for ids in generated(
        random_model(tokenizer, seed), legal, sentences=2, beams=beams
    ):
        if END in ids:
            assert grammar.accepts(tokenizer.text(ids[: ids.index(END)]).split())
        else:
            state_after(legal, ids)


@pytest.mark.parametrize("beams", [1, 2])
def test_a_piece_that_every_text_opens_with_comes_first(beams: int) -> None:
    tokenizer = FakeTokenizer(FakeTokenizer.of(LETTERS).pieces, bos_token_id=UNKNOWN)
    legal = LegalTargets(TargetGrammar.parse("<s> ::= a b"), tokenizer, TargetCodec())
    for row in generated(
        random_model(tokenizer, seed=1), legal, sentences=2, beams=beams
    ):
        assert row[0] == UNKNOWN
        assert tokenizer.text(row[: row.index(END)]).split() == ["a", "b"]


def test_a_row_is_known_by_its_pieces_not_by_its_number() -> None:
    tokenizer = FakeTokenizer.of(LETTERS)
    a, b, space = (tokenizer.pieces.index(letter) for letter in "ab ")
    process = LegalContinuations(
        LegalTargets(TargetGrammar.parse("<s> ::= a b | b"), tokenizer, TargetCodec())
    )
    scores = torch.zeros(2, len(tokenizer))

    def allowed(*rows: Sequence[int]) -> list[list[int]]:
        masked = process(torch.tensor(rows), scores)
        return [torch.nonzero(row == 0).flatten().tolist() for row in masked]

    assert allowed([PAD], [PAD]) == [sorted([a, b, space])] * 2
    assert allowed([PAD, a], [PAD, b]) == [[space], [END]]
    assert allowed([PAD, b, END], [PAD, a, space]) == [[END], [b]]


def test_scores_of_pieces_that_may_follow_stay_as_they_are() -> None:
    tokenizer = FakeTokenizer.of(LETTERS)
    process = LegalContinuations(
        LegalTargets(TargetGrammar.parse("<s> ::= a"), tokenizer, TargetCodec())
    )
    scores = torch.randn(1, len(tokenizer), generator=torch.Generator().manual_seed(0))
    masked = process(torch.tensor([[PAD]]), scores.clone())
    kept = [
        number for number in range(len(tokenizer)) if masked[0, number] > -torch.inf
    ]
    assert [tokenizer.pieces[number] for number in kept] == ["a", " "]
    assert torch.equal(masked[0, kept], scores[0, kept])


def test_a_model_under_a_grammar_says_nothing_rather_than_something_unfinished() -> (
    None
):
    examples = [Example("walk", "WALK"), Example("walk twice", "WALK WALK")]
    training = FineTuningSettings(steps=1, batch_size=2)
    small = SmallT5Settings(width=8, layers=1, heads=2)
    untrained = Seq2seq.train(
        examples,
        Seq2seqSettings(longest_target=6, embedded=small),
        training,
        device="cpu",
    )
    endless = TargetGrammar.parse(
        "<s> ::= WALK <s> | WALK WALK WALK WALK WALK WALK WALK"
    )
    assert [
        each.target
        for each in LegalSeq2seq(untrained, endless).answers(["walk", "run"])
    ] == [
        None,
        None,
    ]
    short = TargetGrammar.parse("<s> ::= WALK twice")
    assert [
        each.target for each in LegalSeq2seq(untrained, short).answers(["walk", "run"])
    ] == ["WALK twice"] * 2


def untrained(seed: int = 0) -> Seq2seq:
    """A tiny model after a step, which writes at most six subwords."""
    examples = [
        Example("walk", "WALK"),
        Example("run twice", "RUN RUN"),
        Example("run walk", "RUN WALK"),
    ]
    settings = Seq2seqSettings(
        longest_target=6, embedded=SmallT5Settings(width=8, layers=1, heads=2)
    )
    training = FineTuningSettings(steps=2, batch_size=2, seed=seed)
    return Seq2seq.train(examples, settings, training, device="cpu")


FOUR = ("WALK", "WALK WALK", "RUN WALK WALK", "RUN RUN")


@pytest.mark.parametrize("seed", range(4))
def test_where_a_free_answer_is_illegal_the_likeliest_legal_target_stands_in_for_it(
    seed: int,
) -> None:
    model = untrained(seed)
    sentences = ["walk", "run", "run twice", "walk walk"]
    free, legal = (
        model.answers(sentences),
        TargetGrammar.parse(f"<s> ::= {' | '.join(FOUR)}"),
    )
    for before, after in zip(
        free, LegalSeq2seq(model, legal).answers(sentences), strict=True
    ):
        chances = model.log_probabilities([(before.source, target) for target in FOUR])
        likeliest = FOUR[chances.index(max(chances))]
        assert after.target == (before.target if before.target in FOUR else likeliest)


@pytest.mark.parametrize("count", [1, 3])
def test_legal_candidates_are_legal_distinct_and_sorted(count: int) -> None:
    model = untrained(seed=2)
    grammar = TargetGrammar.parse(f"<s> ::= {' | '.join(FOUR)}")
    system = LegalSeq2seq(model, grammar)
    for sentence, found in zip(
        ["walk", "run"], system.candidates(["walk", "run"], count), strict=True
    ):
        targets = [answer.target or "" for answer in found]
        assert 1 <= len(set(targets)) == len(targets) <= count
        assert {*targets} <= {*FOUR}
        logs = system.log_probabilities([(sentence, target) for target in targets])
        probabilities = [answer.probability or 0.0 for answer in found]
        assert probabilities == sorted(probabilities, reverse=True)
        # Unknown words are not decoded, so a free model has more ways to spell a target.
        for probability, log in zip(probabilities, logs, strict=True):
            assert math.exp(log) <= probability * (1 + 1e-4)


def test_where_no_legal_target_ends_there_are_no_candidates() -> None:
    seven = TargetGrammar.parse("<s> ::= WALK WALK WALK WALK WALK WALK WALK")
    assert LegalSeq2seq(untrained(), seven).candidates(["walk"], 3) == [[]]


def test_legal_answers_are_not_asked_for_again() -> None:
    answers = [Answer("walk", "a b", 0.5), Answer("run", "b", 0.25)]
    nobody: Any = None
    assert (
        LegalSeq2seq(nobody, TargetGrammar.parse("<s> ::= a b | b")).corrected(answers)
        == answers
    )
