"""Every page of the console in Chromium, with 0, 3 and 5,000 items, wide and narrow, light, dark, and without scripts.

The pages come from `PAGES`, so that a new one is covered. A page of one item shows the first of its kind.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent.log import AuditLog
from guardagent.server.access import EVERY_TENANT, Caller, CallerRole, TokenStore
from guardagent.server.console import ConsolePage
from guardagent.server.console.pages import PAGES
from guardagent.server.state import open_state
from tests.server.console.test_application_browser import GRAPH
from tests.server.servers import POLICIES, ServerClient, ServerProcess, tokens_of

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api", reason="the extra 'dev-all' is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra 'dev-all' is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("Chromium is not installed", allow_module_level=True)

SCOPE = "approvals: {scope: {tool: refund, same: [order], up_to: {amount: 1000}, calls: 3, for: 1h}}"
VIEWS = "views: {refund: {table: args}}\n"
TENANTS = {"none": 0, "few": 3, "many": 5000}
SETTINGS = """\
policies:
  default: {files: policies.yaml, approvals: {seconds: 86400}, tenants: [none, few, many]}
workflows:
  refunds: {graph: flow.json, policy: default, tenants: [few, many]}
"""
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
HEIGHTS = {  # the most pixels, wide and narrow; a list has pages of 50 or 100 items, each of which may have its reasons
    "/approvals": (26_000, 42_000),
    "/grants": (10_000, 13_000),
    "/log": (20_000, 30_000),
    "/live": (8_000, 16_000),
    "/sessions": (4_000, 8_000),
    "/sessions/{id}": (6_000, 8_000),
    "/approvals/{id}": (4_000, 5_000),
    "/reports": (3_000, 4_000),
}
OTHERS = (3_000, 5_000)  # of all other pages
NEXT_STEPS = {  # on pages without items
    "/grants": "approvals:",
    "/live": "RemoteGuard(",
    "/approvals": "RemoteGuard(",
    "/sessions": "RemoteGuard(",
    "/log": "RemoteGuard(",
    "/workflows": "workflows:",
    "/reports": "RemoteGuard(",
}
SHOTS = os.environ.get("GUARDAGENT_SCREENSHOTS")  # a folder for pictures of all pages


class SeededSite:
    """A server whose tenants have 0, 3 and 5,000 sessions, approvals and entries of the log.

    Attributes:
        items: of each tenant, the name of an item of each kind; a kind is the first part of an address.
    """

    def __init__(self, folder: Path, server: ServerProcess, tokens: dict[str, str], items: dict[str, Any]) -> None:
        self.folder, self.url, self.tokens, self.items = folder, server.url, tokens, items

    def address(self, path: str, tenant: str) -> str:
        return re.sub(r"{\w+}", self.items[tenant].get(path.split("/")[1], "missing"), path)

    def lacks(self, path: str, tenant: str) -> bool:
        """Whether a page is about an item of a kind that the tenant does not have."""
        return "{" in path and path.split("/")[1] not in self.items[tenant]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededSite]:
    folder = tmp_path_factory.mktemp("pages")
    for name, text in (
        ("policies.yaml", POLICIES.replace("escalate\n", f"escalate\n    {SCOPE}\n") + VIEWS),
        ("flow.json", json.dumps(GRAPH)),
        ("server.yaml", SETTINGS),
    ):
        (folder / name).write_text(text)
    tokens = tokens_of(folder, *TENANTS)
    everything = frozenset(CallerRole) - {CallerRole.AGENT}
    for tenant in (*TENANTS, EVERY_TENANT):
        tokens[tenant] = TokenStore(folder / "tokens.db").create(Caller("dana", everything, tenant), 36_000.0)[1]
    server = ServerProcess(folder, f"sqlite:{folder / 'state'}", "--settings", str(folder / "server.yaml"))
    try:
        server.wait()
        items = {
            tenant: _seed(folder, tenant, server.client(tokens[f"{tenant}.agent"]), tokens[f"{tenant}.approver"], count)
            for tenant, count in TENANTS.items()
        }
        yield SeededSite(folder, server, tokens, items)
    finally:
        server.kill()


def _seed(folder: Path, tenant: str, agent: ServerClient, approver: str, count: int) -> dict[str, str]:
    """Gives a tenant items: the first three as an agent makes them, the others as copies of these in the stores."""
    if not count:
        return {"policies": "default"}
    approvals = []
    for at in range(3):
        agent.session(f"s{at}")
        agent.check(f"s{at}", "c0", "refund", order=f"w{at}", amount=20)
        agent.run(f"s{at}", "c1", "login", user="ann")
        approvals.append(agent.check(f"s{at}", "c2", "refund", order=f"w{at}", amount=900)["approval"]["id"])
    answer = {"choice": "reject", "version": 1, "reason": "ask the customer first"}
    reviewer = ServerClient(agent.client, approver)
    reviewer.post(f"/v1/approvals/{approvals[2]}/answer", answer)
    agent.session("granted")
    agent.run("granted", "c1", "login", user="ann")
    wanted = agent.check("granted", "c2", "refund", order="w9", amount=900)["approval"]["id"]
    reviewer.post(f"/v1/approvals/{wanted}/answer", {"choice": "approve", "version": 1, "grant": {}})
    [grant] = reviewer.get("/v1/grants")["grants"]
    state = open_state(f"sqlite:{folder / 'state' / 'server.db'}")
    for kind, names in (("session", ("s0", "s1", "s2")), ("approval", approvals)):
        originals = [state.get(kind, tenant, name) for name in names]
        for at, original in zip(range(3, count), itertools.cycle(originals)):
            assert original is not None
            state.add(kind, tenant, f"{kind[0]}{at}", original.value)
    [slot] = state.page("grant", tenant, None, 2)
    for at in range(1, count):
        grants = [{**slot.value["grants"][0], "id": f"g_slot{at}.1"}]
        state.add("grant", tenant, f"slot{at}", {**slot.value, "grants": grants})
    state.close()
    with AuditLog(folder / "logs" / f"{tenant}.db", durable=False) as log:
        written = [json.loads(text) for text in log.since(0)]
        records = [{name: value for name, value in fields.items() if not name.endswith("_hash")} for fields in written]
        for record, at in zip(itertools.cycle(records), range(len(records), count)):
            log.append({**{name: value for name, value in record.items() if name != "time"}, "call_id": f"c{at}"})
    kinds = {"policies": "default", "workflows": "refunds", "sessions": "s0"}
    return {**kinds, "approvals": approvals[0], "grants": grant["id"]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as sync_playwright:
        browser = sync_playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def _visit(browser: Any, site: SeededSite, tenant: str, size: str, **options: Any) -> Any:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.goto(f"{site.url}/")
    page.get_by_label("Your token").fill(site.tokens[tenant])
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/live")
    return page


def _seconds(answer: Any) -> float:
    """Returns the seconds that a server took for an answer."""
    return float(answer.request.timing["responseStart"]) / 1000


def _shown_pages() -> list[str]:
    """Returns the addresses of pages that a browser shows: not of their parts, of pictures and of files."""
    return [page.path for page in PAGES if page.method == "GET" and not _is_part(page)]


def _is_part(page: ConsolePage) -> bool:
    return page.is_part or page.path.endswith(("/export", ".svg"))


@pytest.mark.parametrize("tenant", TENANTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("look", ["light", "dark", "plain"])
def test_every_page(site: SeededSite, browser: Any, tenant: str, size: str, look: str) -> None:
    options: dict[str, Any] = {"java_script_enabled": False} if look == "plain" else {"color_scheme": look}
    page = _visit(browser, site, tenant, size, **options)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    problems: list[Any] = []
    for path in _shown_pages():
        address = f"{site.url}/console{site.address(path, tenant)}"
        answer = page.goto(address, wait_until="domcontentloaded")
        if _seconds(answer) > 2 and _seconds(page.goto(address)) > 2:  # twice: the machine may be busy
            problems.append((path, "slow", _seconds(answer)))
        problems += [(path, *problem) for problem in _problems(page, path, tenant, size)]
        if answer.status != (404 if site.lacks(path, tenant) else 200):
            problems.append((path, "status", answer.status))
        if look != "plain":
            violations = axe.Axe().run(page).response["violations"]
            problems += [(path, violation["id"], violation["nodes"][0]["html"][:300]) for violation in violations]
        if SHOTS:
            name = path.strip("/").replace("/", "-").translate(str.maketrans("", "", "{}"))
            page.screenshot(path=f"{SHOTS}/{name}.{tenant}.{size}.{look}.png", full_page=True)
    page.context.close()
    assert not problems, "\n".join(map(str, problems))
    missing = [text for text in complaints if "404" not in text]
    assert not missing, "the content security policy forbids nothing that a page needs"


def _problems(page: Any, path: str, tenant: str, size: str) -> Iterator[tuple[Any, ...]]:
    """Yields what is wrong with a page's size, its header and what it says without items."""
    if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        yield ("too wide", page.evaluate("document.documentElement.scrollWidth"))
    most = HEIGHTS.get(path, OTHERS)[size == "narrow"]
    height = page.evaluate("document.documentElement.scrollHeight")
    if height > most:
        yield ("too high", height, most)
    header = page.locator("header").bounding_box()
    if size == "narrow" and header["height"] > 64:
        yield ("the header has more than a line", header["height"])
    text = page.inner_text("main")
    if tenant == "none" and NEXT_STEPS.get(path, "") not in text:
        yield ("no next step", text[:200])
    if size == "narrow":
        wide = page.evaluate(
            "[...document.querySelectorAll('table')].filter((one) => one.getBoundingClientRect().right > innerWidth)"
            ".map((one) => one.parentElement.getAttribute('aria-label'))"
        )
        if wide:
            yield ("tables scroll", wide)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("look", ["light", "dark"])
