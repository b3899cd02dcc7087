"""Commands that the operating system confines: their files, their sockets, and errors where it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.sandbox import hardening
from guardagent.sandbox.confined_command import Confinement

PYTHON = (sys.base_prefix, sys.prefix)
confines = pytest.mark.skipif(
    hardening.landlock_version() < 3 or bool(hardening.problems()["seccomp"]), reason="this machine cannot confine"
)


def run(code: str, confinement: Confinement) -> subprocess.CompletedProcess[str]:
    command = confinement.command([sys.executable, "-S", "-c", code])
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Folders that are readable, writable and neither, each with a file."""
    made = tuple(tmp_path / name for name in ("read", "write", "other"))
    for folder in made:
        folder.mkdir()
        (folder / "a").write_text("text")
    return made  # type: ignore[return-value]  # three of them


@confines
@pytest.mark.parametrize(
    ("code", "works"),
    [
        ("open('{read}/a').read()", True),
        ("open('{read}/b', 'w')", False),
        ("os.truncate('{read}/a', 0)", False),
        ("os.unlink('{read}/a')", False),
        ("open('{write}/b', 'w'); os.mkdir('{write}/c'); os.rename('{write}/b', '{write}/c/b')", True),
        ("os.truncate('{write}/a', 0); open('{write}/a').read()", True),
        ("open('{other}/a')", False),
        ("os.listdir('{other}')", False),
        ("import subprocess; subprocess.run(['/bin/cat', '{other}/a'], check=True)", False),
        ("import subprocess; subprocess.run(['/bin/cat', '{read}/a'], check=True)", True),
        ("open(os.devnull, 'w').write('x')", True),
        ("import socket; socket.socketpair()", True),
        ("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", False),
        ("import socket; socket.socket(socket.AF_UNIX)", False),
        ("import ctypes; assert ctypes.CDLL(None).syscall(425, 1, 0) < 0", True),  # io_uring_setup
    ],
)
def test_a_command_uses_what_it_was_lent(code: str, works: bool, folders: tuple[Path, Path, Path]) -> None:
    """Its own programs, too; what it may not use fails with an error of permissions."""
    read, write, other = folders
    confinement = Confinement([*PYTHON, str(read)], [str(write)])
    ended = run(f"import os; {code.format(read=read, write=write, other=other)}", confinement)
    assert (ended.returncode == 0) is works, ended.stderr
    assert works or "ermi" in ended.stderr


@confines
def test_the_network_is_an_option() -> None:
    """With it, a command may listen and connect."""
    listens = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()"
    code = f"{listens}; socket.create_connection(s.getsockname())"
    assert run(code, Confinement(PYTHON, network=True)).returncode == 0
    assert "not permitted" in run(code, Confinement(PYTHON)).stderr


@confines
def test_a_program_out_of_reach_does_not_start() -> None:
    """The error says which option it needs."""
    ended = run("print(1)", Confinement())
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "expected a program in a folder of the system or of --confine-read" in ended.stderr


def test_a_machine_that_cannot_confine_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so is a path that is missing: nothing starts with less than was asked for."""
    with pytest.raises(InputError, match="no such file or folder" if hardening.landlock_version() else "cannot"):
        Confinement(["/no/such/folder"]).command(["cat"])
    monkeypatch.setattr(hardening, "landlock_version", lambda: 2)
    monkeypatch.setattr(hardening, "problems", lambda: {"landlock": "", "seccomp": ""})
    with pytest.raises(InputError, match="the command cannot be confined: the kernel has Landlock 2"):
        Confinement().command(["cat"])
