"""The paper's tables, with our figures beside the paper's, as text and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean
from typing import Any

from nqg.evaluation.metrics import Spread
from nqg.paper.recipe import (
    FALLBACKS,
    GRAMMARS,
    PUBLISHED,
    Recipe,
    SystemName,
    read_recipe,
)
from nqg.paper.records import (
    BEST_LEGAL,
    ERRORS,
    LEGAL,
    ONE_FALLBACK,
    STYLES,
    Cell,
    Record,
    Results,
    Series,
)

UNKNOWN_FIGURE = "—"
MARKS = "`‡` is a figure that the paper quotes from others, `†` one with other settings of GeoQuery."
RUN_NOTE = (
    "Commands name the weights of the Hub. Where ours stand in for them, as the page says, the same "
    "command gives other figures. A `+` marks a commit with changes."
)
MEAN_OF_MCD = "scan-mcd"
# Splits of which publications report the mean, by the name that it has here.
MEANS: Mapping[str, tuple[str, ...]] = {
    MEAN_OF_MCD: ("scan-mcd1", "scan-mcd2", "scan-mcd3"),
    "geoquery-csl-template": (
        "geoquery-csl-template-1",
        "geoquery-csl-template-2",
        "geoquery-csl-template-3",
    ),
    "geoquery-csl-tmcd": (
        "geoquery-csl-tmcd-1",
        "geoquery-csl-tmcd-2",
        "geoquery-csl-tmcd-3",
    ),
}
SCAN = ("scan-jump", "scan-turn-left", "scan-length", MEAN_OF_MCD)
GEOQUERY = (
    "geoquery-standard",
    "geoquery-template",
    "geoquery-length",
    "geoquery-tmcd",
)
SPIDER = (
    "spider-ssp-random",
    "spider-ssp-template",
    "spider-ssp-length",
    "spider-ssp-tmcd",
)
XSP = ("spider-xsp",)
# The splits of Qiu et al. (2022): means of three splits each, and one split by length.
CSL = ("geoquery-csl-template", "geoquery-csl-tmcd", "geoquery-csl-length")
UNREPORTED = ("scan-around-right", "cogs-gen")
SPLITS = ("geoquery-standard", "geoquery-random", *GEOQUERY[1:], *SPIDER)
SIZES = ("scan-length", "geoquery-standard", "spider-ssp-random")
NQG_MEASURES = ("accuracy", "coverage", "precision")
# The five approaches whose average rank the paper reports.
RANKED: tuple[SystemName, ...] = (
    "syntactic-attention",
    "cgps",
    "seq2seq",
    "nqg",
    "hybrid",
)

# What the local folders that our weights lay in are called on the hub; the files there differ from
# ours (docs/reproduce.md).
HUB_NAMES = {
    "bert-tiny": "google/bert_uncased_L-2_H-128_A-2",
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "mpnet-base": "sentence-transformers/all-mpnet-base-v2",
    "flan-t5-small": "google/flan-t5-small",
}

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table of text; the first column names the rows. `number` is the paper's, if it has one."""

    number: int | None
    title: str
    header: Row
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        if self.number is None:
            return self.title
        return f"Table {self.number}: {self.title}"


def tables(results: Results) -> list[ResultTable]:
    """Every table of the paper for which something was run, and a table of the runs."""
    joined = with_means(results)
    csl = "Accuracy on the GeoQuery splits of Qiu et al. (2022), means of three splits for template and TMCD"
    unreported = "Accuracy on splits that the paper does not report"
    candidates = [
        accuracies(joined, 2, "Accuracy on SCAN and GeoQuery", (*SCAN, *GEOQUERY)),
        average_ranks(joined),
        baselines(joined),
        accuracies(results, 3, "Accuracy (exact set match) on Spider-SSP", SPIDER),
        accuracies(results, 4, "Accuracy (exact set match) on Spider-XSP", XSP),
        accuracies(joined, None, csl, CSL),
        accuracies(results, None, unreported, UNREPORTED),
        coverage_and_precision(joined),
    ]
    remaining = [
        best_legal,
        types,
        splits,
        unseen_atoms,
        output_lengths,
        errors,
        grammar_sizes,
        deviations,
        single_runs,
        runs,
    ]
    candidates += [make(results) for make in remaining]
    return [table for table in candidates if not all(map(is_papers, table.rows))]


