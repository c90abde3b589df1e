"""Replies of hybrids: who replies, who is held back by the gate, and who is asked what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nqg.cli.evaluate import hybrids_replies
from nqg.data.examples import Example
from nqg.evaluation.evaluation import Reply
from nqg.grammar.derivation import Derivation
from nqg.inference.hybrid import Gate, Hybrid
from nqg.inference.reading import Parse, Reading

DERIVATION = Derivation.parse("[0:1] a ### b")
EXAMPLES = [Example(source, "X") for source in ("sure", "unsure", "lost", "alone")]


class FakeParser:
    """Sure of one sentence, not of two others, and without an answer to the last."""

    def parse_all(
        self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False, marginals: bool = False
    ) -> list[Parse]:
        chances = {"sure": 0.9, "unsure": 0.2, "alone": 0.1}
        return [
            Parse((sentence,), Reading(("G",), chances[sentence], DERIVATION))
            if sentence in chances
            else Parse((sentence,), None, "no derivation")
            for sentence in sentences
        ]


@dataclass
class FakeFallback:
    """Has no answer to one sentence, and remembers what it was asked."""

    asked: list[str] = field(default_factory=list)

    def predict(self, sources: Sequence[str]) -> list[str | None]:
        self.asked += sources
        return [None if source == "alone" else "F" for source in sources]


def test_without_a_gate_the_grammar_is_first() -> None:
    found = hybrids_replies(Hybrid(FakeParser(), FakeFallback()), EXAMPLES, only_legal=False)
    assert [reply.target for reply in found.own] == ["G", "G", None, "G"]
    assert found.fallback is not None
    assert [reply.target for reply in found.fallback] == ["F", "F", "F", None]


def test_a_gate_holds_doubtful_answers_back_where_the_fallback_has_one() -> None:
    hybrid = Hybrid(FakeParser(), FakeFallback(), Gate(0.5))
    found = hybrids_replies(hybrid, EXAMPLES, only_legal=False)
    assert found.own == [
        Reply("G", "grammar", 0.9),
        Reply(None, "grammar", 0.2, "probability 0.2 is below 0.5"),
        Reply(None, "grammar", None, "no derivation"),
        Reply("G", "grammar", 0.1),
    ]


def test_together_they_say_what_the_hybrid_says() -> None:
    hybrid = Hybrid(FakeParser(), FakeFallback(), Gate(0.5))
    found = hybrids_replies(hybrid, EXAMPLES, only_legal=False)
    together = [own.target or other.target for own, other in zip(found.own, found.fallback or [], strict=True)]
    assert together == [answer.target for answer in hybrid.answers(example.source for example in EXAMPLES)]


def test_the_fallback_is_asked_about_every_example_once() -> None:
    fallback = FakeFallback()
    hybrids_replies(Hybrid(FakeParser(), fallback), [*EXAMPLES, EXAMPLES[0]], only_legal=False)
    assert fallback.asked == ["sure", "unsure", "lost", "alone"]