def test_the_page_to_sign_in(site: SeededSite, browser: Any, size: str, look: str) -> None:
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=look)
    page.goto(f"{site.url}/console/sign-in?lost=1")
    assert not axe.Axe().run(page).response["violations"]
    assert page.get_by_role("button", name="Sign in").bounding_box()["y"] < 600
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@pytest.mark.parametrize("size", SIZES)
def test_an_admin_of_all_tenants_chooses_that_where_calls_wait(site: SeededSite, browser: Any, size: str) -> None:
    page = _visit(browser, site, EVERY_TENANT, size)
    assert not axe.Axe().run(page).response["violations"]
    page.goto(f"{site.url}/console/approvals")
    page.locator("tbody a").first.click()
    assert "Waiting: 3334" in page.inner_text("main")
    assert not axe.Axe().run(page).response["violations"]
    page.get_by_role("link", name="All tenants").click()
    page.get_by_role("heading", name="Choose a tenant").wait_for()
    page.context.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", ["/approvals", "/approvals/{id}"])
@pytest.mark.parametrize("tenant", ["few", "many"])
def test_an_answer_is_within_600_pixels(site: SeededSite, browser: Any, size: str, path: str, tenant: str) -> None:
    page = _visit(browser, site, tenant, size)
    page.goto(f"{site.url}/console{site.address(path, tenant)}")
    for name in ("Approve", "Reject"):
        box = page.get_by_role("button", name=name, exact=True).first.bounding_box()
        assert box["y"] + box["height"] <= 600, name
    page.context.close()


