"""A scripted OpenID provider over HTTP, which signs everybody in at once, and a browser that follows it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

KEYS = {name: rsa.generate_private_key(65537, 2048) for name in ("first", "second")}
CLIENT, SECRET = "guard-console", "s3cret"


@dataclass
class Provider:
    """A provider. A test changes what it answers, before it answers.

    Attributes:
        url: its address, and its issuer.
        groups: the claim `groups` of whom it signs in.
        claims: claims that replace those of an ID token; None leaves a claim out.
        answer: parameters that replace those of the redirect back.
        metadata: fields that replace those that it publishes.
        key: the key that it signs with; both are published.
        token: makes the ID token from its claims; None for a signed one.
        requests: the forms that the token endpoint got, with the header Authorization.
    """

    url: str = ""
    groups: list[str] = field(default_factory=lambda: ["leads"])
    claims: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, str | None] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    key: str = "first"
    token: Any = None
    requests: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def reset(self) -> None:
        fresh = Provider(self.url)
        vars(self).update(vars(fresh))

    def discovery(self) -> dict[str, Any]:
        endpoints = {
            f"{name}_endpoint": f"{self.url}/{path}"
            for name, path in (("authorization", "authorize"), ("token", "token"))
        }
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **endpoints, **self.metadata}

    def keys(self) -> dict[str, Any]:
        keys = {name: json.loads(RSAAlgorithm.to_jwk(key.public_key())) for name, key in KEYS.items()}
        return {"keys": [{**key, "kid": name} for name, key in keys.items()]}

    def authorize(self, query: dict[str, str]) -> str:
        code = secrets.token_hex(8)
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], **self.answer}
        return f"{query['redirect_uri']}?{urlencode({name: text for name, text in answer.items() if text is not None})}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        self.requests.append({**form, "authorization": authorization})
        request = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if request is None or request["code_challenge"] != challenge or request["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {basic}":
            return 401, {"error": "invalid_client"}
        claims = self.claims_of(request["nonce"])
        id_token = self.token(claims) if self.token else jwt.encode(claims, KEYS[self.key], "RS256", {"kid": self.key})
        return 200, {"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": id_token}

    def claims_of(self, nonce: str) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "ann", "iat": now, "exp": now + 60, "nonce": nonce}
        claims |= {"groups": self.groups, **self.claims}
        return {name: claim for name, claim in claims.items() if claim is not None}


@contextlib.contextmanager
def running_provider() -> Iterator[Provider]:
    """Runs a provider on this machine."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if url.path == "/authorize":
                self.reply(302, b"", provider.authorize(dict(parse_qsl(url.query))))
            elif url.path in ("/keys", "/.well-known/openid-configuration"):
                value = provider.keys() if url.path == "/keys" else provider.discovery()
                self.reply(200, json.dumps(value).encode())
            else:
                self.reply(404, b"{}")

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(text).items()}
            status, value = provider.exchange(form, self.headers.get("authorization", ""))
            self.reply(status, json.dumps(value).encode())

        def reply(self, status: int, body: bytes, location: str = "") -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if location:
                self.send_header("location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    provider.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield provider
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class Browser:
    """A browser without JavaScript, which goes where it is sent, a step at a time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(timeout=20, headers={"connection": "close"})

    def get(self, address: str) -> httpx.Response:
        return self.client.get(address if address.startswith("http") else f"{self.url}/console{address}")

    def to_provider(self, target: str = "") -> str:
        """Begins to sign in. Returns the address to which the provider sends the browser back."""
        answer = self.get(f"/sign-in/provider?{urlencode({'next': target})}")
        assert answer.status_code == 303, answer.text
        return self.get(answer.headers["location"]).headers["location"]

    def sign_in(self, target: str = "") -> httpx.Response:
        return self.get(self.to_provider(target))


def query_of(address: str) -> Mapping[str, str]:
    return dict(parse_qsl(urlsplit(address).query))
