"""Runs with systems that answer from memory instead of training: who is run, when, and what is kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nqg.answers import ILLEGAL, Answer
from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.evaluation.evaluation import ExactJudge
from nqg.paper import systems as runs
from nqg.paper.baselines import BASELINES
from nqg.paper.recipe import UsedWeights, read_recipe
from nqg.paper.records import LEGAL, Cell, write_record
from nqg.paper.runner import Runner
from nqg.paper.systems import (
    RUNS,
    RecipeData,
    RunResult,
    SystemRun,
    SystemTask,
    error_figures,
    read_answers,
    unseen_figures,
    write_answers,
)
from nqg.sql.schema import Schema, Table

RECIPE = read_recipe("geoquery-tmcd")
TRAIN = tuple(
    Example(f"how big is m{number}", f"answer ( size_{number} ( m0 ) )")
    for number in range(8)
)
TEST = (Example("a", "A"), Example("b", "B"), Example("c", "C"), Example("d", "D"))
DATA = RecipeData(RECIPE, TRAIN, TEST, {"divergence": 0.19}, {"exact": ExactJudge()})
SURE_AND_RIGHT, UNSURE_AND_WRONG, SILENT = ("A", 1.0), ("X", 0.4), (None, None)


class Memory:
    """A system that knows its answers; `asked` are the training examples of each run."""

    def __init__(self, by: str, *known: tuple[str | None, float | None]) -> None:
        self.by, self.known, self.asked = by, known, list[int]()

    def run(self, task: SystemTask) -> RunResult:
        data, folder = task.data, task.run.folder
        assert folder
        self.asked.append(len(data.train))
        (folder / "state").write_text("half a training")
        task.run.progress("training", 1, 2)
        if data is DATA:
            answers = [
                Answer("x", target, chance, self.by) for target, chance in self.known
            ]
        else:
            answers = [
                Answer("x", each.target if self.by == "fallback" else "X", 0.5, self.by)
                for each in data.test
            ]
        return RunResult(
            tuple(answers), {"rules": 7.0}, {"steps": 2}, {"training": 1.0}
        )


GRAMMAR = (SURE_AND_RIGHT, UNSURE_AND_WRONG, SILENT, SILENT)
FALLBACK = (("A", None), ("B", None), ("C", None), ("X", None))


@pytest.fixture
def systems() -> dict[str, Memory]:
    return {
        "nqg": Memory("grammar", *GRAMMAR),
        "seq2seq": Memory("fallback", *FALLBACK),
    }


@pytest.fixture
def made(tmp_path: Path, systems: dict[str, Memory]) -> Callable[[RecipeData], Runner]:
    runs: dict[str, SystemRun] = {name: system.run for name, system in systems.items()}
    weights = UsedWeights(RECIPE, "embedded", "embedded")
    return lambda data: Runner(data, tmp_path, weights, runs)  # type: ignore[arg-type]


def test_the_hybrid_takes_the_grammars_answer_where_there_is_one(
    made: Callable[[RecipeData], Runner],
) -> None:
    nqg, seq2seq, hybrid = made(DATA).records(("nqg", "seq2seq", "hybrid"), [0])
    assert (
        nqg.figures["accuracy"],
        nqg.figures["coverage"],
        nqg.figures["precision"],
    ) == (
        0.25,
        0.5,
        0.5,
    )
    assert (seq2seq.figures["accuracy"], seq2seq.figures["coverage"]) == (0.75, 1.0)
    assert hybrid.figures["accuracy"] == 0.5
    assert hybrid.cell == Cell("geoquery-tmcd", "hybrid", "embedded+embedded", 0)


def test_the_gate_hands_over_where_the_grammar_was_unsure_and_wrong_on_held_out_examples(
    made: Callable[[RecipeData], Runner], systems: dict[str, Memory]
) -> None:
    (gated,) = made(DATA).records(("gated",), [0])
    assert gated.figures["threshold"] == 1.0
    assert gated.figures["accuracy"] == 0.75
    assert gated.figures["held_out_trials"] == 2
    assert systems["nqg"].asked == [6, 8]


def test_other_ways_to_answer_are_judged_beside_the_papers(
    made: Callable[[RecipeData], Runner], systems: dict[str, Memory]
) -> None:
    runner = made(DATA)
    more = tuple(
        Answer(example.source, example.target, 0.5, "grammar")
        for example in DATA.test[:3]
    )
    nqg = systems["nqg"].run

    def with_others(task: SystemTask) -> RunResult:
        return replace(nqg(task), others={"best_legal": (*more, Answer("d"))})

    (record,) = replace(runner, runs={**runner.runs, "nqg": with_others}).records(
        ("nqg",), [0]
    )
    assert [record.figures[name] for name in ("accuracy", "coverage", "precision")] == [
        0.25,
        0.5,
        0.5,
    ]
    assert [
        record.figures[f"best_legal_{name}"]
        for name in ("accuracy", "coverage", "precision")
    ] == [0.75, 0.75, 1]


def test_a_hybrid_joins_every_way_in_which_its_fallback_was_decoded(
    made: Callable[[RecipeData], Runner], systems: dict[str, Memory]
) -> None:
    runner, seq2seq = made(DATA), systems["seq2seq"].run
    legal = tuple(
        Answer(example.source, example.target, 0.5, "fallback") for example in DATA.test
    )

    def with_legal(task: SystemTask) -> RunResult:
        return replace(seq2seq(task), others={LEGAL: legal})

    (hybrid,) = replace(runner, runs={**runner.runs, "seq2seq": with_legal}).records(
        ("hybrid",), [0]
    )
    assert (hybrid.figures["accuracy"], hybrid.figures["legal_accuracy"]) == (0.5, 0.75)
    assert "legal_accuracy" not in next(made(DATA).records(("hybrid",), [1])).figures


def test_sql_of_the_grammar_that_its_database_cannot_run_is_left_to_the_fallback(
    tmp_path: Path, made: Callable[[RecipeData], Runner]
) -> None:
    schema = Schema("geo", (Table("city", ("name",)), Table("state", ("capital",))))
    test = (
        Example("geo: names?", "select name from city"),
        Example("geo: capitals?", "select capital from state"),
    )
    data = replace(DATA, test=test, schemas={"geo": schema})
    cells = [made(data).cell(system, 0) for system in ("nqg", "seq2seq")]
    for cell, targets in zip(
        cells,
        (["select name from city", "select capital from city"], ["?", "!"]),
        strict=True,
    ):
        answers = [
            Answer(each.source, target, 1.0, cell.system)
            for each, target in zip(test, targets, strict=True)
        ]
        write_answers(
            tmp_path / ".replies" / cell.recipe / f"{cell.stem}.jsonl", test, answers
        )
        (parts,) = made(DATA).records((cell.system,), [1])
        write_record(tmp_path, replace(parts, cell=cell, data=data.fingerprint))
    (hybrid,) = made(data).records(("hybrid",), [0])
    found = read_answers(
        tmp_path / ".replies" / hybrid.cell.recipe / f"{hybrid.cell.stem}.jsonl", test
    )
    assert [(answer.target, answer.system) for answer in found] == [
        ("select name from city", "nqg"),
        ("!", "seq2seq"),
    ]
    assert found[1].reason == ILLEGAL


def test_gates_share_what_a_part_answered_to_held_out_examples(
    made: Callable[[RecipeData], Runner], systems: dict[str, Memory]
) -> None:
    (first,) = made(DATA).records(("gated",), [0])
    other = replace(made(DATA), weights=UsedWeights(RECIPE, "another", "embedded"))
    (second,) = other.records(("gated",), [0])
    assert first.figures == second.figures
    assert (systems["nqg"].asked, systems["seq2seq"].asked) == ([6, 8, 6, 8], [6, 8])
    assert not list((made(DATA).results / ".unfinished").rglob("state"))


def test_a_record_says_how_it_came_about(made: Callable[[RecipeData], Runner]) -> None:
    (record,) = made(DATA).records(("nqg",), [3])
    assert record.cell.seed == 3
    assert record.asked == "bert-base-uncased"
    assert record.is_stand_in
    assert record.figures["rules"] == 7.0
    assert record.figures["divergence"] == 0.19
    assert record.settings == {"steps": 2}
    assert record.versions["nqg"]


def test_what_is_finished_is_not_run_again(
    made: Callable[[RecipeData], Runner], systems: dict[str, Memory]
) -> None:
    first = list(made(DATA).records(("nqg", "seq2seq", "hybrid"), [0, 1]))
    again = list(made(DATA).records(("nqg", "seq2seq", "hybrid"), [0, 1]))
    assert first == again
    assert systems["nqg"].asked == [8, 8]


def test_another_recipe_or_other_data_is_run_again(
    made: Callable[[RecipeData], Runner], systems: dict[str, Memory]
) -> None:
    list(made(DATA).records(("nqg",), [0]))
    longer = replace(RECIPE, nqg=replace(RECIPE.nqg, training={"steps": 9}))
    assert (
        made(replace(DATA, recipe=longer)).finished(
            Cell("geoquery-tmcd", "nqg", "embedded", 0)
        )
        is None
    )
    assert (
        made(replace(DATA, train=TRAIN[1:])).finished(
            Cell("geoquery-tmcd", "nqg", "embedded", 0)
        )
        is None
    )
    assert made(DATA).finished(Cell("geoquery-tmcd", "nqg", "embedded", 0)) is not None
    assert made(DATA).finished(Cell("geoquery-tmcd", "nqg", "embedded", 1)) is None


def test_records_without_their_answers_as_git_has_them_are_made_again_for_the_hybrid(
    made: Callable[[RecipeData], Runner], tmp_path: Path, systems: dict[str, Memory]
) -> None:
    list(made(DATA).records(("nqg",), [0]))
    for file in (tmp_path / ".replies").rglob("*.jsonl"):
        file.unlink()
    (hybrid,) = made(DATA).records(("hybrid",), [0])
    assert hybrid.figures["accuracy"] == 0.5
    assert systems["nqg"].asked == [8, 8]


def test_unfinished_work_is_cleared_away_when_it_is_finished_and_kept_when_it_is_not(
    made: Callable[[RecipeData], Runner], tmp_path: Path, systems: dict[str, Memory]
) -> None:
    list(made(DATA).records(("nqg",), [0]))
    assert not list((tmp_path / ".unfinished").rglob("state"))

    def interrupted(task: SystemTask) -> RunResult:
        assert task.run.folder
        (task.run.folder / "state").write_text("half a training")
        raise KeyboardInterrupt

    runner = replace(made(DATA), runs={"nqg": interrupted})
    with pytest.raises(KeyboardInterrupt):
        list(runner.records(("nqg",), [1]))
    assert list((tmp_path / ".unfinished").rglob("state"))
    assert runner.finished(runner.cell("nqg", 1)) is None


def test_progress_is_told_with_its_cell(made: Callable[[RecipeData], Runner]) -> None:
    told: list[tuple[str, int, int | None]] = []
    runner = replace(
        made(DATA), progress=lambda what, done, total: told.append((what, done, total))
    )
    list(runner.records(("nqg",), [0]))
    assert told == [("geoquery-tmcd nqg seed 0: training", 1, 2)]


def test_answers_survive_a_round_trip(tmp_path: Path) -> None:
    known = zip(DATA.test, GRAMMAR, strict=True)
    answers = tuple(
        Answer(each.source, target, chance, "grammar", "why")
        for each, (target, chance) in known
    )
    write_answers(tmp_path / "r.jsonl", DATA.test, answers)
    assert read_answers(tmp_path / "r.jsonl", DATA.test) == answers


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected 4 answers, found 0"),
        ('{"source": "a"}\n' * 4, r"r\.jsonl:1: expected an answer to 'a'"),
        ("[]\n" * 4, r"r\.jsonl:1: expected an answer to 'a'"),
        ('{"source": "z"}\n' * 4, r"r\.jsonl:1: expected an answer to 'a'"),
    ],
)
def test_answers_to_other_sentences_are_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(FormatError, match=complaint):
        read_answers(tmp_path / "r.jsonl", DATA.test)


def test_errors_are_counted_by_what_training_lacked() -> None:
    train = (Example("a", "x y z"), Example("b", "x y w"), Example("c", "z z"))
    test = (
        Example("d", "x y z z z"),
        Example("e", "x w"),
        Example("f", "x q"),
        Example("g", "x y z"),
    )
    data = replace(DATA, train=train, test=test)
    answers = [
        Answer(each.source, target)
        for each, target in zip(test, ("x y z", "x y", "x y", "x y z"), strict=True)
    ]
    assert error_figures(data, answers) == {
        "errors": 3.0,
        "error_unseen_trigram": 1.0,
        "error_rare_atom": pytest.approx(1 / 3),
        "error_unseen_atom": pytest.approx(1 / 3),
        "error_longer_target": pytest.approx(1 / 3),
    }
    # Only the third program has an atom that training lacks, and no answer is longer than
    # the programs of training.
    assert unseen_figures(data, answers) == {
        "unseen_atoms_accuracy": 0.0,
        "seen_atoms_accuracy": pytest.approx(1 / 3),
        "longest_trained": 3.0,
        "longest_tested": 5.0,
        "longest_answer": 3.0,
        "longer_answers": 0.0,
    }
    longer = [replace(answers[0], target="x y z z"), *answers[1:]]
    assert unseen_figures(data, longer)["longer_answers"] == 0.25


def test_hybrids_are_also_joined_with_the_fallback_of_seed_0_as_the_papers_are(
    made: Callable[[RecipeData], Runner], systems: dict[str, Memory]
) -> None:
    runner = made(DATA)
    next(runner.records(("hybrid",), [0]))
    # The fallback of seed 1 answers nothing.
    silent = Memory("fallback", *[(None, None)] * 4)
    changed = replace(runner, runs={**runner.runs, "seq2seq": silent.run})
    (hybrid,) = changed.records(("hybrid",), [1])
    assert hybrid.figures["accuracy"] == 0.25
    assert hybrid.figures["one_fallback_accuracy"] == 0.5


def test_a_system_of_others_is_a_cell_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = BASELINES["cgps"]
    brief = replace(base, training=replace(base.training, steps=3, batch_size=4))
    monkeypatch.setattr(runs, "BASELINES", {**BASELINES, "cgps": brief})
    runner = Runner(DATA, tmp_path, UsedWeights(RECIPE, "embedded", "embedded"), RUNS)
    (record,) = runner.records(["cgps"], [1])
    assert record.cell.key == ("geoquery-tmcd", "cgps-scratch-1")
    assert {"accuracy", "train_accuracy", "errors"} <= {*record.figures}
    assert not {"legal_accuracy", "rules"} & {*record.figures}
    assert (record.settings["seed"], record.is_stand_in) == (1, False)
    assert not record.is_of(replace(RECIPE, split="length"))