def test_filters_keep_their_place_on_the_next_page(site: SeededSite, browser: Any) -> None:
    page = _visit(browser, site, "many", "wide", java_script_enabled=False)
    page.goto(f"{site.url}/console/sessions")
    page.get_by_role("searchbox", name="Session").fill("s10")
    page.get_by_role("button", name="Filter").click()
    seen: list[str] = []
    while True:
        seen += page.locator("tbody td a[href*='/sessions/']").all_inner_texts()
        following = page.get_by_role("link", name="Earlier ones")
        if not following.count():
            break
        following.click()
    assert len(seen) == len(set(seen)) == sum("s10" in f"s{at}" for at in range(5000))
    page.goto(f"{site.url}/console/log?kind=verdict&decision=escalate&text=W1")
    seen = page.locator(".timeline > li .head > .soft:first-child").all_inner_texts()
    page.get_by_role("link", name="Earlier entries").click()
    more = page.locator(".timeline > li .head > .soft:first-child").all_inner_texts()
    assert len({*seen, *more}) == 200
    assert min(map(int, seen)) > max(map(int, more))
    assert set(page.locator(".timeline > li .decision").all_inner_texts()) == {"escalate"}
    page.context.close()


def test_times_are_those_of_the_reader(site: SeededSite, browser: Any) -> None:
    for options in ({"timezone_id": "Asia/Kolkata"}, {"java_script_enabled": False}):
        page = _visit(browser, site, "few", "wide", **options)
        moment = page.locator("td time").first
        shown, utc = moment.inner_text(), moment.get_attribute("datetime")
        if "timezone_id" in options:
            assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d GMT\+5:30", shown)
            assert moment.get_attribute("title") == f"{utc[:19].replace('T', ' ')} UTC"
            page.locator("tr").nth(1).wait_for()
        else:
            assert shown == f"{utc[:19].replace('T', ' ')} UTC"
        page.context.close()