def is_papers(row: Row) -> bool:
    return row[0].startswith("paper")


def with_means(results: Results) -> Results:
    """The records, and one more for each system and seed that was run on all splits of a mean."""
    mean_of = {split: mean for mean, splits in MEANS.items() for split in splits}
    # Records of the splits that differ in nothing else belong together.
    groups: dict[Cell, list[Record]] = {}
    for record in results.records:
        mean = mean_of.get(record.cell.recipe)
        if mean is not None:
            cell = replace(record.cell, recipe=mean)
            groups.setdefault(cell, []).append(record)
    means = []
    for cell, group in groups.items():
        if len(group) < len(MEANS[cell.recipe]):
            continue
        # A mean needs a figure of each split.
        figures = {}
        for name in group[0].figures:
            values: list[Any] = [record.figures.get(name) for record in group]
            if None not in values:
                figures[name] = fmean(values)
        means.append(replace(group[0], cell=cell, figures=figures))
    return Results.collected([*results.records, *means])


def recipes_run(results: Results, names: Iterable[str]) -> list[Recipe]:
    run = {record.cell.recipe for record in results.records}
    recipes = []
    for name in names:
        if name not in run:
            continue
        # A mean has no recipe of its own; the first of its splits has the published figures.
        if name in MEANS:
            recipe = read_recipe(MEANS[name][0])
            split = name.removeprefix(f"{recipe.dataset}-")
            recipes.append(replace(recipe, name=name, split=split))
        else:
            recipes.append(read_recipe(name))
    return recipes


def of_recipes(
    number: int | None,
    title: str,
    recipes: Iterable[Recipe],
    rows: Iterable[Row],
    *notes: str,
    first: str = "measure",
) -> ResultTable:
    """A table with a column for each recipe, without rows that have no figure."""
    header = (first, *(recipe.title for recipe in recipes))
    # A row without a figure says nothing.
    with_figures = [row for row in rows if {*row[1:]} != {UNKNOWN_FIGURE}]
    return ResultTable(number, title, header, tuple(with_figures), notes)


def our_rows(
    results: Results,
    recipes: Sequence[Recipe],
    name: str,
    series: Iterable[Series],
    suffix: str,
) -> list[Row]:
    """A row for each series: its title with a suffix, and a figure for each recipe.

    A figure of fewer runs than others in the rows says how many.
    """
    figures = {
        one_series: [
            results.figure(recipe.name, one_series, name) for recipe in recipes
        ]
        for one_series in series
    }
    known = filter(None, chain.from_iterable(figures.values()))
    most = max((figure.runs for figure in known), default=0)
    rows = []
    for one_series, of_series in figures.items():
        cells = []
        for figure in of_series:
            cell = _share(figure)
            if figure and figure.runs < most:
                cell += f" (n = {figure.runs})"
            cells.append(cell)
        rows.append((one_series.title + suffix, *cells))
    return rows


def paper_row(
    title: str, recipes: Iterable[Recipe], table: str, name: str, digits: int = 1
) -> Row:
    """A row of the paper's: for each recipe what a table of `PaperFigures` has under a name."""
    figures = [getattr(recipe.paper, table).get(name) for recipe in recipes]
    return (f"paper: {title}", *(_number(figure, digits) for figure in figures))


def accuracies(
    results: Results, number: int | None, title: str, names: Sequence[str]
) -> ResultTable:
    """Table 2, 3 or 4, or of other splits: a row for each of our systems, then one for each of the
    paper's.
    """
    recipes, series = recipes_run(results, names), results.series(names)
    # `taught` has more than legal decoding already.
    free = [one_series for one_series in series if one_series.system != "taught"]
    rows = our_rows(results, recipes, "accuracy", series, "")
    rows += our_rows(results, recipes, f"{LEGAL}_accuracy", free, ", legal decoding")
    rows += our_rows(
        results, recipes, "train_accuracy", series, " on training examples"
    )
    systems = chain.from_iterable(recipe.paper.accuracy for recipe in recipes)
    notes = stand_ins(results, recipes, "nqg", "seq2seq")
    for system in dict.fromkeys(systems):
        rows.append(marked_row(system, recipes))
    if any(recipe.paper.marks for recipe in recipes):
        notes = [*notes, MARKS]
    return of_recipes(number, title, recipes, rows, *notes, first="system")


