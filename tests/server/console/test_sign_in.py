"""Sign-in at an OpenID provider: the scripted one, over HTTP, honest and hostile."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from guardagent.errors import InputError
from guardagent.server.access import read_oidc_settings
from guardagent.server.console.sign_in import derived
from guardagent.server.settings import read_server_settings
from tests.conftest import Write
from tests.server.console.providers import CLIENT, KEYS, SECRET, Browser, Provider, query_of, running_provider
from tests.server.servers import POLICIES, ServerProcess, server_processes, tokens_of

SETTINGS = """\
issuer: {url}
audience: guardagent
keys: {url}/keys
roles: {{claim: groups, values: {{leads: approver, bots: agent}}}}
tenant: shop
leeway: 5
sign_in:
  client_id: guard-console
  client_secret_file: secret
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider) -> Provider:
    running.reset()
    return running


def provider_folder(folder: Path, provider: Provider, more: str = "") -> Path:
    (folder / "policies.yaml").write_text(POLICIES)
    (folder / "secret").write_text(SECRET + "\n")
    (folder / "oidc.yaml").write_text(SETTINGS.format(url=provider.url) + more)
    return folder


@pytest.fixture(scope="module")
def servers(running: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    folder = provider_folder(tmp_path_factory.mktemp("sign-in"), running)
    tokens_of(folder)
    oidc = str(folder / "oidc.yaml")
    with server_processes(folder, f"sqlite:{folder / 'state'}", 2, "--oidc", oidc) as servers:
        yield servers


@pytest.fixture
def browser(servers: list[ServerProcess], provider: Provider) -> Browser:
    return Browser(servers[0].url)


def _problem(page: Any, status: int = 401) -> str:
    """Requires a clear page with a way back. Returns what it says."""
    assert page.status_code == status, page.text
    assert 'href="/console/sign-in/provider' in page.text
    match = re.search(r'role="alert">([^<]*)<', page.text)
    assert match
    return match[1]


def test_a_person_signs_in_and_comes_back_to_the_page(browser: Browser, provider: Provider) -> None:
    assert "Sign in with 127.0.0.1" in browser.get("/sign-in").text
    page = browser.sign_in("/console/sessions?tenant=shop")
    assert 'content="0;url=/console/sessions?tenant=shop"' in page.text
    assert "ann" in browser.get("/live").text
    (form,) = provider.requests
    assert form["redirect_uri"] == f"{browser.url}/console/sign-in/provider"
    cookies = page.headers.get_list("set-cookie")
    assert any(re.match(r"guardagent=[0-9a-f]{64}; HttpOnly; Path=/; SameSite=strict", text) for text in cookies)
    assert any(re.match(r'guardagent-sign-in="";.*Max-Age=0', text) for text in cookies)


def test_any_server_with_the_same_state_ends_the_attempt(browser: Browser, servers: list[ServerProcess]) -> None:
    """A load balancer sends the browser back to another server, which has the same public address."""
    back = browser.to_provider().replace(servers[0].url, servers[1].url)
    assert "does not accept" in _problem(browser.get(back)), "here the addresses differ, and the provider compares them"
    browser.sign_in()
    assert browser.get(f"{servers[1].url}/console/live").status_code == 200


def test_signing_out_ends_the_session(browser: Browser) -> None:
    browser.sign_in()
    csrf = re.search(r'name="csrf" value="(\w+)"', browser.get("/live").text)
    assert csrf
    browser.client.post(f"{browser.url}/console/sign-out", data={"csrf": csrf[1]})
    assert browser.get("/live").status_code == 303


def test_the_session_ends_when_the_token_ends(browser: Browser, provider: Provider) -> None:
    provider.claims = {"exp": int(time.time()) - 3}  # within the leeway
    browser.sign_in()
    assert browser.get("/live").status_code == 200
    time.sleep(2.5)
    assert browser.get("/live").headers["location"].startswith("/console/sign-in?next=")


def test_the_provider_rotates_its_keys(browser: Browser, provider: Provider) -> None:
    browser.sign_in()
    provider.key = "second"
    other = Browser(browser.url)
    other.sign_in()
    assert [visitor.get("/live").status_code for visitor in (browser, other)] == [200, 200]


def _forged(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, claims))
    return ".".join([*parts, ""])


TOKENS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no algorithm": lambda claims: _forged({"alg": "none", "kid": "first"}, claims),
    "another key": lambda claims: jwt.encode(claims, KEYS["second"], "RS256", {"kid": "first"}),
    "an unknown key": lambda claims: jwt.encode(claims, KEYS["second"], "RS256", {"kid": "third"}),
    "a secret that both know": lambda claims: jwt.encode(claims, SECRET * 8, "HS256", {"kid": "first"}),
    "something else": lambda claims: "x",
}
CLAIMS: dict[str, dict[str, Any]] = {
    "no nonce": {"nonce": None},
    "the nonce of another attempt": {"nonce": "0" * 64},
    "a nonce of another type": {"nonce": True},
    "expired": {"exp": int(time.time()) - 60},
    "no expiry": {"exp": None},
    "another issuer": {"iss": "https://evil.example"},
    "for another client": {"aud": "else"},
    "for the interface": {"aud": "guardagent"},
    "for several, and it does not say who asked": {"aud": [CLIENT, "else"]},
    "for several, asked by another": {"aud": [CLIENT, "else"], "azp": "else"},
    "asked by another": {"azp": "else"},
    "no subject": {"sub": None},
}


