"""The page of a review, with forms for answers, for the browsers of this machine.

The address has a secret path. Requests with another path or host are refused, so that no other page can answer.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from guardagent.errors import InputError
from guardagent.translation.review.dossier import QuestionEntry, ReviewEntry, ReviewStore, read_dossier
from guardagent.translation.review.page import review_page

_MAX_BODY = 100_000  # bytes
_SECURITY = {"Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff"}


class ReviewServer(ThreadingHTTPServer):
    """Serves a review on the loopback until it is shut down.

    Attributes:
        address: the address of the page.
    """

    daemon_threads = True

    def __init__(self, store: ReviewStore, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.store, self.secret = store, f"/{secrets.token_urlsafe(24)}"
        self.address = f"http://127.0.0.1:{self.server_port}{self.secret}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a client that goes away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        if self._is_ours():
            self._page(HTTPStatus.OK)

    def do_POST(self) -> None:
        if not self._is_ours():
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MAX_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), max_num_fields=10)
        try:
            self._answer({name: values[-1] for name, values in form.items()})
        except InputError as error:
            self._page(HTTPStatus.CONFLICT, f"Your answer was not taken: {error}")
            return
        self._send(HTTPStatus.SEE_OTHER, "", Location=self.server.secret)

    def _answer(self, form: dict[str, str]) -> None:
        words, position = " ".join(form.get("words", "").split()), form.get("choice", "")
        for entry in read_dossier(self.server.store.policies).entries:
            for shown in entry.questions:
                if form.get("shown") == digest_of(entry, shown):
                    choices = range(len(shown.question.choices))
                    choice = next((choice for choice in choices if position == str(choice)), None)
                    if not words and choice is None:
                        raise InputError("choose an answer, or write one")
                    self.server.store.answer(entry, shown.question, words or choice or 0)
                    return
        raise InputError("the policy or its review has changed since the page was shown")

    def _page(self, status: HTTPStatus, problem: str = "") -> None:
        try:
            self._send(status, review_page(read_dossier(self.server.store.policies), digest_of, problem))
        except InputError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, str(error), "text/plain; charset=utf-8")

    def _is_ours(self) -> bool:
        ours = secrets.compare_digest(self.path.encode(), self.server.secret.encode())
        if not ours or self.headers.get("Host") != f"127.0.0.1:{self.server.server_port}":
            self._refuse(HTTPStatus.NOT_FOUND)
            return False
        return True

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._send(status, f"{status.phrase}\n", "text/plain", Connection="close")

    def _send(self, status: HTTPStatus, text: str, kind: str = "text/html; charset=utf-8", **headers: str) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **_SECURITY, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Logs nothing: the path is a secret."""


def digest_of(entry: ReviewEntry, shown: QuestionEntry) -> str:
    """Identifies what an answer is about: the entry's rules, a question with its choices, and the answer so far."""
    question, answer = shown.question, shown.answer
    content = (entry.fate, sorted(entry.rule_hashes.items()), question.id, question.text, question.choices, answer)
    return hashlib.sha256(repr(content).encode()).hexdigest()
