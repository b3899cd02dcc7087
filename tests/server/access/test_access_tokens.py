"""Tokens: created, listed, revoked, expired, and kept as hashes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import AccessError, InputError, UnauthenticatedError
from guardagent.server.access import TOKEN, Caller, CallerRole, TokenStore
from tests.conftest import Cli

AGENT = Caller("bot", frozenset({CallerRole.AGENT}), "shop")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.db"


def changed(path: Path, statement: str, *values: Any) -> None:
    """Changes the file with another program."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


def test_a_token_stands_for_its_caller(path: Path) -> None:
    """Another process sees it at once."""
    issued, text = TokenStore(path, create=True).create(AGENT, 60)
    assert TokenStore(path).caller(text) == AGENT
    assert issued.id in text
    assert TOKEN.fullmatch(text)


def test_the_file_has_no_secret(path: Path) -> None:
    """Neither the token nor its secret part is in any file, which only the owner may read."""
    store = TokenStore(path, create=True)
    _, text = store.create(AGENT, None)
    files = [path for path in path.parent.iterdir() if path.is_file()]
    assert not any(text[-64:].encode() in file.read_bytes() for file in files)
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert text[-64:] not in repr(store.list())


def test_expired_and_revoked_tokens_are_refused(path: Path) -> None:
    """A token ends at its time, and a revoked one at once, in every process."""
    now = [1000.0]
    store, other = TokenStore(path, create=True, clock=lambda: now[0]), TokenStore(path, clock=lambda: now[0])
    _, short = store.create(AGENT, 10)
    long, kept = store.create(AGENT, None)
    now[0] = 1009.9
    assert other.caller(short) == AGENT
    now[0] = 1010
    with pytest.raises(UnauthenticatedError):
        other.caller(short)
    assert other.caller(kept) == AGENT
    store.revoke(long.id)
    store.revoke(kept)
    with pytest.raises(UnauthenticatedError):
        other.caller(kept)
    assert sorted(token.status(now[0]) for token in other.list()) == ["expired", "revoked"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"),
        lambda text: text[:-64] + "0" * 64,
        lambda text: "ga_" + "0" * 12 + text[15:],
        lambda text: text.upper(),
        lambda text: text + "\n",
        lambda text: text + "0" * 100_000,
        lambda text: text[:15],
        lambda text: text.replace("_", "\ud800"),
        lambda text: "' OR 1=1 --",
        lambda text: "",
    ],
)
def test_another_token_is_refused(path: Path, change: Callable[[str], str]) -> None:
    """A changed, cut, extended or malformed token is nobody's."""
    store = TokenStore(path, create=True)
    _, text = store.create(AGENT, None)
    with pytest.raises(UnauthenticatedError):
        store.caller(change(text))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("roles", value) for value in ("root", "agent admin", 7, b"agent")),
        *(("tenant", value) for value in ("*", "", b"7")),
        *(("principal", value) for value in ("", "a\nb", b"7")),
        *(("expires", value) for value in ("never", float("inf"), -1.0, b"")),
        *(("hash", value) for value in ("", b"", 7)),
    ],
)
def test_a_changed_row_admits_nobody(path: Path, column: str, value: Any) -> None:
    """A file that another program has changed never gives more rights."""
    _, text = TokenStore(path, create=True).create(AGENT, None)
    changed(path, f"UPDATE tokens SET {column} = ?", value)  # noqa: S608
    with pytest.raises(AccessError):
        TokenStore(path).caller(text)


def test_a_token_has_the_groups_of_its_approver(path: Path) -> None:
    """A file of the last release is read, and gets tokens with groups."""
    _, plain = TokenStore(path, create=True).create(AGENT, None)
    groups = frozenset({"finance-lead", "Chief Officers @ shop", "100%", "größte"})
    approver = Caller("eve", frozenset({CallerRole.APPROVER, CallerRole.AUDITOR}), "shop", groups)
    _, text = TokenStore(path).create(approver, None)
    assert (TokenStore(path).caller(text), TokenStore(path).caller(plain)) == (approver, AGENT)
    assert [token.caller.groups for token in TokenStore(path).list()] == [frozenset(), groups]
    changed(path, "UPDATE tokens SET roles = 'approver @' WHERE principal = 'eve'")
    with pytest.raises(AccessError):
        TokenStore(path).caller(text)


@pytest.mark.parametrize("group", ["", " a", "a\nb", "\x1b[2J", "a" * 201])
def test_a_group_has_a_readable_name(group: str) -> None:
    with pytest.raises(InputError, match="a group is"):
        Caller("eve", frozenset({CallerRole.APPROVER}), "shop", frozenset({group}))


