"""The loss against enumeration, batches, the schedule, and whole runs of training."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import NqgError, SettingsError, UnknownName
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NodeId
from nqg.inference.parser import Parser
from nqg.model import forests as forests_module
from nqg.model.forest_crf import TrainingData, batch_loss
from nqg.model.forests import TrainingForests
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.model.subwords import tokenize
from nqg.training.parser_training import ParserTraining, batches
from nqg.training.records import DevScores
from nqg.training.trainer import Diverged, LearningRate, Trainer, autocast, copied
from oracles import all_derivations
from scoring import score_table

GRAMMAR = Grammar.parse("""
jump ### J
walk ### W
jump ### W
NT_1 twice ### NT_1 NT_1
NT_1 and NT_2 ### NT_1 NT_2
NT_1 and NT_2 ### NT_2 NT_1
""")
EXAMPLES = [
    Example("jump twice", "J J"),
    Example("walk and jump", "W J"),
    Example("jump and jump twice", "J J J"),
    Example("walk and jump and walk twice", "W J W W"),
    Example("walk", "W"),
]
CPU = torch.device("cpu")
TINY = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)


def fitting(
    steps: int = 4, seed: int = 0, examples: list[Example] = EXAMPLES
) -> ParserTraining:
    training = TrainingSettings(steps=steps, batch_size=2, warm_up=2, seed=seed)
    return ParserTraining(
        GRAMMAR, examples, Parser, model=TINY, training=training, device="cpu"
    )


def exact() -> ParserTraining:
    """A model in float64 without dropout."""
    found = fitting()
    found.scorer.double().eval()
    return found


def loss(model: ParserTraining, batch: list[int]) -> torch.Tensor:
    return batch_loss(model.scorer, model.data.collate(batch, CPU))


def enumerated_loss(model: ParserTraining, example: Example) -> float:
    """-log p(target | source), derivation by derivation."""
    saved, source = model.model, example.source_tokens
    full = charts(GRAMMAR, [source])
    table = score_table(model.scorer, tokenize(saved.tokenizer, [source]), full)
    spans = {full.span(NodeId(number)): number for number in range(full.nodes)}
    derivations = all_derivations(GRAMMAR, source)
    weights = [
        math.exp(
            sum(
                float(table[spans[each.span], GRAMMAR.rules.index(each.rule)])
                for each in found.hyperedges
            )
        )
        for found in derivations
    ]
    right = sum(
        weight
        for weight, found in zip(weights, derivations, strict=True)
        if found.target == example.target_tokens
    )
    return -math.log(right / sum(weights))


def test_the_loss_is_what_enumeration_of_derivations_gives() -> None:
    model = exact()
    for number, example in enumerate(EXAMPLES):
        assert loss(model, [number]).item() == pytest.approx(
            enumerated_loss(model, example), abs=1e-9
        )


def test_the_loss_of_a_batch_is_the_mean_of_the_losses_of_its_parts() -> None:
    model = exact()
    alone = [loss(model, [number]).item() for number in range(len(EXAMPLES))]
    assert loss(model, [0, 1, 2, 3, 4]).item() == pytest.approx(
        sum(alone) / 5, abs=1e-9
    )
    assert loss(model, [3, 0, 3]).item() == pytest.approx(
        (2 * alone[3] + alone[0]) / 3, abs=1e-9
    )


def test_the_gradient_for_the_rules_passes_a_numerical_check() -> None:
    model = exact()
    scorer = model.scorer

    def of_rules(rules: torch.Tensor) -> torch.Tensor:
        del scorer.rules
        scorer.rules = rules  # type: ignore[assignment]  # no parameter, so that the gradient reaches it
        return loss(model, [0, 2, 3])

    assert torch.autograd.gradcheck(
        of_rules, scorer.rules.detach().clone().requires_grad_(), fast_mode=True
    )


def test_every_weight_gets_a_gradient() -> None:
    model = exact()
    loss(model, [0, 1, 2, 3, 4]).backward()  # type: ignore[no-untyped-call]
    idle = [
        name for name, weight in model.scorer.named_parameters() if weight.grad is None
    ]
    assert not idle


@given(st.integers(1, 20), st.integers(1, 25), st.integers(1, 12), st.integers(0, 5))
def test_every_epoch_holds_every_example_once(
    examples: int, batch_size: int, steps: int, seed: int
) -> None:
    settings = TrainingSettings(steps=steps, batch_size=batch_size, seed=seed)
    made = list(batches(examples, settings))
    assert [len(batch) for batch in made] == [min(batch_size, examples)] * steps
    stream = [number for batch in made for number in batch]
    for start in range(0, len(stream) - examples + 1, examples):
        assert sorted(stream[start : start + examples]) == list(range(examples))
    counts = Counter(stream)
    assert (
        max(counts.values()) - min(counts.get(number, 0) for number in range(examples))
        <= 1
    )


def test_the_seed_alone_decides_the_batches() -> None:
    settings = [
        TrainingSettings(steps=9, batch_size=4, seed=seed) for seed in (0, 0, 1)
    ]
    first, again, other = (list(batches(30, each)) for each in settings)
    assert first == again
    assert first != other


def test_epochs_come_in_new_orders() -> None:
    first, second = batches(30, TrainingSettings(steps=2, batch_size=30))
    assert first != second


def test_the_learning_rate_rises_to_its_highest_and_falls_to_nothing() -> None:
    shares = [LearningRate(1.0, 20, 5).at(step) for step in range(21)]
    assert shares[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert shares[5] == 1.0
    falls = [before - after for before, after in pairwise(shares[5:])]
    assert falls == pytest.approx([1 / 15] * 15)
    assert shares[20] == 0.0


def test_a_linear_schedule_rises_and_falls_and_a_constant_one_stays() -> None:
    assert [LearningRate(1.0, 6, 2).at(step) for step in range(7)] == [
        0.5,
        1.0,
        1.0,
        0.75,
        0.5,
        0.25,
        0.0,
    ]
    assert [LearningRate(1.0, 6, 2, "constant").at(step) for step in range(4)] == [
        0.5,
        1.0,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize("warm_up", [0, 20, 50])
def test_the_schedule_bears_a_warm_up_of_nothing_and_one_longer_than_training(
    warm_up: int,
) -> None:
    assert all(0 < LearningRate(1.0, 20, warm_up).at(step) <= 1 for step in range(20))


def weights(model: ParserTraining) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in model.scorer.state_dict().items()}


def is_same(ones: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    return ones.keys() == others.keys() and all(
        torch.equal(ones[name], others[name]) for name in ones
    )


def test_the_same_seed_gives_the_same_weights_bit_for_bit() -> None:
    made = [fitting(seed=0), fitting(seed=1)]
    steps = [list(each.steps()) for each in made]
    again = fitting(seed=0)
    assert list(again.steps()) == steps[0] != steps[1]
    assert is_same(weights(again), weights(made[0]))
    assert not is_same(weights(made[1]), weights(made[0]))


def test_parsing_in_the_middle_of_training_does_not_change_its_course() -> None:
    expected = list(fitting().steps())
    watched = fitting()
    found = []
    for step in watched.steps():
        Parser(watched.model).parse("walk and jump")
        found.append(step)
    assert found == expected


def test_an_encoder_that_comes_ready_to_read_is_made_to_learn() -> None:
    model = fitting()
    scorer = model.scorer
    scorer.encoder.eval()  # as pre-trained ones come, while the scorer around them is new
    assert scorer.training
    next(model.steps())
    assert all(part.training for part in scorer.modules())


def test_training_lowers_the_loss_and_numbers_its_steps() -> None:
    model = fitting(steps=40)
    steps = list(model.steps())
    assert [step.number for step in steps] == list(range(1, 41))
    assert (
        sum(step.loss for step in steps[-5:])
        < sum(step.loss for step in steps[:5]) / 1.5
    )


def test_a_loss_that_is_no_number_stops_training_at_its_step() -> None:
    model = fitting(steps=9)
    steps = model.steps()
    list(islice(steps, 2))
    with torch.no_grad():
        model.scorer.rules.fill_(math.nan)
    before = weights(model)
    with pytest.raises(Diverged) as caught:
        next(steps)
    third = list(batches(5, model.settings))[2]
    assert str(caught.value) == (
        "the loss of step 3 is nan, at learning rate 0.001 and for a batch of 2 examples "
        f"('{EXAMPLES[third[0]].source}', '{EXAMPLES[third[1]].source}'); try a learning rate below 0.001, "
        "or float32 if it ran in bf16"
    )
    after = weights(model)
    others = [name for name in before if name != "rules"]
    assert all(torch.equal(before[name], after[name]) for name in others)


def test_a_gradient_that_is_no_number_stops_training_too() -> None:
    model = fitting(steps=9)
    before = weights(model)
    model.scorer.rules.register_hook(lambda gradient: gradient * math.inf)  # type: ignore[no-untyped-call]
    with pytest.raises(
        Diverged,
        match=r"the gradient of step 1 is (inf|nan), at learning rate 0\.0005 and for a batch",
    ):
        next(model.steps())
    assert is_same(weights(model), before)
    assert model.trainer.made == 0


def test_an_error_names_a_few_sentences_of_a_large_batch_only() -> None:
    training = TrainingSettings(batch_size=5)
    model = ParserTraining(
        GRAMMAR, EXAMPLES, Parser, model=TINY, training=training, device="cpu"
    )
    with torch.no_grad():
        model.scorer.rules.fill_(math.nan)
    with pytest.raises(Diverged) as caught:
        next(model.steps())
    named = ", ".join(
        f"'{EXAMPLES[number].source}'" for number in next(batches(5, training))[:3]
    )
    assert f"for a batch of 5 examples ({named}, …); try" in str(caught.value)


def test_a_setting_decides_about_half_precision_and_weights_stay_in_full() -> None:
    losses = {}
    for name in ("float32", "auto", "bf16"):
        training = TrainingSettings(steps=3, batch_size=5, precision=name)
        model = ParserTraining(
            GRAMMAR, EXAMPLES, Parser, model=TINY, training=training, device="cpu"
        )
        losses[name] = [step.loss for step in model.steps()]
        assert all(
            weight.dtype == torch.float32
            for weight in model.scorer.state_dict().values()
        )
    assert losses["auto"] == losses["float32"] != losses["bf16"]
    assert losses["bf16"] == pytest.approx(
        losses["float32"], rel=0.2
    )  # dropout is drawn in another way


def test_half_precision_changes_the_loss_by_rounding_and_forests_are_summed_up_in_full() -> (
    None
):
    model = exact()
    scorer = model.scorer.float()
    expected = loss(model, [0, 1, 2, 3, 4])
    with autocast("bf16", CPU):
        found = loss(model, [0, 1, 2, 3, 4])
        assert scorer.span_network.input(torch.zeros(1, 32)).dtype == torch.bfloat16
    assert found.dtype == torch.float32
    assert found.item() != expected.item()
    assert found.item() == pytest.approx(expected.item(), rel=0.01)


def tried(scores: list[DevScores], steps: int = 20) -> Trainer:
    """A training whose evaluations on dev examples come out as `scores` say."""
    settings, answers = (
        TrainingSettings(steps, batch_size=2, evaluate_every=2, patience=2),
        iter(scores),
    )
    trainer = ParserTraining(
        GRAMMAR, EXAMPLES, Parser, model=TINY, training=settings, device="cpu"
    ).trainer
    trainer.evaluate = lambda: next(answers)
    return trainer


def exact_matches(*shares: float) -> list[DevScores]:
    return [DevScores(share, 1.0) for share in shares]


def test_training_ends_when_trials_get_no_better_and_takes_the_best_weights() -> None:
    training = tried(exact_matches(0.2, 0.5, 0.5, 0.4, 1.0))
    after = {step.number: copied(training.weights) for step in training.steps()}
    assert (
        max(after) == 8
    )  # the trials after steps 6 and 8 were no better than that after step 4
    assert [step.number for step in training.records if step.dev] == [2, 4, 6, 8]
    assert training.is_finished
    assert training.best is not None
    assert (training.best.step, training.best.scores) == (4, DevScores(0.5, 1.0))
    assert is_same(copied(training.weights), after[4])
    assert not is_same(after[8], after[4])


def test_a_lower_loss_decides_between_equal_shares_of_right_answers() -> None:
    training = tried(
        [DevScores(0.5, loss) for loss in (3.0, 2.0, 2.5, 1.0, 1.0, 1.5, 0.5)]
    )
    list(training.steps())
    assert training.made == 12
    assert training.best is not None
    assert training.best.step == 8


def test_trials_without_a_loss_go_by_right_answers_alone() -> None:
    training = tried([DevScores(share, None) for share in (0.0, 0.5, 0.5, 0.5)])
    list(training.steps())
    assert training.best is not None
    assert (training.made, training.best.step) == (8, 4)


def test_the_last_step_is_tried_wherever_it_falls() -> None:
    training = tried(exact_matches(0.1, 0.2, 0.3), steps=5)
    assert [step.number for step in training.steps() if step.dev] == [2, 4, 5]
    assert training.best is not None
    assert training.best.step == 5


def test_trials_do_not_change_the_course_of_training() -> None:
    plain = [step.loss for step in fitting(steps=6).steps()]
    settings = TrainingSettings(steps=6, batch_size=2, warm_up=2, evaluate_every=1)
    watched = ParserTraining(
        GRAMMAR,
        EXAMPLES,
        Parser,
        dev=EXAMPLES,
        model=TINY,
        training=settings,
        device="cpu",
    )
    assert [step.loss for step in watched.steps()] == plain


def test_pairs_that_the_grammar_does_not_derive_are_left_out() -> None:
    extended = [Example("fly", "F"), *EXAMPLES, Example("walk", "J")]
    data, plain = fitting(examples=extended).data, fitting().data
    assert len(data) == len(EXAMPLES)
    assert data.subwords.ids.lengths.tolist() == plain.subwords.ids.lengths.tolist()


def test_repeated_pairs_are_learned_from_once() -> None:
    again = [
        replace(example, id=str(number)) for number, example in enumerate(EXAMPLES * 3)
    ]
    assert len(fitting(examples=EXAMPLES * 3).data) == len(EXAMPLES)
    assert len(fitting(examples=again).data) == len(EXAMPLES)


def test_examples_of_which_the_grammar_derives_none_are_refused() -> None:
    with pytest.raises(NqgError, match="derives none of the training pairs"):
        fitting(examples=[Example("fly", "F")])


def test_forests_of_other_examples_are_refused() -> None:
    tokenizer = fitting().model.tokenizer
    with pytest.raises(
        NqgError, match="there are 5 examples but forests of 4; expected as many"
    ):
        TrainingData.of(
            GRAMMAR, EXAMPLES, TrainingForests.of(GRAMMAR, EXAMPLES[1:]), tokenizer
        )


def test_sentences_that_the_encoder_cannot_read_whole_are_refused() -> None:
    short = ModelSettings(
        dimension=8,
        embedded=EncoderSettings(hidden_size=16, layers=1, heads=2, longest=6),
    )
    with pytest.raises(
        NqgError,
        match="a training sentence has 8 subwords; the encoder reads at most 6",
    ):
        ParserTraining(GRAMMAR, EXAMPLES, Parser, model=short, device="cpu")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: TrainingSettings(steps=0), "steps is 0; expected 1 or more"),
        (
            lambda: TrainingSettings(batch_size=-1),
            "batch_size is -1; expected 1 or more",
        ),
        (
            lambda: TrainingSettings(learning_rate=0.0),
            r"learning_rate is 0\.0; expected more than 0",
        ),
        (
            lambda: TrainingSettings(learning_rate=math.nan),
            "learning_rate is nan; expected more than 0",
        ),
        (lambda: TrainingSettings(warm_up=-1), "warm_up is -1; expected 0 or more"),
        (
            lambda: TrainingSettings(weight_decay=-0.1),
            r"weight_decay is -0\.1; expected 0 or more",
        ),
        (lambda: TrainingSettings(clip=0.0), r"clip is 0\.0; expected more than 0"),
        (lambda: TrainingSettings(patience=0), "patience is 0; expected 1 or more"),
        (
            lambda: TrainingSettings(evaluate_every=0),
            "evaluate_every is 0; expected 1 or more",
        ),
        (lambda: ModelSettings(dimension=0), "dimension is 0; expected 1 or more"),
        (lambda: EncoderSettings(layers=0), "layers is 0; expected 1 or more"),
        (
            lambda: EncoderSettings(hidden_size=100, heads=3),
            "hidden_size is 100; expected a multiple of heads",
        ),
    ],
    ids=lambda value: value.split(" ")[0] if isinstance(value, str) else "",
)
def test_settings_that_make_no_sense_are_refused(bad: object, words: str) -> None:
    assert callable(bad)
    with pytest.raises(SettingsError, match=words):
        bad()


def test_an_unknown_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownName,
        match=r"no precision 'float'; did you mean 'float32'\? Known: auto, bf16, float32",
    ):
        TrainingSettings(precision="float")


def test_the_learning_rate_depends_on_the_encoder_unless_it_is_given() -> None:
    assert TrainingSettings().rate("embedded") == 1e-3
    assert TrainingSettings().rate("bert-base-uncased") == 1e-4
    assert TrainingSettings(learning_rate=0.5).rate("embedded") == 0.5


@pytest.mark.parametrize(
    ("given", "scratch", "named"), [(None, 16, 100), (0, 0, 0), (7, 7, 7)]
)
def test_so_does_the_warm_up(given: int | None, scratch: int, named: int) -> None:
    settings = TrainingSettings(warm_up=given)
    assert (
        settings.warm_up_steps("embedded"),
        settings.warm_up_steps("bert-base-uncased"),
    ) == (
        scratch,
        named,
    )


def test_training_does_not_depend_on_whether_forests_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = []
    for most in (forests_module.MOST_KEPT, 1):
        monkeypatch.setattr(forests_module, "MOST_KEPT", most)
        training = fitting()
        assert (training.data.pairs is None) == (most == 1)
        losses = [step.loss for step in training.steps()]
        state = training.scorer.state_dict()
        weights.append((losses, {name: each.tolist() for name, each in state.items()}))
    assert weights[0] == weights[1]
