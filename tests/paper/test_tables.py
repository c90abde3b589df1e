from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nqg.evaluation.metrics import spread
from nqg.paper.recipe import SystemName, read_recipe
from nqg.paper.records import STYLES, Cell, Record, Results, Series
from nqg.paper.tables import (
    GEOQUERY,
    MEAN_OF_MCD,
    MEANS,
    RANKED,
    SCAN,
    ResultTable,
    markdown,
    mean_ranks,
    tables,
)


def record(
    recipe: str, system: SystemName, weights: str, seed: int, **figures: float | None
) -> Record:
    return Record(Cell(recipe, system, weights, seed), figures, "t5-base", "f", "d")


RESULTS = Results.collected(
    [
        record(
            "geoquery-tmcd",
            "nqg",
            "mpnet",
            0,
            accuracy=0.43,
            coverage=0.46,
            precision=0.93,
            divergence=0.19,
        ),
        record(
            "geoquery-tmcd",
            "nqg",
            "mpnet",
            1,
            accuracy=0.45,
            coverage=0.48,
            precision=0.95,
            divergence=0.19,
        ),
        record(
            "geoquery-tmcd",
            "seq2seq",
            "flan",
            0,
            accuracy=0.5,
            divergence=0.19,
            unseen_atoms=0.0,
        ),
        record(
            "scan-length",
            "nqg",
            "embedded",
            0,
            accuracy=1.0,
            rules=20,
            train_examples=16990,
        ),
    ]
)


def table(number: int) -> ResultTable:
    return next(each for each in tables(RESULTS) if each.number == number)


def test_the_main_table_has_our_mean_and_deviation_beside_the_papers_figure() -> None:
    main = table(2)
    assert main.header == ("system", "scan, length", "geoquery, tmcd")
    assert ("NQG (mpnet)", "—", "44.0 ± 1.4") in main.rows
    assert ("NQG (embedded)", "100.0 (n = 1)", "—") in main.rows
    assert ("paper: NQG", "100.0", "41.1") in main.rows
    # The paper quotes the first of these figures from others.
    assert ("paper: T5-Base", "14.4‡", "54.3") in main.rows


def test_a_figure_of_fewer_runs_than_others_in_its_row_says_how_many() -> None:
    few = record("geoquery-length", "nqg", "mpnet", 0, accuracy=0.25)
    main = tables(Results.collected([*RESULTS.records, few]))[0]
    rows = {row[0]: row[1:] for row in main.rows}
    assert rows["NQG (mpnet)"] == ("—", "25.0 (n = 1)", "44.0 ± 1.4")


def test_the_column_of_mcd_is_the_mean_of_the_three_splits_where_all_were_run() -> None:
    runs = [
        record(
            f"scan-mcd{number}",
            "seq2seq",
            "flan",
            seed,
            accuracy=number / 10 + seed / 100,
            train_accuracy=1.0,
        )
        for number in (1, 2, 3)
        for seed in (0, 1)
    ]
    runs += [record("scan-mcd1", "nqg", "embedded", 0, accuracy=1.0)]
    main = tables(Results.collected(runs))[0]
    assert main.header == ("system", "scan, mcd")
    assert main.rows[:2] == (
        ("T5 (flan)", "20.5 ± 0.7"),
        ("T5 (flan) on training examples", "100.0 ± 0.0"),
    )
    assert all(row[0].startswith("paper") for row in main.rows[2:])


def test_decoding_under_schemas_has_rows_beside_free_decoding_where_it_was_run() -> (
    None
):
    runs = [
        record(
            "spider-ssp-random",
            "seq2seq",
            "flan",
            0,
            accuracy=0.5,
            legal_accuracy=0.6,
            train_accuracy=1.0,
        ),
        record("spider-ssp-tmcd", "seq2seq", "flan", 0, accuracy=0.25),
    ]
    assert tables(Results.collected(runs))[0].rows[:3] == (
        ("T5 (flan)", "50.0", "25.0"),
        ("T5 (flan), legal decoding", "60.0", "—"),
        ("T5 (flan) on training examples", "100.0", "—"),
    )


def test_our_rows_come_first_and_parsers_before_fallbacks() -> None:
    names = [row[0] for row in table(2).rows]
    assert names[:3] == ["NQG (embedded)", "NQG (mpnet)", "T5 (flan)"]
    assert all(name.startswith("paper") for name in names[3:])


def test_stand_ins_are_labelled() -> None:
    assert "Stand-ins. For t5-base: embedded, flan, mpnet." in table(2).notes
    assert "Stand-ins. For t5-base: embedded, mpnet." in table(5).notes


