"""The page in a real browser: what people do with it, and what it does for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from typer.testing import CliRunner

from conftest import PROJECT
from nqg.cli.main import app
from nqg.inference.hybrid import load_with_grammar
from nqg.inference.parser import Parser
from nqg.sql.database import Database, Rows
from nqg.sql.reader import DatabaseReader
from nqg.sql.schema import Schema
from nqg.web.middleware import Access
from web_service import HOSTILE, HOSTILE_TARGET, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed (extra: dev)"
)
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
# Kernels may have to be compiled before the first answer of a busy machine.
PATIENCE_MS = 60_000
playwright.expect.set_options(timeout=PATIENCE_MS)


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
    page.on(
        "dialog", lambda dialog: complaints.append(f"a script ran: {dialog.message}")
    )
    page.goto(address)
    yield page
    context.close()
    assert not complaints


def parse(page: Page, sentence: str) -> None:
    page.get_by_label("Sentence", exact=True).fill(sentence)
    page.get_by_role("button", name="Parse", exact=True).click()
    playwright.expect(page.locator("#status")).not_to_have_text("Parsing …")


def explain(page: Page, sentence: str) -> None:
    """Parse a sentence, and open what explains the answer: a tree, on phones behind a list."""
    parse(page, sentence)
    page.locator("#why > summary").click()
    if page.locator("#tree-part").get_attribute("open") is None:
        page.locator("#tree-part > summary").click()
    page.wait_for_selector("#derivation svg")


def test_a_sentence_shows_its_program_how_sure_it_is_and_behind_why_the_tree(
    page: Page,
) -> None:
    parse(page, "run and jump twice")
    assert page.locator("#aligned .read").all_text_contents() == [
        "run",
        "and",
        "jump",
        "twice",
    ]
    assert page.inner_text("#sure") == "the most probable reading"
    assert page.inner_text("#figure").endswith(" %")
    assert page.inner_text("#by") == ""
    assert not page.locator("#derivation").is_visible()
    page.locator("#why > summary").click()
    page.wait_for_selector("#derivation svg")
    assert page.locator("#derivation .word").all_text_contents() == [
        "run",
        "and",
        "jump",
        "twice",
    ]
    assert page.locator("#derivation .node").count() == 4
    assert page.locator("#readings li").count() > 1
    assert not page.locator("#chart").is_visible()
    page.locator("#chart-card summary").first.click()
    assert page.locator("#chart .cell").count() > 4
    assert page.title().startswith("nqg")


def test_pointing_at_a_node_lights_up_its_words_its_rule_and_its_part_of_the_program(
    page: Page,
) -> None:
    explain(page, "run twice")
    page.locator("#derivation .node").nth(1).hover()
    assert page.inner_text("#rule").startswith("run → R; score")
    assert page.locator("#derivation .word.lit").all_text_contents() == ["run"]
    assert page.locator("#aligned .read.lit").all_text_contents() == ["run"]
    assert page.locator("#aligned .token.lit").all_text_contents() == ["R", "R"]
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
    # The answer is shown a moment after it has arrived.
    playwright.expect(page.locator("#why > summary")).to_be_visible()
    page.locator("#why > summary").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#derivation svg")
    page.locator("#derivation .node").nth(0).focus()
    assert page.inner_text("#rule").startswith("① twice → ① ①, where ① is “run”; score")
    page.keyboard.press("Tab")
    assert page.locator("#derivation .word.lit").all_text_contents() == ["run"]


def test_another_reading_shows_its_own_derivation(page: Page) -> None:
    parse(page, "run and jump")
    before = page.locator("#aligned .token").all_text_contents()
    page.locator("#readings-card > summary").click()
    page.locator("#readings button").nth(1).click()
    assert page.locator("#aligned .token").all_text_contents() == before[::-1]
    assert page.inner_text("#sure") == "not the answer"
    assert page.inner_text("#answer-title") == "Reading 2"
    assert page.locator("#readings button[aria-pressed=true]").count() == 1


def test_an_abstention_names_what_is_unknown(page: Page) -> None:
    parse(page, "fly and run twice")
    page.wait_for_selector("#gaps .unknown")
    assert page.inner_text("#answer-title") == "No answer"
    assert page.inner_text("#sure") == "abstained"
    assert "add the sentence with its program" in page.inner_text("#teach")
    assert page.locator("#gaps .sentence .unknown").all_text_contents() == ["fly"]
    assert page.locator("#gaps .sentence .island").all_text_contents() == ["run twice"]
    assert page.inner_text("#program") == "No derivation: no rule knows 'fly'."
    assert page.locator("#gaps .legend span").all_text_contents() == [
        "the grammar derives this part",
        "known, but it does not fit here",
        "no rule knows it",
    ]
    assert not page.locator("#derivation").is_visible()


def test_the_grammar_is_searched_while_typing_and_leads_back_to_examples(
    page: Page,
) -> None:
    page.get_by_role("tab", name="Grammar").click()
    page.wait_for_selector("#rules tr")
    assert page.inner_text("#rules-status").startswith("8 rules")
    page.get_by_label("Search").fill("twice")
    playwright.expect(page.locator("#rules .found")).to_have_count(1)
    assert "① twice → ① ①" in page.inner_text("#rules")
    page.locator("#rules .chip").first.click()
    page.wait_for_selector("#aligned .token")
    assert (
        page.get_by_role("tab", name="Parse").get_attribute("aria-selected") == "true"
    )


def test_a_batch_is_scored_and_can_be_downloaded(page: Page, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Batch").click()
    file = tmp_path / "mine.tsv"
    file.write_text("run twice\tR R\nrun\tJ\nfly\tF\n")
    page.get_by_label("TSV file").set_input_files(file)
    playwright.expect(page.locator("#lines")).not_to_have_value("")
    page.get_by_role("button", name="Parse all").click()
    page.wait_for_selector("#rows tr")
    assert page.locator("#rows .badge").all_text_contents() == [
        "right",
        "wrong",
        "abstained",
    ]
    assert "no derivation: no rule knows 'fly'" in page.inner_text("#rows")
    assert "33.3 %" in page.inner_text("#metrics")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    lines = Path(download.value.path()).read_text().split("\n")
    assert lines[0].split("\t")[:3] == ["sentence", "target", "confidence"]
    assert lines[1].startswith("run twice\tR R\t\t1\tgrammar\t")


def test_hostile_words_stay_words(page: Page) -> None:
    parse(page, f"{HOSTILE} twice")
    page.wait_for_selector("#aligned .token")
    assert page.inner_text("#aligned .target").split() == [HOSTILE_TARGET] * 2
    assert page.locator("main script, main img").count() == 0
    parse(page, "<img/src=x/onerror=alert(1)> run")
    page.wait_for_selector("#gaps .unknown")
    assert page.locator("main script, main img").count() == 0


def test_a_refusal_is_shown_and_not_thrown(browser: Browser, address: str) -> None:
    page = (
        browser.new_page()
    )  # without the console check: the browser itself logs the status 422
    page.goto(address)
    parse(page, "run " * 101)
    page.wait_for_selector("#status.error")
    assert (
        page.inner_text("#status")
        == "the sentence has 101 tokens; at most 100 are read"
    )
    page.close()


def test_the_tabs_follow_the_arrow_keys(page: Page) -> None:
    page.get_by_role("tab", name="Parse").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#grammar").is_visible()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#parse").is_visible()


def test_everything_that_can_be_operated_has_a_name(page: Page) -> None:
    explain(page, "run twice")
    nameless = page.evaluate("""() => [...document.querySelectorAll('button, input, select, textarea, a, .node')]
        .filter((each) => !(each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length))
        .map((each) => each.outerHTML)""")
    assert nameless == []
    assert (
        page.locator("main").count()
        == page.locator("header").count()
        == page.locator("nav").count()
        == 1
    )


def test_the_api_page_describes_every_route_offline_with_commands_for_the_served_model(
    page: Page, address: str
) -> None:
    page.goto(f"{address}/docs")
    page.wait_for_selector("#endpoints article")
    shown = page.inner_text("#endpoints")
    assert all(
        path in shown
        for path in ("/api/parse", "/api/batch", "/api/rules", "/api/model")
    )
    first = page.locator("#endpoints pre").first.inner_text()
    assert first.startswith(f"curl -s '{address}/api/parse'")
    printed = subprocess.run(
        ["sh", "-c", first], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(printed)["source"] == ["fly"]


LONG = " and ".join(["run twice", "jump"] * 6)
VIEWS = [
    pytest.param(size, scheme, id=f"{name}-{scheme}")
    for name, size in (("laptop", (1280, 800)), ("phone", (390, 844)))
    for scheme in ("light", "dark")
]
ASKED = (
    "answer",
    "why",
    "unsure",
    "values",
    "fallback",
    "long",
    "chart",
    "abstention",
    "rows",
)
STATES = (
    *ASKED,
    "first",
    "grammar",
    "by hand",
    "batch",
    "review",
    "docs",
    "login",
    "wrong token",
)
TOKEN = "a token for the browser"


def show(page: Page, state: str, address: str) -> None:
    """Lead the page into a state, as people would."""
    sentences = {
        "values": "set the fan in the cellar to 77 %",
        "fallback": "fly",
        "long": LONG,
        "abstention": "fly run",
        "unsure": "set the fan in the cellar to 77 %",
    }
    if state in ("grammar", "batch", "review"):
        page.get_by_role("tab", name=state.capitalize()).click()
    if state == "docs":
        page.goto(f"{address}/docs")
    elif state == "by hand":
        page.get_by_role("tab", name="Grammar").click()
        page.get_by_label("by hand only").check()
    elif state == "batch":
        page.locator("#lines").fill("run twice\tR R\nfly\nrun\tJ")
        page.get_by_role("button", name="Parse all").click()
    elif state == "wrong token":
        page.get_by_label("Token").fill("no token at all")
        page.get_by_role("button", name="Enter").click()
    elif state in ASKED:
        parse(page, sentences.get(state, "run and jump twice"))
    if state == "why":
        page.locator("#why > summary").click()
    if state == "unsure":
        page.locator("#teach summary").click()
    if state == "chart":
        page.locator("#chart-card summary").first.click()
    ready = {
        "first": "#suggestions .chip",
        "grammar": "#rules tr",
        "by hand": "#rules tr",
        "batch": "#rows tr",
        "review": "#review-list form",
        "docs": "#endpoints article",
        "login": "form",
        "wrong token": "[role=alert]:not(:empty)",
    }
    page.wait_for_selector(ready.get(state, "#result:not([hidden])"))
    # A form that was sent brings a new page, whose elements stand before its style sheet.
    page.wait_for_load_state()


# What is wrong with what is seen: text too pale for its ground (WCAG AA), or a scrolled part that shows nothing.
FAULTS = """() => {
  const numbers = (colour) => {
    const own = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    own.fillStyle = colour; own.fillRect(0, 0, 1, 1);
    return [...own.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const linear = (each) => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4;
    const [r, g, b] = colour.map((each) => linear(each / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const seen = [...document.querySelectorAll("body *")]
    .filter((each) => each.checkVisibility() && !each.closest("svg, .hidden, .skip, :disabled"));
  const faults = [];
  for (const each of seen) {
    if (![...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    let ground = null;
    for (let at = each; at && !ground; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      if (found[3] > 200) ground = found;
    }
    const own = light(numbers(getComputedStyle(each).color)), behind = light(ground ?? [255, 255, 255]);
    const [low, high] = [own, behind].sort((a, b) => a - b);
    if ((high + .05) / (low + .05) < 4.5) faults.push(`pale: ${each.outerHTML.slice(0, 90)}`);
  }
  for (const each of document.querySelectorAll(".scroll svg")) {
    const place = each.parentElement.getBoundingClientRect();
    const inside = [...each.querySelectorAll(".node, .cell")].map((part) => part.getBoundingClientRect())
      .filter((part) => part.right > place.left && part.left < place.right);
    if (each.checkVisibility() && inside.length < 3) faults.push("a drawing that starts out of view");
  }
  return faults;
}"""


LARGEST = """(names) => Math.max(...[...document.querySelectorAll(names)].filter((each) => each.checkVisibility())
  .map((each) => parseFloat(getComputedStyle(each).fontSize)))"""


@pytest.fixture(scope="module")
def whole_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A model with slots, rules by hand, a confidence and a fallback."""
    model = load_with_grammar(PROJECT / "tests" / "models" / "v4-whole", "cpu")
    folder = tmp_path_factory.mktemp("whole")
    with running(
        model, log=folder / "log.jsonl", review=folder / "train.tsv"
    ) as server:
        yield server.address


class Shop(Database):
    """A database that has the same rows for every query."""

    def run(self, query: str) -> Rows:
        return Rows(
            ("name", "price", "colour"),
            (("Ada <b>lamp</b>", 30.5, "black"), ("Bo", 20.0, None)),
            is_cut=True,
        )


@pytest.fixture(scope="module")
def shop_address(parser: Parser) -> Iterator[str]:
    with running(
        parser, database=Shop(DatabaseReader("shop.db"), Schema("shop", ()))
    ) as server:
        yield server.address


@pytest.fixture(scope="module")
def unsure_parser() -> Parser:
    """A parser that is not sure enough of anything."""
    whole = Parser.load(PROJECT / "tests" / "models" / "v4-whole", "cpu")
    assert whole.model.calibrator is not None
    never = replace(whole.model.calibrator, threshold=1.0)
    return Parser(replace(whole.model, calibrator=never))


@pytest.fixture(scope="module")
def unsure_address(
    unsure_parser: Parser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("unsure")
    with running(
        unsure_parser, log=folder / "log.jsonl", review=folder / "train.tsv"
    ) as server:
        yield server.address


@pytest.fixture(scope="module")
def locked_address(parser: Parser) -> Iterator[str]:
    with running(parser, access=Access.for_host("127.0.0.1", TOKEN)) as server:
        yield server.address


@pytest.fixture(scope="module")
def review_address(
    parser: Parser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("review")
    (folder / "log.jsonl").write_text(
        '{"source": "fly twice"}\n{"source": "run and fly"}\n{"source": "<b>swim</b>"}\n'
    )
    (folder / "train.tsv").write_text("<b>jump</b> twice\tJ J\n")
    with running(
        parser, log=folder / "log.jsonl", review=folder / "train.tsv"
    ) as server:
        yield server.address


@pytest.mark.parametrize(("size", "scheme"), VIEWS)
@pytest.mark.parametrize("state", STATES)
def test_every_state_fits_the_screen_is_readable_and_shows_something(
    browser: Browser,
    address: str,
    whole_address: str,
    review_address: str,
    shop_address: str,
    locked_address: str,
    unsure_address: str,
    state: str,
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
) -> None:
    others = {
        "review": review_address,
        "rows": shop_address,
        "login": locked_address,
        "wrong token": locked_address,
        "unsure": unsure_address,
    }
    served = (
        whole_address
        if state in ("values", "fallback", "by hand")
        else others.get(state, address)
    )
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
    )
    page = context.new_page()
    page.goto(served)
    show(page, state, served)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate(FAULTS) == []
    if state == "unsure":
        assert page.inner_text("#sure") == "not sure enough"
        assert not page.locator("#aligned").inner_text()
        assert "would have been set(fan, cellar, 77)" in page.inner_text("#withheld")
        assert page.evaluate(LARGEST, "#withheld *") < 16
    if state in ("answer", "values", "long", "chart", "fallback"):
        programs, others = (
            page.evaluate(LARGEST, names)
            for names in ("#program, .target", "#result *")
        )
        assert programs == others
        assert programs > 17 or state == "long"
    if state == "review":
        guess = "A guess, the program of “<b>jump</b> twice”: correct it"
        assert page.get_by_label(guess, exact=True).input_value() == "J J"
    if state == "rows":
        assert page.locator("#query-rows tr").count() == 3
    if state == "values":
        assert page.locator(".token[data-slot]").evaluate_all(
            "all => all.map((each) => each.dataset.slot)"
        ) == ["number"]
        # The pointer may lie on a word, whose rule is shown instead.
        page.mouse.move(0, 0)
        playwright.expect(page.locator("#rule .filled")).to_have_count(1)
    context.close()


@pytest.mark.parametrize("width", [1280, 390], ids=["laptop", "phone"])
def test_the_tree_stays_where_it_is_when_a_box_lights_up(
    browser: Browser, whole_address: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(whole_address)
    explain(page, "set the fan in the cellar to 77 %")
    tree = page.locator("#derivation svg")
    before = tree.bounding_box()
    for node in page.locator("#derivation .node").all():
        node.focus()
        assert "→" in page.inner_text("#rule")
        now = tree.bounding_box()
        assert before is not None
        assert now is not None
        assert (now["y"], now["height"]) == (before["y"], before["height"])
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_a_wide_tree_begins_at_its_root_and_says_so_and_a_wide_chart_is_a_table(
    browser: Browser, address: str, scheme: Literal["light", "dark"]
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.goto(address)
    explain(page, LONG)
    root = page.locator("#derivation .node").first.bounding_box()
    assert root is not None
    assert root["x"] >= 0
    assert root["x"] + root["width"] <= 390
    assert "wider than the screen" in page.inner_text("#derivation .cue")
    page.locator("#chart-card summary").first.click()
    page.wait_for_selector("#chart table")
    assert not page.locator("#chart svg").is_visible()
    page.close()


def test_the_grammar_shows_one_example_a_rule_on_a_phone_and_rules_by_hand_alone(
    browser: Browser, whole_address: str, address: str
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(address)
    page.get_by_role("tab", name="Grammar").click()
    page.wait_for_selector("#rules .chip")
    visible = "row => [...row.querySelectorAll('.chip')].filter((each) => each.checkVisibility()).length"
    assert max(row.evaluate(visible) for row in page.locator("#rules tr").all()) == 1
    assert not page.locator("#by-hand").is_visible()
    page.goto(whole_address)
    page.get_by_role("tab", name="Grammar").click()
    page.get_by_label("by hand only").check()
    playwright.expect(page.locator("#rules .found")).to_have_count(1)
    assert "by hand" in page.inner_text("#rules")
    page.close()


def test_the_first_view_says_what_this_is_and_an_example_leads_on(page: Page) -> None:
    assert page.inner_text("h1 >> nth=0") == "Sentences to programs"
    playwright.expect(page.locator("#intro")).to_contain_text(
        "8 rules, learned from 1 example."
    )
    page.locator("#suggestions .chip", has_text="run twice").click()
    page.wait_for_selector("#aligned .token")
    assert not page.locator("#intro").is_visible()


@pytest.fixture
def review(
    browser: Browser, unsure_parser: Parser, tmp_path: Path
) -> Iterator[tuple[Page, Path]]:
    """The review page of a log with three sentences, and the training file."""
    log, train = tmp_path / "log.jsonl", tmp_path / "train.tsv"
    sentences = ("sing", "set the fan in the cellar to 77 %", "cool the garden")
    log.write_text("".join(json.dumps({"source": one}) + "\n" for one in sentences))
    train.write_text("heat the garden\ton(heater, garden)\n")
    with running(unsure_parser, log=log, review=train) as server:
        page = browser.new_page()
        page.goto(server.address)
        page.get_by_role("tab", name="Review").click()
        page.wait_for_selector("#review-list form")
        yield page, train
        page.close()


def card_of(page: Page, sentence: str) -> Locator:
    heading = page.get_by_role("heading", name=sentence)
    return page.locator("#review-list form", has=heading)


def lines_of(train: Path) -> list[str]:
    return train.read_text().splitlines()[1:]


def test_a_guess_is_accepted_taken_back_and_counted(
    review: tuple[Page, Path],
) -> None:
    page, train = review
    sentence = "set the fan in the cellar to 77 %"
    assert page.inner_text("#review-status") == "1 of 3"
    card = card_of(page, sentence)
    assert "A guess, " in card.inner_text()
    assert card.locator("textarea").input_value() == "set(fan, cellar, 77)"
    card.get_by_role("button", name="Accept").click()
    playwright.expect(page.locator("#review-status")).to_have_text("2 of 3")
    assert "nqg train" in page.inner_text("#review-next")
    assert lines_of(train) == [f"{sentence}\tset(fan, cellar, 77)"]
    page.get_by_role("button", name="Undo").click()
    playwright.expect(page.locator("#review-status")).to_have_text("1 of 3")
    assert lines_of(train) == []
    assert card_of(page, sentence).is_visible()
    assert not page.locator("#review-undo").is_visible()


def test_what_is_not_legal_cannot_be_accepted_unless_it_is_said_to_be_new(
    review: tuple[Page, Path],
) -> None:
    page, train = review
    card = card_of(page, "cool the garden")
    accept = card.get_by_role("button", name="Accept")
    place = card.locator("textarea")
    assert place.input_value() == "on(heater, garden)"
    place.fill("on(fan, garden")
    playwright.expect(card).to_contain_text("'(' is never closed")
    playwright.expect(accept).to_be_disabled()
    assert not card.get_by_label("This is new").is_visible()
    place.fill("on(fan, garden)")
    playwright.expect(accept).to_be_enabled()
    place.fill("on(fan, moon)")
    playwright.expect(card).to_contain_text("no legal program has 'moon'")
    playwright.expect(accept).to_be_disabled()
    card.get_by_label("This is new").check()
    playwright.expect(accept).to_be_enabled()
    accept.click()
    playwright.expect(page.locator("#review-status")).to_have_text("2 of 3")
    assert lines_of(train) == ["cool the garden\ton(fan, moon)"]


def test_keys_mark_a_sentence_as_not_for_us_and_skip_another(
    review: tuple[Page, Path],
) -> None:
    page, train = review
    card = card_of(page, "sing")
    playwright.expect(card.get_by_role("button", name="Accept")).to_be_disabled()
    card.locator("textarea").focus()
    page.keyboard.press("Alt+n")
    playwright.expect(page.locator("#review-status")).to_have_text("2 of 3")
    assert lines_of(train) == ["sing\tOUT_OF_SCOPE"]
    card_of(page, "cool the garden").locator("textarea").focus()
    page.keyboard.press("Alt+s")
    playwright.expect(page.locator("#review-status")).to_have_text("3 of 3")
    page.get_by_role("button", name="Not for us").click()
    playwright.expect(page.locator("#review-status")).to_have_text("All 3 are done.")
    assert len(lines_of(train)) == 2


def test_an_abstention_is_corrected_where_it_is_seen(
    review: tuple[Page, Path],
) -> None:
    page, train = review
    page.get_by_role("tab", name="Parse").click()
    parse(page, "dim the lamp of the garden by 5 %")
    page.locator("#teach summary").click()
    page.locator("#teach textarea").fill("dim(lamp, cellar, 5)")
    playwright.expect(page.locator("#teach button[type=submit]")).to_be_enabled()
    page.locator("#teach button[type=submit]").click()
    playwright.expect(page.locator("#teach")).to_contain_text("Added")
    assert lines_of(train) == [
        "dim the lamp of the garden by 5 %\tdim(lamp, cellar, 5)"
    ]


ATTACK = """async (address) => {
  const body = JSON.stringify({ source: "fly", target: "HACKED" }), statuses = [];
  for (const type of ["application/json", "text/plain"])
    for (const mode of ["cors", "no-cors"])
      await fetch(address, { method: "POST", mode, headers: { "Content-Type": type }, body })
        .then((answer) => statuses.push(answer.status), () => statuses.push("blocked"));
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: address, enctype: "text/plain" });
  form.append(Object.assign(document.createElement("input"), { name: body.slice(0, -1) + ', "x', value: '": 1}' }));
  document.body.append(form);
  form.submit();
  return statuses;
}"""


def test_a_page_of_another_site_adds_nothing_to_the_training_file(
    browser: Browser, parser: Parser, tmp_path: Path
) -> None:
    with running(
        parser, log=tmp_path / "log.jsonl", review=tmp_path / "train.tsv"
    ) as server:
        page = browser.new_page()
        page.goto("data:text/html,<body>a hostile page</body>")
        statuses = page.evaluate(ATTACK, f"{server.address}/api/examples")
        assert set(statuses) <= {
            "blocked",
            0,
        }  # what a page cannot read has the status 0
        page.wait_for_url(f"{server.address}/api/examples")
        assert "error" in page.inner_text("body")
        page.close()
    assert not (tmp_path / "train.tsv").exists()


@pytest.mark.skipif(
    not os.environ.get("NQG_REWRITE_GOLDEN"),
    reason="NQG_REWRITE_GOLDEN=1 takes the pictures of the docs",
)
def test_the_pictures_of_the_docs_are_taken(browser: Browser, tmp_path: Path) -> None:
    starter, images = tmp_path / "starter", PROJECT / "docs" / "images"
    for words in (
        ["init", starter],
        [
            "train",
            starter / "train.tsv",
            "--settings",
            starter / "nqg.toml",
            "-o",
            starter / "model",
        ],
    ):
        assert CliRunner().invoke(app, [str(word) for word in words]).exit_code == 0
    (tmp_path / "log.jsonl").write_text(
        '{"source": "is the sauna on"}\n{"source": "turn everything off"}\n'
    )
    train = tmp_path / "train.tsv"
    shutil.copy(starter / "train.tsv", train)
    with running(
        load_with_grammar(starter / "model", "cpu"),
        examples=(),
        log=tmp_path / "log.jsonl",
        review=train,
        name="mine",
    ) as server:
        for name, width, height in (("page", 1280, 800), ("page-phone", 390, 844)):
            scheme: Literal["light", "dark"] = "light" if name == "page" else "dark"
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                is_mobile=name != "page",
            )
            page.goto(server.address)
            explain(
                page, "Could you dim the kitchen lights to 35 percent at half past six?"
            )
            if name == "page":
                page.locator("#derivation .node").nth(1).hover()
                page.wait_for_timeout(300)  # until what is not lit has faded
            page.screenshot(path=images / f"{name}.png")
            page.close()
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        for name, state in (("page-first", "first"), ("page-review", "review")):
            page.goto(server.address)
            show(page, state, server.address)
            page.screenshot(path=images / f"{name}.png")
