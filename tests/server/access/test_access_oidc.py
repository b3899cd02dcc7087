"""Bearer tokens of an OpenID provider: a local one, with keys made here."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from guardagent.errors import AccessError, ForbiddenError, InputError, UnauthenticatedError
from guardagent.server.access import AccessControl, Caller, CallerRole, OidcVerifier, read_oidc_settings
from tests.conftest import Write

RSA_KEY, OTHER_KEY = (rsa.generate_private_key(65537, 2048) for _ in range(2))
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER, AUDIENCE = "https://login.example.com/", "guardagent"
SETTINGS = """\
issuer: {issuer}
audience: guardagent
keys: {keys}
algorithms: [RS256, ES256]
roles:
  claim: [access, groups]
  values: {{guarded: agent, leads: approver, audit: auditor, ops: admin}}
tenant:
  claim: https://example.com/org
  values: {{"4711": shop, "4712": bank, all: "*"}}
"""


def jwks() -> bytes:
    rsa_key = {**json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())), "kid": "one", "use": "sig"}
    ec_key = {**json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())), "kid": "two", "use": "sig", "alg": "ES256"}
    secret = {"kty": "oct", "kid": "shared", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}
    return json.dumps({"keys": [rsa_key, ec_key, secret]}).encode()


@dataclass
class Provider:
    """A server of keys. `delay` and `body` change its answer; `count` is the number of answers."""

    url: str = ""
    body: bytes = field(default_factory=jwks)
    delay: float = 0
    count: int = 0


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.count += 1
            time.sleep(provider.delay)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(provider.body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    provider.url = f"http://127.0.0.1:{server.server_port}/keys"
    yield provider
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.fixture
def control(provider: Provider, tmp_path: Path) -> AccessControl:
    path = tmp_path / "oidc.yaml"
    path.write_text(SETTINGS.format(issuer=ISSUER, keys=provider.url))
    return AccessControl(oidc=OidcVerifier(read_oidc_settings(path)))


def claims(**changes: Any) -> dict[str, Any]:
    now = time.time()
    payload = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "exp": now + 60,
        "iat": now,
        "access": {"groups": ["leads", "unknown"]},
        "https://example.com/org": "4711",
        **changes,
    }
    return {name: value for name, value in payload.items() if value is not None}


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "one", /, **changes: Any) -> str:
    headers = changes.pop("headers", {})
    return jwt.encode(claims(**changes), key, algorithm, headers={**({"kid": kid} if kid else {}), **headers})


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def forged(secret: bytes, header: dict[str, Any], digest: str = "sha256") -> str:
    """Returns a token whose signature is an HMAC, which no library would make of a public key."""
    content = f"{encoded(header)}.{encoded(claims())}"
    signature = hmac.new(secret, content.encode(), getattr(hashlib, digest)).digest() if secret else b""
    return f"{content}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def bearer(token: str) -> list[str]:
    return [f"Bearer {token}"]


def test_a_token_names_the_caller(control: AccessControl, provider: Provider) -> None:
    """The keys are fetched once; values that the operator does not name give nothing."""
    for token in (signed(), signed(EC_KEY, "ES256", "two"), signed(aud=["else", AUDIENCE])):
        caller = control.authenticate(bearer(token))
        assert caller == Caller("ann", frozenset({CallerRole.APPROVER}), "shop")
    assert provider.count == 1


def test_groups_come_from_a_claim_of_their_own_or_from_that_of_the_roles(provider: Provider, tmp_path: Path) -> None:
    text = SETTINGS.format(issuer=ISSUER, keys=provider.url)
    for claim, token in {"[access, groups]": signed(), "team": signed(team="leads")}.items():
        (tmp_path / "oidc.yaml").write_text(f"{text}groups:\n  claim: {claim}\n  values: {{leads: finance-lead}}\n")
        control = AccessControl(oidc=OidcVerifier(read_oidc_settings(tmp_path / "oidc.yaml")))
        caller = control.authenticate(bearer(token))
        assert caller == Caller("ann", frozenset({CallerRole.APPROVER}), "shop", frozenset({"finance-lead"}))
    (tmp_path / "oidc.yaml").write_text(f"{text}groups: {{claim: team}}\n")
    with pytest.raises(InputError, match="groups: the key 'values' is missing"):
        read_oidc_settings(tmp_path / "oidc.yaml")


PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
DER = RSA_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
ATTACKS: dict[str, Callable[[], str]] = {
    "no algorithm": lambda: forged(b"", {"alg": "none", "kid": "one"}),
    "no algorithm in capitals": lambda: forged(b"", {"alg": "NONE", "kid": "one"}),
    "the public key as a secret": lambda: forged(PEM, {"alg": "HS256", "kid": "one"}),
    "its bytes as a secret": lambda: forged(DER, {"alg": "HS512", "kid": "one"}, "sha512"),
    "an HMAC that says RS256": lambda: forged(PEM, {"alg": "RS256", "kid": "one"}),
    "a shared secret of the provider": lambda: forged(
        b"secretsecretsecretsecretsecret", {"alg": "HS256", "kid": "shared"}
    ),
    "another key": lambda: signed(OTHER_KEY),
    "another kid": lambda: signed(OTHER_KEY, "RS256", "three"),
    "the kid of another key": lambda: signed(RSA_KEY, "RS256", "two"),
    "a kid that is a path": lambda: signed(OTHER_KEY, "RS256", "../../dev/null"),
    "no kid": lambda: signed(RSA_KEY, "RS256", None),
    "an algorithm that is not accepted": lambda: signed(RSA_KEY, "PS256"),
    "a key in the header": lambda: signed(
        OTHER_KEY, headers={"jwk": json.loads(RSAAlgorithm.to_jwk(OTHER_KEY.public_key()))}
    ),
    "an unknown critical header": lambda: signed(headers={"crit": ["exp2"], "exp2": 1}),
    "expired": lambda: signed(exp=time.time() - 40),
    "no expiry": lambda: signed(exp=None),
    "an expiry that is text": lambda: (
        encoded({"alg": "RS256", "kid": "one"}) + "." + encoded(claims(exp="never")) + ".AA"
    ),
    "not yet valid": lambda: signed(nbf=time.time() + 40),
    "issued in the future": lambda: signed(iat=time.time() + 400),
    "another issuer": lambda: signed(iss="https://login.example.com"),
    "a longer issuer": lambda: signed(iss=ISSUER + "evil"),
    "no issuer": lambda: signed(iss=None),
    "another audience": lambda: signed(aud="guardagent2"),
    "no audience": lambda: signed(aud=None),
    "an empty audience": lambda: signed(aud=[]),
    "no subject": lambda: signed(sub=None),
    "huge": lambda: signed(more="x" * 9000),
    "deep": lambda: f"{base64.urlsafe_b64encode(b'[' * 5000).decode()}.e30.AA",
    "a long number": lambda: f"{base64.urlsafe_b64encode(b'9' * 5000).decode()}.e30.AA",
    "a changed claim": lambda: ".".join([(p := signed().split("."))[0], encoded(claims(sub="bob")), p[2]]),
    "no signature": lambda: signed().rpartition(".")[0] + ".",
    "two parts": lambda: signed().rpartition(".")[0],
    "a list": lambda: f"{encoded([])}.{encoded([])}.AA",
    "no token": lambda: "...",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_other_tokens_are_refused(control: AccessControl, name: str) -> None:
    """Nothing but a token of this provider for this service, which is valid now, names a caller."""
    with pytest.raises(UnauthenticatedError):
        control.authenticate(bearer(ATTACKS[name]()))


@pytest.mark.parametrize("header", ["jku", "x5u"])
def test_a_url_in_the_header_is_ignored(control: AccessControl, provider: Provider, header: str) -> None:
    """The keys come from the operator's URL only."""
    before = provider.count
    token = signed(OTHER_KEY, "RS256", "evil", headers={header: provider.url + "/evil"})
    with pytest.raises(UnauthenticatedError):
        control.authenticate(bearer(token))
    assert provider.count == before + 1


