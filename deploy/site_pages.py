"""What the documentation site has besides docs/: examples, a notebook, the help of all commands, a check of its links.

mkdocs calls the functions whose names begin with `on_` while it builds (`hooks` in mkdocs.yml). The root of the site is
docs/; other files of the checkout that pages link to keep their paths, and links are rewritten accordingly.
"""

from __future__ import annotations

import html.parser
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.testing import CliRunner

from nqg.cli.main import COMMANDS, app, load_command

PROJECT = Path(__file__).resolve().parent.parent
NOTEBOOK = "examples/tour.ipynb"
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and whatever pages link to outside of docs/."""
    made = {
        "commands.md": commands(),
        "notebook.md": notebook((PROJECT / NOTEBOOK).read_text(encoding="utf-8")),
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    # The site has the icon of the page that `nqg serve` shows.
    icon = str(PROJECT / "src" / "nqg" / "web" / "static" / "icon.svg")
    files.append(File.generated(config, "images/icon.svg", abs_src_path=icon))
    waiting = [
        f"docs/{file.src_uri}"
        for file in files.documentation_pages()
        if file.src_uri not in made
    ]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            files.append(File.generated(config, path, abs_src_path=str(PROJECT / path)))
        if path.endswith(".md"):
            found = {
                in_checkout(path, link)
                for link in LINK.findall((PROJECT / path).read_text(encoding="utf-8"))
            }
            new = {
                each
                for each in found - seen
                if not each.startswith("docs/") and (PROJECT / each).is_file()
            }
            seen, waiting = seen | new, [*waiting, *sorted(new)]
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Links as they are on the site: `../examples/…` of a page in docs/ is `examples/…`."""
    here = page.file.src_uri
    path = (
        f"docs/{here}"
        if (PROJECT / "docs" / here).exists()
        else {"notebook.md": NOTEBOOK}.get(here, here)
    )

    def moved(link: re.Match[str]) -> str:
        target = in_checkout(path, link[0])
        return os.path.relpath(target.removeprefix("docs/"), os.path.dirname(here))

    return LINK.sub(moved, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site in which a link leads nowhere, whoever wrote it."""
    site = Path(config.site_dir)
    pages = {path: PageAnchors(path) for path in sorted(site.rglob("*.html"))}
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path in pages
        for link in pages[path].broken(site, pages)
    ]
    if broken:
        raise PluginError("links that lead nowhere:\n" + "\n".join(broken))


def in_checkout(path: str, link: str) -> str:
    """Where a link of the file `path` leads, from the root of the checkout.

    >>> in_checkout("docs/databases.md", "../examples/shop/README.md")
    'examples/shop/README.md'
    """
    return os.path.normpath(os.path.join(os.path.dirname(path), link))


def commands() -> str:
    """A page with the help of every command."""
    words = [[], *([name] for name in COMMANDS)]
    words += [
        [name, method]
        for name in COMMANDS
        for method in getattr(load_command(name), "commands", ())
    ]
    parts = ["# Commands", "What `nqg --help` and `nqg VERB --help` print."]
    for each in sorted(words):
        found = CliRunner().invoke(
            app, [*each, "--help"], env={"COLUMNS": "80", "NO_COLOR": "1"}
        )
        parts.append(
            f"## `{' '.join(['nqg', *each])}`\n\n```text\n{found.stdout.strip()}\n```"
        )
    return "\n\n".join(parts) + "\n"


def notebook(text: str) -> str:
    """A notebook as a page: its code, and what it prints and draws."""
    return (
        "\n\n".join(part for cell in json.loads(text)["cells"] for part in shown(cell))
        + "\n"
    )


def shown(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text")})
        if "text/html" in data:
            yield f"<div>{''.join(data['text/html'])}</div>"
        else:
            yield f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


class PageAnchors(html.parser.HTMLParser):
    """The links of a built page, and the places in it that others can link to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.names: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names |= {found[name] or "" for name in ("id", "name") if name in found}
        self.links += [
            found[name] or ""
            for name in ("href", "src")
            if name in found and tag != "base"
        ]

    def broken(self, site: Path, pages: dict[Path, PageAnchors]) -> Iterator[str]:
        for link in self.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            folder = site if parts.path.startswith("/") else self.path.parent
            target = (
                Path(os.path.normpath(f"{folder}/{unquote(parts.path)}"))
                if parts.path
                else self.path
            )
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (
                target in pages and unquote(parts.fragment) not in pages[target].names
            ):
                yield link
