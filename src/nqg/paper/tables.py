"""The paper's tables, with our figures beside the paper's, as text, Markdown, HTML and a picture."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from nqg.evaluation.error_analysis import Cause
from nqg.evaluation.metrics import Spread
from nqg.paper.recipe import FALLBACKS, GRAMMARS, PUBLISHED, Recipe, SystemName, read_recipe
from nqg.paper.records import Cell, Record, Results, Series
from nqg.paper.systems import BEST_LEGAL, ERRORS, LEGAL

UNKNOWN_FIGURE = "—"
MCD = ("scan-mcd1", "scan-mcd2", "scan-mcd3")
MEAN_OF_MCD = "scan-mcd"  # what the paper reports: the mean of the three
SCAN = ("scan-jump", "scan-turn-left", "scan-length", MEAN_OF_MCD)
GEOQUERY = ("geoquery-standard", "geoquery-template", "geoquery-length", "geoquery-tmcd")
SPIDER = ("spider-ssp-random", "spider-ssp-template", "spider-ssp-length", "spider-ssp-tmcd")
XSP = ("spider-xsp",)
UNREPORTED = ("scan-around-right", "cogs-gen")
SPLITS = ("geoquery-standard", "geoquery-random", *GEOQUERY[1:], *SPIDER)
SIZES = ("scan-length", "geoquery-standard", "spider-ssp-random")

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table of text; the first column names the rows. `number` is the paper's, where it is one of the paper's."""

    number: int | None
    title: str
    header: Row
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        return self.title if self.number is None else f"Table {self.number}: {self.title}"


def tables(results: Results) -> list[ResultTable]:
    """Every table of the paper for which something was run, and a table of the runs."""
    joined = with_means_of_mcd(results)
    made = [
        accuracies(joined, 2, "Accuracy on SCAN and GeoQuery", (*SCAN, *GEOQUERY)),
        accuracies(results, 3, "Accuracy (exact set match) on Spider-SSP", SPIDER),
        accuracies(results, 4, "Accuracy (exact set match) on Spider-XSP", XSP),
        accuracies(results, None, "Accuracy on splits that the paper does not report", UNREPORTED),
        coverage_and_precision(joined),
        *(
            table(results)
            for table in (
                best_legal,
                types,
                splits,
                errors,
                grammar_sizes,
                deviations,
                single_runs,
                runs,
            )
        ),
    ]
    return [table for table in made if table is not None]


def with_means_of_mcd(results: Results) -> Results:
    """The records, and one more for each system and seed that was run on all three MCD splits: the means."""
    groups: dict[Cell, list[Record]] = {}
    for record in results.records:
        if record.cell.recipe in MCD:
            groups.setdefault(replace(record.cell, recipe=MEAN_OF_MCD), []).append(record)
    means = []
    for cell, group in groups.items():
        if len(group) == len(MCD):
            columns = (
                (name, [record.figures.get(name) for record in group]) for name in group[0].figures
            )
            known = {
                name: [value for value in column if value is not None] for name, column in columns
            }
            figures = {
                name: fmean(column) for name, column in known.items() if len(column) == len(MCD)
            }
            means.append(replace(group[0], cell=cell, figures=figures))
    return Results.collected([*results.records, *means])


def recipes_run(results: Results, names: Iterable[str]) -> list[Recipe]:
    known = {record.cell.recipe for record in results.records}
    mean = replace(read_recipe(MCD[0]), name=MEAN_OF_MCD, split="mcd")
    return [mean if name == MEAN_OF_MCD else read_recipe(name) for name in names if name in known]


def accuracies(
    results: Results, number: int | None, title: str, names: Sequence[str]
) -> ResultTable | None:
    """Table 2, 3 or 4, or of other splits: a row for each of our systems, then one for each of the paper's."""
    recipes = recipes_run(results, names)
    if not recipes:
        return None
    systems = dict.fromkeys(system for recipe in recipes for system in recipe.paper.accuracy)
    series = results.series(names)
    rows = our_rows(results, recipes, "accuracy", series)
    free = [
        each for each in series if each.system != "taught"
    ]  # which has more than legal decoding already
    for figure, where, those in (
        (f"{LEGAL}_accuracy", ", legal decoding", free),
        ("train_accuracy", " on training examples", series),
    ):
        rows += [
            (f"{name}{where}", *shares)
            for name, *shares in our_rows(results, recipes, figure, those)
        ]
    for system in systems:
        rows.append(
            (
                f"paper: {system}",
                *(_number(recipe.paper.accuracy.get(system)) for recipe in recipes),
            )
        )
    notes = stand_ins(results, recipes, "nqg", "seq2seq")
    return ResultTable(number, title, header("system", recipes), tuple(rows), notes)


