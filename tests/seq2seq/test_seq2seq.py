"""A model from its training to its predictions: learned by heart, saved, loaded, asked in any order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import LogitsProcessor

from nqg.errors import NqgError
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.seq2seq import BATCH_SUBWORDS, Seq2seq, batches_by_length
from nqg.seq2seq.settings import FineTuningSettings, LoraSettings, Seq2seqSettings
from seq2seq_examples import BRIEF, EXAMPLES, SMALL

pytest_plugins = ["seq2seq_fixtures"]
pytestmark = pytest.mark.usefixtures("one_thread")

SOURCES = [example.source for example in EXAMPLES]
TARGETS = [" ".join(example.target.split()) for example in EXAMPLES]


def test_a_tiny_model_learns_its_examples_by_heart(seq2seq: Seq2seq) -> None:
    assert seq2seq.predict(SOURCES) == TARGETS
    assert seq2seq.exact_match(EXAMPLES) == 1.0


def test_a_loaded_model_predicts_what_the_saved_one_did(
    seq2seq: Seq2seq, tmp_path: Path
) -> None:
    asked = [*SOURCES, "jump left", "walk and turn"]
    seq2seq.save(tmp_path / "model")
    loaded = Seq2seq.load(tmp_path / "model", device="cpu")
    assert (loaded.spelling, loaded.settings) == (seq2seq.spelling, seq2seq.settings)
    assert loaded.predict(asked) == seq2seq.predict(asked)


def test_answers_come_in_the_order_of_the_questions(seq2seq: Seq2seq) -> None:
    order = [4, 0, 5, 2, 0, 3]
    assert seq2seq.predict([SOURCES[place] for place in order]) == [
        TARGETS[place] for place in order
    ]


def test_nothing_is_asked_and_nothing_answered(seq2seq: Seq2seq) -> None:
    assert seq2seq.predict([]) == []


def test_an_answer_is_a_prediction_with_the_probability_of_its_pieces(
    seq2seq: Seq2seq,
) -> None:
    asked = [*SOURCES, "jump left", "left left walk and turn"]
    answers = seq2seq.answers(asked)
    assert [answer.target for answer in answers] == seq2seq.predict(asked)
    assert [answer.probability for answer in answers] == pytest.approx(
        [_probability(seq2seq, each) for each in asked], rel=1e-5
    )


@torch.inference_mode()
def _probability(seq2seq: Seq2seq, source: str) -> float:
    """The probability of what the model writes, asked for piece after piece, a source at a time."""
    batch = seq2seq.tokenizer(
        [seq2seq.settings.prefix + source],
        return_tensors="pt",
        return_token_type_ids=False,
    )
    [row] = seq2seq.model.generate(
        **batch, max_new_tokens=seq2seq.settings.longest_target, do_sample=False
    ).tolist()
    probability = 1.0
    for place in range(1, len(row)):
        logits = seq2seq.model(
            **batch, decoder_input_ids=torch.tensor([row[:place]])
        ).logits
        probability *= float(logits[0, -1].softmax(-1)[row[place]])
    return probability


def test_probabilities_do_not_depend_on_how_many_are_computed_at_once(
    seq2seq: Seq2seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = seq2seq.answers(SOURCES)
    monkeypatch.setattr("nqg.seq2seq.seq2seq.BATCH_LOGITS", 1)
    alone = seq2seq.answers(SOURCES)
    assert [answer.target for answer in alone] == [answer.target for answer in together]
    assert [answer.probability for answer in alone] == pytest.approx(
        [answer.probability for answer in together]
    )


def test_white_space_of_a_source_does_not_matter(seq2seq: Seq2seq) -> None:
    assert seq2seq.predict(["  walk \t twice "]) == ["I_WALK I_WALK"]


@given(st.lists(st.integers(1, 2000), max_size=200), st.integers(1, 8))
def test_batches_hold_every_source_once_longest_first_and_stay_small(
    lengths: list[int], beams: int
) -> None:
    subwords = [[0] * length for length in lengths]
    batches = list(batches_by_length(subwords, beams))
    places = [place for batch in batches for place in batch]
    assert sorted(places) == list(range(len(lengths)))
    assert [lengths[place] for place in places] == sorted(lengths, reverse=True)
    for batch in batches:
        assert (
            len(batch) == 1 or beams * len(batch) * lengths[batch[0]] <= BATCH_SUBWORDS
        )


def test_beams_find_what_greed_finds_where_the_model_is_sure(seq2seq: Seq2seq) -> None:
    broad = replace(seq2seq, settings=replace(seq2seq.settings, beams=3))
    assert broad.predict(SOURCES) == TARGETS


@torch.inference_mode()
def test_candidates_are_the_likeliest_of_all_texts_where_there_are_beams_for_all(
    seq2seq: Seq2seq,
) -> None:
    brief = replace(seq2seq, settings=replace(seq2seq.settings, longest_target=2))
    words, end = seq2seq.model.config.vocab_size, seq2seq.tokenizer.eos_token_id
    for source in ("jump left", "walk twice"):
        [found] = brief.candidates([source], words)
        batch = seq2seq.tokenizer(
            [seq2seq.settings.prefix + source],
            return_tensors="pt",
            return_token_type_ids=False,
        )
        rows = torch.tensor([[0, word] for word in range(words)])
        logits = seq2seq.model(
            input_ids=batch["input_ids"].expand(words, -1), decoder_input_ids=rows
        ).logits
        first, second = logits[:, 0].softmax(-1).diagonal(), logits[:, 1].softmax(-1)
        joint = (first[:, None] * second).tolist()
        padding = seq2seq.tokenizer.pad_token_id
        ways: dict[tuple[int, ...], float] = {(end,): float(first[end])}
        for word, other in product(range(words), repeat=2):
            if padding not in (word, other) and word != end:
                ways[word, other] = joint[word][other]
        # Several ways of subwords may spell one text.
        texts: dict[str, float] = defaultdict(float)
        for way in sorted(ways, key=ways.__getitem__, reverse=True)[:words]:
            text = seq2seq.tokenizer.decode(way, skip_special_tokens=True)
            texts[text] += ways[way]
        texts.pop("", None)
        best = sorted(texts, key=texts.__getitem__, reverse=True)[:6]
        assert [answer.target for answer in found[:6]] == best
        for answer, text in zip(found, best, strict=False):
            assert answer.probability == pytest.approx(texts[text], rel=1e-3)
        assert {answer.source for answer in found} == {source}
    assert seq2seq.candidates([], 3) == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_candidates_are_distinct_sorted_and_have_the_probabilities_of_their_targets(
    seq2seq: Seq2seq, count: int
) -> None:
    sentences = [*SOURCES, "walk left twice", "jump jump"]
    for sentence, found in zip(
        sentences, seq2seq.candidates(sentences, count), strict=True
    ):
        targets = [answer.target or "" for answer in found]
        assert 1 <= len(set(targets)) == len(targets) <= count
        assert targets[0] == seq2seq.predict([sentence])[0] or count > 1
        probabilities = [answer.probability or 0.0 for answer in found]
        assert probabilities == sorted(probabilities, reverse=True)
        logs = seq2seq.log_probabilities([(sentence, target) for target in targets])
        # The other ways to spell a target, with unknown words, have next to no probability.
        assert probabilities == pytest.approx(list(map(math.exp, logs)), rel=1e-2)


def test_losses_are_the_mean_of_log_probabilities_over_subwords(
    seq2seq: Seq2seq,
) -> None:
    logs = seq2seq.log_probabilities(
        [(example.source, example.target) for example in EXAMPLES]
    )
    lengths = [len(example.target.split()) + 1 for example in EXAMPLES]
    expected = [-log / length for log, length in zip(logs, lengths, strict=True)]
    assert seq2seq.losses(EXAMPLES) == pytest.approx(expected)
    assert seq2seq.log_probabilities([]) == seq2seq.losses([]) == []


class Without(LogitsProcessor):
    """Rules pieces out, as a grammar of legal targets does."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = list(ids)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return scores.index_fill(1, torch.tensor(self.ids), -torch.inf)