def marked_row(system: str, recipes: Sequence[Recipe]) -> Row:
    """The paper's accuracies of a system, with the marks of those that the paper quotes."""
    title, *figures = paper_row(system, recipes, "accuracy", system)
    cells = [title]
    for figure, recipe in zip(figures, recipes):
        cells.append(figure + recipe.paper.marks.get(system, ""))
    return tuple(cells)


def average_ranks(results: Results) -> ResultTable:
    """The last column of table 2: the mean rank of five approaches over its eight splits.

    A system's figure on a split is the best that any of its weights reached there.
    """
    recipes = recipes_run(results, (*SCAN, *GEOQUERY))
    ours: dict[SystemName, list[float | None]] = {}
    papers: dict[SystemName, list[float | None]] = {}
    for system in RANKED:
        ours[system] = [best_accuracy(results, recipe, system) for recipe in recipes]
        name = STYLES[system].paper
        papers[system] = [recipe.paper.accuracy.get(name) for recipe in recipes]
    our_ranks, paper_ranks = mean_ranks(ours), mean_ranks(papers)
    rows = []
    # An average needs every approach on every split.
    if our_ranks and len(recipes) == len(SCAN) + len(GEOQUERY):
        for system in RANKED:
            ranks = our_ranks[system], paper_ranks.get(system)
            figures = [_number(rank, 2) for rank in ranks]
            rows.append((STYLES[system].title, *figures))
    title = "Average rank of five approaches in table 2"
    return ResultTable(None, title, ("system", "rank", "paper"), tuple(rows))


def baselines(results: Results) -> ResultTable:
    """The systems of others on the splits of table 2: the mean of all seeds, the best one, and how
    well it learned its training examples, beside the paper's figures.

    The best seed is the one of the highest accuracy, so it shows what a system can reach, and not
    what to expect of it.
    """
    recipes = recipes_run(results, (*SCAN, *GEOQUERY))
    rows: list[Row] = []
    for series in results.series([recipe.name for recipe in recipes], PUBLISHED):
        means, bests, trained = [], [], []
        for recipe in recipes:
            records = results.of(recipe.name, series)
            accuracy = results.figure(recipe.name, series, "accuracy")
            means.append(_percent(accuracy.mean if accuracy else None))
            figures = max(
                (record.figures for record in records),
                key=lambda figures: figures["accuracy"] or 0.0,
                default={},
            )
            bests.append(_percent(figures.get("accuracy")))
            trained.append(_percent(figures.get("train_accuracy")))
        style = STYLES[series.system]
        rows.append((f"{style.title}, mean", *means))
        rows.append((f"{style.title}, best seed", *bests))
        rows.append((f"{style.title}, best seed on training examples", *trained))
        if style.paper:
            rows.append(paper_row(style.paper, recipes, "accuracy", style.paper))
    title = "Systems of others in table 2, over seeds"
    return of_recipes(None, title, recipes, rows, first="system")


def best_accuracy(results: Results, recipe: Recipe, system: SystemName) -> float | None:
    """The highest accuracy that any weights of a system have on a recipe."""
    means = []
    for series in results.series([recipe.name], (system,)):
        accuracy = results.figure(recipe.name, series, "accuracy")
        if accuracy:
            means.append(accuracy.mean)
    return max(means, default=None)


def mean_ranks(
    accuracies: Mapping[SystemName, Sequence[float | None]],
) -> dict[SystemName, float]:
    """The average rank of each system over columns; systems that are equal share the better rank.

    No system has a rank if a figure is missing.

    >>> mean_ranks({"nqg": [1.0, 0.5], "seq2seq": [1.0, 0.9]})
    {'nqg': 1.5, 'seq2seq': 1.0}
    """
    columns: list[list[float]] = []
    for figures in zip(*accuracies.values()):
        measured = [accuracy for accuracy in figures if accuracy is not None]
        if len(measured) < len(accuracies):
            return {}
        columns.append(measured)
    if not columns:
        return {}
    ranks = {}
    for number, system in enumerate(accuracies):
        better = []
        for column in columns:
            reached = column[number]
            better.append(sum(accuracy > reached for accuracy in column))
        ranks[system] = 1 + fmean(better)
    return ranks