@pytest.mark.parametrize("name", [*TOKENS, *CLAIMS])
def test_other_id_tokens_sign_nobody_in(browser: Browser, provider: Provider, name: str) -> None:
    provider.token, provider.claims = TOKENS.get(name), CLAIMS.get(name, {})
    assert "token is not valid" in _problem(browser.sign_in())
    assert browser.get("/live").status_code == 303


def test_an_id_token_for_several_that_the_console_requested(browser: Browser, provider: Provider) -> None:
    provider.claims = {"aud": ["else", CLIENT], "azp": CLIENT}
    browser.sign_in()
    assert browser.get("/live").status_code == 200


def test_an_id_token_is_no_token_of_the_interface(browser: Browser, provider: Provider) -> None:
    kept: list[str] = []

    def keep(claims: dict[str, Any]) -> str:
        kept.append(jwt.encode(claims, KEYS["first"], "RS256", {"kid": "first"}))
        return kept[0]

    provider.token = keep
    browser.sign_in()
    headers = {"authorization": f"Bearer {kept[0]}"}
    assert browser.client.get(f"{browser.url}/v1/approvals", headers=headers).status_code == 401
    assert browser.client.post(f"{browser.url}/console/sign-in", data={"token": kept[0]}).status_code == 401


def test_the_answer_of_another_browser_is_refused(browser: Browser) -> None:
    """An attacker sends a victim the end of a sign-in of their own, with and without one that the victim has begun."""
    attacker = Browser(browser.url)
    back = attacker.to_provider()
    assert "was not begun in this browser" in _problem(browser.get(back))
    own = browser.to_provider()
    assert "was not begun in this browser" in _problem(browser.get(back))
    injected = own.replace(query_of(own)["code"], query_of(back)["code"])
    assert "does not accept" in _problem(browser.get(injected)), "the code belongs to another PKCE verifier"
    assert browser.get("/live").status_code == 303


def test_an_answer_counts_once(browser: Browser, provider: Provider) -> None:
    """Also where the provider takes a code twice, and the browser has kept its cookie."""
    back = browser.to_provider()
    cookies = dict(browser.client.cookies)
    code = query_of(back)["code"]
    request = provider.codes[code]
    assert "signed in" in browser.get(back).text
    assert "was not begun in this browser" in _problem(browser.get(back))
    browser.client.cookies.update(cookies)
    assert "does not accept" in _problem(browser.get(back))
    provider.codes[code] = request
    assert "has been used" in _problem(browser.get(back))


def test_an_attempt_lasts_ten_minutes_and_nobody_prolongs_it(browser: Browser) -> None:
    back = browser.to_provider("/console/log")
    secret, begun, target = browser.client.cookies["guardagent-sign-in"].split(".", 2)
    for cookie in (f"{secret}.{int(begun) + 9}.{target}", f"{secret}.{begun}.%2Fconsole%2Flive", f"{secret}.x.", "x"):
        browser.client.cookies.set("guardagent-sign-in", cookie, domain="127.0.0.1")
        assert "was not begun in this browser" in _problem(browser.get(back))
    old = f"{secret}.{int(begun) - 600}.{target}"
    browser.client.cookies.set("guardagent-sign-in", old, domain="127.0.0.1")
    late = back.replace(query_of(back)["state"], derived(old, "state"))
    assert "more than ten minutes ago" in _problem(browser.get(late))


@pytest.mark.parametrize("state", [None, "", "0" * 64, "é"])
def test_another_state_is_refused(browser: Browser, provider: Provider, state: str | None) -> None:
    provider.answer = {"state": state}
    assert "was not begun in this browser" in _problem(browser.sign_in())
    assert not provider.requests, "no code goes to the provider"


def test_an_error_of_the_provider_is_a_page(browser: Browser, provider: Provider) -> None:
    provider.answer = {"code": None, "error": "access_denied", "error_description": "<b>call 555-1234</b>"}
    page = browser.sign_in()
    assert "has not signed you in: access_denied" in _problem(page)
    assert "555-1234" not in page.text, "anybody can write the rest"
    provider.answer = {"error": "<script>"}
    assert _problem(browser.sign_in()).endswith("has not signed you in: no code")
    provider.answer = {"code": None}
    assert _problem(browser.sign_in()).endswith("has not signed you in: no code")


def test_the_answer_of_another_issuer_is_refused(browser: Browser, provider: Provider) -> None:
    provider.answer = {"iss": "https://evil.example"}
    assert "another provider" in _problem(browser.sign_in())
    assert not provider.requests
    provider.answer = {"iss": provider.url}
    assert "signed in" in browser.sign_in().text


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example", "/console//evil.example", "/console/\\evil", "/v1/log", "javascript:x"],
)
def test_nobody_is_sent_elsewhere(browser: Browser, target: str) -> None:
    assert 'content="0;url=/console/live"' in browser.sign_in(target).text


