"""The console without a browser: who sees what, and what a form may do."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from guardagent.errors import InputError
from guardagent.server.access import PERMITTED, Caller, CallerRole, TokenStore
from guardagent.server.console.application import ConsoleSessions
from guardagent.server.console.pages import PAGES
from guardagent.server.settings import ConsoleSettings, PolicySettings, ServerSettings, read_server_settings
from guardagent.server.state import open_state
from tests.server.servers import POLICIES, ROLES, LocalServer, local_server, local_settings

HOSTILE = "<script>alert(1)</script>\n\x1b[31mred\u202e"


class Visitor:
    """A browser without JavaScript."""

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self._client = TestClient(server.application, follow_redirects=False)

    def sign_in(self, who: str) -> Visitor:
        token = self._server.tokens[who]
        answer = self._client.post("/console/sign-in", data={"token": token, "next": "/console/sessions"})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/console/sessions"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        self._client.cookies.set("__Host-guardagent", re.search(r"=([0-9a-f]{64});", cookie)[1])  # type: ignore[index]
        return self

    def get(self, path: str, status: int = 200, **headers: str) -> Any:
        answer = self._client.get(f"/console{path}", headers=headers)
        assert answer.status_code == status, answer.text
        return answer

    def post(self, path: str, fields: dict[str, str], status: int = 303, **headers: str) -> Any:
        answer = self._client.post(f"/console{path}", data=fields, headers=headers)
        assert answer.status_code == status, answer.text
        return answer

    def csrf(self) -> str:
        match = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get("/live").text)
        assert match
        return match[1]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with local_server(tmp_path, "shop", "bank") as running_server:
        yield running_server


@pytest.fixture
def pending(server: LocalServer) -> str:
    agent = server.client()
    session = agent.session("s1")
    agent.run(session, "c1", "login", user="ann")
    pending: str = agent.check(session, "c2", "refund", order=HOSTILE, amount=900)["approval"]["id"]
    return pending


def _address(page: Any, pending: str) -> str:
    shown_id = pending if page.path.startswith("/approvals") else "s1"
    name = "default" if page.path.startswith("/policies") else "none"
    return str(page.path.format(id=shown_id, name=name))


@pytest.mark.parametrize("role", ROLES)
def test_each_page_is_for_the_roles_of_its_operation(server: LocalServer, pending: str, role: str) -> None:
    visitor = Visitor(server).sign_in(f"shop.{role}")
    for page in PAGES:
        if page.method == "GET":
            is_permitted = role in PERMITTED[page.operation]
            missing = page.path.startswith(("/workflows/", "/grants/"))  # this server has none
            visitor.get(_address(page, pending), 403 if not is_permitted else 404 if missing else 200)


def test_an_agent_changes_nothing(server: LocalServer, pending: str) -> None:
    visitor = Visitor(server).sign_in("shop.agent")
    page = visitor.get("/live", 403).text
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)[1]  # type: ignore[index]
    visitor.post(f"/approvals/{pending}", {"csrf": csrf, "choice": "approve", "version": "1"}, 403)
    visitor.post("/policies/default", {"csrf": csrf, "action": "reload"}, 403)


def test_another_tenant_sees_nothing(server: LocalServer, pending: str) -> None:
    visitor = Visitor(server).sign_in("bank.admin")
    visitor.get(f"/approvals/{pending}", 404)
    visitor.get("/sessions/s1", 404)
    visitor.get("/live?tenant=shop", 404)
    assert "s1" not in visitor.get("/sessions").text


def test_people_with_the_same_rights_share_a_part_and_each_has_a_form_of_their_own(
    server: LocalServer, pending: str
) -> None:
    first, second = Visitor(server).sign_in("shop.approver"), Visitor(server).sign_in("shop.approver")
    auditor, stranger = Visitor(server).sign_in("shop.auditor"), Visitor(server).sign_in("bank.approver")
    texts = [visitor.get("/approvals/rows").text for visitor in (first, second, auditor)]
    assert texts[0].replace(first.csrf(), second.csrf()) == texts[1]
    assert (first.csrf() in texts[0], "csrf" in texts[2]) == (True, False)
    assert pending not in stranger.get("/approvals/rows").text
    fields = {"csrf": second.csrf(), "choice": "reject", "reason": "no", "version": "1"}
    second.post(f"/approvals/{pending}", fields)
    assert "Waiting: 0" in first.get("/approvals/rows").text


def test_who_is_not_signed_in_comes_back_after_signing_in(server: LocalServer) -> None:
    visitor = Visitor(server)
    assert visitor.get("/sessions/s1?tenant=x", 303).headers["location"] == (
        "/console/sign-in?next=%2Fconsole%2Fsessions%2Fs1%3Ftenant%3Dx"
    )
    visitor.post("/sign-in", {"token": "ga_0123456789ab_" + "0" * 64}, 401)
    for bad in ("https://evil.example/", "//evil.example/", "/console//evil.example", "/console/\\evil.example"):
        fields = {"token": server.tokens["shop.admin"], "next": bad}
        assert visitor.post("/sign-in", fields).headers["location"] == "/console/live"


def test_a_revoked_token_is_signed_out_at_once(server: LocalServer) -> None:
    visitor, admin = Visitor(server).sign_in("shop.auditor"), server.client("shop.admin")
    visitor.get("/live")
    reply = next(token for token in admin.get("/v1/tokens")["tokens"] if token["principal"] == "auditor-1")
    assert admin.request("DELETE", f"/v1/tokens/{reply['id']}").status_code == 200
    visitor.get("/live", 303)


def test_signing_out_ends_the_session(server: LocalServer) -> None:
    visitor = Visitor(server).sign_in("shop.admin")
    visitor.post("/sign-out", {"csrf": visitor.csrf()})
    visitor.get("/live", 303)


def test_a_form_needs_its_session_and_its_site(server: LocalServer, pending: str) -> None:
    visitor = Visitor(server).sign_in("shop.approver")
    fields = {"csrf": visitor.csrf(), "choice": "approve", "version": "1"}
    visitor.post(f"/approvals/{pending}", {**fields, "csrf": "0" * 64}, 422)
    visitor.post(f"/approvals/{pending}", fields, 403, **{"Sec-Fetch-Site": "cross-site"})
    visitor.post(f"/approvals/{pending}", fields, 403, Origin="https://evil.example")
    assert server.client("shop.approver").get(f"/v1/approvals/{pending}")["status"] == "pending"


def test_strings_of_agents_are_text(server: LocalServer, pending: str) -> None:
    visitor = Visitor(server).sign_in("shop.approver")
    for path in ("/live", "/approvals", f"/approvals/{pending}", "/sessions/s1"):
        page = visitor.get(path)
        assert "alert(1)" in page.text
        assert "<script>alert" not in page.text
        assert not {"\x1b", "\u202e"} & set(page.text)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_an_approver_sees_what_happens_and_decides_once(server: LocalServer, pending: str) -> None:
    visitor = Visitor(server).sign_in("shop.approver")
    page = visitor.get(f"/approvals/{pending}").text
    assert "No other rule denies it" in page
    assert "call &#39;receipt&#39;" in page, "what will be due"
    fields = {"csrf": visitor.csrf(), "choice": "approve", "version": "1"}
    visitor.post(f"/approvals/{pending}", {**fields, "choice": "reject"}, 422)
    visitor.post(f"/approvals/{pending}", {**fields, "choice": "edit", "args": '{"amount": 1, "amount": 2}'}, 422)
    visitor.post(f"/approvals/{pending}", {**fields, "choice": "edit", "args": '{"order": "\\ud800"}'}, 422)
    visitor.post(f"/approvals/{pending}", {**fields, "version": "x"}, 422)
    visitor.post(f"/approvals/{pending}", fields)
    late = visitor.post(f"/approvals/{pending}", {**fields, "choice": "reject", "reason": "no"}, 409).text
    assert "decided by approver-1" in late
    agent = server.client()
    call = {"id": "c2", "tool": "refund", "args": {"order": HOSTILE, "amount": 900}}
    assert agent.post("/v1/sessions/s1/resolve", {"call": call, "approval": pending})["in_flight"]


def _wants(server: LocalServer, count: int, who: str = "shop.agent") -> list[str]:
    agent = server.client(who)
    approvals = []
    for at in range(count):
        session = agent.session(f"{who}-{at}")
        agent.run(session, "c1", "login", user="ann")
        approvals.append(agent.check(session, "c2", "refund", order=f"w{at}", amount=500)["approval"]["id"])
    return approvals


def _cards(page: str) -> list[str]:
    return re.findall(r'<li class="card" data-key="(\w+)">', page)


def test_the_interface_lists_what_waits_and_previews_it(server: LocalServer) -> None:
    approvals = _wants(server, 5)
    approver = server.client("shop.approver")
    approver.post(f"/v1/approvals/{approvals[2]}/answer", {"choice": "approve", "version": 1})
    waiting, path = [], "/v1/approvals?status=pending&limit=3"
    while path:
        page = approver.get(path)
        waiting += page["approvals"]
        path = page["cursor"] and f"/v1/approvals?status=pending&limit=3&cursor={page['cursor']}"
    assert [approval["id"] for approval in waiting] == [*approvals[:2], *approvals[3:]]
    assert {tuple(approval["read"]) for approval in waiting} == {("amount",)}
    preview = approver.get(f"/v1/approvals/{approvals[0]}/preview")
    assert (preview["decision"], list(preview["obligations"])) == ("allow", ["receipt"])
    assert approver.request("GET", "/v1/approvals?status=rejected").status_code == 422
    for path in ("/v1/approvals?status=pending", f"/v1/approvals/{approvals[0]}/preview"):
        assert server.client().request("GET", path).status_code == 403
    assert server.client("bank.approver").get("/v1/approvals?status=pending")["approvals"] == []


def test_the_count_of_what_waits(server: LocalServer, pending: str) -> None:
    """It is in the title of the list, and on a page for the script of every page."""
    visitor = Visitor(server).sign_in("shop.auditor")
    assert "<title>(1) Approvals" in visitor.get("/approvals").text
    count = visitor.get("/approvals/count").text
    assert f'data-count="1">\n<li data-key="{pending}">' in count
    assert "at most 100" in count
    assert "alert(1)" not in count, "no argument"
    assert 'data-count="/console/approvals/count"' in visitor.get("/log").text


def test_who_has_no_page_reads_what_the_token_is_for(server: LocalServer) -> None:
    page = Visitor(server).sign_in("shop.agent").get("/live", 403).text
    for text in ("This token is for an agent's program", "export GUARDAGENT_TOKEN", "--role approver --tenant shop"):
        assert text in page
    assert 'href="/console/sign-in"' in page
    assert "data-count" not in page
    assert "no provider" in Visitor(server).get("/sign-in/provider", 404).text


def test_the_first_to_expire_is_first_whatever_the_number(server: LocalServer) -> None:
    approvals = _wants(server, 53)
    visitor = Visitor(server).sign_in("shop.approver")
    page = visitor.get("/approvals").text
    assert "Waiting: 53" in page
    assert _cards(page) == approvals[:50]
    more = re.search(r'href="/console(/approvals\?[^"]*)">3 more', page)
    assert more
    assert _cards(visitor.get(more[1]).text) == approvals[50:]


@pytest.mark.parametrize("name", ["agent", "customer"])
def test_filters_work_without_javascript(server: LocalServer, name: str) -> None:
    _wants(server, 2)
    (approval,) = _wants(server, 1, "shop.other")
    visitor = Visitor(server).sign_in("shop.approver")
    page = visitor.get(f"/approvals?{name}=other-1&rule=small_refunds").text
    assert _cards(page) == [approval]
    assert "Waiting: 1 of 3" in page
    fields = {**_form(page), "choice": "approve"}
    target = visitor.post(f"/approvals/{approval}", fields).headers["location"]
    assert f"{name}=other-1" in target, "an answer returns to the filtered list"
    assert "None of those that wait fits" in visitor.get(target.removeprefix("/console")).text


def _form(page: str) -> dict[str, str]:
    form = page[page.index('<form method="post" action="/console/approvals/') :].partition("</form>")[0]
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))


def test_a_card_is_enough_for_an_answer(server: LocalServer) -> None:
    approval, other = _wants(server, 2)
    visitor = Visitor(server).sign_in("shop.approver")
    page = visitor.get("/approvals").text
    card = page[page.index(approval) : page.index(other)]
    assert re.search(r"amount</span> 500", card), "an argument that the rule reads"
    assert "at most 100" in card
    fields = {**_form(page), "choice": "approve"}
    wrong = visitor.post(f"/approvals/{approval}", {**fields, "of": "0" * 64}, 409).text
    assert "Your answer was not taken. The answer names another call" in wrong
    assert server.client("shop.approver").get(f"/v1/approvals/{approval}")["status"] == "pending"
    done = visitor.post(f"/approvals/{approval}", fields).headers["location"].removeprefix("/console")
    page = visitor.get(done).text
    assert "You approved" in page
    assert _cards(page) == [other]
    assert "You approved" not in Visitor(server).sign_in("shop.auditor").get(done).text, "only who answered reads it"


def test_who_sees_all_tenants_has_no_button_that_cannot_work(server: LocalServer, tmp_path: Path) -> None:
    roles = frozenset({CallerRole.ADMIN, CallerRole.APPROVER})
    server.tokens["all"] = TokenStore(tmp_path / "tokens.db").create(Caller("root", roles, "*"), 3600.0)[1]
    approvals = _wants(server, 1)
    visitor = Visitor(server).sign_in("all")
    page = visitor.get("/approvals?tenant=shop").text
    assert _cards(page) == approvals
    assert "data-approve" not in page
    choice = visitor.get("/approvals").text
    rows = re.findall(r'href="\?tenant=(\w+)">\w+</a></th><td>(\d*)</td>', choice)
    assert rows == [("shop", "1"), ("bank", "")], "the tenant in which calls wait is first"
    visitor.get("/approvals/rows", 404)


def test_an_error_says_that_nothing_was_done(server: LocalServer, pending: str) -> None:
    visitor = Visitor(server).sign_in("shop.approver")
    fields = {"csrf": "0" * 64, "choice": "approve", "version": "1"}
    assert "Your answer was not taken; nothing has changed." in visitor.post(f"/approvals/{pending}", fields, 422).text
    target = Visitor(server).post(f"/approvals/{pending}", fields).headers["location"]
    assert f"next=%2Fconsole%2Fapprovals%2F{pending}" in target
    assert "what you sent was not taken" in visitor.get(target.removeprefix("/console")).text


def test_evidence_that_differs_is_marked(server: LocalServer) -> None:
    agent = server.client()
    session = agent.session()
    assert agent.check(session, "c1", "login", order="w1")["in_flight"]
    agent.record(session, "c1", '{"order": "w1", "total": 120}')
    approval = agent.check(session, "c2", "refund", order="w1", amount=500)["approval"]["id"]
    page = Visitor(server).sign_in("shop.approver").get(f"/approvals/{approval}").text
    assert "<mark>differs from total 120 in c1: login(order=&#34;w1&#34;)</mark>" in page
    assert "<details open><summary>c1: login" in page
    assert '<mark><span class="text">120</span></mark>' in page


def test_looking_at_what_happens_changes_nothing(server: LocalServer, pending: str) -> None:
    visitor, reader = Visitor(server).sign_in("shop.approver"), server.client("shop.auditor")
    before = reader.get("/v1/log")["entries"], reader.get("/v1/sessions/s1")
    for _ in range(3):
        visitor.get(f"/approvals/{pending}")
    assert (reader.get("/v1/log")["entries"], reader.get("/v1/sessions/s1")) == before


def test_versions_show_what_changed(server: LocalServer, tmp_path: Path) -> None:
    visitor = Visitor(server).sign_in("shop.admin")
    text = (tmp_path / "policies.yaml").read_text()
    (tmp_path / "policies.yaml").write_text(text.replace("a <= 100", "a <= 70"))
    visitor.post("/policies/default", {"csrf": visitor.csrf(), "action": "reload"})
    page = visitor.get("/policies/default/versions").text
    assert re.search(r"small_refunds</b> was changed\s*<p class=\"text\"><del>.*100.*</del>.*<ins>.*70.*</ins>", page)

    assert "small_refunds was changed: at most 100" in _unfolded(visitor.get("/policies/default").text)


def test_a_version_has_the_commit_from_which_its_files_were_loaded(tmp_path: Path) -> None:
    commit, files = tmp_path / "COMMIT", local_settings(tmp_path).policies["default"].files
    commit.write_text("3f2a9c1d\n")
    policies = {"default": PolicySettings(files, commit_file=commit)}
    with local_server(tmp_path, settings=ServerSettings(policies, f"sqlite:{tmp_path / 'state'}")) as server:
        visitor = Visitor(server).sign_in("shop.admin")
        fields = {"csrf": visitor.csrf(), "action": "reload"}
        for text in ("3f2a9c1d", "77aa01"):
            commit.write_text(text)
            visitor.post("/policies/default", fields)
            for path in ("/policies/default", "/policies/default/versions"):
                assert f"commit <code>{text}</code>" in visitor.get(path).text
        commit.write_text("two words")
        assert "Nothing was changed. " in visitor.post("/policies/default", fields, 422).text
        assert len(server.service.history.versions("default")) == 1


class _Unfolded(HTMLParser):
    """Collects the text of a page that no closed element `details` hides."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self._open = "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open += tag == "details" and ("open", None) not in attrs

    def handle_endtag(self, tag: str) -> None:
        self._open -= tag == "details"

    def handle_data(self, data: str) -> None:
        self.text += "" if self._open else f"{data} "


