"""README and docs stay true: links lead somewhere, commands and options exist, pages are short."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest

import nqg
from api_reference import GROUPS, api_reference
from conftest import PROJECT
from nqg.cli.main import COMMANDS, load_command
from nqg.paper.records import Results, records
from nqg.paper.tables import markdown, tables
from pages import BLOCK, COMMAND, PAGES, page_name
from settings_reference import settings_reference

LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
OPTION = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
README = PROJECT / "README.md"
RESULTS = "<!-- nqg report results -->\n"
MOST_WORDS = 2500  # on a page that people read; tables and reference that are made, and figures, are looked up instead
MOST_WORDS_IN_ALL = 45_000
LOOKED_UP = {
    "docs/api.md",
    "docs/performance.md",
    "docs/reproduce.md",
    "docs/settings.md",
}


def commands(page: Path) -> Iterator[str]:
    """The commands that a page shows, in blocks and in its text, one that is called by another included."""
    text = page.read_text()
    shown = [block for kind, _, block in BLOCK.findall(text) if kind == "console"]
    typed = [
        command.removeprefix("$ ").split("  #")[0]
        for block in shown
        for command in COMMAND.findall(block)
    ]
    for command in (*typed, *SPAN.findall(BLOCK.sub("", text))):
        yield from (
            part.strip()
            for part in re.findall(
                r"(?:^|--no_python |; )((?:nqg|python|pytest) .*)", command
            )
        )


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    missing = [
        link
        for link in LINK.findall(page.read_text())
        if not (page.parent / link).exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_that_is_shown_exists_and_has_the_options(page: Path) -> None:
    for command in commands(page):
        program, word, *rest = command.split()
        options = set(OPTION.findall(QUOTED.sub("", command)))
        if program == "nqg" and word in COMMANDS:
            verb = load_command(word)
            verb = getattr(verb, "commands", {}).get(rest[0] if rest else "", verb)
            known = {
                name
                for each in verb.params
                for name in (*each.opts, *each.secondary_opts)
            }
            assert options <= known | {"-v", "-q", "--json", "--help"}, command
        elif program == "nqg":
            assert word in ("VERB", "--version", "--help", "-v"), command
        elif program == "pytest" or word.startswith("benchmarks/"):
            files = [
                PROJECT / each.partition("::")[0]
                for each in (word, *rest)
                if each.startswith(("tests", "bench"))
            ]
            assert all(file.exists() for file in files), command
            assert program == "pytest" or options <= set(
                OPTION.findall(files[0].read_text())
            ), command


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    text = page.read_text().split(RESULTS)[0]
    if page_name(page) in LOOKED_UP:
        text = re.sub(r"^\|.*\n", "", BLOCK.sub("", text), flags=re.MULTILINE)
    if page.name != "api.md":
        assert len(text.split()) <= MOST_WORDS


def test_every_message_of_troubleshooting_is_one_of_the_code() -> None:
    page = (PROJECT / "docs" / "troubleshooting.md").read_text()
    source = "".join(path.read_text() for path in (PROJECT / "src").rglob("*.py"))
    # Strings that are written over several lines, and what f-strings put into them.
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    source = re.sub(r"\{[^{}]*\}", "…", source)
    rows = re.findall(r"^\| `(.*?)` \|", page, flags=re.MULTILINE)
    assert len(rows) > 25
    for message in rows:
        # Values in quotes and numbers are those of an example.
        parts = re.split(r"'[^']*'|\d+|…", message)
        longest = max(parts, key=len).strip(" ,%")
        assert longest in source, message


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_only_a_clone_can_be_installed(page: Path) -> None:
    assert not re.search(r"pip install '?nqg", page.read_text())


def test_the_version_is_the_same_everywhere() -> None:
    from nqg import __version__

    assert f'version = "{__version__}"' in (PROJECT / "pyproject.toml").read_text()
    assert f"version: {__version__}" in (PROJECT / "CITATION.cff").read_text()
    newest = re.search(
        r"^## (\S+),", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert newest
    assert newest[1] == __version__


def test_the_badges_say_what_the_project_file_says() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    known, python = (
        project["project"],
        project["project"]["requires-python"].removeprefix(">="),
    )
    checked = "mypy --strict" if project["tool"]["mypy"]["strict"] else "none"
    for name, value in (
        ("version", known["version"]),
        ("python", f"{python} or newer"),
        ("licence", known["license"]),
        ("types", checked),
    ):
        path = PROJECT / "docs" / "images" / f"badge-{name}.svg"
        if os.environ.get("NQG_REWRITE_GOLDEN"):
            path.write_text(badge(name, value))
        assert path.read_text() == badge(name, value), "make golden"


def badge(label: str, value: str) -> str:
    left, right = (12 + 7 * len(text) for text in (label, value))
    size, words = (
        f'width="{left + right}" height="20"',
        f'aria-label="{label}: {value}"',
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {words}><rect {size} rx="3" fill="#555"/>'
        f'<rect x="{left}" width="{right}" height="20" rx="3" fill="#3949ab"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="6" y="14">{label}</text><text x="{left + 6}" y="14">{value}</text></g></svg>\n'
    )


def test_the_reference_is_made_from_the_docstrings() -> None:
    page = PROJECT / "docs" / "api.md"
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        page.write_text(api_reference())
    assert page.read_text() == api_reference(), "make golden"


def test_the_page_of_settings_is_made_from_the_dataclasses() -> None:
    page = PROJECT / "docs" / "settings.md"
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        page.write_text(settings_reference())
    assert page.read_text() == settings_reference(), "make golden"
    for row in re.findall(r"^\| `.*", page.read_text(), flags=re.MULTILINE):
        assert not row.endswith("|  |"), f"without a remark: {row}"


def test_the_page_of_results_holds_the_tables_of_the_records() -> None:
    page, found = (
        PROJECT / "docs" / "reproduce.md",
        tables(Results.collected(records(PROJECT / "results"))),
    )
    text = page.read_text().split(RESULTS)[0] + RESULTS + markdown(found)
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        page.write_text(text)
    assert page.read_text() == text, "make golden"


def test_every_public_name_has_a_sentence_and_an_example() -> None:
    public = {name for name in nqg.__all__ if not name.startswith("_")}
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(public), "GROUPS in tests/api_reference.py"
    for name in grouped:
        text = inspect.getdoc(getattr(nqg, name)) or ""
        assert text.split("\n\n")[0].endswith("."), name
        assert ">>> " in text, f"{name} has no example"
    page = (PROJECT / "docs" / "api.md").read_text()
    assert not re.search(r"^- `[^`]*`: *$", page, re.MULTILINE), "without a sentence"


def test_the_pages_together_can_be_read() -> None:
    """Generated pages and tables aside; marks of tables and headings are no words."""
    total = 0
    for page in (PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")):
        if page.name not in ("api.md", "settings.md"):
            words = page.read_text().split(RESULTS)[0].split()
            total += sum(re.search(r"\w", word) is not None for word in words)
    assert total <= MOST_WORDS_IN_ALL


FIGURE = re.compile(r"\d[\d,]*\.\d+(?= %)|\d+(?= %)")


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_every_share_stands_on_a_page_that_its_paragraph_links_to(name: str) -> None:
    page = PROJECT / name
    text = BLOCK.sub("", page.read_text())
    for paragraph in re.split(r"\n\n|\n(?=\|)", text):
        shares = set(FIGURE.findall(paragraph))
        sources = ""
        for link in LINK.findall(paragraph):
            if link.endswith(".md"):
                sources += (page.parent / link).read_text()
        for share in shares if sources else ():
            assert re.search(rf"(?<![\d.]){share}(?![\d])", sources), paragraph


def test_figures_beside_the_paper_are_those_of_the_results() -> None:
    text = (PROJECT / "docs" / "comparison.md").read_text()
    table = text.split("| | SCAN length |")[1].split("\n\n")[0]
    results = (PROJECT / "docs" / "reproduce.md").read_text().split(RESULTS)[1]
    for figure in re.findall(r"\d+\.\d", table):
        assert re.search(rf"(?<![\d.]){figure}(?!\d)", results), figure


def test_the_figures_that_readme_compares_are_those_of_records_and_of_their_pages() -> (
    None
):
    rows = re.findall(r"^\| (.*?) \| ([\d.]+) %", README.read_text(), re.MULTILINE)
    figures = {name.partition(":")[0]: figure for name, figure in rows}
    taught = [
        record.figures["accuracy"] or 0.0
        for record in records(PROJECT / "results")
        if (record.cell.recipe, record.cell.system) == ("geoquery-tmcd", "taught")
    ]
    assert len(taught) >= 3
    assert figures["GeoQuery, TMCD split"] == f"{100 * fmean(taught):.1f}"
    slog = (PROJECT / "docs" / "slog.md").read_text()
    assert f"| **all** | **{figures['SLOG']}** |" in slog


CLAIM = re.compile(r"\babstains? where it is unsure", re.IGNORECASE)


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_a_page_that_promises_abstentions_says_what_they_cost(name: str) -> None:
    """Coverage beside precision, as a share answered and a share of these that are right."""
    text = " ".join((PROJECT / name).read_text().split())
    assert CLAIM.search(text)
    real_use = " ".join((PROJECT / "docs" / "real-use.md").read_text().split())
    measured = re.search(r"answers (\d+) % of the sentences, and (\d+) %", real_use)
    assert measured
    coverage, precision = measured.groups()
    shares = rf"answers {coverage} %( of these sentences)?, (and )?{precision} % of"
    assert re.search(shares, text)


def test_the_pictures_are_those_that_the_script_draws() -> None:
    path = PROJECT / "deploy" / "pictures.py"
    spec = importlib.util.spec_from_file_location("pictures", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules["pictures"] = module
    spec.loader.exec_module(module)
    for picture, text in module.pictures():
        if os.environ.get("NQG_REWRITE_GOLDEN"):
            picture.write_text(text)
        assert picture.read_text() == text, "make golden"


def test_contributing_names_files_and_definitions_that_exist() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text()
    first = text.index("## Where to start reading")
    section = text[first : text.index("## Standards")]
    named = 0
    for paragraph in section.split("\n\n"):
        sources = []
        for span in SPAN.findall(paragraph):
            if re.fullmatch(r"[\w/]+\.(py|toml|md)", span):
                places = [PROJECT / span, PROJECT / "src" / "nqg" / span]
                found = [path for path in places if path.exists()]
                assert found, span
                sources.append(found[0].read_text())
        for span in SPAN.findall(paragraph):
            if sources and re.fullmatch(r"[A-Za-z_]+", span):
                assert any(re.search(rf"\b{span}\b", source) for source in sources), (
                    span
                )
                named += 1
    assert named > 10