def test_unknown_keys_do_not_flood_the_provider(control: AccessControl, provider: Provider) -> None:
    """Many tokens with unknown keys cause few requests."""
    for number in range(20):
        with pytest.raises(UnauthenticatedError):
            control.authenticate(bearer(signed(OTHER_KEY, "RS256", f"key{number}")))
    assert provider.count <= 2


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"keys": []}', b'{"keys": [{"kty": "RSA", "kid": "one"}]}', b"[" * 9999]
)
def test_a_provider_without_keys_admits_nobody(control: AccessControl, provider: Provider, body: bytes) -> None:
    """An incorrect answer is not cached as an empty set, and no flood of requests reaches the provider."""
    provider.body = body
    for _ in range(10):
        with pytest.raises(AccessError, match="not available"):
            control.authenticate(bearer(signed()))
    assert provider.count == 1


def test_clocks_may_differ_a_little(control: AccessControl) -> None:
    """The leeway is 30 seconds."""
    assert control.authenticate(bearer(signed(exp=time.time() - 20, nbf=time.time() + 20)))


@pytest.mark.parametrize(
    "changes",
    [
        {"https://example.com/org": None},
        {"https://example.com/org": "shop"},
        {"https://example.com/org": "*"},
        {"https://example.com/org": ["4711", "4712"]},
        {"https://example.com/org": {"4711": 1}},
        {"https://example.com/org": "all"},
        {"access": {"groups": ["guarded", "leads"]}},
        {"sub": "a\nb"},
        {"sub": "x" * 201},
    ],
)
def test_claims_that_fit_no_mapping(control: AccessControl, changes: dict[str, Any]) -> None:
    """No tenant, several, every tenant without an admin, an agent that also approves, and odd names: nobody."""
    with pytest.raises(ForbiddenError):
        control.authenticate(bearer(signed(**changes)))