def test_an_agent_who_signs_in_reads_where_its_token_goes(browser: Browser, provider: Provider) -> None:
    provider.groups = ["bots"]
    browser.sign_in()
    page = browser.get("/live")
    assert page.status_code == 403
    assert "This token is for an agent&#39;s program" in page.text.replace("'", "&#39;")
    assert "GUARDAGENT_TOKEN" in page.text
    assert 'href="/console/sign-in"' in page.text
    provider.groups = []
    browser.sign_in()
    assert "You have no role here" in browser.get("/approvals").text


def _server(folder: Path, *options: str) -> Any:
    tokens_of(folder)
    return server_processes(folder, f"sqlite:{folder / 'state'}", 1, "--oidc", str(folder / "oidc.yaml"), *options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://192.0.2.1/token"},
        {"token_endpoint": "https://metadata.internal/token"},
        {"authorization_endpoint": "https://evil.example/"},
        {"authorization_endpoint": "javascript:x"},
        {"token_endpoint": None},
    ],
)
def test_endpoints_of_others_are_not_used(provider: Provider, tmp_path: Path, metadata: dict[str, Any]) -> None:
    provider.metadata = metadata
    with _server(provider_folder(tmp_path, provider)) as (server,):
        assert "cannot be used at present" in _problem(Browser(server.url).get("/sign-in/provider"), 503)
        provider.metadata = {}
        assert "signed in" in Browser(server.url).sign_in().text, "it is asked again"


@pytest.mark.slow
def test_endpoints_of_the_settings_and_the_way_out(provider: Provider, tmp_path: Path) -> None:
    provider.metadata = {"issuer": "not asked for"}
    paths = {"authorize": "authorize", "token": "token", "end_session": "out?x=1"}
    more = "".join(f"  {name}: {provider.url}/{path}\n" for name, path in paths.items())
    with _server(provider_folder(tmp_path, provider, more)) as (server,):
        browser = Browser(server.url)
        browser.sign_in()
        csrf = re.search(r'name="csrf" value="(\w+)"', browser.get("/live").text)
        assert csrf
        page = browser.client.post(f"{server.url}/console/sign-out", data={"csrf": csrf[1]})
        assert f'content="0;url={provider.url}/out?x=1&amp;id_token_hint=' in page.text
        assert browser.get("/live").status_code == 303


@pytest.mark.slow
def test_beyond_this_machine_the_address_comes_from_the_settings(provider: Provider, tmp_path: Path) -> None:
    """The header Host is the client's, so it never decides where a code goes."""
    folder = provider_folder(tmp_path, provider)
    settings = folder / "server.yaml"
    for console, status in (("true", 503), ("{address: https://guard.example}", 303)):
        settings.write_text(f"policies: {{default: policies.yaml}}\nconsole: {console}\n")
        with _server(folder, "--settings", str(settings), "--allow-host", "guard.example") as (server,):
            client = Browser(server.url).client
            answer = client.get(f"{server.url}/console/sign-in/provider", headers={"host": "guard.example"})
            assert answer.status_code == status
    assert query_of(answer.headers["location"])["redirect_uri"] == "https://guard.example/console/sign-in/provider"
    cookie = r"__Host-guardagent-sign-in=.*; HttpOnly; Max-Age=600; Path=/; SameSite=lax; Secure"
    assert re.match(cookie, answer.headers["set-cookie"])


GOOD = SETTINGS.format(url="https://login.example.com")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("client_id: guard-console", "clientid: x", "unknown key 'clientid'; did you mean 'client_id'"),
        ("client_id: guard-console", "client_id: ''", "sign_in.client_id: is ''"),
        ("client_secret_file: secret", "client_secret_file: none", "none"),
        ("client_secret_file: secret", "authorize: https://x.example/a", "expected both, or neither"),
        ("client_secret_file: secret", "end_session: http://x.example/a", "begins with 'https://'"),
        (
            "client_secret_file: secret",
            "authorize: http://x.example/a\n  token: https://x.example",
            "begins with 'https://'",
        ),
        ("client_secret_file: secret", "hosts: [1]", "sign_in.hosts[0]: is 1"),
        ("issuer: https://login.example.com", "issuer: login", "'issuer' is 'login'"),
    ],
)
def test_settings_that_are_wrong(write: Write, tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "secret").write_text("x")
    path = write("oidc.yaml", GOOD)
    assert read_oidc_settings(path).sign_in
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=re.escape(message)):
        read_oidc_settings(path)


@pytest.mark.parametrize(
    "address", ["http://guard.example", "https://guard.example/x", "guard.example", "https://u@guard.example"]
)
def test_an_address_that_is_wrong(write: Write, address: str) -> None:
    path = write("server.yaml", f"policies: {{default: p.yaml}}\nconsole: {{address: '{address}'}}\n")
    with pytest.raises(InputError, match="console: 'address' is"):
        read_server_settings(path)
