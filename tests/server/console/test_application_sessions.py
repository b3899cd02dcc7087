"""Sessions of the console."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.server.console.application import ConsoleSessions
from guardagent.server.settings import ConsoleSettings
from guardagent.server.state import open_state

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
