"""The Monty engine: a Python interpreter written in Rust, in a separate process.

A guest can reach the toolbox functions and nothing of this machine: no files, no environment, no network, a clock that
stands still. Worker processes are confined by this machine's hardening layers and are kept warm between runs, each run
in a fresh interpreter; they end when idle, with `close()`, and with this process.

The Python features that the pinned Monty lacks or changes are found in a program's syntax tree before it runs. All of
them were tried on that release, and tests try them again: update the list first for a new release of Monty.
"""

from __future__ import annotations

import ast
import contextlib
import datetime as dt
import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from guardagent.errors import LimitError, ProgramError, SandboxError
from guardagent.sandbox import hardening, worker
from guardagent.sandbox.engines import Budget, WarmResource, WorkerDiedError
from guardagent.sandbox.gate import admit
from guardagent.types import Functions

if TYPE_CHECKING:
    from pydantic_monty import FunctionSnapshot, Monty, OSPolicy, ResourceLimits, SyncSnapshot

    from guardagent.sandbox import Limits

_GRACE_SECONDS = 0.5
_MAX_INTERPRETER = 200  # characters that the kernel reads in the first line of a script
WAIT_SECONDS = 60.0  # for a free worker, when all are busy
_LIMIT_ERRORS = (TimeoutError, MemoryError, RecursionError)
_NOT_YET = "The monty syntax parser does not yet support"

MODULES = frozenset(
    "base64 bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json math random re "
    "time typing unicodedata __future__".split()
)
"""Modules that can be imported."""

MISSING_NAMES = {
    "base64": "encode decode",
    "collections": "ChainMap OrderedDict UserDict UserList UserString abc",
    "dataclasses": "asdict astuple fields replace InitVar KW_ONLY",
    "datetime": "tzinfo MINYEAR MAXYEAR UTC",
    "functools": "wraps cmp_to_key total_ordering cached_property",
    "json": "JSONDecoder",
    "re": "subn X VERBOSE U UNICODE",
    "typing": "Collection Counter DefaultDict Deque Hashable MutableMapping NamedTuple NewType OrderedDict Sized "
    "SupportsFloat SupportsInt Text TypedDict TypeAlias cast final overload runtime_checkable Required NotRequired "
    "Pattern Match MutableSequence MutableSet",
    "unicodedata": "UCD bidirectional decimal decomposition digit east_asian_width mirrored numeric ucd_3_2_0",
}
"""Names that these modules lack."""

MISSING_BUILTINS = frozenset(
    "callable issubclass delattr ascii staticmethod classmethod super bytearray next object BufferError BytesWarning "
    "DeprecationWarning EOFError EnvironmentError FloatingPointError FutureWarning GeneratorExit IOError ImportWarning "
    "IndentationError PendingDeprecationWarning ReferenceError RuntimeWarning SyntaxWarning SystemError TabError "
    "UnicodeError UnicodeTranslateError UnicodeWarning UserWarning Warning StopAsyncIteration".split()
)
"""Missing built-in names; `next` exists, but rejects the lists that zip, map, filter and the like return."""

CALLED_METHODS = frozenset("__init__ __post_init__ __repr__ __str__ __eq__ __hash__ __enter__ __exit__".split())
"""Special methods that are called; any other is silently ignored."""

MISSING_ATTRIBUTES = frozenset(
    "translate maketrans raw_decode subn colno msg is_integer as_integer_ratio fromisoformat".split()
)
"""`fromisoformat` exists, but refuses `20240229` and weeks."""
_REPEATED = ("compile", "sub", "split", "findall", "finditer")
_DATACLASS_OPTIONS = frozenset({"frozen", "eq", "repr", "init"})


class UnsupportedSyntaxError(ProgramError):
    """The program uses syntax that this engine lacks; none of it has run."""


@lru_cache(maxsize=256)
def unsupported(program: str, functions: frozenset[str]) -> str:
    """Returns the first feature of a program that this engine lacks, with its line; empty if there is none."""
    return first_gap(admit(program, functions))


def _word_gap(program: str, inputs: Mapping[str, Any]) -> str:
    """Returns the gap of a program that looks for words, in a text with a character that Python counts otherwise."""
    if not (own := _characters_if_words(program)):
        return ""
    characters = own.union(json.dumps(inputs, ensure_ascii=False, default=str))
    other = next((sign for sign in sorted(characters) if sign > "~" and _is_other_word(sign)), "")
    return (
        other
        and rf"'\w' and '\b' in a text with {other!r} (U+{ord(other):04X}) are not supported by the engine 'monty'"
    )


@lru_cache(maxsize=256)
def _characters_if_words(program: str) -> frozenset[str]:
    return frozenset(program if re.search(r"\\[wWbB]", program) else "")


