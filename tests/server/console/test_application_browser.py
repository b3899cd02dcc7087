"""The console in a real browser: Debian's Chromium, both colour schemes, and the keyboard alone."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent.server.access import Caller, CallerRole, TokenStore
from guardagent.server.approvals import ApprovalRecord
from guardagent.server.state import open_state
from tests.server.console.providers import running_provider
from tests.server.console.test_sign_in import provider_folder
from tests.server.servers import POLICIES, ServerClient, ServerProcess, server_processes, tokens_of

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api", reason="the extra 'dev-all' is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra 'dev-all' is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("Chromium is not installed", allow_module_level=True)

GRAPH = {
    "name": "refunds",
    "entry_id": "start",
    "exit_ids": ["end"],
    "nodes": [
        {"id": "start", "kind": "entry"},
        {"id": "login", "kind": "tool", "tools": ["login"]},
        {"id": "refund", "kind": "tool", "tools": ["refund"]},
        {"id": "end", "kind": "exit"},
    ],
    "edges": [
        {"source": "start", "target": "login"},
        {"source": "login", "target": "refund"},
        {"source": "refund", "target": "end"},
    ],
}
SETTINGS = """\
policies:
  default: {files: policies.yaml, approvals: {seconds: 600}, tenants: [shop]}
  brief: {files: policies.yaml, approvals: {seconds: 10}, tenants: [shop]}
  two: {files: policies.yaml, approvals: {quorum: 2}, tenants: [shop]}
  limits: {files: limits.yaml, tenants: [bank, port]}
  packs: {files: packs.yaml, tenants: [shop]}
workflows:
  refunds: {graph: flow.json, policy: default}
console: {idle_seconds: IDLE}
"""
LIMITS = """\
version: 1
policies:
  - id: large
    temporal: forall(pay(order=o, amount=a), a <= 100)
    on_violation: escalate
    message: more than 100