def _unfolded(page: str) -> str:
    parser = _Unfolded()
    parser.feed(page)
    return " ".join(parser.text.split())


def test_a_session_shows_its_time_line_then_the_touched_rules_with_their_messages(server: LocalServer) -> None:
    agent, visitor = server.client(), Visitor(server).sign_in("shop.auditor")
    agent.session("s1")
    agent.run("s1", "c1", "login", user="ann")
    agent.run("s1", "c2", "refund", order="a", amount=60)
    page = visitor.get("/sessions/s1").text
    text = _unfolded(page)
    assert text.index("Time line") < text.index("c2 ok") < text.index("Rules that were touched")
    assert "receipt due call 'receipt' a receipt is due" in text
    assert "small_refunds" not in text, "it was not touched"
    assert "at most 100" in page, "it is folded"
    assert "there must be a successful call" in page
    assert "there must be a successful call" not in text, "generated words are folded"
    agent.check("s1", "c3", "refund", order="b", amount=900)
    assert "small_refunds in 1 verdict at most 100" in _unfolded(visitor.get("/sessions/s1").text)


def test_a_policy_shows_the_messages_of_its_rules_and_their_hits_by_day(server: LocalServer, pending: str) -> None:
    page = Visitor(server).sign_in("shop.auditor").get("/policies/default").text
    assert "small_refunds at most 100 1 hit escalate 1" in _unfolded(page)
    assert "is allowed only if" in page
    assert "is allowed only if" not in _unfolded(page)
    assert re.search(r'aria-label="By day: \d{4}-\d\d-\d\d 1"', page)
    assert page.count("<svg") == 1, "one rule was violated"