def stand_ins(results: Results, recipes: Sequence[Recipe], *systems: str) -> list[str]:
    """Which weights stand in for those that the paper used, in the rows of `systems`."""
    names = [recipe.name for recipe in recipes]
    # For the weights that a recipe names, those that were used instead.
    used: dict[str, set[str]] = {}
    for record in results.records:
        cell = record.cell
        if cell.recipe in names and cell.system in systems and record.is_stand_in:
            used.setdefault(record.asked, set()).add(cell.weights)
    stood_in = [
        f"For {original}: {', '.join(sorted(used[original]))}."
        for original in sorted(used)
    ]
    return [f"Stand-ins. {' '.join(stood_in)}"] if stood_in else []


def coverage_and_precision(results: Results) -> ResultTable:
    recipes = recipes_run(results, (*SCAN, *GEOQUERY, *SPIDER))
    # Only splits for which the paper reports them.
    recipes = [recipe for recipe in recipes if recipe.paper.nqg]
    rows = nqg_rows(results, recipes, NQG_MEASURES[1:])
    notes = stand_ins(results, recipes, "nqg")
    return of_recipes(5, "NQG coverage and precision", recipes, rows, *notes)


def best_legal(results: Results) -> ResultTable:
    """What NQG reaches if it goes on where its best derivation is illegal; the paper's abstains."""
    recipes = recipes_run(results, GEOQUERY)
    rows = nqg_rows(results, recipes, NQG_MEASURES, f"{BEST_LEGAL}_")
    return of_recipes(None, "NQG that takes its best legal derivation", recipes, rows)


def types(results: Results) -> ResultTable:
    """What types bring, written by hand or inferred from the training programs, beside the paper's
    parser.
    """
    # Weights with which no parser has types have nothing to compare.
    recipes = recipes_run(results, GEOQUERY)
    parsers = results.series(GEOQUERY, ("nqg", "typed", "inferred"))
    with_types = {parser.weights for parser in parsers if parser.system != "nqg"}
    series = [parser for parser in parsers if parser.weights in with_types]
    return of_recipes(
        None, "Types", recipes, nqg_rows(results, recipes, NQG_MEASURES, series=series)
    )


def nqg_rows(
    results: Results,
    recipes: Sequence[Recipe],
    names: Sequence[str],
    prefix: str = "",
    series: Sequence[Series] | None = None,
) -> list[Row]:
    """Rows of measures of NQG, or of other series, each above what the paper's NQG has.

    Figures have a `prefix` that names another way to decode.
    """
    if series is None:
        series = results.series([recipe.name for recipe in recipes], ("nqg",))
    rows: list[Row] = []
    for name in names:
        rows += our_rows(results, recipes, prefix + name, series, f" {name}")
        where = ("accuracy", "NQG") if name == "accuracy" else ("nqg", name)
        rows.append(paper_row(f"NQG {name}", recipes, *where))
    return rows


def splits(results: Results) -> ResultTable:
    """Table 6: a row for each split and fallback; unseen atoms and divergence are figures of the
    split.
    """
    rows: list[Row] = []
    for recipe in recipes_run(results, SPLITS):
        name, paper = recipe.name, recipe.paper
        split = (
            recipe.title,
            _percent(results.split_figure(name, "unseen_atoms")),
            _number(paper.split.get("unseen_atoms")),
            _number(results.split_figure(name, "divergence"), 3),
            _number(paper.split.get("divergence"), 2),
        )
        papers = _number(paper.accuracy.get("T5-Base"))
        ours = results.series([name], ("seq2seq",))
        for series in ours:
            accuracy = _share(results.figure(name, series, "accuracy"))
            rows.append((*split, series.weights, accuracy, papers))
        if not ours:
            rows.append((*split, UNKNOWN_FIGURE, UNKNOWN_FIGURE, papers))
    figures = ("unseen atoms %", "paper", "divergence", "paper")
    columns = ("split", *figures, "our T5", "accuracy", "paper: T5-Base")
    title = "Splits: unseen atoms, compound divergence, accuracy of T5"
    return ResultTable(6, title, columns, tuple(rows))


def unseen_atoms(results: Results) -> ResultTable:
    """Section 6.1: what an atom that training lacks costs a system without a grammar."""
    names = ("geoquery-length", *SPIDER)
    recipes, series = recipes_run(results, names), results.series(names)
    rows: list[Row] = []
    for name, title in (
        ("unseen", "with an atom unseen in training"),
        ("seen", "others"),
    ):
        figure = f"{name}_atoms_accuracy"
        rows += our_rows(results, recipes, figure, series, f": {title}")
        rows.append(paper_row(f"T5-Base: {title}", recipes, "errors", figure))
    title = "Accuracy on test examples with unseen atoms, and on the others"
    return of_recipes(None, title, recipes, rows, first="system")


