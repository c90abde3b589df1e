"""The grammar of strings against its twin: all token sequences, rendered one by one."""

from __future__ import annotations

import re
from itertools import product

import llguidance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.slots.grammar_formats import write_gbnf, write_lark
from nqg.slots.string_grammar import string_grammar
from nqg.text.programs import ProgramTokenizer, fit_programs
from nqg.types.target_grammar import TargetGrammar
from strategies import target_grammars

# Tokens of one character: a string has one sequence of them.
TOKENS = ("a", "b", "(", ")", ",")
SPELLINGS = {
    "code": fit_programs(["a(b, a)", "b(a)(a b), a"], "code"),
    "odd": fit_programs(["a ( b,a )", "b ( a )( a b ),a"], "code"),
    "spaces": ProgramTokenizer(),
}
BYTES = llguidance.LLTokenizer("byte")


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(max_examples=6, deadline=None)
@given(target_grammars(terminals=st.sampled_from(TOKENS), wildcards=False))
def test_the_strings_are_those_of_legal_token_sequences(
    spelling: str, grammar: TargetGrammar
) -> None:
    programs = SPELLINGS[spelling]
    strings = string_grammar(grammar, programs, ())
    matchers = []
    for text in (write_lark(strings), lark_of_gbnf(write_gbnf(strings))):
        compiled = llguidance.LLMatcher.grammar_from_lark(text)
        matchers.append(llguidance.LLMatcher(BYTES, compiled))
    for length in (1, 2):
        for tokens in product(TOKENS, repeat=length):
            program = programs.render(tokens)
            is_legal = grammar.accepts(tokens)
            for matcher in matchers:
                assert is_matched(matcher, program) == is_legal, program


def lark_of_gbnf(grammar: str) -> str:
    """The rules of a grammar in GBNF without patterns, as Lark writes them.

    llguidance's own converter makes terminals of rules without references, and its lexer does not
    go back from a terminal that it has begun: it would reject some legal strings.
    """
    lines = []
    # A line that begins with white space goes on with the rule before.
    for line in re.sub(r"\n[ \t]+", " ", grammar).splitlines():
        symbols = re.findall(r'"(?:\\.|[^"\\])*"|[^\s"]+', line)
        for number, symbol in enumerate(symbols):
            if not symbol.startswith('"'):
                symbols[number] = symbol.replace("-", "_").replace("::=", ":")
        lines.append(" ".join(symbols).replace("root :", "start :", 1))
    return "\n".join(lines)


def is_matched(matcher: llguidance.LLMatcher, text: str) -> bool:
    started = matcher.deep_copy()
    tokens = BYTES.tokenize_bytes(text.encode())
    return bool(
        started.try_consume_tokens(tokens) == len(tokens) and started.is_accepting()
    )