def test_a_candidate_is_linted_its_cases_run_and_its_changed_verdicts_shown(
    server: LocalServer, tmp_path: Path, pending: str
) -> None:
    visitor = Visitor(server).sign_in("shop.admin")
    strict = (
        "version: 1\npolicies:\n  - {id: none, temporal: 'forall(login(user=u), u != \"ann\")', message: not ann}\n"
    )
    fields = {"csrf": visitor.csrf(), "action": "replay", "text": strict}
    case = '{{"id": "{}", "proposed": {{"tool": "login", "args": {{"user": "{}"}}}}, "label": {}}}'
    cases = "\r\n".join([case.format("as expected", "bob", 0), case.format("other", "ann", 0), "{"])
    text = _unfolded(visitor.post("/policies/default", {**fields, "cases": cases}, 200).text)
    assert "unlisted 'unlisted' is missing" in text, "lint"
    assert "2 of 3 cases not as expected. other" in text
    assert "the cases:3" in text, "the line that is not a case"
    assert "1 conversation: the verdict differs on 2 of 2 calls and ends." in text
    assert 'login {"user": "ann"} allow → deny none allow → deny: not ann' in text
    assert "escalate → allow small_refunds violated → allow" in text
    assert not {"{}", "null"} & set(text.split())
    (tmp_path / "policies.cases.jsonl").write_text(case.format("beside", "bob", 0))
    assert "The case is as expected" in visitor.post("/policies/default", fields, 200).text


