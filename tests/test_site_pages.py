"""What the documentation site has besides docs/: pages made of other files, and links that are checked."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from conftest import PROJECT


@pytest.fixture(scope="module")
def site_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "site_pages", PROJECT / "deploy" / "site_pages.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_are_followed_through_the_checkout(site_pages: ModuleType) -> None:
    assert (
        site_pages.in_checkout("docs/databases.md", "../examples/shop/README.md")
        == "examples/shop/README.md"
    )
    assert site_pages.LINK.findall(
        "[a](b.md#c) ![d](e.png) [f](https://g) [h](#i)"
    ) == [
        "b.md",
        "e.png",
    ]


def test_a_notebook_becomes_a_page(site_pages: ModuleType) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": ["f()"],
            "outputs": [{"text": ["one\n"]}, {"data": {"text/html": ["<b>"]}}],
        },
    ]
    expected = (
        "# Title\ntext\n\n```python\nf()\n```\n\n```text\none\n```\n\n<div><b></div>\n"
    )
    assert site_pages.notebook(json.dumps({"cells": cells})) == expected


def test_links_that_lead_nowhere_are_found(
    site_pages: ModuleType, tmp_path: Path
) -> None:
    links = [
        "b.html",
        "b.html#there",
        "#here",
        "https://x/y",
        "/b.html",
        "gone.html",
        "b.html#gone",
        "#gone",
        "/gone",
    ]
    body = "".join(f'<a href="{link}"></a>' for link in links)
    (tmp_path / "a.html").write_text(f'<p id="here">{body}<img src="gone.png"></p>')
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    pages = {
        path: site_pages.PageAnchors(path) for path in sorted(tmp_path.glob("*.html"))
    }
    found = list(pages[tmp_path / "a.html"].broken(tmp_path, pages))
    assert found == ["gone.html", "b.html#gone", "#gone", "/gone", "gone.png"]


def test_the_help_of_every_command_is_a_section(site_pages: ModuleType) -> None:
    page = site_pages.commands()
    for name in ("nqg", "nqg train", "nqg data prepare", "nqg rule add"):
        assert f"\n## `{name}`\n" in page