def header(first: str, recipes: Iterable[Recipe]) -> Row:
    return (first, *(recipe.title for recipe in recipes))


def our_rows(
    results: Results, recipes: Sequence[Recipe], name: str, series: Iterable[Series]
) -> list[Row]:
    """A figure of each series, a column for each recipe; series that have none are left out."""
    rows = [
        (each.title, *(_share(results.figure(recipe.name, each, name)) for recipe in recipes))
        for each in series
    ]
    return list(filter(is_known, rows))


def is_known(row: Row) -> bool:
    return any(value != UNKNOWN_FIGURE for value in row[1:])


def stand_ins(results: Results, recipes: Sequence[Recipe], *systems: str) -> tuple[str, ...]:
    """Which weights stand in for those that the paper used, in the rows of `systems`."""
    names = {recipe.name for recipe in recipes}
    found = {
        (record.asked, record.cell.weights)
        for record in results.records
        if record.cell.recipe in names and record.cell.system in systems and record.is_stand_in
    }
    asked = sorted({each for each, _ in found})
    return tuple(
        f"For {each}: {', '.join(sorted(used for for_, used in found if for_ == each))}."
        for each in asked
    )


def coverage_and_precision(results: Results) -> ResultTable | None:
    recipes = [
        recipe for recipe in recipes_run(results, (*SCAN, *GEOQUERY, *SPIDER)) if recipe.paper.nqg
    ]
    rows, notes = (
        nqg_measures(results, recipes, ("coverage", "precision")),
        stand_ins(results, recipes, "nqg"),
    )
    title = "NQG coverage and precision"
    return ResultTable(5, title, header("measure", recipes), rows, notes) if recipes else None


def best_legal(results: Results) -> ResultTable | None:
    """What NQG reaches if it looks on where its best derivation is illegal; the paper's abstains."""
    recipes = recipes_run(results, GEOQUERY)
    rows = nqg_measures(results, recipes, ("accuracy", "coverage", "precision"), f"{BEST_LEGAL}_")
    title = "NQG that takes its best legal derivation"
    return ResultTable(None, title, header("measure", recipes), rows) if is_run(rows) else None


def types(results: Results) -> ResultTable | None:
    """What types bring, written by hand or inferred from the training programs, beside the paper's parser."""
    recipes = recipes_run(results, GEOQUERY)
    with_types = {
        each.weights for each in results.series(GEOQUERY) if each.system in ("typed", "inferred")
    }
    rows = nqg_measures(results, recipes, ("accuracy", "coverage", "precision"), systems=GRAMMARS)
    shown = tuple(
        row
        for row in rows
        if row[0].startswith("paper") or any(f"({each})" in row[0] for each in with_types)
    )
    return ResultTable(None, "Types", header("measure", recipes), shown) if with_types else None


def is_run(rows: Iterable[Row]) -> bool:
    return any(not row[0].startswith("paper") for row in rows)


def nqg_measures(
    results: Results,
    recipes: Sequence[Recipe],
    names: Sequence[str],
    way: str = "",
    systems: Sequence[SystemName] = ("nqg",),
) -> tuple[Row, ...]:
    """Rows of NQG's measures with our encoders, one way of decoding, each above what the paper's NQG has."""
    series = [
        each
        for each in results.series([recipe.name for recipe in recipes])
        if each.system in systems
    ]
    rows: list[Row] = []
    for name in names:
        rows += [
            (f"{title} {name}", *values)
            for title, *values in our_rows(results, recipes, way + name, series)
        ]
        papers = [
            {"accuracy": recipe.paper.accuracy.get("NQG"), **recipe.paper.nqg} for recipe in recipes
        ]
        rows.append((f"paper: NQG {name}", *(_number(paper.get(name)) for paper in papers)))
    return tuple(rows)