def test_an_invalid_candidate_is_shown_with_its_problem(server: LocalServer) -> None:
    visitor = Visitor(server).sign_in("shop.admin")
    fields = {"csrf": visitor.csrf(), "action": "shadow", "text": "version: 1\npolicies: [<b>]"}
    page = visitor.post("/policies/default", fields, 422).text
    assert 'role="alert"' in page
    assert "[&lt;b&gt;]" in page


@pytest.mark.parametrize("path", ["/live", "/sessions", "/log", "/reports"])
def test_an_empty_page_names_the_next_step(server: LocalServer, path: str) -> None:
    visitor = Visitor(server).sign_in("bank.admin")
    page = visitor.get(path).text
    assert 'RemoteGuard("https://testserver", token="ga_...", policy="default")' in page
    assert 'curl -s "https://testserver/v1/$1"' in page


@pytest.mark.parametrize("query", ["/live?session=x", "/sessions?id=x", "/log?text=x", "/sessions?before=1"])
def test_a_page_on_which_nothing_fits_leads_back(server: LocalServer, query: str) -> None:
    page = Visitor(server).sign_in("bank.admin").get(query).text
    assert "Show all" in page
    assert "RemoteGuard" not in page


def test_a_tenant_without_policies_reads_how_to_name_them(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(POLICIES)
    text = "policies: {default: {files: policies.yaml, tenants: [shop]}}\n"
    (tmp_path / "server.yaml").write_text(f"{text}state: sqlite:{tmp_path / 'state'}\n")
    with local_server(tmp_path, "shop", "bank", settings=read_server_settings(tmp_path / "server.yaml")) as server:
        visitor = Visitor(server).sign_in("bank.admin")
        for path in ("/live", "/sessions", "/log", "/reports", "/policies"):
            page = visitor.get(path).text
            assert "tenants: [bank]" in page, path
            assert "RemoteGuard" not in page, path
        assert "Nothing was changed" in visitor.get("/reports/export", 404).text


def test_reports_show_rules_by_day_and_export_the_same_numbers(server: LocalServer, pending: str) -> None:
    agent, visitor = server.client(), Visitor(server).sign_in("shop.auditor")
    agent.session("s2")
    for at in range(3):
        agent.check("s2", f"c{at}", "refund", order="a", amount=1)
    page = visitor.get("/reports?days=7").text
    text = _unfolded(page)
    assert "login_first in the log log in first 3 denied" in text
    assert "small_refunds in the log at most 100 1 escalated" in text
    assert "2 of 4 rules neither denied, escalated nor warned, nor were unknown once : refunded already" in text
    assert re.search(r'aria-label="By day: \d{4}-\d\d-\d\d 3 denied, \d{4}-\d\d-\d\d 1 escalated"', page)
    link = html.unescape(re.findall(r'href="/console(/log[^"]*)" aria-label="Verdicts of login_first', page)[0])
    assert visitor.get(link).text.count('<span class="decision deny">') == 3
    rows = visitor.get("/reports/export?days=7&form=json").json()
    assert [(row["rule"], row["denied"], row["escalated"]) for row in rows] == [
        ("login_first", 3, 0),
        ("small_refunds", 0, 1),
    ]
    exported = visitor.get("/reports/export?days=7")
    assert exported.headers["content-disposition"] == 'attachment; filename="rules.csv"'
    assert exported.text.splitlines()[1] == f"{rows[0]['day']},default,login_first,3,0,0,0,0,0,0"
    visitor.get("/reports?policy=none", 404)
    assert "<option selected>30" in visitor.get("/reports?days=999999").text


def test_sessions_are_filtered_on_every_page(server: LocalServer) -> None:
    for at in range(60):
        server.client("shop.other" if at % 3 else "shop.agent").session(f"s{at:02}")
    server.client().post("/v1/sessions/s00/finish", {})
    visitor = Visitor(server).sign_in("shop.auditor")

    def listed(query: str) -> list[str]:
        page = visitor.get(f"/sessions?{query}").text
        more = re.search(r'href="/console/sessions\?([^"]*)">Earlier ones', page)
        names = re.findall(r'href="/console/sessions/(\w+)"', page)
        return names + (listed(more[1].replace("&amp;", "&")) if more else [])

    assert listed("agent=OTHER") == [f"s{at:02}" for at in reversed(range(60)) if at % 3]
    assert listed("id=s1") == [f"s1{at}" for at in reversed(range(10))]
    assert len(listed("policy=default")) == 60
    assert listed("status=ended") == listed("user=agent-1&id=00") == ["s00"]
    assert listed("status=ended&id=s01") == []


def test_the_log_is_searched_for_any_letters(server: LocalServer) -> None:
    server.client().session("s1")
    server.client().check("s1", "c1", "login", user="Jürgen Ąć")
    visitor = Visitor(server).sign_in("shop.auditor")
    for text, hits in (("jÜRGEN", 1), ("ąĆ", 1), ("LOGIN", 1), ("jurgen", 0)):
        assert visitor.get(f"/log?text={text}").text.count("The whole entry") == hits, text
        assert len(visitor.get(f"/log/export?text={text}").text.splitlines()) == hits


def test_an_unknown_page_and_a_wrong_method(server: LocalServer) -> None:
    visitor = Visitor(server).sign_in("shop.admin")
    visitor.get("/nothing", 404)
    visitor.post("/live", {"csrf": visitor.csrf()}, 405)
    visitor.get("/static/../console.css", 404)
    visitor.get("/sessions?before=-1")


# --- sessions of the console


TOKEN = "ga_0123456789ab_" + "c" * 64


@dataclasses.dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock) -> ConsoleSessions:
    return ConsoleSessions(
        open_state(f"sqlite:{tmp_path / 's.db'}"), ConsoleSettings(idle_seconds=600, longest_seconds=3600), clock
    )