def test_a_replaced_file_admits_nobody(path: Path, tmp_path: Path) -> None:
    """A store that was moved away, removed or replaced is an error, not an empty store."""
    store = TokenStore(path, create=True)
    _, text = store.create(AGENT, None)
    path.rename(tmp_path / "moved.db")
    with pytest.raises(AccessError):
        store.caller(text)
    with pytest.raises(InputError, match="token create"):
        TokenStore(path)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e300])
def test_a_token_has_a_sensible_time(path: Path, seconds: float) -> None:
    """It is positive and finite; nothing is created otherwise."""
    store = TokenStore(path, create=True)
    with pytest.raises(InputError):
        store.create(AGENT, seconds)
    assert store.list() == []


def test_the_commands(cli: Cli, path: Path) -> None:
    """The token is shown once; the list has its id, and a revoked one stays in the list."""
    options = ("--tokens", path)
    made = cli("token", "create", *options, "--principal", "bot", "--role", "agent", "--tenant", "shop", "--json")
    created = json.loads(made.out)
    assert TokenStore(path).caller(created["token"]) == AGENT
    assert cli("token", "revoke", created["id"], *options).status == 0
    listed = cli("token", "list", *options)
    assert created["id"] in listed.out
    assert "revoked" in listed.out
    assert created["token"][-64:] not in listed.out + listed.err
    more = ("--principal", "eve", "--role", "approver", "--group", "lead", "--group", "ceo", "--tenant", "shop")
    assert json.loads(cli("token", "create", *options, *more, "--json").out)["groups"] == ["ceo", "lead"]
    assert "approver (ceo, lead)" in cli("token", "list", *options).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--role", "agent", "--role", "approver"), "an agent also has the role approver"),
        (("--role", "root"), "unknown role 'root'"),
        (("--role", "auditor", "--tenant", "*"), "without the role 'admin'"),
        (("--role", "admin", "--tenant", "a b"), "the tenant is 'a b'"),
        (("--role", "admin", "--expires", "soon"), "'--expires' is 'soon'"),
        (("--role", "admin", "--expires", "0d"), "'--expires' is '0d'"),
        (("--role", "admin", "--expires", "99999999w"), "up to ten years"),
        (("--role", "admin", "--principal", "a\x1b[2J"), "printable characters"),
    ],
)
def test_the_command_says_what_it_expects(cli: Cli, path: Path, options: tuple[str, ...], message: str) -> None:
    """No token comes of invalid options."""
    result = cli("token", "create", "--tokens", path, "--principal", "p", "--tenant", "shop", *options)
    assert result.status == 2
    assert message in result.err
    assert "\x1b" not in result.err


def test_a_rotated_token_ends_and_its_successor_is_valid_as_long(path: Path) -> None:
    now = [1000.0]
    store = TokenStore(path, create=True, clock=lambda: now[0])
    first, text = store.create(AGENT, 60)
    now[0] = 1030.0
    second, later = store.rotate(text, overlap=10)
    assert (store.caller(text), store.caller(later), second.expires) == (AGENT, AGENT, 1090.0)
    now[0] = 1040.0
    with pytest.raises(UnauthenticatedError):
        store.caller(text)
    with pytest.raises(InputError, match="is expired"):
        store.rotate(first.id)
    third, _ = store.rotate(second.id, 5.0)
    with pytest.raises(UnauthenticatedError):
        store.caller(later)
    assert third.expires == 1045.0
    with pytest.raises(InputError, match="no token has the id"):
        store.rotate("ga_000000000000")


def test_an_overlap_prolongs_no_token(path: Path) -> None:
    now = [1000.0]
    store = TokenStore(path, create=True, clock=lambda: now[0])
    issued, _ = store.create(AGENT, 60)
    store.rotate(issued.id, overlap=3600)
    assert next(token for token in store.list() if token.id == issued.id).expires == 1060.0


def test_the_commands_log_each_change_with_the_person(path: Path, cli: Cli) -> None:
    log = path.parent / "shop.db"
    where = ("--tokens", path, "--log", log)
    created = cli("token", "create", *where, "--principal", "bot", "--role", "agent", "--tenant", "shop", "--json")
    name = json.loads(created.out)["id"]
    rotated = cli("token", "rotate", name, *where, "--overlap", "1h", "--json")
    assert cli("token", "revoke", json.loads(rotated.out)["token"], *where).status == 0
    shown = [json.loads(line) for line in cli("log", "show", log, "--json").out.splitlines()]
    entries = [line["entry"] for line in shown]
    assert [entry["action"] for entry in entries] == ["created", "rotated", "revoked"]
    assert entries[1]["earlier"] == name
    assert all(entry["by"] and json.loads(rotated.out)["token"] not in str(entry) for entry in entries)
    assert cli("token", "rotate", name, *where, "--overlap", "soon").status == 2
