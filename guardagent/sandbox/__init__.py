"""The sandbox: one protocol, one file per engine.

An engine is a module of `engines/` with a class `Engine(limits)`, and a function `problem()` that returns why it cannot
work on this machine (empty if it can); its name is the module's name. It runs one guard program with fresh names, in
its own process, and returns the result of `check`. The static gate (`gate.py`) decides before that which syntax a
program may use.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from guardagent._support.plugins import Plugins
from guardagent.errors import SandboxError
from guardagent.types import Functions

__all__ = ["Engines", "Limits", "Sandbox", "engine_names", "load_sandbox"]

ENGINES = Plugins("sandbox engine", "guardagent.sandbox.engines", ("Engine", "problem"), group="guardagent.engines")


@dataclass(frozen=True, slots=True)
class Limits:
    """The resource limits of one run of a program."""

    seconds: float = 2.0
    memory_bytes: int = 32 * 1024 * 1024
    recursion: int = 200
    calls: int = 1000
    printed_bytes: int = 64 * 1024


class Sandbox(Protocol):
    """Runs guard programs. Safe to use from several threads."""

    def run(self, program: str, inputs: Mapping[str, Any], functions: Functions, now: dt.datetime | None = None) -> Any:
        """Runs `check(**inputs)` of a program that can call `functions`, and nothing else.

        The clock stands still at `now` (with a zone; default: the time of the call). Random numbers never vary.

        The arguments of a function are the host's own copy: the program cannot change them later.
        An exception of a function reaches the program as a ValueError with the same message.

        Returns:
            The result of `check`, as plain Python values; printed output is discarded.

        Raises:
            ProgramError: the program is invalid, has no `check`, or raised.
            LimitError: it exceeded a limit, or its interpreter died.
        """
        ...

    def close(self) -> None:
        """Ends the processes that are kept warm. The sandbox can be used again afterwards."""
        ...


def engine_names() -> list[str]:
    """Returns the engines of this installation."""
    return list(ENGINES)


def load_sandbox(name: str = "auto", limits: Limits | None = None, *, require_hardening: bool = False) -> Sandbox:
    """Loads the engine of a name. `auto` uses Monty, and RestrictedPython for syntax that Monty lacks.

    With `require_hardening`, every run is refused if a hardening layer cannot work on this machine.

    Raises:
        UnknownNameError: there is no such engine.
    """
    engine = cast("Sandbox", ENGINES.load(name).Engine(limits or Limits()))
    return load_engine(engine, require_hardening=require_hardening)


def load_engine(sandbox: Sandbox | str, *, require_hardening: bool = False) -> Sandbox:
    """Loads the engine of a name, or wraps the caller's own object.

    Raises:
        UnknownNameError: there is no such engine.
    """
    if isinstance(sandbox, str):
        return load_sandbox(sandbox, require_hardening=require_hardening)
    return _HardenedSandbox(sandbox) if require_hardening else sandbox


class Engines:
    """The engines of one guard, each created at its first use.

    Args:
        sandbox: `auto`, which lets a program's author choose another engine; the name of an engine, or the caller's own
            object, which then runs everything.
        require_hardening: as for `load_sandbox`.

    Raises:
        UnknownNameError: there is no such engine.
    """

    def __init__(self, sandbox: Sandbox | str = "auto", *, require_hardening: bool = False) -> None:
        self._require_hardening = require_hardening
        self._default = load_engine(sandbox, require_hardening=require_hardening)
        self._selectable = sandbox == "auto"
        self._by_name: dict[str, Sandbox] = {"auto": self._default}
        self._lock = threading.Lock()

    def get(self, name: str) -> Sandbox:
        """Returns the engine for a program whose author named this one."""
        if not self._selectable:
            return self._default
        with self._lock:
            if name not in self._by_name:
                self._by_name[name] = load_sandbox(name, require_hardening=self._require_hardening)
            return self._by_name[name]

    def close(self) -> None:
        """Ends the processes that the engines keep warm."""
        for engine in list(self._by_name.values()):
            engine.close()


class _HardenedSandbox:
    """An engine that refuses every run if a hardening layer is missing."""

    def __init__(self, engine: Sandbox) -> None:
        self._engine = engine

    def run(self, program: str, inputs: Mapping[str, Any], functions: Functions, now: dt.datetime | None = None) -> Any:
        from guardagent.sandbox.hardening import problems

        unconfined = getattr(self._engine, "unconfined", lambda: "this engine does not report whether it is confined")
        facts = {**problems(), "engine": unconfined()}
        missing = [f"{layer}: {problem}" for layer, problem in facts.items() if problem]
        if missing:
            raise SandboxError(f"hardening is required but incomplete on this machine; {'; '.join(missing)}")
        return self._engine.run(program, inputs, functions, now)

    def close(self) -> None:
        self._engine.close()