def _is_other_word(sign: str) -> bool:
    circled = "\u24b6" <= sign <= "\u24e9" or "\U0001f130" <= sign <= "\U0001f189"
    return circled or sign in "\u200c\u200d" or unicodedata.category(sign) in ("No", "Mn", "Mc", "Me", "Pc")


class Engine:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def run(self, program: str, inputs: Mapping[str, Any], functions: Functions, now: dt.datetime | None = None) -> Any:
        if gap := unsupported(program, frozenset(functions)) or _word_gap(program, inputs):
            raise UnsupportedSyntaxError(gap)
        run = _MontyRun(program, inputs, functions)
        with _POOL.use() as pool:
            try:
                return run.outcome(pool.monty, self._limits, now)
            except WorkerDiedError:
                return run.outcome(pool.monty, self._limits, now)

    def unconfined(self) -> str:
        """Returns why its workers are not confined by the hardening layers, and the fix; empty if they are."""
        with _POOL.use() as pool:
            return pool.unconfined

    def close(self) -> None:
        _POOL.close()


class _MontyRun:
    """One run: the program, its inputs, and its calls."""

    def __init__(self, program: str, inputs: Mapping[str, Any], functions: Functions) -> None:
        # The program cannot guess these names, and so cannot rebind them before the call of `check`.
        mark = f"v{os.urandom(8).hex()}"
        arguments = {f"{mark}_{name}": value for name, value in inputs.items()}
        self._call = f"check({', '.join(arguments)})"
        self._inputs = arguments | {"__name__": "program"}
        self._source = f"{program}\n{self._call}"
        self._functions = functions
        self._calls = 0
        self._deadline = 0.0
        self._budget = Budget()

    def outcome(self, pool: Monty, limits: Limits, now: dt.datetime | None) -> Any:
        """Returns the result of `check`."""
        import pydantic_monty as monty

        printed = monty.CollectString(max_bytes=limits.printed_bytes)
        bounds: ResourceLimits = {
            "max_feed_duration_secs": limits.seconds,
            "max_memory": limits.memory_bytes,
            "max_recursion_depth": limits.recursion,
            "max_suspensions": limits.calls,
        }
        policy: OSPolicy = {"datetime": now or dt.datetime.now(dt.UTC), "sleep": "zero", "random_start": {"seed": 0}}
        try:
            with pool.checkout(limits=bounds, os_policy=policy) as session:
                self._deadline = time.monotonic() + limits.seconds + _GRACE_SECONDS
                return self._drive(session.feed_start(self._source, inputs=self._inputs, print_callback=printed))
        except monty.MontyError as error:
            raise self._sandbox_error(error) from None
        except TimeoutError:
            raise LimitError(f"no sandbox worker was free within {WAIT_SECONDS:.0f} s") from None

    def _drive(self, snapshot: SyncSnapshot) -> Any:
        """Handles each pause of the guest until it has ended, and returns its value.

        The loop is in the host, so that a Ctrl-C within a host function stops the host and not the guest.
        """
        import pydantic_monty as monty

        while True:
            if time.monotonic() - self._budget.seconds > self._deadline:  # its own clock stops during host calls
                raise LimitError("over its limits: time limit")
            if isinstance(snapshot, monty.FunctionSnapshot):
                snapshot = self._answer(snapshot)
            elif isinstance(snapshot, monty.NameLookupSnapshot):
                name = snapshot.variable_name
                snapshot = snapshot.resume(value=_placeholder(name)) if name in self._functions else snapshot.resume()
            elif isinstance(snapshot, monty.MontyComplete):
                self._budget.spend(snapshot.output)
                return snapshot.output
            else:
                raise ProgramError("the program awaits an asynchronous call; expected plain calls")

    def _answer(self, snapshot: FunctionSnapshot) -> SyncSnapshot:
        if snapshot.is_os_function or snapshot.object_id is not None:
            return snapshot.resume_not_handled()
        name = str(snapshot.function_name)
        if name not in self._functions:
            return snapshot.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        self._calls += 1
        try:
            value = self._budget.call(self._functions[name], snapshot.args, snapshot.kwargs)
        except SandboxError:
            raise
        except Exception as error:  # noqa: BLE001 - the guest receives it as an error of the function
            return snapshot.resume({"exc_type": "ValueError", "message": str(error)})
        return snapshot.resume({"return_value": value})

    def _sandbox_error(self, error: Any) -> SandboxError:
        """Returns our error for a Monty error, with its line and cause."""
        import pydantic_monty as monty

        if isinstance(error, monty.MontyCrashedError):
            kind = LimitError if self._calls or error.timed_out else WorkerDiedError
            return kind(f"the sandbox stopped the program: {error}")
        if isinstance(error, monty.MontyConversionError):
            return ProgramError(f"a value cannot pass between program and host: {error}")
        if not isinstance(error, monty.MontySyntaxError | monty.MontyRuntimeError):
            return SandboxError(f"the sandbox failed: {error}")
        return self._program_error(error)

    def _program_error(self, error: Any) -> SandboxError:
        frames = [frame for frame in error.traceback() if frame.source_line and frame.source_line != self._call]
        place = f"line {frames[-1].line}: " if frames else ""
        cause = error.exception()
        # A program reports with a ValueError that it cannot decide; the kind adds nothing.
        message = error.display("msg" if type(cause) is ValueError else "type-msg")
        if isinstance(cause, NotImplementedError) and _NOT_YET in message and not self._calls:
            return UnsupportedSyntaxError(f"{place}{message}")
        over_limit = isinstance(cause, _LIMIT_ERRORS) or "max_suspensions" in message
        return LimitError(f"{place}over its limits: {message}") if over_limit else ProgramError(f"{place}{message}")


