"""Induction with a target grammar: every proposal can be a part of a legal program."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.induction.corpus import underivable
from nqg.induction.induce import Induction, induce
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tree_automaton import Signatures
from strategies import corpora, induction_settings

LISTS = TargetGrammar.parse("""
<program> ::= largest ( <program> ) | <program> <program> | J | W | m0
""")
MOVES = TargetGrammar.parse("""
<program> ::= largest ( <list> ) | <move> | <move> <list>
<list> ::= <atom> | <list> <atom>
<atom> ::= <move> | largest ( <list> ) | m0
<move> ::= J | W
""")


@given(corpora(), induction_settings())
@hypothesis_settings(max_examples=60)
def test_every_rule_that_a_step_proposes_has_a_signature(
    corpus: list[Example], settings: InductionSettings
) -> None:
    signatures = Signatures(LISTS)
    for step in Induction(corpus, settings, target_grammar=LISTS).steps():
        own = {(example.source_tokens, example.target_tokens) for example in corpus}
        new = step.added if step.phase not in (Phase.SAMPLING, Phase.FRAMING) else ()
        found = [rule for rule in new if (rule.source, rule.target) not in own]
        assert all(signatures.fits(rule.target) for rule in found)


@given(corpora(), induction_settings(), st.sampled_from([LISTS, MOVES]))
@hypothesis_settings(max_examples=60)
def test_every_legal_example_keeps_a_well_typed_derivation(
    corpus: list[Example], settings: InductionSettings, target_grammar: TargetGrammar
) -> None:
    legal = [
        example for example in corpus if target_grammar.accepts(example.target_tokens)
    ]
    grammar = induce(corpus, settings, target_grammar=target_grammar)
    assert underivable(grammar.typed_by(target_grammar), legal) == []


CALLS = TargetGrammar.parse("""
<call> ::= give ( <list> )
<list> ::= <argument> | <list> , <argument>
<argument> ::= to = <name> | what = <name>
<name> ::= tea | ann | bob | jam
""")


def test_what_is_cut_out_can_stand_in_its_place_in_legal_programs() -> None:
    """`NT_1 for NT_2 ### NT_1 , to = NT_2` could only follow an argument, and stands for a name where it is cut out."""
    names, things = ("ann", "bob"), ("tea", "jam")
    pairs = [Example(f"bring {thing}", f"give ( what = {thing} )") for thing in things]
    pairs += [
        Example(f"bring {x} for {y}", f"give ( what = {x} , to = {y} )")
        for x in things
        for y in names
    ]
    untyped, typed = (
        induce(pairs, InductionSettings()),
        induce(pairs, InductionSettings(), target_grammar=CALLS),
    )
    assert "NT_1 for NT_2 ### NT_1 , to = NT_2" in map(str, untyped)
    assert underivable(untyped.typed_by(CALLS), pairs)
    assert "bring NT_1 for NT_2 ### give ( what = NT_1 , to = NT_2 )" in map(str, typed)
    assert underivable(typed.typed_by(CALLS), pairs) == []


def test_bare_targets_can_be_switched_off() -> None:
    for bare_targets in (True, False):
        pairs = [
            Example(f"{please}{thing}", thing)
            for please in ("", "please ")
            for thing in ("lamp", "fan")
        ]
        grammar = induce(pairs, InductionSettings(bare_targets=bare_targets))
        assert any(str(rule).endswith("### NT_1") for rule in grammar) is bare_targets