@pytest.mark.parametrize("beams", [1, 2])
def test_pieces_that_are_not_allowed_are_never_written(
    seq2seq: Seq2seq, beams: int
) -> None:
    forbidden = seq2seq.tokenizer.convert_tokens_to_ids(["I_WALK"])
    strict = replace(
        seq2seq, settings=replace(seq2seq.settings, beams=beams, longest_target=12)
    )
    answers = strict.predict(SOURCES, allowed=Without(forbidden))
    assert answers[0] == "I_JUMP"
    assert not any("I_WALK" in answer for answer in answers)


def test_a_prediction_ends_at_the_longest_target(seq2seq: Seq2seq) -> None:
    short = replace(seq2seq, settings=replace(seq2seq.settings, longest_target=2))
    assert short.predict(["turn left and jump"]) == ["( I_LTURN"]


def test_sources_that_are_too_long_are_told(seq2seq: Seq2seq) -> None:
    short = replace(seq2seq, settings=replace(seq2seq.settings, longest_source=4))
    assert short.too_long(["jump", "turn left and jump", "jump twice"]) == [1]
    assert len(short.predict(["turn left and jump"])) == 1


def test_examples_that_are_cut_for_training_are_counted() -> None:
    fitting = FineTuning(
        EXAMPLES,
        replace(SMALL, longest_source=5, longest_target=4),
        BRIEF,
        device="cpu",
    )
    assert (fitting.truncation.sources, fitting.truncation.targets) == (2, 2)
    assert (
        "2 sources and 2 targets are longer than the model reads, first 'turn left and jump'"
        in str(fitting.truncation)
    )
    objective: Any = fitting.trainer.objective
    assert max(len(example.target) for example in objective.corpus.examples) == 4


