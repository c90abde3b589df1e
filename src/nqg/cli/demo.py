"""`nqg demo`: the shortest way to see what this is about; nothing to download."""

from __future__ import annotations

from nqg.cli.drawing import drawn
from nqg.cli.terminal import out

SCAN_GRAMMAR = """
walk ### I_WALK
look ### I_LOOK
run ### I_RUN
jump ### I_JUMP
turn left ### I_TURN_LEFT
turn right ### I_TURN_RIGHT
turn opposite left ### I_TURN_LEFT I_TURN_LEFT
turn opposite right ### I_TURN_RIGHT I_TURN_RIGHT
turn around left ### I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT I_TURN_LEFT
turn around right ### I_TURN_RIGHT I_TURN_RIGHT I_TURN_RIGHT I_TURN_RIGHT
NT_1 left ### I_TURN_LEFT NT_1
NT_1 right ### I_TURN_RIGHT NT_1
NT_1 opposite left ### I_TURN_LEFT I_TURN_LEFT NT_1
NT_1 opposite right ### I_TURN_RIGHT I_TURN_RIGHT NT_1
NT_1 around left ### I_TURN_LEFT NT_1 I_TURN_LEFT NT_1 I_TURN_LEFT NT_1 I_TURN_LEFT NT_1
NT_1 around right ### I_TURN_RIGHT NT_1 I_TURN_RIGHT NT_1 I_TURN_RIGHT NT_1 I_TURN_RIGHT NT_1
NT_1 twice ### NT_1 NT_1
NT_1 thrice ### NT_1 NT_1 NT_1
NT_1 and NT_2 ### NT_1 NT_2
NT_1 after NT_2 ### NT_2 NT_1
"""
SENTENCE = "walk twice after jump around left thrice"


def demo() -> None:
    """Derive all of SCAN with twenty rules, and draw one derivation. Needs no network.

    Example: nqg demo
    """
    import numpy as np

    from nqg import load_dataset
    from nqg.forests.build import build_forests
    from nqg.grammar.algebras import derivation_counts
    from nqg.grammar.best import best_derivations
    from nqg.grammar.grammar import Grammar

    grammar = Grammar.parse(SCAN_GRAMMAR)
    train, test = load_dataset("scan").split("length")
    forests = build_forests(grammar, test)
    derived = len(test) - len(forests.underivable())
    out.print(f"SCAN, length split: {len(train):,} commands to learn from, {len(test):,} longer ones to test on.")
    out.print(f"A grammar of {len(grammar)} rules derives {derived:,} of the {len(test):,} test pairs.\n")

    chosen = next(at for at, example in enumerate(test) if example.source == SENTENCE)
    goal = forests.goal[chosen]
    best = best_derivations(grammar, goal, np.zeros(goal.applications))[0]
    assert best is not None, "the demo's sentence has a derivation"
    readings = derivation_counts(forests.full[chosen])[0]
    out.print(f"{drawn(best.derivation)}\n\n= {' '.join(best.derivation.target)}\n")
    out.print(f"It has {readings} readings under this grammar; to choose among them is the parsing model's task.")
