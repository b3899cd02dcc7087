"""Sign-in to the console at an OpenID provider: the authorization code flow with PKCE, by Authlib.

A browser that begins gets a cookie with a random secret, the time, and the page to go to. The parameters `state` and
`nonce` and the PKCE verifier are derived from this cookie: only this browser can end what it has begun, and nothing is
stored for strangers.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool

from guardagent._support.http import RefusedError
from guardagent._support.requirements import require
from guardagent.errors import InputError, error_text
from guardagent.server.access import OidcVerifier, SignInSettings, require_secure_url

ATTEMPT_SECONDS = 600
_SKEW = 60  # seconds between the clocks of servers
_TIMEOUT = 5.0  # seconds, for an answer of the provider
_LIFESPAN = 300.0  # for which its published endpoints are kept
_COOKIE = re.compile(r"[0-9a-f]{64}\.([0-9]{1,12})\.([\x21-\x7e]{0,3000})")
_ERROR = re.compile(r"[a-z_]{1,60}")
_PUBLISHED = ("authorization_endpoint", "token_endpoint")
_log = logging.getLogger("guardagent")


def derived(cookie: str, purpose: str) -> str:
    """Returns a value for a purpose, such as `state`, that only who has the cookie of an attempt can know."""
    return hmac.new(cookie.encode(), purpose.encode(), hashlib.sha256).hexdigest()


class ProviderSignIn:
    """Lets people sign in at an OpenID provider.

    Args:
        verifier: verifies its tokens.
        settings: the console as a client of the provider.

    Attributes:
        name: the host of the provider.

    Raises:
        InputError: Authlib is missing or too old.
    """

    def __init__(self, verifier: OidcVerifier, settings: SignInSettings) -> None:
        require({"authlib": "1.9"}, "server")
        self._verifier, self._settings, self._issuer = verifier, settings, verifier.settings.issuer
        self.name = urlsplit(self._issuer).hostname or self._issuer
        self._published: tuple[float, tuple[str, str]] = 0.0, ("", "")
        self._trust = ssl.create_default_context()

    async def begin(self, target: str, back: str) -> tuple[str, str]:
        """Begins an attempt. Returns the address at the provider, and the content of the browser's cookie.

        Args:
            target: the page of the console to go to afterwards.
            back: the address to which the provider sends the browser back.

        Raises:
            RefusedError: the provider does not answer.
        """
        cookie = f"{secrets.token_hex(32)}.{int(time.time())}.{quote(target, safe='')}"
        state, nonce, verifier = (derived(cookie, purpose) for purpose in ("state", "nonce", "verifier"))
        authorize, _ = await self._endpoints()
        async with self._client(back) as client:
            url, _ = client.create_authorization_url(authorize, state, verifier, nonce=nonce)
        return url, cookie

    async def finish(self, query: Mapping[str, str], cookie: str, back: str) -> tuple[str, str]:
        """Ends an attempt with the answer of the provider. Returns the person's ID token, and the page to go to.

        Raises:
            RefusedError: it is not the answer to this attempt, or the provider has not signed anybody in.
            UnauthenticatedError: the ID token is not valid.
            AccessError: its claims name no tenant, or the provider's keys are not available.
        """
        match = _COOKIE.fullmatch(cookie)
        if not match or not hmac.compare_digest(query.get("state", "").encode(), derived(cookie, "state").encode()):
            raise RefusedError(401, "this sign-in was not begun in this browser, or another one was begun since")
        if not -_SKEW < time.time() - int(match[1]) < ATTEMPT_SECONDS:
            raise RefusedError(401, "this sign-in was begun more than ten minutes ago")
        if query.get("iss", self._issuer) != self._issuer:
            raise RefusedError(401, "the answer comes from another provider")
        if "error" in query or "code" not in query:
            error = query.get("error", "")
            error = error if _ERROR.fullmatch(error) else "no code"
            raise RefusedError(401, f"{self.name} has not signed you in: {error}")
        id_token = await self._exchange(query["code"], derived(cookie, "verifier"), back)
        await run_in_threadpool(self._verifier.signed_in, id_token, derived(cookie, "nonce"))
        return id_token, unquote(match[2])

    def sign_out_address(self, id_token: str, back: str) -> str:
        """Returns where a person who signs out goes, with the way back; empty for nowhere."""
        end = self._settings.end_session
        query = {"id_token_hint": id_token, "client_id": self._settings.client_id, "post_logout_redirect_uri": back}
        return f"{end}{'&' if '?' in end else '?'}{urlencode(query)}" if end else ""

    async def _exchange(self, code: str, verifier: str, back: str) -> str:
        from authlib.integrations.base_client import OAuthError

        _, token = await self._endpoints()
        try:
            async with self._client(back) as client:
                answer = await client.fetch_token(token, code=code, code_verifier=verifier)
            return str(answer["id_token"])
        except OAuthError as error:
            _log.warning("the OpenID provider refuses a code: %s", error_text(error)[:300])
            raise RefusedError(401, f"{self.name} does not accept this sign-in; it may have been used") from None
        except Exception as error:  # noqa: BLE001 - of the network, or an answer that cannot be read
            raise self._unavailable(error) from None

    async def _endpoints(self) -> tuple[str, str]:
        """Returns the addresses for authorization and for tokens: of the settings, or those that are published."""
        if self._settings.token:
            return self._settings.authorize, self._settings.token
        if time.monotonic() >= self._published[0]:
            try:
                self._published = time.monotonic() + _LIFESPAN, await self._discover()
            except Exception as error:  # noqa: BLE001 - of the network, or an answer that cannot be used
                raise self._unavailable(error) from None
        return self._published[1]

    async def _discover(self) -> tuple[str, str]:
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        async with self._client("") as client:
            answer = await client.request("GET", url, withhold_token=True)
        content = answer.raise_for_status().json()
        authorize, token = (str(content[name]) for name in _PUBLISHED)
        for url in (authorize, token):
            require_secure_url(url, "endpoint")
        hosts = {urlsplit(endpoint).hostname for endpoint in (authorize, token)}
        if content["issuer"] != self._issuer or not hosts <= {self.name, *self._settings.hosts}:
            raise InputError(f"it publishes {content['issuer']!r}, {authorize!r}, {token!r}; expected its own hosts")
        return authorize, token

    def _client(self, back: str) -> Any:
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        settings, secret = self._settings, self._settings.client_secret()
        options: Any = {"code_challenge_method": "S256", "verify": self._trust, "timeout": _TIMEOUT}
        scope = " ".join(dict.fromkeys(("openid", *settings.scopes)))
        return AsyncOAuth2Client(settings.client_id, secret, scope=scope, redirect_uri=back, **options)

    def _unavailable(self, error: Exception) -> RefusedError:
        _log.error("the OpenID provider cannot be used: %s", error_text(error)[:300])
        return RefusedError(503, f"{self.name} cannot be used at present; try again, or tell who runs this server")
