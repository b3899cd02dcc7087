"""The page in a browser: a witness is walked with keys and buttons, without an error and without a request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from guardagent.workflow.analysis.report import Report
from guardagent.workflow.reports import render_all
from tests.workflow.browser import PROGRAM, Page, browsing
from tests.workflow.samples import alone, hostile_report, support_report

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all; what it noticed is judged after each page."""
    with browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


class Opened:
    """The open page of a report."""

    def __init__(self, browser: Page, folder: Path, report: Report) -> None:
        self.path = folder / "report.html"
        self.path.write_text(render_all(alone(report), "html"), encoding="utf-8")
        self.browser = browser
        browser.open(self.path)

    def status(self) -> str:
        """The last announcement to screen readers."""
        return str(self.browser.evaluate("document.getElementById('status').textContent"))

    def here(self) -> list[str]:
        """The nodes that are marked as the place of the walk."""
        marked = self.browser.evaluate("[...document.querySelectorAll('#picture .here')].map((one) => one.id)")
        assert isinstance(marked, list)
        return marked

    def click(self, selector: str) -> None:
        """Clicks an element."""
        self.browser.evaluate(
            f"document.querySelector({selector!r}).dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
        )


@pytest.fixture
def page(browser: Page, tmp_path: Path) -> Iterator[Opened]:
    """The page of a report; in the end it had no error and asked for nothing but itself."""
    browser.problems.clear()
    browser.requests.clear()
    opened = Opened(browser, tmp_path, support_report())
    yield opened
    assert browser.problems == []
    assert browser.requests == [opened.path.as_uri()]


def test_a_witness_is_walked_with_the_keyboard(page: Opened) -> None:
    """The walk goes from the first step to the last and back, in the picture and as text."""
    assert page.status() == "Press → or “Next” to begin."
    seen = []
    for _ in range(5):
        page.browser.press("ArrowRight")
        seen.append((page.status(), *page.here()))
    assert seen == [
        ("Step 1 of 4: __start__, entry", "n0"),
        ("Step 2 of 4: classify, llm", "n2"),
        ("Step 3 of 4: route, router", "n3"),
        ("Step 4 of 4: if amount <= 100, refund, tool", "n5"),
        ("Step 4 of 4: if amount <= 100, refund, tool", "n5"),
    ]
    page.browser.press("ArrowLeft")
    assert page.here() == ["n3"]
    page.browser.press("Escape")
    assert page.here() == []


def test_a_cycle_is_walked_around_again(page: Opened) -> None:
    """The walk goes around any number of times."""
    page.click("[data-walk='5']")
    page.browser.press("End")
    assert page.status() == "Step 6 of 6: orders, tool, calls log"
    page.browser.press("ArrowRight")
    assert page.status() == "Step 5 of 6, round 2: if failed, retry, passthrough"


def test_shift_and_arrow_go_to_the_next_witness(page: Opened) -> None:
    """After the last witness comes the first."""
    chosen = []
    for _ in range(5):
        page.browser.press("ArrowRight", shift=True)
        chosen.append(page.browser.evaluate("document.getElementById('which').selectedOptions[0].textContent"))
    assert chosen[0] == "exit_reachability at orphan (1 step)"
    assert chosen[-1] == "human_coverage at refund (4 steps)"


def test_a_witness_is_walked_with_buttons(page: Opened) -> None:
    """Buttons without effect are disabled."""
    page.click("#next")
    page.click("#next")
    assert page.here() == ["n2"]
    page.click("#last")
    assert page.here() == ["n5"]
    assert page.browser.evaluate("document.getElementById('next').disabled") is True
    page.click("#steps li:nth-child(3) button")
    assert page.here() == ["n3"]
    page.click("#stop")
    assert page.here() == []


def test_everything_can_be_reached_with_the_tab_key(page: Opened) -> None:
    """The button of a card begins its walk; the graph is one tab stop, and Enter shows a node."""
    page.browser.evaluate("document.querySelector('[data-walk]').focus()")
    page.browser.press("Enter")
    assert page.status().startswith("Step 1 of 4")
    stops = page.browser.evaluate("document.querySelectorAll('#picture [tabindex=\"0\"]').length")
    assert stops == 1
    page.browser.evaluate("document.querySelector('#picture [tabindex=\"0\"]').focus()")
    page.browser.press("ArrowDown")
    page.browser.press("Enter")
    assert "__end__" in str(page.browser.evaluate("document.getElementById('node-facts').textContent"))


def test_a_node_shows_its_details(page: Opened) -> None:
    """Findings are links to their cards; a second click closes the details."""
    page.click("#n5")
    facts = str(page.browser.evaluate("document.getElementById('node-facts').innerText"))
    assert "Tools: refund needs approval, notify" in facts
    assert "refund can call refund without a person" in facts
    page.click("#n5")
    assert page.browser.evaluate("document.getElementById('node-facts').hidden") is True


@pytest.mark.parametrize("width", [360, 1400])
def test_it_fits_any_width(page: Opened, width: int) -> None:
    """Nothing but the graph and the table scrolls sideways."""
    page.browser.requests.clear()
    page.browser.open(page.path, width=width)
    over = page.browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert over == 0


def test_light_and_dark(page: Opened) -> None:
    """The page has the theme of the system until the reader chooses."""
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.browser.evaluate(background)
    page.browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.browser.evaluate(background) != light
    page.click("#theme")
    assert page.browser.evaluate(background) == light
    page.browser.ask("Emulation.setEmulatedMedia", features=[])
    page.click("#theme")
    assert page.browser.evaluate(background) != light


def test_text_fits_into_its_node(page: Opened) -> None:
    """This holds in the installed font."""
    over = page.browser.evaluate(
        "[...document.querySelectorAll('#picture .node')].filter((node) => {"
        " const body = node.querySelector('.body').getBoundingClientRect();"
        " return [...node.querySelectorAll('text')].some((text) => !text.closest('.badge')"
        " && text.getBoundingClientRect().width > body.width); }).map((one) => one.id)"
    )
    assert over == []


def test_names_that_mean_harm_do_none(browser: Page, tmp_path: Path) -> None:
    """Harmful names run and load nothing, and have walks like others."""
    browser.problems.clear()
    browser.requests.clear()
    opened = Opened(browser, tmp_path, hostile_report())
    title = browser.evaluate("document.title")
    for _ in range(30):
        browser.press("ArrowRight", shift=True)
        browser.press("ArrowRight")
    for index in range(10):
        opened.click(f"#n{index}")
    assert opened.status().startswith("Step 2 of 2")
    assert browser.evaluate("document.title") == title
    assert browser.evaluate("document.querySelectorAll('script, img, iframe, object, embed').length") == 1
    assert browser.problems == []
    assert browser.requests == [opened.path.as_uri()]