"""
PACKS = "version: 1\ninclude: [{pack: guardagent:sql}, {pack: guardagent:filesystem, constants: {workspace: /work}}]\n"
PACKED_CALLS = {
    "execute_sql": {"query": "SELECT id, name FROM customers WHERE region = 'north' ORDER BY name LIMIT 20"},
    "query": {"query": "DROP TABLE customers"},
    "read_file": {"path": "/work/reports/of/the/north/customers.csv"},
    "view_file": {"path": "/etc/shadow"},
    "write_file": {"path": "/work/out.csv", "content": "one line of a file\n" * 80},
}
PAGES = {
    "live": "Verdicts as they come",
    "approvals": "Waiting",
    "grants": "Grants",
    "stops": "Stops",
    "sessions": "Sessions",
    "sessions/s1": "Time line",
    "policies": "Policies",
    "policies/default": "small_refunds",
    "policies/default/lint": "Lint of",
    "policies/default/versions": "in force",
    "playground?tool=refund&args=amount=1": "log in first",
    "workflows": "Workflows",
    "workflows/refunds": "Rules before the agent runs",
    "log": "Log",
    "log/verify": "entries.",
}


class Site:
    """A server with a console."""

    def __init__(self, folder: Path, server: ServerProcess, tokens: dict[str, str]) -> None:
        self.folder, self.url, self.tokens, self._server = folder, server.url, tokens, server
        self.agent: ServerClient = server.client(tokens["shop.agent"])

    def wants(self, session: str, policy: str = "default", amount: int = 900) -> str:
        """An agent proposes a call that needs an approval. Returns its id."""
        name = self.agent.session(session, policy=policy)
        self.agent.run(name, "c1", "login", user="ann")
        wants: str = self.agent.check(name, "c2", "refund", order="a1", amount=amount)["approval"]["id"]
        return wants

    def resolve(self, session: str, approval: str, amount: int = 900) -> Any:
        call = {"id": "c2", "tool": "refund", "args": {"order": "a1", "amount": amount}}
        return self.agent.post(f"/v1/sessions/{session}/resolve", {"call": call, "approval": approval})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mktemp = tmp_path_factory.mktemp("console")
    (mktemp / "policies.yaml").write_text(POLICIES)
    (mktemp / "limits.yaml").write_text(LIMITS)
    (mktemp / "packs.yaml").write_text(PACKS)
    (mktemp / "flow.json").write_text(json.dumps(GRAPH))
    return mktemp


@contextlib.contextmanager
def _server(folder: Path, idle: int) -> Iterator[ServerProcess]:
    settings = folder / f"server-{idle}.yaml"
    settings.write_text(SETTINGS.replace("IDLE", str(idle)))
    server = ServerProcess(folder, f"sqlite:{folder / 'state'}", "--settings", str(settings))
    try:
        server.wait()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    tokens = tokens_of(folder, "shop", "bank", "mall", "port")
    store = TokenStore(folder / "tokens.db")
    everything = frozenset(CallerRole) - {CallerRole.AGENT}
    tokens["dana"] = store.create(Caller("dana", everything, "shop"), 3600.0)[1]
    with _server(folder, 1800) as server:
        yield Site(folder, server, tokens)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as sync_playwright:
        # no sandbox: tests may run as root, and the pages are our own
        browser = sync_playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, site: Site) -> Iterator[Any]:
    contexts = []

    def sign_in(who: str = "dana", url: str = "", **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.goto(f"{url or site.url}/")
        page.get_by_label("Your token").fill(site.tokens[who])
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/live")
        return page

    yield sign_in
    for opened in contexts:
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(site: Site, visit: Any, scheme: str) -> None:
    approval = site.wants(f"every-{scheme}")
    site.agent.session("s1")
    page = visit(color_scheme=scheme)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    for path, text in {**PAGES, f"approvals/{approval}": "at most 100"}.items():
        page.goto(f"{site.url}/console/{path}")
        assert text in page.inner_text("main"), path
        violations = axe.Axe().run(page).response["violations"]
        assert not violations, [(path, violation["id"], violation["nodes"][0]["html"]) for violation in violations]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
    assert not complaints, "the content security policy forbids nothing that a page needs"


def test_on_a_narrow_screen_nothing_is_cut_off(site: Site, visit: Any) -> None:
    page = visit()
    page.set_viewport_size({"width": 360, "height": 800})
    for path in PAGES:
        page.goto(f"{site.url}/console/{path}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"


def test_the_time_line_of_ten_calls_is_within_2000_pixels(site: Site, visit: Any) -> None:
    agent = site.agent
    agent.session("long", policy="packs", tools=[{"name": name} for name in PACKED_CALLS])
    for number, (tool, args) in enumerate([*PACKED_CALLS.items()] * 2):
        if agent.check("long", f"c{number}", tool, **args)["in_flight"]:
            agent.record("long", f"c{number}", ["a row of a table"] * 50)
    page = visit()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{site.url}/console/sessions/long")
        steps = page.locator(".timeline > li")
        assert steps.count() == 10
        assert steps.last.bounding_box()["y"] <= 2000
        assert not page.get_by_text("generated words", exact=True).locator("xpath=../p").first.is_visible()


def test_a_candidate_is_uploaded_and_tried(site: Site, visit: Any) -> None:
    site.wants("tried")
    page = visit()
    page.goto(f"{site.url}/console/policies/default")
    strict = POLICIES.replace("forall(refund(amount=a), a <= 100)", "forall(login(user=u), u != 'ann')").encode()
    file = {"name": "policies.yaml", "mimeType": "text/yaml", "buffer": strict}
    page.get_by_label("A file for: The text of a candidate").set_input_files(file)
    page.wait_for_function("document.getElementById('text').value")
    page.get_by_role("button", name="replay the last 30 days").click()
    page.get_by_role("heading", name="The candidate, tried").wait_for()
    assert "allow → escalate" in page.get_by_role("region", name="Changed verdicts").inner_text()
    violations = axe.Axe().run(page).response["violations"]
    assert not violations, [(violation["id"], violation["nodes"][0]["html"]) for violation in violations]
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_approve_with_the_keyboard_alone(site: Site, visit: Any) -> None:
    approval = site.wants("keyboard")
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    _tab_to(page, "Approvals")
    page.keyboard.press("Enter")
    page.wait_for_url("**/approvals")
    page.goto(f"{site.url}/console/approvals/{approval}")
    _tab_to(page, "Approve")
    page.keyboard.press("Enter")
    page.get_by_text("Enter approves nothing").wait_for()
    assert site.agent.get(f"/v1/approvals/{approval}")["status"] == "pending"
    page.keyboard.press("Space")
    page.get_by_text("You approved").wait_for()
    assert site.resolve("keyboard", approval)["in_flight"]


def test_keys_on_the_list_need_two_for_an_approval(site: Site, visit: Any) -> None:
    first, second = site.wants("keys-1"), site.wants("keys-2")
    page = visit()
    page.goto(f"{site.url}/console/approvals")
    page.locator(f"[data-key={first}] h3 a").focus()
    page.keyboard.press("y")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.href").endswith(second)
    for key in ("a", "Enter"):
        page.keyboard.press(key)
    assert {site.agent.get(f"/v1/approvals/{name}")["status"] for name in (first, second)} == {"pending"}
    page.keyboard.press("y")
    page.get_by_text("You approved").wait_for()
    assert site.agent.get(f"/v1/approvals/{second}")["status"] == "approved"


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_the_message_and_both_answers_are_in_the_first_600_pixels(
    site: Site, visit: Any, size: tuple[int, int]
) -> None:
    approval = site.wants(f"height-{size[0]}")
    page = visit()
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(f"{site.url}/console/approvals/{approval}")
    button = page.get_by_role("button", name="Approve", exact=True)
    for shown in (page.get_by_text("at most 100").first, button, page.get_by_role("button", name="Reject")):
        box = shown.bounding_box()
        assert box["y"] + box["height"] <= 600, box


def _tab_to(page: Any, text: str) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == text:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            return
    raise AssertionError(f"the keyboard does not reach {text!r}")


def test_reject_with_a_reason(site: Site, visit: Any) -> None:
    approval = site.wants("reject")
    page = visit()
    page.goto(f"{site.url}/console/approvals/{approval}")
    page.get_by_role("button", name="Reject").click()
    assert site.agent.get(f"/v1/approvals/{approval}")["status"] == "pending", "the reason is required"
    page.get_by_label("Why not?").fill("ask the customer first")
    page.get_by_role("button", name="Reject").click()
    page.get_by_text("You rejected").wait_for()
    assert "ask the customer first" in json.dumps(site.resolve("reject", approval)["verdict"])


def test_approve_with_other_arguments(site: Site, visit: Any) -> None:
    approval = site.wants("edit")
    page = visit()
    page.goto(f"{site.url}/console/approvals/{approval}")
    page.get_by_text("Approve with other arguments").click()
    page.get_by_label("All arguments").fill("{")
    page.get_by_role("button", name="Approve with these arguments").click()
    assert "not JSON" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("All arguments").input_value() == "{", "what was typed is still there"
    page.get_by_label("All arguments").fill('{"order": "a1", "amount": 90}')
    page.get_by_role("button", name="Approve with these arguments").click()
    page.get_by_text("You changed").wait_for()
    assert site.resolve("edit", approval)["args"] == {"order": "a1", "amount": 90}


def test_a_request_expires_while_it_is_open(site: Site, visit: Any) -> None:
    approval = site.wants("expire", "brief")
    page = visit()
    page.goto(f"{site.url}/console/approvals/{approval}")
    page.wait_for_timeout(10_100)
    page.get_by_role("button", name="Approve", exact=True).click()
    assert "expired" in page.get_by_role("alert").inner_text()
    assert site.resolve("expire", approval)["verdict"]["decision"] == "deny"


# Chromium without a screen shows no notification, so the pages get a class that writes down what would be shown; and a
# tab without a window is never hidden.
RECORDER = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = localStorage.getItem("permission") ?? "default";
  static async requestPermission() {
    localStorage.setItem("permission", "granted");
    Notification.permission = "granted";
  }
  constructor(title, options) { super(); window.shown.push({ title, ...options }); window.last = this; }
  close() {}
};
Object.defineProperty(document, "hidden", { get: () => localStorage.getItem("hidden") === "yes" });
"""