def _placeholder(name: str) -> Callable[..., None]:
    """Returns a stand-in for a toolbox function that the guest uses as a value; calls of it come by name."""

    def function() -> None: ...

    function.__name__ = name
    return function


class _Pool:
    """The worker processes, managed by Monty's client, and the launcher that confines them."""

    def __init__(self) -> None:
        self.unconfined = _launcher_problem()
        self._launcher = None if self.unconfined else _launcher()
        try:
            self.monty = _start(self._launcher)
        except SandboxError as error:
            self.stop()
            if self._launcher is None or "SIGKILL" in str(error):  # killed from outside: the next run starts it again
                raise
            self.unconfined = f"its workers do not start behind the layers ({error}); allow scripts to run from memory"
            self._launcher = None
            self.monty = _start(None)

    def stop(self) -> None:
        if hasattr(self, "monty"):
            self.monty.__exit__(None, None, None)
        if self._launcher is not None:
            os.close(self._launcher)


def _start(launcher: int | None) -> Monty:
    from pydantic_monty import Monty

    path = f"/proc/{os.getpid()}/fd/{launcher}" if launcher is not None else None
    workers = max(2, os.cpu_count() or 2)
    pool = Monty(binary_path=path, min_processes=1, max_processes=workers, checkout_timeout=WAIT_SECONDS)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(pool)
            with pool.checkout() as session:
                session.feed_run("1")
        except Exception as error:  # noqa: BLE001 - its client may raise anything
            raise SandboxError(f"the Monty worker does not start: {error}") from None
        stack.pop_all()  # it stays open
    return pool


def problem() -> str:
    """Returns why this engine cannot work on this machine; empty if it can."""
    from importlib.util import find_spec

    if not find_spec("pydantic_monty"):
        return "'pydantic-monty' is not installed; reinstall guardagent"
    try:
        _binary()
    except SandboxError as error:
        return str(error)
    return ""


def _binary() -> str:
    from pydantic_monty._binary import find_monty_binary

    try:
        return str(find_monty_binary())
    except FileNotFoundError:
        raise SandboxError(
            "the program 'monty' is neither beside Python nor on 'PATH'; reinstall guardagent, or set 'MONTY_BIN'"
        ) from None


def _launcher_problem() -> str:
    """Returns why no launcher can be made here, and the fix; empty if one can."""
    if not hasattr(os, "memfd_create"):
        return "its workers can be confined only on Linux; run on Linux"
    if not hardening.active():
        return "no hardening layer works on this machine"
    if " " in sys.executable or len(sys.executable) > _MAX_INTERPRETER:
        return f"the path of Python is too long or contains a space: {sys.executable!r}; install it at another path"
    return ""


def _launcher() -> int:
    """Returns a script, in memory, that confines a worker process and then becomes the worker.

    The client starts workers from a path without arguments, so the script contains all options. A script in memory
    needs no folder with execute permission, and vanishes with this process, however that ends.
    """
    interpreter = f"#!{sys.executable} -{''.join(flag[1:] for flag in worker.FLAGS)}\n"
    script = os.memfd_create("guardagent-worker", os.MFD_CLOEXEC)
    os.write(script, (interpreter + worker.script("confinement", _binary(), hardening.active())).encode())
    os.fchmod(script, 0o500)
    return script


_POOL: WarmResource[_Pool] = WarmResource(_Pool, _Pool.stop)