def test_the_same_seed_makes_the_same_model_and_another_one_another() -> None:
    def losses(seed: int) -> list[float]:
        fitting = FineTuning(EXAMPLES, SMALL, replace(BRIEF, seed=seed), device="cpu")
        return [step.loss for step in fitting.steps()]

    assert losses(0) == losses(0) != losses(1)


def test_a_folder_of_hugging_face_is_fine_tuned(
    tiny_folder: Path, tmp_path: Path
) -> None:
    named = Seq2seqSettings(model=str(tiny_folder))
    trained = Seq2seq.train(
        EXAMPLES, named, FineTuningSettings(steps=3, learning_rate=0.05), device="cpu"
    )
    weights = dict(trained.model.named_parameters())
    assert "lm_head.weight" in weights, (
        "the head of its own must not be tied to the embeddings"
    )
    trained.save(tmp_path / "tuned")
    loaded = Seq2seq.load(tmp_path / "tuned", device="cpu")
    assert all(
        torch.equal(weight, weights[name])
        for name, weight in loaded.model.named_parameters()
    )
    assert loaded.predict(SOURCES) == trained.predict(SOURCES)


def test_lora_learns_beside_frozen_weights_and_is_merged(
    tiny_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    named = Seq2seqSettings(model=str(tiny_folder), lora=LoraSettings(rank=4))
    fitting = FineTuning(
        EXAMPLES, named, FineTuningSettings(steps=4, learning_rate=0.05), device="cpu"
    )
    before = {
        name: weight.clone()
        for name, weight in fitting.model.named_parameters()
        if not weight.requires_grad
    }
    assert all("lora" in name for name in fitting.trainer.weights)
    losses = [step.loss for step in fitting.steps()]
    assert losses[-1] < losses[0]
    now = dict(fitting.model.named_parameters())
    assert all(torch.equal(weight, now[name]) for name, weight in before.items())
    merged = fitting.seq2seq
    merged.save(tmp_path / "merged")
    loaded = Seq2seq.load(tmp_path / "merged", device="cpu")
    assert not any("lora" in name for name, _ in loaded.model.named_parameters())
    assert loaded.predict(SOURCES) == merged.predict(SOURCES)


def test_a_training_without_examples_is_refused() -> None:
    with pytest.raises(NqgError, match="there are no examples to fine-tune on"):
        FineTuning([], SMALL)
