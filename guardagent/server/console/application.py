"""Serves the console: its pages, the sign-in, and headers that let a browser run only the console's own files.

Every server with the same state knows who is signed in. A cookie has a random secret. The state has the secret's hash,
and the token of the person, encrypted with a key that comes from the secret: who reads the state can neither sign in
nor use the token.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router

from guardagent._support import http
from guardagent._support.http import RefusedError, RequestLimits, is_loopback
from guardagent._version import __version__
from guardagent.errors import GuardError, InputError, UnauthenticatedError
from guardagent.server.access import EVERY_TENANT, AccessControl, AccessedOperation, Caller, authorize
from guardagent.server.channels.email import answer_page
from guardagent.server.console import (
    PREFIX,
    Answer,
    ConsolePage,
    ConsoleRequest,
    DownloadedFile,
    GoTo,
    Picture,
    navigation,
    options,
    render,
)
from guardagent.server.console.pages import PAGES, choose_tenant
from guardagent.server.console.sign_in import ATTEMPT_SECONDS, ProviderSignIn
from guardagent.server.http import NEWCOMER_SECONDS, NEWCOMERS, Slots, error_answer
from guardagent.server.service.guard_service import GuardService
from guardagent.server.settings import DEFAULT_POLICY, ConsoleSettings
from guardagent.server.state import StateStore, StoredItem

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

MAX_FORM = 1024 * 1024
_STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # the header Origin of forms needs more than 'no-referrer'
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_PICTURE = {**_HEADERS, "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
_ATTEMPT = "-sign-in"  # of the name of a cookie
_SAMESITE: Mapping[str, Literal["lax", "strict"]] = {"": "strict", _ATTEMPT: "lax"}
_STORED = ("console", "")  # the kind and the tenant of sessions in the state
_SECRET = re.compile(r"[0-9a-f]{64}")
_MARK = secrets.token_hex(32).encode()  # nobody can put it into a text
_SHARE, _LONGEST, _MAX_PARTS = 300, 5.0, 100  # how long a part lasts: times as long as it took, in seconds; how many
_TOUCH = 60.0  # seconds after which a use is written down
_SWEEP = 200  # sessions that each sign-in looks through for expired ones


class ConsoleApplication:
    """The console as an ASGI application.

    Args:
        service: has everything that it shows.
        access: finds out the callers.
        sessions: who is signed in.
        limits: the limits on clients.
    """

    def __init__(
        self, service: GuardService, access: AccessControl, sessions: ConsoleSessions, limits: RequestLimits
    ) -> None:
        self._service, self._access, self._sessions, self._limits = service, access, sessions, limits
        self._busy = asyncio.Semaphore(limits.requests)
        self._newcomers = Slots("people sign in", NEWCOMERS)
        self._parts, self._part_thread = dict[Any, tuple[float, bytes]](), ThreadPoolExecutor(1, "console")
        client = access.oidc and access.oidc.settings.sign_in
        self._provider = ProviderSignIn(access.oidc, client) if access.oidc and client else None
        self._router = Router(
            [
                Route(PREFIX, self._home),
                Route(f"{PREFIX}/static/{{name}}", _static),
                Route(f"{PREFIX}/sign-in", self._sign_in_page, methods=["GET"]),
                Route(f"{PREFIX}/sign-in", self._sign_in, methods=["POST"]),
                Route(f"{PREFIX}/sign-in/provider", self._sign_in_at_provider),
                Route(f"{PREFIX}/sign-out", self._sign_out, methods=["POST"]),
                Route(f"{PREFIX}/answer", self._answer, methods=["GET", "POST"]),
                *(Route(PREFIX + page.path, self._endpoint(page), methods=[page.method]) for page in PAGES),
            ],
            redirect_slashes=False,
            default=self._missing,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one HTTP request."""
        if scope["path"].startswith((f"{PREFIX}/sign-in", f"{PREFIX}/answer")):  # everybody may send a form here
            await self._router(scope, receive, send)
            return
        async with self._busy:
            await self._router(scope, receive, send)

    # --- signing in and out

    async def _home(self, _request: Request) -> Response:
        return RedirectResponse(f"{PREFIX}/live", 303, _HEADERS)

    async def _sign_in_page(self, request: Request) -> Response:
        lost = "lost" in request.query_params
        problem = "Your session had ended, so what you sent was not taken. Sign in and send it again." if lost else ""
        return self._sign_in_form(_next(request.query_params.get("next", "")), problem)

    def _sign_in_form(self, target: str, problem: str | Exception, status: int = 200) -> Response:
        if isinstance(problem, Exception):
            status, body, _ = error_answer(problem, has_verdict=False)
            problem = body["error"]["message"]
        provider = self._provider.name if self._provider else ""
        return _html("sign_in.html", {"next": target, "problem": problem, "provider": provider}, status)

    async def _sign_in(self, request: Request) -> Response:
        target = ""
        try:
            with self._newcomers.taken():
                form = await self._form(request, min(NEWCOMER_SECONDS, self._limits.receive_seconds))
            target = _next(form.get("next", ""))
            token = form.get("token", "").strip()
            await run_in_threadpool(self._access.authenticate, [f"Bearer {token}"])
            session = await run_in_threadpool(self._sessions.begin, token)
        except (GuardError, RefusedError) as error:
            return self._sign_in_form(target, error)
        response = RedirectResponse(target or f"{PREFIX}/live", 303, _HEADERS)
        _set_cookie(response, request, session.secret)
        return response

    async def _sign_in_at_provider(self, request: Request) -> Response:
        """Begins an attempt, or ends it with the answer that the provider sends the browser back with."""
        query, attempt = request.query_params, _cookie(request, _ATTEMPT)
        target, back = _next(query.get("next", "")), f"{self._address(request)}{PREFIX}/sign-in/provider"
        if self._provider is None:
            return self._sign_in_form(target, "this server knows no provider to sign in with; use a token", 404)
        if not (self._service.settings.console.address or is_loopback(request.url.hostname or "")):
            return self._sign_in_form(target, "the operator has to set 'address' of 'console' for this", 503)
        try:
            with self._newcomers.taken():
                if query.keys() <= {"next"}:
                    url, attempt = await self._provider.begin(target, back)
                    response: Response = RedirectResponse(url, 303, _HEADERS)
                else:
                    id_token, target = await self._provider.finish(query, attempt, back)
                    session = await run_in_threadpool(self._sessions.begin, id_token, attempt)
                    # A page, not a redirect: a browser sends a strict cookie only where a page of this site leads it.
                    response = _onward("You are signed in", _next(target) or f"{PREFIX}/live")
                    _set_cookie(response, request, session.secret)
                    attempt = ""
        except (GuardError, RefusedError) as error:
            return self._sign_in_form(target, error)
        _set_cookie(response, request, attempt, _ATTEMPT)
        return response

    def _address(self, request: Request) -> str:
        """Returns the server's address as browsers name it."""
        scheme = request.url.scheme if is_loopback(request.url.hostname or "") else "https"  # of a proxy, if not here
        return self._service.settings.console.address or f"{scheme}://{request.url.netloc}"

    async def _sign_out(self, request: Request) -> Response:
        session = await run_in_threadpool(self._sessions.find, _cookie(request))
        if session is not None:
            session.require_form((await self._form(request)).get("csrf", ""))
            await run_in_threadpool(self._sessions.end, session.secret)
        response: Response = RedirectResponse(f"{PREFIX}/sign-in", 303, _HEADERS)
        if session is not None and session.is_id_token and self._provider is not None:
            target = self._provider.sign_out_address(session.token, f"{self._address(request)}{PREFIX}/sign-in")
            response = _onward("You are signed out", target) if target else response
        _set_cookie(response, request, "")
        return response

    async def _answer(self, request: Request) -> Response:
        """Answers people who have a link, and need not be signed in."""
        try:
            with self._newcomers.taken():
                token, form = request.query_params.get("token", ""), None
                if request.method == "POST":
                    form = await self._form(request, min(NEWCOMER_SECONDS, self._limits.receive_seconds))
                    token = form.get("token", "")
                page = await run_in_threadpool(answer_page, self._service, token, form)
            return _html(page.template, page.values, page.status)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            return _problem(error, request.method, AccessedOperation.ANSWER_APPROVALS, None)

    # --- pages

    async def _missing(self, scope: Any, receive: Any, send: Any) -> None:
        values = {"status": 404, "message": "There is no such page.", "effect": "", "who": None}
        response = _html("problem.html", values, 404)
        await response(scope, receive, send)

    def _endpoint(self, page: ConsolePage) -> Any:
        async def answer(request: Request) -> Response:
            who: dict[str, Any] | None = None
            try:
                session, caller = await run_in_threadpool(self._signed_in, request)
                who = self._who(page, caller, session, request)
                if not who["navigation"]:
                    policy = next(iter(self._service.policies.names(caller.tenant)), DEFAULT_POLICY)
                    return _html("no_pages.html", {**who, "address": self._address(request), "policy": policy}, 403)
                return await self._run(page, request, caller, session, who)
            except UnauthenticatedError:
                return _to_sign_in(request, page)
            except Exception as error:  # noqa: BLE001 - every error is an answer
                return _problem(error, page.method, page.operation, who)

        return answer

    def _signed_in(self, request: Request) -> tuple[ConsoleSession, Caller]:
        """Returns the session of a request, and who that is.

        Raises:
            UnauthenticatedError: there is none, or its token is no longer valid.
        """
        is_refresh = request.headers.get("x-refresh") == "1"
        session = self._sessions.find(_cookie(request), is_used=not is_refresh)
        if session is None:
            raise UnauthenticatedError("the session has ended; sign in again")
        return session, self._caller(session)

    def _caller(self, session: ConsoleSession) -> Caller:
        if session.is_id_token and self._access.oidc is not None:
            return self._access.oidc.signed_in(session.token)
        return self._access.authenticate([f"Bearer {session.token}"])

    async def _run(
        self, page: ConsolePage, request: Request, caller: Caller, session: ConsoleSession, who: Mapping[str, Any]
    ) -> Response:
        query, form = dict(request.query_params), {}
        if page.method == "POST":
            form = await self._form(request)
            session.require_form(form.get("csrf", ""))
        authorize(caller, page.operation, caller.tenant)
        if page.method == "GET" and not page.is_part and who["chooses_tenant"] and not who["tenant"]:
            return await run_in_threadpool(lambda: _response(choose_tenant(self._service), who))
        console_request = ConsoleRequest(caller, request.path_params, query, form, self._address(request))
        if page.is_part:
            work = partial(self._part, page, console_request, who)
            text = await asyncio.get_running_loop().run_in_executor(self._part_thread, work)
            return Response(text.replace(_MARK, session.csrf.encode()), headers=_HEADERS, media_type="text/html")
        try:
            return await run_in_threadpool(lambda: _response(page.handle(self._service, console_request), who))
        finally:
            if page.method == "POST":
                self._parts = {}  # a part that is being made may show what was so before

    def _part(self, page: ConsolePage, request: ConsoleRequest, who: Mapping[str, Any]) -> bytes:
        """Returns a part of a page, with a mark where its forms have the value of the session.

        All parts are made in a single thread, so that checks have the others. Callers who see the same thing get the
        same text for 300 times as long as it took to make, and for five seconds at most.
        """
        caller = [getattr(request.caller, name) for name in request.caller.__slots__ if name != "id"]
        key = (page.path, request.address, *caller, *request.query.items())
        parts = self._parts
        due, text = parts.pop(key, (0.0, b""))
        if time.monotonic() >= due:
            begun = time.monotonic()
            text = bytes(_response(page.handle(self._service, request), {**who, "csrf": _MARK.decode()}).body)
            due = time.monotonic() + min(_LONGEST, _SHARE * (time.monotonic() - begun))
        parts[key] = due, text
        while len(parts) > _MAX_PARTS:
            parts.pop(next(iter(parts)))
        return text

    async def _form(self, request: Request, seconds: float | None = None) -> dict[str, str]:
        """Returns the fields of a form.

        Raises:
            RefusedError: it comes from another site, or is not a form.
        """
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise RefusedError(403, "the form comes from another site")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise RefusedError(415, "the body has another type; expected a form")
        seconds = seconds or self._limits.receive_seconds
        text = await http.body_of(request.receive, min(MAX_FORM, self._limits.body), seconds)
        try:
            return dict(parse_qsl(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=1500))
        except ValueError:
            raise RefusedError(400, "the form cannot be read") from None

    def _who(self, page: ConsolePage, caller: Caller, session: ConsoleSession, request: Request) -> dict[str, Any]:
        tenant = request.query_params.get("tenant", "") if caller.tenant == EVERY_TENANT else caller.tenant
        return {
            "page": page,
            "caller": caller,
            "roles": {str(role) for role in caller.roles},
            "tenant": tenant,
            "chooses_tenant": caller.tenant == EVERY_TENANT,
            "tail": options({"tenant": tenant}) if caller.tenant == EVERY_TENANT else "",
            "csrf": session.csrf,
            "navigation": navigation(PAGES, caller),
        }


