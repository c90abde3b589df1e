"""The paper's tables, with our figures beside the paper's."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.evaluation.metrics import Spread
from nqg.experiments.recipe import Recipe, read_recipe
from nqg.experiments.records import Results, Series
from nqg.experiments.task import BEST_LEGAL
from nqg.plotting import svg, write_picture

UNKNOWN = "—"
SCAN = ("scan-jump", "scan-turn-left", "scan-length", "scan-mcd1", "scan-mcd2", "scan-mcd3")
GEOQUERY = ("geoquery-standard", "geoquery-template", "geoquery-length", "geoquery-tmcd")
SPIDER = ("spider-ssp-random", "spider-ssp-template", "spider-ssp-length", "spider-ssp-tmcd")
SPLITS = ("geoquery-standard", "geoquery-random", *GEOQUERY[1:], *SPIDER)
SIZES = ("scan-length", "geoquery-standard", "spider-ssp-random")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; the first column names the rows. `number` is the paper's, where it is one of the paper's."""

    number: int | None
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title, after the paper's number."""
        return self.title if self.number is None else f"Table {self.number}: {self.title}"


def tables(results: Results) -> list[Table]:
    """Every table of the paper for which something was run, and a table of the runs."""
    makers: list[Callable[[Results], Table | None]] = [
        lambda found: _accuracies(found, 2, "Accuracy on SCAN and GeoQuery", (*SCAN, *GEOQUERY)),
        lambda found: _accuracies(found, 3, "Accuracy (exact set match) on Spider-SSP", SPIDER),
        lambda found: _accuracies(found, 4, "Accuracy (exact set match) on Spider-XSP", ("spider-xsp",)),
        _coverage_and_precision,
        _best_legal,
        _splits,
        _grammar_sizes,
        _deviations,
        _runs,
    ]
    return [table for make in makers if (table := make(results)) is not None]


def recipes_run(results: Results, names: Iterable[str]) -> list[Recipe]:
    """The recipes among `names` of which there is a record."""
    known = {record.cell.recipe for record in results.records}
    return [read_recipe(name) for name in names if name in known]


def _accuracies(results: Results, number: int, title: str, names: Sequence[str]) -> Table | None:
    recipes = recipes_run(results, names)
    if not recipes:
        return None
    ours = _our_rows(results, recipes, "accuracy", results.series(names))
    systems = dict.fromkeys(system for recipe in recipes for system in recipe.paper.accuracy)
    theirs = [
        (f"paper: {system}", *(_number(recipe.paper.accuracy.get(system)) for recipe in recipes)) for system in systems
    ]
    header = ("system", *(recipe.title for recipe in recipes))
    return Table(number, title, header, (*ours, *theirs), _stand_in_notes(results, recipes, "nqg", "seq2seq"))


def _our_rows(
    results: Results, recipes: Sequence[Recipe], name: str, series: Iterable[Series]
) -> list[tuple[str, ...]]:
    rows = [(each.title, *(_said(results.figure(recipe.name, each, name)) for recipe in recipes)) for each in series]
    return [row for row in rows if any(value != UNKNOWN for value in row[1:])]


def _said(figure: Spread | None) -> str:
    """A mean share in per cent, with its deviation where there are several seeds.

    >>> _said(Spread(0.51, 0.014, 2)), _said(Spread(1.0, None, 1)), _said(None)
    ('51.0 ± 1.4', '100.0', '—')
    """
    if figure is None:
        return UNKNOWN
    mean = f"{100 * figure.mean:.1f}"
    return mean if figure.deviation is None else f"{mean} ± {100 * figure.deviation:.1f}"


