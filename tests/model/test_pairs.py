"""Pairs of span and rule: each once, each hyperedge with its own; and the loss over them against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, NodeId
from nqg.grammar.semirings import derivation_counts
from nqg.model.forest_crf import forest_loss, losses_and_gradient
from nqg.model.forests import Forests, build_forests
from nqg.model.spans import PairTable, SpanTable, sentence_numbers
from nqg.types.target_grammar import TargetGrammar
from oracles import all_derivations, derivations_as_hyperedges
from strategies import perhaps_typed, sentences

Tokens = tuple[str, ...]
AMBIGUOUS = Grammar.parse(
    "a ### x\na ### y\nb ### x\nNT_1 NT_2 ### NT_1 NT_2\nNT_1 NT_2 ### NT_2 NT_1"
)


def forests_of(grammar: Grammar, sources: list[Tokens], data: st.DataObject) -> Forests:
    """The forests of sources, each with one of its targets, or with one that it has not."""
    assume(max(derivation_counts(charts(grammar.typed_by(None), sources))) <= 100)
    targets = [
        sorted(
            {each.target for each in all_derivations(grammar, source)} | {("never",)}
        )
        for source in sources
    ]
    drawn = [data.draw(st.sampled_from(each)) for each in targets]
    examples = [
        Example(" ".join(source), " ".join(target))
        for source, target in zip(sources, drawn, strict=True)
    ]
    return build_forests(grammar, examples)


def span_and_rule(graph: Hypergraph) -> list[tuple[int, str, int]]:
    """Of every hyperedge its sentence, its span and its rule."""
    owners = graph.owners()
    columns = zip(sentence_numbers(graph)[owners], owners, graph.rules, strict=True)
    return [
        (int(sentence), str(graph.span(NodeId(int(owner)))), int(rule))
        for sentence, owner, rule in columns
    ]


def enumerated(
    graph: Hypergraph, sentence: int, scores: dict[int, float]
) -> tuple[float, dict[int, float]]:
    """log Z of a sentence and the marginals of its hyperedges, derivation by derivation."""
    derivations = derivations_as_hyperedges(graph)[sentence]
    totals = [
        math.fsum(scores[each] for each in derivation) for derivation in derivations
    ]
    whole = math.log(math.fsum(map(math.exp, totals))) if totals else -math.inf
    marginals = dict.fromkeys(scores, 0.0)
    for derivation, total in zip(derivations, totals, strict=True):
        for each in derivation:
            marginals[each] += math.exp(total - whole)
    return whole, marginals


@given(
    perhaps_typed(max_arity=3), st.lists(sentences, min_size=1, max_size=3), st.data()
)
def test_pairs_are_those_of_the_hyperedges_and_none_occurs_twice(
    grammar: Grammar, sources: list[Tokens], data: st.DataObject
) -> None:
    forests = forests_of(grammar, sources, data)
    table = PairTable.of(forests)
    full, spans = forests.full, SpanTable.of(forests.full)
    known = [
        (
            sentence,
            f"{spans.starts[first + span]}:{spans.ends[first + span]}",
            int(rule),
        )
        for sentence, first in enumerate(spans.first[:-1])
        for span, rule in zip(
            *(
                each.select(np.array([sentence])).values
                for each in (table.spans, table.rules)
            ),
            strict=True,
        )
    ]
    assert sorted(known) == sorted(set(span_and_rule(full)))
    for name, graph in forests.graphs().items():
        named = span_and_rule(graph)
        pairs = zip(named, table.of_hyperedges[name], strict=True)
        assert [
            known[table.rules.offsets[each[0]] + pair] for each, pair in pairs
        ] == named


@given(
    perhaps_typed(max_arity=3),
    st.lists(sentences, min_size=1, max_size=3),
    st.integers(0, 99),
    st.data(),
)
def test_losses_and_their_gradient_are_what_enumeration_gives(
    grammar: Grammar, sources: list[Tokens], seed: int, data: st.DataObject
) -> None:
    forests = forests_of(grammar, sources, data)
    table = PairTable.of(forests)
    batch = np.array(
        data.draw(st.lists(st.integers(0, len(sources) - 1), min_size=1, max_size=4))
    )
    scores = np.random.default_rng(seed).normal(
        size=int(table.rules.lengths_of(batch).sum())
    )
    with np.errstate(invalid="ignore"):
        losses, gradient = losses_and_gradient(scores, forests, table, batch)
    expected, first = np.zeros_like(scores), 0
    for row, sentence in enumerate(batch.tolist()):
        values = {}
        weights = (
            {"full": 1, "goal": -1}
            if forests.legal is None
            else {"full": 0.5, "legal": 0.5, "goal": -1}
        )
        for name, graph in forests.graphs().items():
            pairs = table.of_hyperedges[name]
            own = [
                number
                for number, each in enumerate(span_and_rule(graph))
                if each[0] == sentence
            ]
            values[name], marginals = enumerated(
                graph, sentence, {each: scores[first + pairs[each]] for each in own}
            )
            for each in own:
                expected[first + pairs[each]] += weights[name] * marginals[each]
        if math.isfinite(values["goal"]):
            wanted = math.fsum(weights[name] * value for name, value in values.items())
            assert losses[row] == pytest.approx(wanted, abs=1e-9)
        else:
            assert not math.isfinite(losses[row])
        first += int(table.rules.lengths_of(batch[row : row + 1])[0])
    np.testing.assert_allclose(gradient, expected, atol=1e-9)


def test_the_gradient_of_typed_forests_is_the_slope_of_the_loss() -> None:
    typed = AMBIGUOUS.typed_by(
        TargetGrammar.parse("<s> ::= <p> | <p> <s>\n<p> ::= x y | y x | x x")
    )
    forests = build_forests(typed, [Example("a b a a", "x y y x")])
    table, batch = PairTable.of(forests), np.array([0])
    scores = np.random.default_rng(1).normal(
        size=int(table.rules.lengths_of(batch).sum())
    )
    assert forests.legal is not None
    counts = [
        derivation_counts(graph)[0]
        for graph in (forests.goal, forests.legal, forests.full)
    ]
    assert 1 < counts[0] < counts[1] < counts[2]
    _, gradient = losses_and_gradient(scores, forests, table, batch)
    for place in range(len(scores)):
        step = np.zeros_like(scores)
        step[place] = 1e-5
        above, below = (
            losses_and_gradient(scores + sign * step, forests, table, batch)[0][0]
            for sign in (1, -1)
        )
        assert gradient[place] == pytest.approx((above - below) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_the_sentences_of_a_batch(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forests, table = ambiguous()
    batch = np.array([0, 1, 1, 0, 1] * 20)
    scores = np.random.default_rng(0).normal(
        size=int(table.rules.lengths_of(batch).sum())
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    losses, gradient = losses_and_gradient(scores, forests, table, batch)
    first = np.append(0, table.rules.lengths_of(batch).cumsum())
    for row in range(len(batch)):
        own = slice(first[row], first[row + 1])
        loss, marginals = losses_and_gradient(
            scores[own], forests, table, batch[row : row + 1]
        )
        assert losses[row] == loss[0]
        assert gradient[own].tolist() == marginals.tolist()


def ambiguous() -> tuple[Forests, PairTable]:
    full = charts(AMBIGUOUS, [("a", "b", "a"), ("a", "a")])
    forests = Forests(full, goal_charts(AMBIGUOUS, full, [("x", "x", "y"), ("y", "x")]))
    return forests, PairTable.of(forests)


def test_the_gradient_of_the_mean_passes_a_numerical_check() -> None:
    forests, table = ambiguous()
    batch = np.array([1, 0, 1])
    scores = torch.randn(
        int(table.rules.lengths_of(batch).sum()),
        dtype=torch.float64,
        generator=torch.manual_seed(0),
    )
    assert torch.autograd.gradcheck(
        lambda each: forest_loss(each, forests, table, batch), scores.requires_grad_()
    )


def test_very_large_and_very_small_scores_neither_overflow_nor_lose_the_gradient() -> (
    None
):
    forests, table = ambiguous()
    batch = np.array([0, 1])
    scores = 1e4 * torch.randn(
        int(table.rules.lengths_of(batch).sum()), generator=torch.manual_seed(0)
    )
    loss = forest_loss(scores.requires_grad_(), forests, table, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(loss)
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert scores.grad.abs().max() <= 1.0


def test_a_score_of_minus_infinity_forbids_a_rule_and_gets_no_gradient() -> None:
    forests, table = ambiguous()
    batch = np.array([1])
    rules = table.rules.select(batch).values
    scores = np.where(rules == 3, -np.inf, 0.0)  # NT_1 NT_2 ### NT_1 NT_2
    losses, gradient = losses_and_gradient(scores, forests, table, batch)
    assert losses[0] == pytest.approx(
        math.log(4)
    )  # of x x, x y, y x and y y, by the other rule
    assert not gradient[rules == 3].any()
    assert np.isfinite(gradient).all()