def _response(answer: Answer, common: Mapping[str, Any]) -> Response:
    if isinstance(answer, GoTo):
        tenant = common["tenant"] if common["chooses_tenant"] else ""
        return RedirectResponse(f"{PREFIX}{answer.path}{options({'tenant': tenant, **answer.query})}", 303, _HEADERS)
    if isinstance(answer, Picture):
        return Response(answer.svg, headers=_PICTURE, media_type="image/svg+xml")
    if isinstance(answer, DownloadedFile):
        headers = {**_HEADERS, "content-disposition": f'attachment; filename="{answer.name}"'}
        return Response(answer.text, headers=headers, media_type=answer.kind)
    return _html(answer.template, {**common, "who": common, **answer.values}, answer.status)


def _onward(title: str, target: str) -> Response:
    return _html("onward.html", {"title": title, "target": target})


def _html(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    text = render(template, {"prefix": PREFIX, "version": __version__, **values})
    return Response(text, status, _HEADERS, media_type="text/html")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return Response("", 404, _HEADERS)
    content = files("guardagent.server.console").joinpath("static", name).read_bytes()
    return Response(content, headers={**_HEADERS, "cache-control": "max-age=300"}, media_type=_STATIC[name])


def _problem(error: Exception, method: str, operation: AccessedOperation, who: Mapping[str, Any] | None) -> Response:
    """Returns the page of an error, which also says what it left done and not done."""
    status, body, _ = error_answer(error, has_verdict=False)
    sent = "Your answer" if operation is AccessedOperation.ANSWER_APPROVALS else "What you sent"
    if method == "GET":
        effect = "Nothing was changed: this page only shows." + (" Load it again in a moment." if status >= 500 else "")
    elif status < 500:
        effect = f"{sent} was not taken; nothing has changed."
    else:
        effect = f"{sent} may or may not have been taken: look before you send it again."
    values = {"status": status, "message": body["error"]["message"], "effect": effect, "who": who, **(who or {})}
    return _html("problem.html", values, status)


def _to_sign_in(request: Request, page: ConsolePage) -> Response:
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    lost = "1" if page.method == "POST" else ""
    return RedirectResponse(f"{PREFIX}/sign-in{options({'next': _next(here), 'lost': lost})}", 303, _HEADERS)


def _next(target: str) -> str:
    """Returns the address of a page of the console; empty for any other address."""
    is_page = target.startswith(f"{PREFIX}/") and "//" not in target and "\\" not in target and target.isprintable()
    return target if is_page and not target.startswith(f"{PREFIX}/sign-") else ""


def _cookie_name(request: Request) -> str:
    return "guardagent" if is_loopback(request.url.hostname or "") else "__Host-guardagent"


def _cookie(request: Request, suffix: str = "") -> str:
    return request.cookies.get(_cookie_name(request) + suffix, "")


def _set_cookie(response: Response, request: Request, secret: str, suffix: str = "") -> None:
    """Sets the cookie. Only on this machine itself may it travel without TLS.

    That of an attempt to sign in comes back from the provider's site, and lasts as long as the attempt.
    """
    name, samesite, seconds = _cookie_name(request) + suffix, _SAMESITE[suffix], ATTEMPT_SECONDS if suffix else None
    is_safe = name.startswith("__Host-")
    if secret:
        response.set_cookie(name, secret, seconds, path="/", secure=is_safe, httponly=True, samesite=samesite)
    else:
        response.delete_cookie(name, path="/", secure=is_safe, httponly=True, samesite=samesite)


# --- who is signed in


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A person who is signed in.

    Attributes:
        secret: the content of the cookie.
        token: the token with which the person signed in; it is verified on each request.
        is_id_token: whether it is an ID token of the provider for the console, and not a bearer token.
    """

    secret: str
    token: str
    is_id_token: bool = False

    @property
    def csrf(self) -> str:
        """The value that a form has to send back: another site cannot know it."""
        return hmac.new(self.secret.encode(), b"form", hashlib.sha256).hexdigest()

    def require_form(self, value: str) -> None:
        """Requires that a form comes from a page of this session.

        Raises:
            InputError: it does not.
        """
        if not hmac.compare_digest(value.encode(), self.csrf.encode()):
            raise InputError("the form does not come from this session; open the page again, and send it from there")


class ConsoleSessions:
    """The sessions of the console.

    Args:
        state: stores them.
        settings: how long they last.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, settings: ConsoleSettings, clock: Callable[[], float] = time.time) -> None:
        self._state, self._settings, self._clock = state, settings, clock

    def begin(self, token: str, attempt: str = "") -> ConsoleSession:
        """Begins a session of a person whose token was verified.

        Args:
            token: the token.
            attempt: the cookie of the attempt to sign in at the provider; empty for a bearer token.

        Raises:
            RefusedError: the attempt has led to a session before.
        """
        self._sweep()
        secret, now = secrets.token_hex(32), self._clock()
        mark = dict.fromkeys(("begun", "used"), now + ATTEMPT_SECONDS)
        if attempt and not self._state.add(*_STORED, f"used {_stored_name(attempt)}", mark):
            raise RefusedError(401, "this sign-in has been used")
        sealed = _cipher(secret).encrypt(token.encode()).decode()
        value = {"token": sealed, "begun": now, "used": now, "id_token": bool(attempt)}
        self._state.add(*_STORED, _stored_name(secret), value)
        return ConsoleSession(secret, token, bool(attempt))

    def find(self, secret: str, *, is_used: bool = True) -> ConsoleSession | None:
        """Returns the session of a cookie; None if there is none or it has expired.

        Args:
            secret: the content of the cookie.
            is_used: whether a person uses it, so that it lasts; a page that refreshes itself does not count.
        """
        if not _SECRET.fullmatch(secret):
            return None
        item = self._state.get(*_STORED, _stored_name(secret))
        if item is None or self._has_expired(item):
            return None
        if is_used and self._clock() - item.value["used"] > _TOUCH:
            self._state.replace(*_STORED, item.name, item.version, {**item.value, "used": self._clock()})
        token = _cipher(secret).decrypt(item.value["token"].encode()).decode()
        return ConsoleSession(secret, token, item.value.get("id_token", False))

    def end(self, secret: str) -> None:
        """Ends a session on all servers."""
        self._state.delete(*_STORED, _stored_name(secret))

    def _has_expired(self, item: StoredItem) -> bool:
        now = self._clock()
        ends = item.value["used"] + self._settings.idle_seconds, item.value["begun"] + self._settings.longest_seconds
        return bool(now >= min(ends))

    def _sweep(self) -> None:
        for item in self._state.page(*_STORED, None, _SWEEP):
            if self._has_expired(item):
                self._state.delete(*_STORED, item.name)


def _stored_name(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _cipher(secret: str) -> Fernet:
    from cryptography.fernet import Fernet

    key = hmac.new(bytes.fromhex(secret), b"guardagent console token", hashlib.sha256).digest()
    return Fernet(base64.urlsafe_b64encode(key))