def test_another_server_with_the_same_state_knows_the_session(tmp_path: Path, sessions: ConsoleSessions) -> None:
    begun = sessions.begin(TOKEN)
    other = ConsoleSessions(open_state(f"sqlite:{tmp_path / 's.db'}"), ConsoleSettings(), Clock())
    assert other.find(begun.secret) == begun
    other.end(begun.secret)
    assert sessions.find(begun.secret) is None


def test_the_state_has_neither_the_token_nor_the_secret(tmp_path: Path, sessions: ConsoleSessions) -> None:
    begun = sessions.begin(TOKEN)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert TOKEN.encode() not in stored
    assert begun.secret.encode() not in stored


def test_a_session_ends_without_use_and_in_any_case_after_a_while(sessions: ConsoleSessions, clock: Clock) -> None:
    idle, used = sessions.begin(TOKEN), sessions.begin(TOKEN)
    for _ in range(11):
        clock.now += 300
        assert sessions.find(used.secret) is not None
        sessions.find(idle.secret, is_used=False)  # a page that refreshes itself
    assert sessions.find(idle.secret) is None
    clock.now += 300
    assert sessions.find(used.secret) is None, "the longest time has passed"


@pytest.mark.parametrize("secret", ["", "x", "0" * 64, "0" * 63 + "g"])
def test_another_cookie_signs_nobody_in(sessions: ConsoleSessions, secret: str) -> None:
    sessions.begin(TOKEN)
    assert sessions.find(secret) is None


def test_a_form_of_another_session_is_refused(sessions: ConsoleSessions) -> None:
    begin, other = sessions.begin(TOKEN), sessions.begin(TOKEN)
    begin.require_form(begin.csrf)
    for value in (other.csrf, "", "ü"):
        with pytest.raises(InputError, match="does not come from this session"):
            begin.require_form(value)
