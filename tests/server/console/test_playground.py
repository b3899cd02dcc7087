"""The playground without a browser: verdicts without effect, links, cases, and what a pasted policy may not do."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import multiprocessing
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import guardagent
from guardagent import load_policies
from guardagent.batch.cases import judge_case, read_candidate, read_expectation
from guardagent.batch.records import read_arguments
from guardagent.errors import InputError
from tests.server.console.test_application import HOSTILE, Visitor
from tests.server.servers import POLICIES, LocalServer, local_server

BIG = {"tool": "refund", "args": "order='W1', amount=900"}
LOGIN = {"tool_0": "login", "args_0": '{"user": "ann"}', "output_0": "welcome", "status_0": "ok"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with local_server(tmp_path, "shop", "bank") as running_server:
        yield running_server


class Player(Visitor):
    """Somebody at the playground."""

    def play(self, action: str = "judge", expected: Any = 200, **fields: str) -> Any:
        """Sends the form. Returns the page to which the answer leads, or a file."""
        answer = self._client.post("/console/playground", data={"csrf": self.csrf(), "action": action, **fields})
        if answer.status_code == 303:
            answer = self._client.get(answer.headers["location"])
        assert answer.status_code == expected, answer.text
        return answer


@pytest.fixture
def player(server: LocalServer) -> Player:
    player = Player(server)
    player.sign_in("shop.approver")
    return player


def text_of(page: Any) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


def values_of(page: Any) -> dict[str, str]:
    """Returns the text fields of the page's form, as a browser would send them."""
    fields = re.findall(r'<input name="(\w+)" value="([^"]*)"', page.text)
    return {name: html.unescape(value) for name, value in fields if value}


def test_each_rule_that_looked_says_what_it_saw_and_what_would_comply(player: Player) -> None:
    page = player.play(**BIG)
    shown = text_of(page)
    assert "escalate log in first at most 100" in shown
    assert "login_first violated the steps log in first to comply: call 'login' first" in shown
    assert "small_refunds violated amount = 900 at most 100 needed: amount (900) <= 100" in shown
    assert 'once satisfied order = "W1"' in shown
    assert "If it runs, these are due before the conversation ends: receipt : call 'receipt'" in shown
    assert "What is not known: small_refunds: argument 'amount' is missing" in text_of(player.play(tool="refund"))


def test_a_rule_of_a_pack_saw_all_arguments_and_tools_are_offered(player: Player) -> None:
    pasted = "version: 1\ninclude: [{pack: guardagent:filesystem}]\n"
    shown = text_of(player.play(text=pasted, tool="view_file", args="path='/etc/shadow'"))
    assert 'filesystem.secrets violated path = "/etc/shadow" This concerns a file with credentials.' in shown
    tools = re.findall(r"<option>(\w+)</option>", player.get("/playground").text.partition("</datalist>")[0])
    assert tools == ["login", "receipt", "refund"]


def test_a_conversation_is_built_by_clicks(player: Player) -> None:
    page = player.play("record", tool="login", args="user='ann'", output="welcome", status="ok")
    page = player.play("judge", **{**values_of(page), "tool": "refund", "args": "order=1, amount=5"})
    assert "login_first satisfied" in text_of(page)
    assert "Then these are due" in text_of(page)
    page = player.play("remove:0", **values_of(page))
    assert "login_first violated" in text_of(page)


def test_a_judged_call_has_no_effect(server: LocalServer, player: Player) -> None:
    player.play(**BIG)
    player.play(**BIG, text=POLICIES)
    service = server.service
    assert [entry for entry in service.log.entries("shop", None, 10) if entry["kind"] != "policy"] == []
    assert service.approvals.waiting("shop") == []
    assert service.list_sessions("shop", None, 10)["sessions"] == []


def test_a_link_holds_all_of_it_and_only_what_fits(player: Player) -> None:
    link = re.search(r'href="/console(/playground\?s=[^"]+)"', player.play(**BIG, **LOGIN).text)
    assert link
    page = player.get(html.unescape(link[1]))
    assert "login_first satisfied" in text_of(page)
    assert values_of(page).items() >= {**BIG, "args_0": LOGIN["args_0"], "output_0": "welcome"}.items()
    noise = "".join(f"# {hashlib.sha256(bytes([at])).hexdigest()}\n" for at in range(250))
    long = player.play(**BIG, text=POLICIES + noise)
    assert "too long for a link" in text_of(long)
    assert "small_refunds violated" in text_of(long)


@pytest.mark.parametrize("text", ["", POLICIES.replace("<= 100", "<= 1000")])
@pytest.mark.parametrize("args", ["order='W1', amount=900", "order='W1'", '{"order": "W1", "amount": 5}'])
def test_a_saved_case_gives_the_same_verdict(player: Player, args: str, text: str) -> None:
    saved = player.play("save", tool="refund", args=args, text=text, **LOGIN)
    assert saved.headers["content-disposition"].startswith("attachment")
    case = read_expectation(saved.text, "case", 1)
    verdict = judge_case(load_policies(text=text or POLICIES), case)
    assert (case.label, case.rules) == (verdict.label, verdict.rules)
    assert case.label == (0 if "5" in args or (text and "900" in args) else 1)