def first_gap(tree: ast.Module) -> str:
    """Returns the first feature in a program that Monty lacks, with its line; empty if it can run all of it."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, _CHECKED_NODES)]
    names = _ProgramNames(nodes)
    for node in nodes:
        if what := _CHECKS[type(node)](node, names):
            return f"line {getattr(node, 'lineno', 1)}: {what} not supported by the engine 'monty'"
    return ""


class _ProgramNames:
    """The functions, modules and types that the names of a program refer to."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        imports = [node for node in nodes if isinstance(node, ast.Import)]
        self.modules = {alias.asname or alias.name: alias.name for node in imports for alias in node.names}
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "typing"]
        self.types = {alias.asname or alias.name for node in froms for alias in node.names}


def _class_gap(node: ast.ClassDef, _names: _ProgramNames) -> str:
    if any(not (isinstance(base, ast.Name) and base.id == "object") for base in node.bases):
        return "inheritance is"
    if any(isinstance(item, ast.FunctionDef) and item.decorator_list for item in node.body):
        return "decorators of methods are"
    return ""


def _function_gap(node: ast.FunctionDef, _names: _ProgramNames) -> str:
    return f"the method {node.name!r} is" if node.name.startswith("__") and node.name not in CALLED_METHODS else ""


def _import_gap(node: ast.Import, _names: _ProgramNames) -> str:
    missing = [alias.name for alias in node.names if alias.name not in MODULES]
    return f"the module {missing[0]!r} is" if missing else ""


def _import_from_gap(node: ast.ImportFrom, _names: _ProgramNames) -> str:
    if node.module not in MODULES:
        return f"the module {node.module!r} is"
    missing = [alias.name for alias in node.names if _lacks(node.module, alias.name)]
    return f"'{node.module}.{missing[0]}' is" if missing else ""


def _attribute_gap(node: ast.Attribute, names: _ProgramNames) -> str:
    module = names.modules.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if _lacks(module, node.attr):
        return f"'{module}.{node.attr}' is"
    if node.attr in ("__name__", "__doc__") and not isinstance(node.value, ast.Call):
        return f"{node.attr!r} of anything but 'type(x)' is"
    return f"the attribute {node.attr!r} is" if node.attr in MISSING_ATTRIBUTES else ""


def _lacks(module: str | None, name: str) -> bool:
    return module in MISSING_NAMES and name in MISSING_NAMES[module].split()


def _name_gap(node: ast.Name, names: _ProgramNames) -> str:
    return f"{node.id!r} is" if node.id in MISSING_BUILTINS and node.id not in names.functions else ""


def _call_gap(node: ast.Call, names: _ProgramNames) -> str:
    match node.func:
        case ast.Name(id="round") if len(node.args) + len(node.keywords) > 1:
            return "'round' to some digits, which rounds 2.675 otherwise, is"
        case ast.Attribute(value=ast.Name(id=name), attr=function) if names.modules.get(name) == "re":
            if function in _REPEATED and _matches_nothing(node.args):
                return f"a pattern that matches an empty text in 're.{function}' is"
        case ast.Attribute(attr="sub") if any(_is_function(item, names.functions) for item in node.args):
            return "a function as replacement is"
        case ast.Name(id="dataclass") | ast.Attribute(attr="dataclass"):
            missing = [str(keyword.arg) for keyword in node.keywords if keyword.arg not in _DATACLASS_OPTIONS]
            return f"the dataclass option {missing[0]!r} is" if missing else ""
    return ""


def _matches_nothing(arguments: list[ast.expr]) -> bool:
    """Whether a pattern matches the empty text: beside another match it does so in CPython only."""
    match arguments:
        case [ast.Constant(value=str(pattern)), *_]:
            with contextlib.suppress(re.error):
                return re.match(pattern, "") is not None
    return False


def _dict_gap(node: ast.Dict, _names: _ProgramNames) -> str:
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    return "a key that equals another one, such as 1 and True, is" if len({*keys}) < len(keys) else ""


def _assign_gap(node: ast.Assign, names: _ProgramNames) -> str:
    """Returns a type that is used as a value; an annotation is not evaluated."""
    match node.value:
        case ast.Subscript(value=ast.Name(id=name)) if name in names.types:
            return f"'{name}[…]' as a value is"
    return ""


def _is_function(node: ast.expr, functions: set[str]) -> bool:
    return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in functions)


_CHECKS: dict[type[ast.AST], Callable[[Any, _ProgramNames], str]] = {
    ast.ClassDef: _class_gap,
    ast.FunctionDef: _function_gap,
    ast.Yield: lambda *_: "generators are",
    ast.YieldFrom: lambda *_: "generators are",
    ast.Delete: lambda *_: "'del' is",
    ast.Dict: _dict_gap,
    ast.Import: _import_gap,
    ast.ImportFrom: _import_from_gap,
    ast.Attribute: _attribute_gap,
    ast.Name: _name_gap,
    ast.Call: _call_gap,
    ast.Assign: _assign_gap,
}
_CHECKED_NODES = tuple(_CHECKS)
