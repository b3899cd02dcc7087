"""A headless browser for tests of pages, over its DevTools pipe, without a driver or a package."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_PATIENCE = 60
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run")
_KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "Home": 36, "End": 35, "Escape": 27, "Enter": 13, "Tab": 9}


class Page:
    """A page in the browser.

    Attributes:
        problems: script errors, and what the page's own policy had to stop.
        requests: the addresses that were asked for.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._read = commands, answers, b""
        self._number, self._session = 0, ""
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Sends a command of the DevTools protocol, and returns its answer."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        session = {"sessionId": self._session} if self._session else {}
        os.write(self._commands, json.dumps(command | session).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            pass
        assert "error" not in message, message
        return message["result"]

    def open(self, path: Path, width: int = 1400, height: int = 900) -> None:
        """Loads a file, and waits until it is loaded."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=path.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script: str) -> Any:
        """Returns the value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key],
                modifiers=8 * shift, **text,
            )  # fmt: skip

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], _PATIENCE)
            assert ready, "the browser does not answer"
            data = os.read(self._answers, 65536)
            assert data, "the browser has ended"
            self._read += data
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.problems.append(params["entry"]["text"])


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """Starts a browser with a separate profile in a folder."""
    assert PROGRAM
    read_commands, write_commands = map(_high, os.pipe())
    read_answers, write_answers = map(_high, os.pipe())
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    ends = [(os.POSIX_SPAWN_DUP2, read_commands, 3), (os.POSIX_SPAWN_DUP2, write_answers, 4)]
    arguments = [PROGRAM, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"]
    browser = os.posix_spawn(PROGRAM, arguments, os.environ, file_actions=[*quiet, *ends], setsid=True)
    os.close(read_commands)
    os.close(write_answers)
    try:
        yield Page(write_commands, read_answers)
    finally:
        os.close(write_commands)
        os.close(read_answers)
        with suppress(ProcessLookupError):
            os.killpg(browser, signal.SIGKILL)
        os.waitpid(browser, 0)


def _high(number: int) -> int:
    """The same descriptor under a number that is not 3 or 4, closed in programs that do not ask for it."""
    copy = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(number)
    return copy