def output_lengths(results: Results) -> ResultTable:
    """Section 6.2: whether answers on length splits are longer than the programs of training."""
    names = ("scan-length", "geoquery-length", "spider-ssp-length")
    recipes, series = recipes_run(results, names), results.series(names)
    rows: list[Row] = []
    for one_series in series:
        for name in ("longest_trained", "longest_tested", "longest_answer"):
            means = []
            for recipe in recipes:
                figure = results.figure(recipe.name, one_series, name)
                means.append(_number(figure.mean if figure else None, 0))
            rows.append((f"{one_series.title}: {name.replace('_', ' ')}", *means))
        suffix = ": % of answers longer than training"
        rows += our_rows(results, recipes, "longer_answers", [one_series], suffix)
    title = "Lengths of answers on length splits, in tokens"
    return of_recipes(None, title, recipes, rows, first="system")


def errors(results: Results) -> ResultTable:
    """Table 7 in figures: what training lacked where a system without a grammar went wrong; causes
    overlap.
    """
    recipes, series = recipes_run(results, GEOQUERY), results.series(GEOQUERY)
    rows: list[Row] = []
    for one_series in series:
        counts = [
            results.figure(recipe.name, one_series, "errors") for recipe in recipes
        ]
        means = [_number(count.mean if count else None, 0) for count in counts]
        rows.append((f"{one_series.title}: errors", *means))
    rows.append(paper_row("T5-Base: errors", recipes, "errors", "errors", 0))
    # The share of errors for which each cause holds.
    for cause in ERRORS:
        name, suffix = f"error_{cause.name.lower()}", f": % of them: {cause}"
        rows += our_rows(results, recipes, name, series, suffix)
        rows.append(paper_row(f"T5-Base{suffix}", recipes, "errors", name))
    title = "Errors of systems without a grammar, by what training lacked"
    return of_recipes(7, title, recipes, rows)


def single_runs(results: Results) -> ResultTable:
    """Table 10, which the paper's source has and its print has not: the accuracy of every seed."""
    recipes = recipes_run(results, GEOQUERY)
    rows = []
    for series in results.series(GEOQUERY):
        records = [results.of(recipe.name, series) for recipe in recipes]
        # One seed alone is in the table of accuracies.
        if max(map(len, records)) > 1:
            cells = []
            for seeds in records:
                shares = [_percent(record.figures.get("accuracy")) for record in seeds]
                cells.append(" / ".join(shares) or UNKNOWN_FIGURE)
            rows.append((series.title, *cells))
    title = "Accuracy of single runs for GeoQuery, seed by seed"
    return of_recipes(10, title, recipes, rows, first="system")


def grammar_sizes(results: Results) -> ResultTable:
    rows = []
    for recipe in recipes_run(results, SIZES):
        # Rules are the same for all weights, so the first series of each system will do.
        first: dict[SystemName, Series] = {}
        for series in results.series([recipe.name], ("nqg", "paper-induction")):
            first.setdefault(series.system, series)
        for system, series in first.items():
            rules = results.figure(recipe.name, series, "rules")
            examples = results.figure(recipe.name, series, "train_examples")
            if rules and examples:
                ratio = f"{examples.mean / rules.mean:,.1f}"
                counts = f"{examples.mean:,.0f}", f"{rules.mean:,.0f}"
                paper = _number(recipe.paper.nqg.get("rules"), 0)
                title = f"{recipe.title}: {STYLES[system].title}"
                rows.append((title, *counts, ratio, paper))
    columns = (
        "dataset",
        "examples",
        "induced rules",
        "examples per rule",
        "paper: rules",
    )
    return ResultTable(8, "Sizes of induced grammars", columns, tuple(rows))


