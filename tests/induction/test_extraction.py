from __future__ import annotations

from nqg import Example, Grammar
from nqg.grammar.grammar import Rule
from nqg.induction.corpus import underivable
from nqg.induction.extraction import (
    Clause,
    Extraction,
    closed_under_extraction,
    exchanged,
    gap_variants,
    split,
    with_whole_terms,
)
from nqg.induction.induce import underivable_examples
from nqg.induction.settings import InductionSettings
from nqg.text.traces import Traces

TRACES = Traces((("nmod",),), filler=("?",))
LEXICON = """
Emma ### Emma
Liam ### Liam
cat ### cat
cake ### cake
slept ### sleep
ate ### eat
eat ### eat
gave ### give
give ### give
"""
# What a search finds: clauses within sentences and within what they modify.
RULES = """
NT_1 NT_2 . ### NT_2 ( agent = NT_1 )
NT_1 NT_2 NT_3 . ### NT_2 ( agent = NT_1 , theme = NT_3 )
NT_1 NT_2 NT_3 to NT_4 . ### NT_2 ( agent = NT_1 , theme = NT_3 , recipient = NT_4 )
NT_1 NT_2 NT_3 . ### NT_2 ( recipient = NT_1 , theme = NT_3 )
NT_1 that NT_2 NT_3 ### NT_1 ( nmod = NT_2 ( recipient = ↑ , theme = NT_3 ) )
NT_1 said that NT_2 . ### say ( agent = NT_1 , ccomp = NT_2 )
NT_1 that NT_2 ### NT_1 ( nmod = NT_2 ( agent = ↑ ) )
NT_1 that NT_2 NT_3 ### NT_1 ( nmod = NT_2 ( agent = ↑ , theme = NT_3 ) )
NT_1 that NT_2 NT_3 ### NT_1 ( nmod = NT_3 ( agent = NT_2 , theme = ↑ ) )
NT_1 that NT_2 NT_3 to NT_4 ### NT_1 ( nmod = NT_2 ( agent = ↑ , theme = NT_3 , recipient = NT_4 ) )
NT_1 that NT_2 NT_3 to NT_4 ### NT_1 ( nmod = NT_3 ( agent = NT_2 , theme = ↑ , recipient = NT_4 ) )
Who NT_1 NT_2 ? ### NT_1 ( agent = ↑ , theme = NT_2 )
Who did NT_1 NT_2 ? ### NT_2 ( agent = NT_1 , theme = ↑ )
What did NT_1 NT_2 ? ### NT_2 ( agent = NT_1 , theme = ↑ )
"""
EXAMPLES = [
    Example("Emma slept .", "sleep ( agent = Emma )"),
    Example("cat that slept", "cat ( nmod = sleep ( agent = ↑ ) )"),
]


def clause(rule: str) -> Clause:
    found = Clause.of(Rule.parse(rule))
    assert found is not None
    return found


def grammar(text: str) -> Grammar:
    rules = [line for line in text.splitlines() if line]
    return Grammar.of(map(Rule.parse, rules), 4)


def closed() -> Grammar:
    return closed_under_extraction(
        grammar(LEXICON + RULES), EXAMPLES, TRACES, None, InductionSettings()
    )


def is_derivable(grammar: Grammar, source: str, target: str) -> bool:
    return not underivable(grammar, [Example(source, target)])


def test_a_closed_grammar_derives_gaps_that_no_rule_had() -> None:
    grammar = closed()
    for source, target in [
        (
            "Who did Emma give cake to ?",
            "give ( agent = Emma , theme = cake , recipient = ↑ )",
        ),
        (
            "What did Emma give to Liam ?",
            "give ( agent = Emma , theme = ↑ , recipient = Liam )",
        ),
        (
            "cat that Emma gave cake to",
            "cat ( nmod = give ( agent = Emma , theme = cake , recipient = ↑ ) )",
        ),
        ("Who slept ?", "sleep ( agent = ↑ )"),
        # Words of frames that are alike can stand for each other.
        ("What slept ?", "sleep ( agent = ↑ )"),
    ]:
        assert is_derivable(grammar, source, target), source


def test_a_closed_grammar_derives_what_it_did_before() -> None:
    grammar_before, grammar_after = grammar(LEXICON + RULES), closed()
    for example in EXAMPLES:
        assert is_derivable(grammar_before, example.source, example.target)
        assert is_derivable(grammar_after, example.source, example.target)
    assert is_derivable(
        grammar_after, "Emma ate cake .", "eat ( agent = Emma , theme = cake )"
    )


def test_a_grammar_without_gaps_stays_as_it_is() -> None:
    before = grammar(LEXICON + "NT_1 NT_2 . ### NT_2 ( agent = NT_1 )")
    after = closed_under_extraction(
        before, EXAMPLES[:1], TRACES, None, InductionSettings()
    )
    assert after == before