def test_only_tables_of_which_something_was_run_are_made() -> None:
    assert [each.number for each in tables(RESULTS)] == [2, 5, 6, 8, 9, 10, None]
    assert tables(Results(())) == []


def test_coverage_and_precision_stand_beside_the_papers() -> None:
    rows = table(5).rows
    assert ("NQG (mpnet) coverage", "—", "47.0 ± 1.4") in rows
    assert ("paper: NQG precision", "100.0", "94.1") in rows


def test_another_way_to_decode_has_a_table_of_its_own() -> None:
    legal = record(
        "geoquery-tmcd",
        "nqg",
        "mpnet",
        2,
        best_legal_accuracy=0.5,
        best_legal_precision=None,
    )
    (found,) = (
        each for each in tables(Results.collected([legal])) if "legal" in each.title
    )
    assert found.rows[:2] == (
        ("NQG (mpnet) accuracy", "50.0"),
        ("paper: NQG accuracy", "41.1"),
    )
    assert all(row[0].startswith("paper") for row in found.rows[2:])
    assert not any("legal" in each.title for each in tables(RESULTS))


def test_the_table_of_splits_names_the_model_behind_its_accuracy() -> None:
    assert table(6).rows == (
        ("geoquery, tmcd", "0.0", "0.0", "0.190", "0.19", "flan", "50.0", "54.3"),
    )


def test_grammar_sizes_have_their_ratio() -> None:
    assert table(8).rows == (("scan, length: NQG", "16,990", "20", "849.5", "21"),)


def test_deviations_need_more_than_one_seed() -> None:
    rows = {row[0]: row[1] for row in table(9).rows}
    assert rows["NQG (mpnet) accuracy"] == "1.4"
    assert "T5 (flan) accuracy" not in rows
    assert rows["paper: NQG accuracy"] == "0.4"


def test_every_run_is_listed_with_its_command_and_machine() -> None:
    runs = next(each for each in tables(RESULTS) if each.number is None)
    rows = {row[0]: row[1:] for row in runs.rows}
    assert rows["`geoquery-tmcd --systems nqg --encoder mpnet`"][:3] == (
        "2",
        "0",
        "44.0 ± 1.4",
    )
    trained = replace(RESULTS.records[0], settings={"steps": 4000})
    runs = tables(Results.collected([trained]))[-1]
    assert runs.rows[0][1:3] == ("1", "4,000")
    assert rows["`geoquery-tmcd --systems seq2seq --seq2seq flan`"][0] == "1"
    assert runs.heading == "Runs"


def test_an_undefined_figure_is_left_out_and_not_counted_as_zero() -> None:
    results = Results.collected(
        [
            record("geoquery-tmcd", "nqg", "x", 0, precision=None),
            record("geoquery-tmcd", "nqg", "x", 1, precision=0.9),
        ]
    )
    assert results.figure("geoquery-tmcd", Series("nqg", "x"), "precision") == spread(
        [0.9]
    )
    assert len(results.of("geoquery-tmcd", Series("nqg", "x"))) == 2
    assert results.figure("geoquery-tmcd", Series("nqg", "y"), "precision") is None


@given(st.permutations(RESULTS.records))
def test_the_order_of_the_records_does_not_matter(shuffled: list[Record]) -> None:
    assert tables(Results.collected(shuffled)) == tables(RESULTS)


def test_text_in_a_table_cannot_break_out_of_it() -> None:
    hostile = ResultTable(
        2, "<b>", ("a|b",), (("<script>alert(1)</script>",),), ("<i>",)
    )
    assert "a\\|b" in markdown([hostile])


def test_errors_are_shown_by_cause_beside_the_papers() -> None:
    causes = {
        "error_unseen_trigram": 0.25,
        "error_rare_atom": 0.5,
        "error_unseen_atom": 0.0,
        "error_longer_target": 0.0,
    }
    runs = [
        record(
            "geoquery-tmcd",
            "seq2seq",
            "flan",
            seed,
            accuracy=0.5,
            errors=220 + seed,
            **causes,
        )
        for seed in (0, 2)
    ]
    found = next(each for each in tables(Results.collected(runs)) if each.number == 7)
    assert ("T5 (flan): errors", "221") in found.rows
    assert ("paper: T5-Base: errors", "201") in found.rows
    trigrams = (
        "% of them: the right symbol never followed the two before it in training"
    )
    assert (f"T5 (flan): {trigrams}", "25.0 ± 0.0") in found.rows
    assert (f"paper: T5-Base: {trigrams}", "25.9") in found.rows
    assert not [each for each in tables(RESULTS) if each.number == 7]