def deviations(results: Results) -> ResultTable:
    recipes = recipes_run(results, GEOQUERY)
    rows: list[Row] = []
    for series in results.series(GEOQUERY):
        names = NQG_MEASURES if series.system in GRAMMARS else ("accuracy",)
        measures = {name: name for name in names}
        # The paper joins every grammar with the same T5.
        measures[f"{ONE_FALLBACK}_accuracy"] = "accuracy, one T5"
        for name, title in measures.items():
            shares = []
            for recipe in recipes:
                figure = results.figure(recipe.name, series, name)
                shares.append(_percent(figure.deviation if figure else None))
            rows.append((f"{series.title} {title}", *shares))
    for name, title in (
        ("NQG-T5-3B", "NQG-T5-3B accuracy, one T5"),
        ("NQG-T5-Base", "NQG-T5-Base accuracy, one T5"),
        ("NQG", "NQG accuracy"),
        ("coverage", "NQG coverage"),
        ("precision", "NQG precision"),
    ):
        rows.append(paper_row(title, recipes, "deviation", name))
    return of_recipes(9, "Standard deviation over seeds for GeoQuery", recipes, rows)


def runs(results: Results) -> ResultTable:
    """Every series of every recipe: how it was run, what came out, on which machine and how long a
    seed took.
    """
    rows: list[Row] = []
    notes = [RUN_NOTE]
    for recipe in sorted({record.cell.recipe for record in results.records}):
        examples = {
            record.data for record in results.records if record.cell.recipe == recipe
        }
        if len(examples) > 1:
            notes.append(
                f"The runs of {recipe} are on {len(examples)} different sets of examples, "
                "and do not compare."
            )
        for series in results.series([recipe]):
            # The command that would run the series again.
            command = f"{recipe.replace(',', ' --set ')} --systems {series.system}"
            first, _, second = series.weights.partition("+")
            if series.system not in (*FALLBACKS, *PUBLISHED):
                command += f" --encoder {HUB_NAMES.get(first, first)}"
            if series.system not in (*GRAMMARS, *PUBLISHED):
                model = second or first
                command += f" --seq2seq {HUB_NAMES.get(model, model)}"
            figures = [
                _share(results.figure(recipe, series, name))
                for name in ("accuracy", "denotation_accuracy", "train_accuracy")
            ]
            # What the runs of all seeds have in common is named once.
            records = results.of(recipe, series)
            hardware, commits, steps, seconds = set(), set(), set(), []
            for record in records:
                hardware.add(record.hardware)
                # Hybrids join what others have learned.
                steps.add(f"{record.settings.get('steps', 0):,}")
                # A plus sign marks a commit with changes.
                commits.add(record.commit[:12] + "+" * record.commit.endswith("+"))
                seconds.append(sum(record.seconds.values()))
            machines = ", ".join(sorted(hardware))
            origin = machines, f"{fmean(seconds):,.0f}", ", ".join(sorted(commits))
            size = str(len(records)), ", ".join(sorted(steps))
            rows.append((f"`{command}`", *size, *figures, *origin))
    accuracies = ("accuracy", "same answers over geobase", "on training examples")
    origins = ("hardware", "seconds of the clock a seed", "commit")
    sizes = ("seeds", "steps")
    columns = ("command, after `nqg reproduce`", *sizes, *accuracies, *origins)
    return ResultTable(None, "Runs", columns, tuple(rows), tuple(notes))


def _share(figure: Spread | None) -> str:
    return UNKNOWN_FIGURE if figure is None else figure.in_percent


def _percent(value: float | None) -> str:
    return _number(None if value is None else 100 * value)


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
    lines = []
    for table in tables:
        lines += [f"## {table.heading}", ""]
        for number, row in enumerate((table.header, *table.rows)):
            lines.append(
                "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
            )
            # Figures are aligned to the right.
            if number == 0:
                lines.append("|---|" + "--:|" * (len(row) - 1))
        lines.append("")
        if table.notes:
            lines += [" ".join(table.notes), ""]
    return "\n".join(lines)


def drawn_recipes(results: Results) -> list[tuple[Recipe, list[tuple[Series, Spread]]]]:
    """For each recipe that was run, and for the mean of SCAN's three MCD splits, the accuracies of
    its series.
    """
    results = with_means(results)
    drawn = []
    for recipe in recipes_run(results, (*SCAN, *GEOQUERY, *SPIDER, *XSP, *UNREPORTED)):
        accuracies = []
        for series in results.series([recipe.name]):
            accuracy = results.figure(recipe.name, series, "accuracy")
            if accuracy:
                accuracies.append((series, accuracy))
        drawn.append((recipe, accuracies))
    return drawn