def _number(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _percent(share: float | None) -> str:
    return _number(None if share is None else 100 * share)


def _stand_in_notes(results: Results, recipes: Sequence[Recipe], *systems: str) -> tuple[str, ...]:
    """Which weights stand in for those that the paper used, in the rows of `systems`."""
    names = {recipe.name for recipe in recipes}
    found = {
        (record.asked, record.cell.weights)
        for record in results.records
        if record.cell.recipe in names and record.cell.system in systems and record.is_stand_in
    }
    asked = sorted({each for each, _ in found})
    return tuple(f"For {each}: {', '.join(sorted(used for for_, used in found if for_ == each))}." for each in asked)


def _coverage_and_precision(results: Results) -> Table | None:
    recipes = [recipe for recipe in recipes_run(results, (*SCAN, *GEOQUERY, *SPIDER)) if recipe.paper.nqg]
    rows = _measures(results, recipes, ("coverage", "precision"))
    header = ("measure", *(recipe.title for recipe in recipes))
    notes = _stand_in_notes(results, recipes, "nqg")
    return Table(5, "NQG coverage and precision", header, rows, notes) if recipes else None


def _best_legal(results: Results) -> Table | None:
    recipes = recipes_run(results, GEOQUERY)
    rows = _measures(results, recipes, ("accuracy", "coverage", "precision"), f"{BEST_LEGAL}_")
    header = ("measure", *(recipe.title for recipe in recipes))
    is_run = any(not row[0].startswith("paper") for row in rows)
    return Table(None, "NQG that takes its best legal derivation", header, rows) if is_run else None


def _measures(
    results: Results, recipes: Sequence[Recipe], names: Sequence[str], way: str = ""
) -> tuple[tuple[str, ...], ...]:
    """Rows of NQG's measures with our encoders, one way of decoding, each above what the paper's NQG has."""
    series = [each for each in results.series([recipe.name for recipe in recipes]) if each.system == "nqg"]
    rows: list[tuple[str, ...]] = []
    for name in names:
        rows += [(f"{title} {name}", *values) for title, *values in _our_rows(results, recipes, way + name, series)]
        rows.append((f"paper: NQG {name}", *(_number(_of_papers_nqg(recipe, name)) for recipe in recipes)))
    return tuple(rows)


def _of_papers_nqg(recipe: Recipe, name: str) -> float | None:
    return recipe.paper.accuracy.get("NQG") if name == "accuracy" else recipe.paper.nqg.get(name)


def _splits(results: Results) -> Table | None:
    """One row for each split and fallback; unseen atoms and divergence are facts of the split."""
    rows = [
        _split_row(results, recipe, series)
        for recipe in recipes_run(results, SPLITS)
        for series in _fallbacks(results, recipe) or (None,)
    ]
    header = ("split", "unseen atoms %", "paper", "divergence", "paper", "our T5", "accuracy", "paper: T5-Base")
    return Table(6, "Splits: unseen atoms, compound divergence, accuracy of T5", header, tuple(rows)) if rows else None


def _fallbacks(results: Results, recipe: Recipe) -> tuple[Series | None, ...]:
    return tuple(each for each in results.series([recipe.name]) if each.system == "seq2seq")


def _split_row(results: Results, recipe: Recipe, fallback: Series | None) -> tuple[str, ...]:
    paper = recipe.paper
    return (
        recipe.title,
        _percent(results.split_fact(recipe.name, "unseen_atoms")),
        _number(paper.split.get("unseen_atoms")),
        _number(results.split_fact(recipe.name, "divergence"), 3),
        _number(paper.split.get("divergence"), 2),
        fallback.weights if fallback else UNKNOWN,
        _said(results.figure(recipe.name, fallback, "accuracy") if fallback else None),
        _number(paper.accuracy.get("T5-Base")),
    )


def _grammar_sizes(results: Results) -> Table | None:
    rows = []
    for recipe in recipes_run(results, SIZES):
        series = next((each for each in results.series([recipe.name]) if each.system == "nqg"), None)
        rules, examples = (
            results.figure(recipe.name, series, name) if series else None for name in ("rules", "train_examples")
        )
        if rules and examples:
            ratio = f"{examples.mean / rules.mean:,.1f}"
            paper = _number(recipe.paper.nqg.get("rules"), 0)
            rows.append((recipe.title, f"{examples.mean:,.0f}", f"{rules.mean:,.0f}", ratio, paper))
    header = ("dataset", "examples", "induced rules", "examples per rule", "paper: rules")
    return Table(8, "Sizes of induced grammars", header, tuple(rows)) if rows else None


def _deviations(results: Results) -> Table | None:
    recipes = recipes_run(results, GEOQUERY)
    rows = []
    for series in results.series(GEOQUERY):
        names = ("accuracy", "coverage", "precision") if series.system == "nqg" else ("accuracy",)
        for name in names:
            figures = [results.figure(recipe.name, series, name) for recipe in recipes]
            values = [_percent(figure.deviation if figure else None) for figure in figures]
            rows.append((f"{series.title} {name}", *values))
    for name in ("NQG-T5-Base", "NQG", "coverage", "precision"):
        label = f"paper: NQG {name}" if name in ("coverage", "precision") else f"paper: {name} accuracy"
        rows.append((label, *(_number(recipe.paper.deviation.get(name)) for recipe in recipes)))
    shown = tuple(row for row in rows if any(value != UNKNOWN for value in row[1:]))
    header = ("measure", *(recipe.title for recipe in recipes))
    title = "Standard deviation over seeds for GeoQuery"
    return Table(9, title, header, shown) if any(not row[0].startswith("paper") for row in shown) else None


def _runs(results: Results) -> Table | None:
    """Every series of every recipe: how it was run, what came out, on which machine and how long a seed took."""
    recipes = sorted({record.cell.recipe for record in results.records})
    pairs = [(recipe, series) for recipe in recipes for series in results.series([recipe])]
    rows = tuple(_run_row(results, recipe, series) for recipe, series in pairs)
    header = (
        "command, after `nqg reproduce`",
        "seeds",
        "accuracy",
        "same answers",
        "hardware",
        "seconds a seed",
        "commit",
    )
    return Table(None, "Runs", header, rows) if rows else None


def _run_row(results: Results, recipe: str, series: Series) -> tuple[str, ...]:
    records = results.of(recipe, series)
    seconds = sum(sum(record.seconds.values()) for record in records) / len(records)
    return (
        f"`{recipe} --systems {series.system} {_weights_options(series)}`",
        str(len(records)),
        _said(results.figure(recipe, series, "accuracy")),
        _said(results.figure(recipe, series, "denotation_accuracy")),
        ", ".join(sorted({record.hardware for record in records})),
        f"{seconds:,.0f}",
        ", ".join(sorted({record.commit for record in records})),
    )


def _weights_options(series: Series) -> str:
    """The options that name the weights.

    >>> _weights_options(Series("hybrid", "minilm+flan-t5-small"))
    '--encoder minilm --seq2seq flan-t5-small'
    """
    encoder, _, seq2seq = series.weights.partition("+")
    options = {"nqg": f"--encoder {encoder}", "seq2seq": f"--seq2seq {encoder}"}
    return options.get(series.system, f"--encoder {encoder} --seq2seq {seq2seq}")


STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
tr.paper { opacity: .7; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; background: white; }
"""


def markdown(tables: Iterable[Table]) -> str:
    """The tables as Markdown.

    >>> print(markdown([Table(8, "Sizes", ("dataset", "rules"), (("scan", "20"),))]))
    ## Table 8: Sizes
    <BLANKLINE>
    | dataset | rules |
    |---|--:|
    | scan | 20 |
    <BLANKLINE>
    """
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    lines = [
        f"## {table.heading}",
        "",
        _line(table.header),
        "|---|" + "--:|" * (len(table.header) - 1),
        *map(_line, table.rows),
        "",
        *((f"Stand-ins. {' '.join(table.notes)}\n",) if table.notes else ()),
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page(tables: Iterable[Table], pictures: Iterable[str] = ()) -> str:
    """The tables, and pictures that are SVG already, as one HTML page."""
    body = [*map(_html, tables), *(f"<figure>{picture}</figure>" for picture in pictures)]
    head = f'<meta charset="utf-8"><title>nqg results</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _html(table: Table) -> str:
    header = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.header)
    rows = "\n".join(map(_html_row, table.rows))
    notes = f"<p>Stand-ins. {html.escape(' '.join(table.notes))}</p>" if table.notes else ""
    title = html.escape(table.heading)
    return f"<h2>{title}</h2>\n<table><thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>{notes}"


def _html_row(row: Sequence[str]) -> str:
    kind = ' class="paper"' if row[0].startswith("paper") else ""
    cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
    return f"<tr{kind}>{cells}</tr>"


COLOURS = {"nqg": "#4477aa", "seq2seq": "#ccbb44", "hybrid": "#228833", "gated": "#66ccee"}
PAPER = {"nqg": "NQG", "seq2seq": "T5-Base", "hybrid": "NQG-T5-Base", "gated": "NQG-T5-Base"}
GROUPS = {"SCAN": SCAN, "GeoQuery": GEOQUERY, "Spider-SSP": SPIDER}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of ours and the mark of the paper's figure on it."""

    title: str
    colour: str
    figure: Spread
    paper: float | None


def write_plot(path: Path, results: Results) -> None:
    """Draw accuracies as bars, the paper's figures as marks on them, as PNG or SVG by the name of the file."""
    write_picture(path, lambda figure_class: _drawn(results, figure_class))


def pictures(results: Results) -> list[str]:
    """The same picture as SVG for a page; none where nothing was run."""
    return [svg(lambda figure_class: _drawn(results, figure_class))] if results.records else []


def _drawn(results: Results, figure_class: Any) -> Any:
    recipes = [recipe for names in GROUPS.values() for recipe in recipes_run(results, names)]
    bars = [list(_bars(results, recipe)) for recipe in recipes]
    figure = figure_class(figsize=(9, 1 + 0.35 * len(recipes) + 0.22 * sum(map(len, bars))), layout="constrained")
    panels = figure.subplots(max(len(recipes), 1), 1, sharex=True, squeeze=False, height_ratios=_heights(bars))
    for panel, recipe, drawn in zip(panels[:, 0], recipes, bars, strict=False):
        _draw(panel, recipe, drawn)
    figure.supxlabel("accuracy in per cent; a black mark is the paper's figure", fontsize=9)
    return figure


def _heights(bars: Sequence[Sequence[Bar]]) -> list[int]:
    return [len(group) + 1 for group in bars] or [1]


def _bars(results: Results, recipe: Recipe) -> Iterator[Bar]:
    for series in results.series([recipe.name]):
        figure = results.figure(recipe.name, series, "accuracy")
        if figure:
            paper = recipe.paper.accuracy.get(PAPER[series.system])
            yield Bar(series.title, COLOURS[series.system], figure, paper)


def _draw(panel: Any, recipe: Recipe, bars: Sequence[Bar]) -> None:
    """The bars of one recipe, the first on top; whiskers are standard deviations over seeds."""
    for place, bar in enumerate(bars):
        whisker = {"xerr": 100 * bar.figure.deviation} if bar.figure.deviation else {}
        drawn = panel.barh(place, 100 * bar.figure.mean, color=bar.colour, height=0.75, **whisker)
        panel.bar_label(drawn, fmt="%.1f", padding=4, fontsize=7)
        if bar.paper is not None:
            panel.plot([bar.paper, bar.paper], [place - 0.42, place + 0.42], color="black", linewidth=2)
    panel.set_yticks(range(len(bars)), [bar.title for bar in bars])
    panel.set_title(recipe.title, fontsize=9, loc="left")
    panel.set_xlim(0, 108)
    panel.invert_yaxis()
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)