def splits(results: Results) -> ResultTable | None:
    """Table 6: a row for each split and fallback; unseen atoms and divergence are figures of the split."""
    rows: list[Row] = []
    for recipe in recipes_run(results, SPLITS):
        paper, unseen = recipe.paper, results.split_figure(recipe.name, "unseen_atoms")
        split = (
            recipe.title,
            _number(None if unseen is None else 100 * unseen),
            _number(paper.split.get("unseen_atoms")),
            _number(results.split_figure(recipe.name, "divergence"), 3),
            _number(paper.split.get("divergence"), 2),
        )
        fallbacks = [each for each in results.series([recipe.name]) if each.system == "seq2seq"]
        ours = [
            (each.weights, _share(results.figure(recipe.name, each, "accuracy")))
            for each in fallbacks
        ]
        theirs = _number(paper.accuracy.get("T5-Base"))
        rows += [(*split, *each, theirs) for each in ours or [(UNKNOWN_FIGURE, UNKNOWN_FIGURE)]]
    columns = (
        "split",
        "unseen atoms %",
        "paper",
        "divergence",
        "paper",
        "our T5",
        "accuracy",
        "paper: T5-Base",
    )
    title = "Splits: unseen atoms, compound divergence, accuracy of T5"
    return ResultTable(6, title, columns, tuple(rows)) if rows else None


def errors(results: Results) -> ResultTable | None:
    """Table 7 in figures: what training lacked where a system without a grammar went wrong; causes overlap."""
    recipes = recipes_run(results, GEOQUERY)
    rows: list[Row] = []
    for name in ("errors", *(f"error_{cause.name.lower()}" for cause in ERRORS)):
        words = (
            "errors"
            if name == "errors"
            else f"% of them: {Cause[name.removeprefix('error_').upper()]}"
        )
        for series in results.series(GEOQUERY):
            found = [results.figure(recipe.name, series, name) for recipe in recipes]
            cells = [_share(each) for each in found]
            if name == "errors":
                cells = [_number(None if each is None else each.mean, 0) for each in found]
            rows.append((f"{series.title}: {words}", *cells))
        papers = (
            _number(recipe.paper.errors.get(name), 0 if name == "errors" else 1)
            for recipe in recipes
        )
        rows.append((f"paper: T5-Base: {words}", *papers))
    shown = tuple(filter(is_known, rows))
    title = "Errors of systems without a grammar, by what training lacked"
    return ResultTable(7, title, header("measure", recipes), shown) if is_run(shown) else None


def single_runs(results: Results) -> ResultTable | None:
    """Table 10, which the paper's source has and its print has not: the accuracy of every seed."""
    recipes, rows = recipes_run(results, GEOQUERY), list[Row]()
    for series in results.series(GEOQUERY):
        found = [
            [each.figures.get("accuracy") for each in results.of(recipe.name, series)]
            for recipe in recipes
        ]
        if any(len(column) > 1 for column in found):
            cells = [
                " / ".join(_number(None if each is None else 100 * each) for each in column)
                for column in found
            ]
            rows.append((series.title, *(cell or UNKNOWN_FIGURE for cell in cells)))
    title = "Accuracy of single runs for GeoQuery, seed by seed"
    return ResultTable(10, title, header("system", recipes), tuple(rows)) if rows else None


def grammar_sizes(results: Results) -> ResultTable | None:
    rows = []
    for recipe in recipes_run(results, SIZES):
        series = next(
            (each for each in results.series([recipe.name]) if each.system == "nqg"), None
        )
        rules = series and results.figure(recipe.name, series, "rules")
        examples = series and results.figure(recipe.name, series, "train_examples")
        if rules and examples:
            ratio = f"{examples.mean / rules.mean:,.1f}"
            paper = _number(recipe.paper.nqg.get("rules"), 0)
            rows.append((recipe.title, f"{examples.mean:,.0f}", f"{rules.mean:,.0f}", ratio, paper))
    columns = ("dataset", "examples", "induced rules", "examples per rule", "paper: rules")
    return ResultTable(8, "Sizes of induced grammars", columns, tuple(rows)) if rows else None


def deviations(results: Results) -> ResultTable | None:
    recipes = recipes_run(results, GEOQUERY)
    rows = []
    for series in results.series(GEOQUERY):
        for name in (
            ("accuracy", "coverage", "precision") if series.system in GRAMMARS else ("accuracy",)
        ):
            figures = [results.figure(recipe.name, series, name) for recipe in recipes]
            shares = [
                100 * each.deviation if each and each.deviation is not None else None
                for each in figures
            ]
            rows.append((f"{series.title} {name}", *map(_number, shares)))
    for name in ("NQG-T5-Base", "NQG", "coverage", "precision"):
        label = (
            f"paper: NQG {name}" if name in ("coverage", "precision") else f"paper: {name} accuracy"
        )
        rows.append((label, *(_number(recipe.paper.deviation.get(name)) for recipe in recipes)))
    shown, title = tuple(filter(is_known, rows)), "Standard deviation over seeds for GeoQuery"
    return ResultTable(9, title, header("measure", recipes), shown) if is_run(shown) else None


