"""The page in a real browser: what people do with it, and what it does for them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nqg.inference.parser import Parser
from web_service import HOSTILE, HOSTILE_TARGET, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: dev)")
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as engine:
        yield engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


@pytest.fixture(scope="module")
def address(parser: Parser) -> Iterator[str]:
    with running(parser) as server:
        yield server.address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The open page; the test fails on any message in the console."""
    complaints: list[str] = []
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"a script ran: {dialog.message}"))
    page.goto(address)
    yield page
    context.close()
    assert not complaints


def parse(page: Page, sentence: str) -> None:
    page.get_by_label("Sentence", exact=True).fill(sentence)
    with page.expect_response("**/api/parse"):
        page.get_by_role("button", name="Parse", exact=True).click()


def test_a_sentence_shows_its_program_who_answered_and_the_tree(page: Page) -> None:
    parse(page, "run and jump twice")
    page.wait_for_selector("#derivation svg")
    assert page.inner_text("#by") == "by the grammar"
    assert page.inner_text("#sure").endswith("% of the probability of all readings")
    assert page.locator("#derivation .word").all_text_contents() == ["run", "and", "jump", "twice"]
    assert page.locator("#derivation .node").count() == 4
    assert page.locator("#readings li").count() > 1
    assert page.locator("#chart .cell").count() > 4
    assert page.title().startswith("nqg")


def test_pointing_at_a_node_lights_up_its_words_its_rule_and_its_part_of_the_program(page: Page) -> None:
    parse(page, "run twice")
    page.locator("#derivation .node").nth(1).hover()
    assert page.inner_text("#rule").startswith("run → R")
    assert page.locator("#derivation .word.lit").all_text_contents() == ["run"]
    assert page.locator("#derivation .token.lit").all_text_contents() == ["R", "R"]
    page.locator("#derivation .node").nth(0).hover()
    assert page.locator("#derivation .word.lit").all_text_contents() == ["run", "twice"]
    assert page.locator("#derivation .own").count() > 0
    page.get_by_label("Sentence", exact=True).hover()
    assert page.locator("#derivation .lit").count() == 0


def test_the_keyboard_reaches_every_node(page: Page) -> None:
    page.get_by_label("Sentence", exact=True).focus()
    page.keyboard.type("run twice")
    with page.expect_response("**/api/parse"):
        page.keyboard.press("Enter")
    page.wait_for_selector("#derivation svg")
    page.locator("#derivation .node").nth(0).focus()
    assert page.inner_text("#rule").startswith("NT_1 twice → NT_1 NT_1")
    page.keyboard.press("Tab")
    assert page.locator("#derivation .word.lit").all_text_contents() == ["run"]


def test_another_reading_shows_its_own_derivation(page: Page) -> None:
    parse(page, "run and jump")
    before = page.locator("#derivation .token").all_text_contents()
    page.locator("#readings button").nth(1).click()
    assert page.locator("#derivation .token").all_text_contents() == before[::-1]
    assert page.inner_text("#answer-title") == "Reading 2"
    assert page.locator("#readings button[aria-pressed=true]").count() == 1


def test_an_abstention_names_what_is_unknown(page: Page) -> None:
    parse(page, "fly and run twice")
    page.wait_for_selector("#gaps .unknown")
    assert page.inner_text("#answer-title") == "No answer"
    assert page.inner_text("#by") == "abstained"
    assert page.locator("#gaps .unknown").all_text_contents() == ["fly"]
    assert page.locator("#gaps .island").all_text_contents() == ["run twice"]
    assert "No rule knows 'fly'." in page.inner_text("#gaps")
    assert not page.locator("#derivation").is_visible()


def test_the_grammar_is_searched_while_typing_and_leads_back_to_examples(page: Page) -> None:
    page.get_by_role("tab", name="Grammar").click()
    page.wait_for_selector("#rules tr")
    assert page.inner_text("#rules-status").startswith("8 rules")
    page.get_by_label("Search").fill("twice")
    playwright.expect(page.locator("#rules tr")).to_have_count(1)
    assert "① twice → ① ①" in page.inner_text("#rules")
    page.locator("#rules .chip").first.click()
    page.wait_for_selector("#derivation svg")
    assert page.get_by_role("tab", name="Parse").get_attribute("aria-selected") == "true"


def test_a_batch_is_scored_and_can_be_downloaded(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Batch").click()
    file = tmp_path / "mine.tsv"
    file.write_text("run twice\tR R\nrun\tJ\nfly\tF\n")
    page.get_by_label("TSV file").set_input_files(file)
    playwright.expect(page.locator("#lines")).not_to_have_value("")
    page.get_by_role("button", name="Parse all").click()
    page.wait_for_selector("#rows tr")
    assert page.locator("#rows .badge").all_text_contents() == ["right", "wrong", "no derivation"]
    assert "33.3 %" in page.inner_text("#metrics")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    lines = Path(download.value.path()).read_text().split("\n")
    assert lines[0].split("\t")[:3] == ["sentence", "target", "confidence"]
    assert lines[1].startswith("run twice\tR R\t\t1\tgrammar\t")


def test_hostile_words_stay_words(page: Page) -> None:
    parse(page, f"{HOSTILE} twice")
    page.wait_for_selector("#derivation svg")
    assert page.inner_text("#derivation .target").split() == [HOSTILE_TARGET] * 2
    assert page.locator("main script, main img").count() == 0
    parse(page, "<img/src=x/onerror=alert(1)> run")
    page.wait_for_selector("#gaps .unknown")
    assert page.locator("main script, main img").count() == 0


def test_a_refusal_is_shown_and_not_thrown(browser: Browser, address: str) -> None:
    page = browser.new_page()  # without the console check: the browser itself logs the status 422
    page.goto(address)
    parse(page, "run " * 101)
    page.wait_for_selector("#status.error")
    assert page.inner_text("#status") == "the sentence has 101 tokens; at most 100 are read"
    page.close()


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_nothing_sticks_out_sideways(page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    parse(page, "run and jump and run and jump and run twice")
    page.wait_for_selector("#derivation svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_the_tabs_follow_the_arrow_keys(page: Page) -> None:
    page.get_by_role("tab", name="Parse").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#grammar").is_visible()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#parse").is_visible()


def test_everything_that_can_be_operated_has_a_name(page: Page) -> None:
    parse(page, "run twice")
    page.wait_for_selector("#derivation svg")
    nameless = page.evaluate("""() => [...document.querySelectorAll('button, input, select, textarea, a, .node')]
        .filter((each) => !(each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length))
        .map((each) => each.outerHTML)""")
    assert nameless == []
    assert page.locator("main").count() == page.locator("header").count() == page.locator("nav").count() == 1


def test_the_api_page_describes_every_route_offline(page: Page, address: str) -> None:
    page.goto(f"{address}/docs")
    page.wait_for_selector("#endpoints article")
    shown = page.inner_text("#endpoints")
    assert all(path in shown for path in ("/api/parse", "/api/batch", "/api/rules", "/api/model"))