def _counts(page: Any, count: int) -> None:
    playwright.expect(page).to_have_title(re.compile(rf"\({count}\) "), timeout=20_000)


def test_the_title_counts_and_a_hidden_page_notifies_once(site: Site, visit: Any) -> None:
    page = visit("bank.approver")
    agent = ServerClient(site.agent.client, site.tokens["bank.agent"])
    page.context.add_init_script(RECORDER)
    page.goto(f"{site.url}/console/approvals")
    before = int(re.sub(r"\D", "", page.title()) or 0)
    other = page.context.new_page()
    other.goto(f"{site.url}/console/policies")
    tools = [{"name": "pay"}]
    attachment = agent.post("/v1/attachments", {"policy": "limits", "tools": tools}, 201)["id"]
    agent.post("/v1/sessions", {"attachment": attachment, "id": "notified"}, 201)
    agent.check("notified", "c1", "pay", order="o1", amount=500)
    for tab in (page, other):
        _counts(tab, before + 1)
        assert tab.evaluate("shown") == [], "nothing without permission, nor on a page that is seen"
    page.get_by_role("button", name="Notify me").click()
    page.get_by_role("button", name="Stop notifying me").wait_for()
    other.reload()
    _counts(other, before + 1)
    page.evaluate("localStorage.setItem('hidden', 'yes')")
    approval = agent.check("notified", "c2", "pay", order="<b>o2</b>", amount=700)["approval"]["id"]
    for tab in (page, other):
        _counts(tab, before + 2)
    shown = page.evaluate("shown") + other.evaluate("shown")
    assert {"title": "Approve pay?", "body": "more than 100", "tag": approval} in shown
    assert {notification["tag"] for notification in shown} == {approval}, "a tag is one notification"
    clicked = page if page.evaluate("shown.length") else other
    clicked.evaluate("last.dispatchEvent(new Event('click'))")
    clicked.wait_for_url(f"**/console/approvals/{approval}")
    clicked.evaluate("localStorage.clear()")


