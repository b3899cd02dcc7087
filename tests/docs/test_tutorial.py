"""The tutorial is typed into an empty folder from top to bottom, and prints what it shows."""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.docs.test_docs import BLOCK, TUTORIAL

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow

STEP = re.compile(r"^\$ (?P<command>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE)


class Reader:
    """Somebody who types the page: answers `y` at the terminal, and approves in the console.

    Args:
        folder: where the files are saved.
    """

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        self._folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}
        self._server: subprocess.Popen[str] | None = None
        self._person = ""

    def save(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text.replace("8764", self._port), encoding="utf-8")

    def type(self, command: str) -> str:
        """Returns what a command prints."""
        if command.startswith("guardagent serve"):
            return self._serve(command)
        if command.startswith("export "):
            return ""
        terminal, stdin = pty.openpty()
        os.write(terminal, b"y\n")
        ran = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        os.close(stdin)
        os.close(terminal)
        assert ran.returncode in (0, 1), ran.stdout
        return ran.stdout.replace("[y/N] ", "[y/N] y\n")

    def _serve(self, command: str) -> str:
        command = f"exec {command} --listen 127.0.0.1:{self._port}"
        self._server = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=self._folder,
            env=self._environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._server.stdout
        printed = ""
        while "serving at" not in printed:
            line = self._server.stdout.readline()
            assert line, printed
            printed += line
        agent, self._person = re.findall(r"token: +(ga_\w+)", printed)
        self._environment["GUARDAGENT_TOKEN"] = agent
        threading.Thread(target=self._approve, daemon=True).start()
        return printed.replace(self._port, "8764")

    def _approve(self) -> None:
        address, headers = f"http://127.0.0.1:{self._port}/v1/approvals", {"authorization": f"Bearer {self._person}"}
        while not (waiting := httpx.get(address, headers=headers).json()["approvals"]):
            time.sleep(0.1)
        choice = {"choice": "approve", "version": waiting[0]["version"]}
        httpx.post(f"{address}/{waiting[0]['id']}/answer", headers=headers, json=choice).raise_for_status()

    def leave(self) -> None:
        if self._server:
            self._server.terminate()
            self._server.communicate()


def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    """`…` stands for what differs between runs, and for lines that the page leaves out."""
    reader = Reader(tmp_path)
    try:
        for block in BLOCK.finditer(TUTORIAL.read_text(encoding="utf-8")):
            if block["file"]:
                reader.save(block["file"], block["text"])
                continue
            for step in STEP.finditer(re.sub(r" \\\n +", " ", block["text"])):
                shown = re.escape(step["shown"].removesuffix("\n")).replace("…", "(?s:.*?)")
                printed = reader.type(step["command"]).removesuffix("\n")
                assert re.fullmatch(shown, printed), f"$ {step['command']}\n{printed}"
    finally:
        reader.leave()