def runs(results: Results) -> ResultTable | None:
    """Every series of every recipe: how it was run, what came out, on which machine and how long a seed took."""
    rows: list[Row] = []
    for recipe in sorted({record.cell.recipe for record in results.records}):
        for series in results.series([recipe]):
            records = results.of(recipe, series)
            seconds = sum(sum(record.seconds.values()) for record in records) / len(records)
            first, _, second = series.weights.partition("+")
            options = dict.fromkeys(FALLBACKS, f"--seq2seq {first}") | dict.fromkeys(
                GRAMMARS, f"--encoder {first}"
            )
            options |= dict.fromkeys(PUBLISHED, "")
            weights = options.get(series.system, f"--encoder {first} --seq2seq {second}")
            rows.append(
                (
                    f"`{recipe.replace(',', ' --set ')} --systems {series.system} {weights}".rstrip()
                    + "`",
                    str(len(records)),
                    _share(results.figure(recipe, series, "accuracy")),
                    _share(results.figure(recipe, series, "denotation_accuracy")),
                    _share(results.figure(recipe, series, "train_accuracy")),
                    ", ".join(sorted({record.hardware for record in records})),
                    f"{seconds:,.0f}",
                    ", ".join(sorted({_abbreviated(record.commit) for record in records})),
                )
            )
    figures = (
        "seeds",
        "accuracy",
        "same answers",
        "on training examples",
        "hardware",
        "seconds a seed",
        "commit",
    )
    return (
        ResultTable(None, "Runs", ("command, after `nqg reproduce`", *figures), tuple(rows))
        if rows
        else None
    )


def _abbreviated(commit: str) -> str:
    return commit[:12] + "+" * commit.endswith("+")


def _share(figure: Spread | None) -> str:
    return UNKNOWN_FIGURE if figure is None else figure.in_percent


def _number(value: float | None, digits: int = 1) -> str:
    return UNKNOWN_FIGURE if value is None else f"{value:.{digits}f}"


def markdown(tables: Iterable[ResultTable]) -> str:
    """The tables as Markdown.

    >>> print(markdown([ResultTable(8, "Sizes", ("dataset", "rules"), (("scan", "20"),))]))
    ## Table 8: Sizes
    <BLANKLINE>
    | dataset | rules |
    |---|--:|
    | scan | 20 |
    <BLANKLINE>
    """
    parts = []
    for table in tables:
        header, *rows = (
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
            for row in (table.header, *table.rows)
        )
        notes = [f"Stand-ins. {' '.join(table.notes)}\n"] if table.notes else []
        rule = "|---|" + "--:|" * (len(table.header) - 1)
        parts.append("\n".join([f"## {table.heading}", "", header, rule, *rows, "", *notes]))
    return "\n".join(parts)


STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
tr.paper { opacity: .7; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; background: white; }
"""


def page(tables: Iterable[ResultTable], pictures: Iterable[str] = ()) -> str:
    """The tables, and pictures that are SVG already, as one HTML page."""
    body = []
    for table in tables:
        header = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.header)
        rows = []
        for row in table.rows:
            kind = ' class="paper"' if row[0].startswith("paper") else ""
            rows.append(
                f"<tr{kind}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
            )
        notes = f"<p>Stand-ins. {html.escape(' '.join(table.notes))}</p>" if table.notes else ""
        head, lines = f"<thead><tr>{header}</tr></thead>", "\n".join(rows)
        body.append(
            f"<h2>{html.escape(table.heading)}</h2>\n<table>{head}\n<tbody>\n{lines}\n</tbody></table>{notes}"
        )
    body += [f"<figure>{picture}</figure>" for picture in pictures]
    head = f'<meta charset="utf-8"><title>nqg results</title><style>{STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def drawn_recipes(results: Results) -> list[tuple[Recipe, list[tuple[Series, Spread]]]]:
    """For each recipe that was run, and for the mean of SCAN's three MCD splits, the accuracies of its series."""
    results, found = with_means_of_mcd(results), []
    for recipe in recipes_run(results, (*SCAN, *GEOQUERY, *SPIDER, *XSP, *UNREPORTED)):
        accuracies = []
        for series in results.series([recipe.name]):
            accuracy = results.figure(recipe.name, series, "accuracy")
            if accuracy:
                accuracies.append((series, accuracy))
        found.append((recipe, accuracies))
    return found