def test_gaps_are_those_of_a_grammar_with_an_empty_argument() -> None:
    """The twin: one argument of the rule is empty, and its target is a trace."""
    rule = Rule.parse(
        "NT_1 NT_2 NT_3 to NT_4 ### NT_2 ( agent = NT_1 , theme = NT_3 , recipient = NT_4 )"
    )
    keywords = [("agent",), ("theme",), ("recipient",)]
    found = set()
    for variant in gap_variants(clause(str(rule)), keywords):
        words = iter(["v", "w", "x"])
        renamed = {f"NT_{number}": next(words) for number in (1, 2, 3)}
        sides = [*variant.source], [*variant.term.tokens()]
        found.add(
            tuple(" ".join(renamed.get(each, each) for each in side) for side in sides)
        )
    expected = set()
    for empty in ("NT_1", "NT_3", "NT_4"):
        words = iter(["v", "w", "x"])
        values = {}
        for symbol in rule.source:
            if str(symbol).startswith("NT_") and str(symbol) != empty:
                values[str(symbol)] = next(words)
        source = [values.get(str(each), str(each)) for each in rule.source]
        target = [values.get(str(each), str(each)) for each in rule.target]
        source.remove(empty)
        expected.add(
            (" ".join(source), " ".join(target).replace(empty, "↑")),
        )
    assert found == expected


def test_a_rule_is_split_into_its_frame_and_its_clause() -> None:
    found = split(
        clause("Who did NT_1 NT_2 ? ### NT_2 ( agent = NT_1 , theme = ↑ )"), TRACES
    )
    assert found is not None
    assert str(found.frame.rule()) == "Who did NT_1 ? ### NT_1"
    assert str(found.clause.rule()) == "NT_1 NT_2 ### NT_2 ( agent = NT_1 , theme = ↑ )"


def test_a_clause_around_what_it_does_not_hold_is_not_split_off() -> None:
    rule = clause("NT_1 NT_2 NT_3 ### NT_2 ( nmod = NT_1 ( agent = NT_3 ) )")
    assert split(rule, TRACES) is None


def test_frames_exchange_words_that_others_exchange() -> None:
    frames = [
        clause(f"{words} ### NT_1")
        for words in ("Who did NT_1 ?", "What did NT_1 ?", "Who NT_1 ?")
    ]
    assert clause("What NT_1 ? ### NT_1") in list(exchanged(frames))


def test_words_that_stand_for_marks_are_written_in_their_rules() -> None:
    nouns = ("cat", "dog", "cake")
    rules = "NT_1 NT_2 NT_3 ### NT_1 ( nmod NT_2 NT_3 ( agent NT_2 ↑ ) )\nthat ### =\nwho ### ="
    grammar = Grammar.parse(
        "\n".join(
            [rules, "sleeps ### sleep", *(f"{noun} ### {noun}" for noun in nouns)]
        ),
        3,
    )
    examples = [
        Example(f"{noun} that sleeps", f"{noun} ( nmod = sleep ( agent = ↑ ) )")
        for noun in nouns
    ]
    assert not list(underivable_examples(grammar, examples))
    found = with_whole_terms(grammar, examples)
    assert not list(underivable_examples(found, examples))
    # Nobody says `who`, so that no rule has it.
    assert [str(rule) for rule in found if rule.arity] == [
        "NT_1 that NT_2 ### NT_1 ( nmod = NT_2 ( agent = ↑ ) )"
    ]
    assert with_whole_terms(found, examples) == found


def test_a_frame_holds_no_word_of_a_clause() -> None:
    rules = """
    NT_1 NT_2 ### NT_2 ( theme = NT_1 )
    NT_1 NT_2 NT_3 ### NT_2 ( agent = NT_1 , theme = NT_3 )
    NT_1 was NT_2 ### NT_2 ( theme = NT_1 )
    NT_1 was NT_2 by NT_3 ### NT_2 ( theme = NT_1 , agent = NT_3 )
    NT_1 that NT_2 ### NT_1 ( nmod = NT_2 ( theme = ↑ ) )
    NT_1 that NT_2 NT_3 ### NT_1 ( nmod = NT_2 ( agent = ↑ , theme = NT_3 ) )
    NT_1 that was NT_2 ### NT_1 ( nmod = NT_2 ( theme = ↑ ) )
    NT_1 that was NT_2 by NT_3 ### NT_1 ( nmod = NT_2 ( theme = ↑ , agent = NT_3 ) )
    """
    found = Extraction.of(
        [Rule.parse(rule.strip()) for rule in rules.strip().split("\n")], TRACES
    )
    assert found is not None
    assert [str(frame.rule()) for frame in found.frames] == [
        "NT_1 that NT_2 ### NT_1 ( nmod = NT_2 )"
    ]
    variants = {str(each.rule()) for each in found.variants if not each.is_unary}
    assert "was NT_1 by NT_2 ### NT_1 ( theme = ↑ , agent = NT_2 )" in variants