@pytest.mark.parametrize("groups", [None, [], "agent", ["approver"], {"leads": True}, [["leads"]], 7])
def test_a_claim_without_a_known_value_gives_no_role(control: AccessControl, groups: Any) -> None:
    """Names of roles in the claim mean nothing unless the operator says so."""
    assert control.authenticate(bearer(signed(access={"groups": groups}))).roles == frozenset()
    with pytest.raises(ForbiddenError):
        control.admit(bearer(signed(access={"groups": groups})), "call")


GOOD = SETTINGS.format(issuer=ISSUER, keys="https://login.example.com/keys")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[RS256, ES256]", "[none]", "'algorithms' has 'none'"),
        ("[RS256, ES256]", "[RS256, HS256]", "'algorithms' has 'HS256'"),
        ("[RS256, ES256]", "[]", "'algorithms' has None"),
        ("https://login.example.com/keys", "http://login.example.com/keys", "begins with 'https://'"),
        ("https://login.example.com/keys", "file:///etc/passwd", "begins with 'https://'"),
        ("https://login.example.com/keys", "'https://['", "begins with 'https://'"),
        ("issuer: https://login.example.com/", "isuer: x", "did you mean 'issuer'"),
        ("audience: guardagent", "leeway: 5", "the key 'audience' is missing"),
        ("audience: guardagent", "audience: [a, b]", "audience: is a list"),
        ("audience: guardagent", "audience: guardagent\nleeway: .inf", "'leeway' is inf"),
        ("audience: guardagent", "audience: guardagent\nleeway: .nan", "'leeway' is nan"),
        ("guarded: agent", "guarded: root", "unknown role 'root'"),
        ('"4711"', "4711", "expected a string"),
        ("shop", "a b", "the tenant is 'a b'"),
        ("[access, groups]", "[]", "expected a string"),
        ("issuer:", "issuer: a\nissuer:", "appears twice"),
    ],
)
def test_settings_say_what_is_wrong(write: Write, old: str, new: str, message: str) -> None:
    """The message names the file, what was found, and what was expected."""
    assert old in GOOD
    path = write("oidc.yaml", GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        read_oidc_settings(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
