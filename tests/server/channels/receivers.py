"""Receivers of messages over real sockets: Slack's API, a mail server, and a server of the guard with both."""

from __future__ import annotations

import contextlib
import email
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from aiosmtpd.controller import Controller
from slack_sdk.signature import SignatureVerifier

from guardagent.server.approvals import ApprovalDesk
from guardagent.server.channels import ChannelDelivery, Outbox
from tests.server.servers import LocalServer

SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"  # noqa: S105 - an example of Slack's documentation
PEOPLE = {"U1": "approver-1", "U2": "bob", "U3": "agent-1"}
MAIL = {"ann@example.com": "approver-1", "bob@example.com": "bob", "self@example.com": "agent-1"}


@dataclass
class SlackApi:
    """Answers calls of Slack's API, and remembers them.

    Attributes:
        calls: the methods and what they got.
        answers: the next answers; when there are none, the call is accepted.
    """

    url: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    answers: list[tuple[int, Any]] = field(default_factory=list)

    def of(self, method: str) -> list[Any]:
        return [content for name, content in self.calls if name == method]

    def card(self) -> Any:
        """The card as a channel shows it now."""
        return [content for name, content in self.calls if name in ("chat.postMessage", "chat.update")][-1]


@contextlib.contextmanager
def http_server(handle: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, bytes]]) -> Iterator[str]:
    """Serves POST requests; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, content = handle(self, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", content.decode())
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def slack_api() -> Iterator[SlackApi]:
    api = SlackApi()

    def handle(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        if request.headers["authorization"] != "Bearer xoxb-1" or not request.path.startswith("/api/chat."):
            api.calls.append(("stray", request.path))
        content, method = json.loads(body), request.path.rpartition("/")[2]
        if api.answers:
            status, answer = api.answers.pop(0)
            return status, answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        api.calls.append((method, content))
        place = {"channel": "C1", "ts": f"17.{len(api.calls)}"} if method == "chat.postMessage" else {}
        return 200, json.dumps({"ok": True, **place}).encode()

    with http_server(handle) as url:
        api.url = f"{url}api/"
        yield api


def press(
    server: LocalServer, card: Any, choice: str, user: str = "U1", reason: str = "", **more: Any
) -> httpx.Response:
    """Presses a button of a card, as Slack sends it."""
    [actions] = [block for block in card["blocks"] if block["type"] == "actions"]
    [button] = [element for element in actions["elements"] if element["action_id"] == choice]
    return interact(server, {"action_id": choice, "value": button["value"]}, user, reason, **more)


def interact(
    server: LocalServer, action: Any, user: str = "U1", reason: str = "", *, age: float = 0, **more: Any
) -> httpx.Response:
    payload = {
        "type": "block_actions",
        "user": {"id": user, "team_id": more.get("team", "T1")},
        "container": {"type": "message", "message_ts": "17.1", "channel_id": "C1"},
        "state": {"values": {"reason": {"reason": {"type": "plain_text_input", "value": reason or None}}}},
        "actions": [action],
    }
    body = urlencode({"payload": json.dumps({**payload, **more.get("payload", {})})})
    return send(server, body, age=age, secret=more.get("secret", SIGNING_SECRET))


def send(server: LocalServer, body: str, *, age: float = 0, secret: str = SIGNING_SECRET) -> httpx.Response:
    now = str(int(time.time() - age))
    signature = SignatureVerifier(secret).generate_signature(timestamp=now, body=body)
    headers = {"x-slack-request-timestamp": now, "x-slack-signature": str(signature)}
    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer: httpx.Response = server.client().client.post(
        "/v1/slack/interactions", content=body, headers={**headers, **kind}
    )
    return answer


@dataclass
class MailServer:
    """Receives e-mails, and refuses as many as `refusals`."""

    url: str = ""
    refusals: int = 0
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - of aiosmtpd
        if self.refusals:
            self.refusals -= 1
            return "451 later"
        mail = email.message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((envelope.rcpt_tos, mail))
        return "250 accepted"

    def to(self, address: str) -> list[EmailMessage]:
        return [mail for to, mail in self.mails if to == [address]]


@contextlib.contextmanager
def mail_server() -> Iterator[MailServer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = MailServer(f"smtp://127.0.0.1:{port}")
    controller = Controller(server, hostname="127.0.0.1", port=port)
    controller.start()
    yield server
    controller.stop()


def links(mail: EmailMessage) -> list[str]:
    """The links of an e-mail to answers, approve first."""
    body = mail.get_body(("plain",))
    assert body is not None
    return re.findall(r"https://guard\.example(/console/answer\?token=\S+)", body.get_content())


def settings_text(folder: Path, slack: SlackApi | None = None, mail: MailServer | None = None) -> str:
    """The part of a settings file for the receivers; writes the files of its secrets."""
    (folder / "answers").write_text("a" * 32 + "\n" + "b" * 40)
    (folder / "bot").write_text("xoxb-1\n")
    (folder / "signing").write_text(SIGNING_SECRET)
    text = "answers: {secret_file: answers}\nconsole: {address: 'https://guard.example/'}\n"
    if slack is not None:
        users = json.dumps(PEOPLE)
        text += f"slack: {{token_file: bot, signing_secret_file: signing, channel: C1, users: {users}, team: T1, "
        text += f"tenants: [shop], api: '{slack.url}'}}\n"
    if mail is not None:
        text += f"email: {{smtp: '{mail.url}', from: Guard <guard@example.com>, to: {json.dumps(MAIL)}, "
        text += "tenants: [shop]}\n"
    return text


def channels_at(server: LocalServer, seconds: float = 0) -> tuple[Outbox, ChannelDelivery]:
    """The outbox of another server, whose clock is ahead."""
    state, channels = server.service.stores.state, server.service.channels.channels

    def clock() -> float:
        return time.time() + seconds

    outbox = Outbox(state, channels, clock)
    return outbox, ChannelDelivery(outbox, ApprovalDesk(state, clock=clock), channels, server.service.log.entry, clock)


def send_all(server: LocalServer, seconds: float = 0) -> None:
    """Sends what is due at a time from now."""
    outbox, delivery = channels_at(server, seconds)
    for channel in server.service.channels.channels:
        for message in outbox.claim(channel):
            delivery.send(channel, message)