@pytest.mark.parametrize("output", ["done", 7, "7", "a\nb", " x ", "\u202e", "", None, {"a": [1.5]}, "{", True])
def test_a_call_of_a_session_is_tried_with_what_came_before(server: LocalServer, player: Player, output: Any) -> None:
    client = server.client()
    client.session()
    client.check("s1", "c1", "login", user=HOSTILE)
    client.record("s1", "c1", output)
    body = {"call": {"id": "c2", "tool": "refund", "args": {"order": HOSTILE, "amount": 900}, "facts": {"vip": True}}}
    approval = client.post("/v1/sessions/s1/check", body, idempotency_key="k")["approval"]["id"]
    for address in (f"/playground?approval={approval}", "/playground?session=s1&seq=3"):
        page = player.get(address)
        assert "login_first satisfied" in text_of(page)
        assert "alert(1)</script>" not in page.text
        fields = values_of(page)
        case = json.loads(player.play("save", **fields).text)
        assert case["proposed"]["args"] == {"order": HOSTILE, "amount": 900}
        assert case["facts"] == {"vip": True}
        assert (case["history"][0]["args"], case["history"][0]["output"]) == ({"user": HOSTILE}, output)
    assert f'href="/console/playground?approval={approval}"' in player.get(f"/approvals/{approval}").text
    assert "/playground?session=s1&amp;seq=3" in player.get("/sessions/s1").text
    player.get("/playground?session=s1&seq=99", 404)
    other = Player(server)
    other.sign_in("bank.approver")
    other.get(f"/playground?approval={approval}", 404)
    other.get("/playground?session=s1&seq=3", 404)


def link_of(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlencode({"s": base64.urlsafe_b64encode(zlib.compress(data)).decode()})


@pytest.mark.parametrize(
    "query",
    ["s=x", "s=%00", "s=" + "A" * 9000, link_of(b"0" * 10**7), link_of([]), link_of({"tool": 1}), link_of(b'{"a":'),
     link_of({"tool": "t", "args": "\ud800"}),
     link_of({"tool": "t", "args": "[" * 5000}), link_of({"tool": "t", "args": '{"a":' * 5000}),
     link_of({"tool": "t", "args": "{}", "now": "never"}), link_of({"tool": "t", "policy": "other"}),
     link_of({"tool": "t", "state": "[]"}), link_of({"tool": "t", "args": "a=b'x'"}), "session=s1&seq=x",
     link_of({"tool": "t", "args": "a=1e999"}),
     link_of({f"tool_{at}": "t" for at in range(300)}), link_of({"tool": "t", "text": "version: 1"}),
     link_of({"tool": "t", "principal": '{"id": 5}'}), link_of({"args_0": "a=1", "tool": "t"}), "approval=x"],
)  # fmt: skip
def test_no_link_makes_the_server_fail(player: Player, query: str) -> None:
    answer = player._client.get(f"/console/playground?{query}")
    assert answer.status_code in (404, 422), answer.text
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize(
    "key",
    ["include: {path}", "toolbox: {path}", "shadow: {path}", "include: [{{file: {path}}}]", "include: ../secret.yaml",
     "toolbox: [{package}/__main__.py]", "policies: [{{id: a, request: b, program: {path}}}]", 'toolbox: "\\0.py"'],
)  # fmt: skip
def test_a_pasted_policy_reads_no_file(tmp_path: Path, key: str) -> None:
    """Nor does an error say whether it exists, or what it has in it."""
    secret = tmp_path / f"secret.{'py' if 'toolbox' in key or 'program' in key else 'yaml'}"
    secret.write_text("password=hunter2\nopen('ran', 'w')\n")
    live = tmp_path / "policies" / "live.yaml"
    live.parent.mkdir()
    live.write_text(POLICIES)
    rest = "" if key.startswith("policies") else "\n" + POLICIES.partition("Error\n")[2]
    text = f"version: 1\n{key.format(path=secret, package=Path(guardagent.__file__).parent)}{rest}"
    with pytest.raises(InputError, match=r"which the live policy does not|is outside") as caught:
        read_candidate([live], text)
    assert "hunter2" not in str(caught.value)
    assert not Path("ran").exists()


@pytest.mark.slow
def test_a_pasted_policy_that_takes_long_is_ended(player: Player) -> None:
    shapes = [[f"F(tool:a{part}{' || tool:c' * (at >> part & 1)})" for part in range(8)] for at in range(30)]
    rules = "".join(
        f"- {{id: r{at}, temporal: '{' && '.join(parts)} && F(tool:b)'}}\n" for at, parts in enumerate(shapes)
    )
    page = player.play(expected=422, **BIG, text=f"version: 1\npolicies:\n{rules}")
    assert "takes more than 10 s" in text_of(page)
    assert multiprocessing.active_children() == []
    assert "escalate" in text_of(player.play(**BIG, text=POLICIES)), "the next one has its turn"


def test_long_arguments_have_to_be_json(player: Player) -> None:
    assert "expected a JSON object" in text_of(player.play("judge", 422, tool="refund", args="x=[" + "1," * 9000 + "]"))
    player.play(tool="refund", args='{"x": [' + "1," * 9000 + "1]}")


def test_arguments_are_read_in_linear_time() -> None:
    begun = time.process_time()
    for args in ("x=[" + "1," * 5000 + ")->" * 5000, "x=1)(y=2", "x=1) -> f("):
        with pytest.raises(InputError):
            read_arguments(args)
    assert time.process_time() - begun < 2


def test_a_request_without_a_program_is_not_known(player: Player) -> None:
    page = player.play(**BIG, text="version: 1\npolicies: [{id: a, request: nothing bad}]\n")
    assert "deny" in text_of(page)
    assert "a undecided" in text_of(page)