def test_single_runs_are_shown_where_there_are_several() -> None:
    assert table(10).rows == (("NQG (mpnet)", "43.0 / 45.0"),)


def test_systems_of_others_have_no_weights_in_their_command() -> None:
    found = tables(
        Results.collected([record("scan-jump", "cgps", "scratch", 0, accuracy=0.9)])
    )
    assert ("CGPS (scratch)", "90.0") in found[0].rows
    assert found[-1].rows[0][0] == "`scan-jump --systems cgps`"


def test_average_ranks_are_those_of_the_paper_where_its_figures_are_ours() -> None:
    records = []
    for name in (*SCAN[:-1], *MEANS[MEAN_OF_MCD], *GEOQUERY):
        recipe = read_recipe(name)
        # The paper reports the mean of the three splits, which every one of them stands for here.
        for system in RANKED:
            accuracy = recipe.paper.accuracy[STYLES[system].paper]
            records.append(record(name, system, "any", 0, accuracy=accuracy / 100))
    ranks = [
        each for each in tables(Results.collected(records)) if "rank" in each.title
    ]
    assert ranks[0].rows == (
        ("Syntactic Attention", "3.88", "3.88"),
        ("CGPS", "4.38", "4.38"),
        ("T5", "2.88", "2.88"),
        ("NQG", "2.25", "2.25"),
        ("NQG-T5", "1.00", "1.00"),
    )


def test_there_is_no_average_rank_where_a_system_is_missing() -> None:
    assert mean_ranks({"nqg": [1.0, None], "seq2seq": [0.5, 0.5]}) == {}
    assert not [each for each in tables(RESULTS) if "rank" in each.title]


def test_accuracies_stand_beside_the_papers_by_unseen_atoms_and_lengths_on_length_splits() -> (
    None
):
    runs = [
        record(
            "spider-ssp-template",
            "seq2seq",
            "flan",
            0,
            accuracy=0.5,
            unseen_atoms_accuracy=0.375,
            seen_atoms_accuracy=0.625,
        ),
        record(
            "geoquery-length",
            "seq2seq",
            "flan",
            0,
            accuracy=0.4,
            longest_trained=13,
            longest_tested=21,
            longest_answer=14,
            longer_answers=0.0625,
        ),
    ]
    by_title = {each.title: each for each in tables(Results.collected(runs))}
    atoms = by_title["Accuracy on test examples with unseen atoms, and on the others"]
    assert ("T5 (flan): others", "—", "62.5") in atoms.rows
    unseen = "paper: T5-Base: with an atom unseen in training"
    assert (unseen, "—", "53.9") in atoms.rows
    lengths = by_title["Lengths of answers on length splits, in tokens"]
    assert ("T5 (flan): longest answer", "14") in lengths.rows
    assert ("T5 (flan): % of answers longer than training", "6.2") in lengths.rows


def test_deviations_with_one_t5_stand_beside_the_papers() -> None:
    runs = [
        record(
            "geoquery-tmcd",
            "hybrid",
            "mpnet+flan",
            seed,
            accuracy=0.5,
            one_fallback_accuracy=share,
        )
        for seed, share in enumerate((0.5, 0.52, 0.54))
    ]
    found = next(each for each in tables(Results.collected(runs)) if each.number == 9)
    assert ("NQG-T5 (mpnet+flan) accuracy, one T5", "2.0") in found.rows
    assert ("paper: NQG-T5-3B accuracy, one T5", "0.4") in found.rows


def test_systems_of_others_have_the_mean_and_the_best_seed_beside_the_papers() -> None:
    records = []
    for seed, (accuracy, trained) in enumerate([(0.5, 0.7), (0.9, 0.8), (0.0, 0.0)]):
        figures = {"accuracy": accuracy, "train_accuracy": trained}
        records.append(record("scan-jump", "cgps", "scratch", seed, **figures))
    found = [
        each for each in tables(Results.collected(records)) if "others" in each.title
    ]
    assert found[0].rows == (
        ("CGPS, mean", "46.7"),
        ("CGPS, best seed", "90.0"),
        ("CGPS, best seed on training examples", "80.0"),
        ("paper: CGPS", "98.8"),
    )


def test_there_is_no_table_of_others_without_their_records() -> None:
    assert not [each for each in tables(RESULTS) if "others" in each.title]
