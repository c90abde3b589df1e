"""Trees of bracketed targets."""

from __future__ import annotations

import pytest
from hypothesis import given

from nqg.errors import FormatError
from nqg.splits.compounds import Tree, bracket_tree
from strategies import called, listed, program_trees


@given(program_trees())
def test_call_form_gives_the_tree_back(tree: Tree) -> None:
    assert bracket_tree(called(tree)) == tree
    assert bracket_tree(called(tree).replace(" ", "")) == tree


@given(program_trees().filter(lambda tree: bool(tree.children)))
def test_list_form_gives_the_tree_back(tree: Tree) -> None:
    assert bracket_tree(listed(tree)) == tree


@pytest.mark.parametrize(
    ("target", "tree"),
    [
        ("river", "river"),
        ("f ( )", "f"),
        ("( f )", "f"),
        ("f ( 'a , ( b' , \"c )\" )", "f('a , ( b', \"c )\")"),
        ("f [ a ] { b }", "(f(a), {}(b))"),
        ("f ( x ) ( y )", "(f(x), ()(y))"),
        ("a = b ( c )", "(a, =, b(c))"),
        ("answer(A,(state(A),loc(A,B)))", "answer(A, ()(state(A), loc(A, B)))"),
        ("( ( lambda x ) y )", "()(lambda(x), y)"),
        ("(select (name) (from t))", "select(name, from(t))"),
        ("it's ( o'clock )", "it's(o'clock)"),
    ],
    ids=str,
)
def test_odd_targets_have_a_tree_too(target: str, tree: str) -> None:
    assert str(bracket_tree(target)) == tree


def test_depth_does_not_matter() -> None:
    assert (
        sum(1 for _ in bracket_tree("f ( " * 50_000 + "x" + " )" * 50_000).nodes())
        == 50_001
    )


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("f ( a", "the target ends, expected ')' for 'f('"),
        ("f ( a ]", "found ']', expected ')' for 'f('"),
        ("f ( a ) )", "found ')', expected no closing bracket here"),
        ("( f [ a )", "found ')', expected ']' for 'a['"),
    ],
)
def test_unbalanced_brackets_are_refused(target: str, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        bracket_tree(target)
    assert str(caught.value) == words
