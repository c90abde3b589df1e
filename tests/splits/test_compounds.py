"""Atoms and compounds of FunQL, of SQL, and of languages that we do not know."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from nqg.splits.compounds import Tree, load_language
from strategies import called, listed, program_trees

FUNQL, SQL, TOKENS = (
    load_language(name).decomposition for name in ("funql", "sql", "tokens")
)


def test_the_examples_of_the_paper() -> None:
    target = "answer ( exclude ( longest ( river ) , loc_2 ( m0 ) ) )"
    assert {"longest", "river", "exclude"} <= set(FUNQL.atoms(target))
    assert {"longest(river)", "exclude(longest(_),_)", "exclude(_,loc_2(_))"} <= set(
        FUNQL.compounds(target)
    )


def test_the_place_of_an_argument_is_kept() -> None:
    first, second = (
        FUNQL.compounds(target) for target in ("exclude ( a , b )", "exclude ( b , a )")
    )
    assert set(first) == {"exclude(a,_)", "exclude(_,b)"}
    assert not set(first) & set(second)


def test_occurrences_are_counted() -> None:
    target = "and ( f ( x ) , f ( x ) , f ( f ( x ) ) )"
    assert FUNQL.atoms(target) == Counter({"f": 4, "x": 3, "and": 1})
    assert FUNQL.compounds(target)["f(x)"] == 3
    assert FUNQL.compounds(target)["and(_,_,f(_))"] == 1


@given(program_trees())
def test_there_is_one_atom_a_node_and_one_compound_an_edge(tree: Tree) -> None:
    nodes = list(tree.nodes())
    assert FUNQL.atoms(called(tree)) == Counter(node.label for node in nodes)
    assert FUNQL.compounds(called(tree)).total() == len(nodes) - 1


@given(program_trees().filter(lambda tree: bool(tree.children)))
def test_both_ways_of_writing_have_the_same_compounds(tree: Tree) -> None:
    assert FUNQL.compounds(called(tree)) == FUNQL.compounds(listed(tree))


def test_brackets_without_a_symbol_are_no_atoms() -> None:
    assert set(FUNQL.atoms("f ( [ a , b ] ) g")) == {"f", "a", "b", "g"}
    assert "f([](_,_))" in FUNQL.compounds("f ( [ a , b ] ) g")


def test_sql_has_words_as_atoms_and_edges_of_both_orders_as_compounds() -> None:
    query = "select name from head where age > 56"
    assert SQL.atoms(query)["name"] == 1
    assert {"where(>)", "where(>(age))", ">(_, 56)"} <= set(SQL.compounds(query))


def test_a_flat_target_has_tokens_and_neighbours() -> None:
    target = "I_JUMP I_JUMP I_WALK"
    assert TOKENS.atoms(target) == Counter({"I_JUMP": 2, "I_WALK": 1})
    assert TOKENS.compounds(target) == Counter({"I_JUMP I_JUMP": 1, "I_JUMP I_WALK": 1})


def test_a_single_token_has_no_compound() -> None:
    assert not TOKENS.compounds("I_JUMP")
    assert not FUNQL.compounds("river")