def test_two_approvers_at_once(site: Site, visit: Any) -> None:
    approval = site.wants("both")
    first, second = visit("dana"), visit("shop.approver")
    for page in (first, second):
        page.goto(f"{site.url}/console/approvals/{approval}")
    first.get_by_role("button", name="Approve", exact=True).click()
    first.get_by_text("You approved").wait_for()
    second.get_by_label("Why not?").fill("too much")
    second.get_by_role("button", name="Reject").click()
    assert "Your answer was not taken. This approval is approved; decided by dana" in (
        second.get_by_role("alert").inner_text()
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_calls_of_a_turn_are_approved_together_with_the_keyboard(
    site: Site, visit: Any, width: int, scheme: str
) -> None:
    turn = f"turn-{width}-{scheme}"
    approvals = [site.wants(turn)]
    approvals += [
        site.agent.check(turn, f"c{at}", "refund", order=f"w{at}", amount=500)["approval"]["id"] for at in (3, 4)
    ]
    page = visit(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{site.url}/console/approvals")
    card = page.locator("li.card").filter(has_text=f"3 calls of session {turn}")
    assert card.locator("[data-key]").count() == 3
    assert not axe.Axe().run(page).response["violations"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    card.locator("h4 a").last.focus()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "Approve all 3"
    page.keyboard.press("Enter")
    card.get_by_text("Enter approves nothing").wait_for()
    page.keyboard.press("y")
    page.get_by_text("3 approved.").wait_for()
    assert not axe.Axe().run(page).response["violations"]
    assert {site.agent.get(f"/v1/approvals/{name}")["status"] for name in approvals} == {"approved"}


def test_a_call_of_a_turn_is_answered_alone_and_the_rest_rejected_without_javascript(site: Site, visit: Any) -> None:
    approvals = [site.wants("alone")]
    approvals += [
        site.agent.check("alone", f"c{at}", "refund", order=f"w{at}", amount=500)["approval"]["id"] for at in (3, 4)
    ]
    page = visit(java_script_enabled=False)
    page.goto(f"{site.url}/console/approvals/{approvals[0]}")
    page.locator(f"a[href$='{approvals[2]}']").click()
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("You approved").wait_for()
    card = page.locator("li.card").filter(has_text="2 calls of session alone")
    card.locator(".all").get_by_label("Why not?").fill("ask first")
    card.get_by_role("button", name="Reject all 2").click()
    page.get_by_text("2 rejected.").wait_for()
    statuses = [site.agent.get(f"/v1/approvals/{name}")["status"] for name in approvals]
    assert statuses == ["rejected", "rejected", "approved"]


def test_a_quorum_of_two(site: Site, visit: Any) -> None:
    approval = site.wants("two", "two")
    for who, line in (("dana", "1 of 2 agree"), ("shop.approver", "it may run once")):
        page = visit(who)
        page.goto(f"{site.url}/console/approvals/{approval}")
        page.get_by_role("button", name="Approve", exact=True).click()
        page.get_by_text(line).wait_for()


def test_new_verdicts_appear_unless_the_page_is_paused(site: Site, visit: Any) -> None:
    page = visit()
    site.wants("live-1")
    page.locator("tr.fresh").first.wait_for()
    page.get_by_role("button", name="Pause").click()
    site.wants("live-2")
    page.wait_for_timeout(2500)
    assert "live-2" not in page.inner_text("main")
    page.get_by_role("button", name="Continue").click()
    page.evaluate("document.activeElement.blur()")
    page.get_by_role("link", name="live-2").first.wait_for()


def test_without_javascript_the_pages_work(site: Site, visit: Any) -> None:
    approval = site.wants("plain")
    page = visit(java_script_enabled=False)
    assert "plain" in page.inner_text("main")
    page.goto(f"{site.url}/console/approvals/{approval}")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("You approved").wait_for()


def test_a_session_without_use_ends_on_a_page_that_refreshes_itself(site: Site, visit: Any) -> None:
    with _server(site.folder, 8) as strict:
        page = visit(url=strict.url)
        page.get_by_text("You are signed out").wait_for()
        page.goto(f"{strict.url}/console/log")
        assert page.url.endswith("/console/sign-in?next=%2Fconsole%2Flog")


def test_signing_in_at_a_provider(site: Site, visit: Any, browser: Any, tmp_path: Path) -> None:
    """The session's cookie is strict, so the way back from another site needs a page in between."""
    with running_provider() as provider:
        folder = provider_folder(tmp_path, provider)
        tokens_of(folder)
        options = ("--oidc", str(folder / "oidc.yaml"))
        with server_processes(folder, f"sqlite:{folder / 'state'}", 1, *options) as (server,):
            for groups, heading in ((["leads"], "Approvals"), (["bots"], "This token is for an agent's program")):
                provider.groups = groups
                context = browser.new_context()
                page = context.new_page()
                page.goto(f"http://localhost:{server.url.rpartition(':')[2]}/console/approvals")
                assert not axe.Axe().run(page).response["violations"]
                page.get_by_role("link", name="Sign in with 127.0.0.1").click()
                page.get_by_role("heading", name=heading, level=1).wait_for()
                assert page.url.endswith("/console/approvals")
                assert not axe.Axe().run(page).response["violations"]
                page.set_viewport_size({"width": 390, "height": 844})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                context.close()


def test_the_steps_of_an_empty_list_bring_calls_to_it(site: Site, visit: Any) -> None:
    page = visit("port.approver")
    page.goto(f"{site.url}/console/approvals")
    program, script = (page.get_by_label(name).inner_text() for name in ("Python", "curl"))
    agent = site.tokens["port.agent"]
    for command, text in ((sys.executable, program), ("sh", script)):
        subprocess.run([command, "-c", text.replace("ga_...", agent)], check=False, timeout=60)
    page.reload()
    assert "Waiting: 2" in page.inner_text("main")
    assert "amount 1000" in page.inner_text("li.card:last-child h3")


@pytest.mark.parametrize("width", [1280, 390])
def test_five_thousand_wait_and_the_first_to_expire_is_first(site: Site, visit: Any, width: int) -> None:
    state = open_state(f"sqlite:{site.folder / 'state' / 'server.db'}")
    record = site.agent.get(f"/v1/approvals/{site.wants(f'crowd-{width}')}")
    record = ServerClient(site.agent.client, site.tokens["shop.approver"]).get(f"/v1/approvals/{record['id']}")
    content = {name: record[name] for name in ApprovalRecord.__slots__ if name in record}
    for at in range(5000):
        call = {**record["call"], "args": {"order": f"w{at}", "amount": 900}}
        more = {"session": f"s{at}", "call": call, "deadline": content["deadline"] + at}
        state.add("approval", "mall", f"a_{at}", {**content, **more})
    page = visit("mall.approver", color_scheme="dark")
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{site.url}/console/approvals")
    assert "Waiting: 5000" in page.inner_text("main")
    assert page.locator("li.card").first.get_attribute("data-key") == "a_0"
    assert page.locator("li.card").count() == 50
    assert not axe.Axe().run(page).response["violations"]
    page.get_by_role("link", name="4950 more").click()
    assert page.locator("li.card").first.get_attribute("data-key") == "a_50"
