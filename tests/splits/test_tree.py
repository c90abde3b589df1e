from __future__ import annotations

from nqg.splits.compounds import Tree

EXCLUDE = Tree("exclude", (Tree("longest", (Tree("river"),)), Tree("m0")))


def test_nodes_come_in_pre_order() -> None:
    assert [node.label for node in EXCLUDE.nodes()] == [
        "exclude",
        "longest",
        "river",
        "m0",
    ]


def test_a_tree_prints_as_nested_calls() -> None:
    assert str(EXCLUDE) == "exclude(longest(river), m0)"


def test_equal_trees_are_equal_keys() -> None:
    assert {EXCLUDE: 1}[
        Tree("exclude", (Tree("longest", (Tree("river"),)), Tree("m0")))
    ] == 1


def test_a_tree_may_be_deeper_than_the_stack() -> None:
    tree = Tree("leaf")
    for _ in range(10_000):
        tree = Tree("not", (tree,))
    assert sum(1 for _ in tree.nodes()) == 10_001
    assert str(tree).count("not(") == 10_000
