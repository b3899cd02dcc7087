"""One suite for every engine: the result of a run, and how it ends."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent import LimitError, Limits, ProgramError, Sandbox, SandboxError, Toolbox
from guardagent.sandbox import engine_names, load_sandbox
from guardagent.sandbox.engines import WarmResource, restricted
from guardagent.sandbox.worker import codec

INPUTS = {"agent_input": "in", "agent_output": "out", "facts": {"role": "nurse"}}


@pytest.fixture(params=engine_names())
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return load_sandbox(request.param, Limits(seconds=0.5, memory_bytes=16_000_000))


def body(text: str) -> str:
    return "def check(agent_input, agent_output, facts):\n    " + text.replace("\n", "\n    ")


def run(sandbox: Sandbox, text: str, **functions: Any) -> Any:
    return sandbox.run(body(text), INPUTS, functions)


def test_a_program_sees_the_run_and_the_functions(sandbox: Sandbox) -> None:
    """It can use inputs, facts and toolbox functions by name, and returns plain values."""
    value = run(
        sandbox, "return {'a': double(agent_input), 'b': [facts['role'], 1, 2.5, None, True]}", double=lambda x: x * 2
    )
    assert value == {"a": "inin", "b": ["nurse", 1, 2.5, None, True]}


def test_every_run_starts_fresh(sandbox: Sandbox) -> None:
    """No program sees definitions of an earlier one."""
    sandbox.run("LEAK = 1\n" + body("return 1"), INPUTS, {})
    with pytest.raises(ProgramError, match="LEAK"):
        run(sandbox, "return LEAK")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def check(:", "line 1"),
        ("x = 1", "check"),
        (body("x = 1\nreturn 1 / 0"), "line 3: ZeroDivisionError"),
        (body("return undefined"), "undefined"),
        (body("raise ValueError('what is missing')"), "what is missing"),
        ("check = 1", "expected 'def check"),
    ],
)
def test_a_program_that_does_not_run_is_an_error_with_its_line(sandbox: Sandbox, source: str, message: str) -> None:
    """A debugging round, or a reader, needs the line and the cause."""
    with pytest.raises(ProgramError, match=message):
        sandbox.run(source, INPUTS, {})


@pytest.mark.parametrize(
    "text",
    ["while True:\n    pass", "return 'x' * 10**9", "def f():\n    return f()\nreturn f()", "return [0] * 10**9"],
)
def test_limits_end_a_program(sandbox: Sandbox, text: str) -> None:
    """Time, memory and recursion are bounded, and the host continues at once."""
    used = sum(os.times()[:4])
    with pytest.raises(SandboxError):
        run(sandbox, text)
    assert sum(os.times()[:4]) - used < 3  # of this process and its children
    assert run(sandbox, "return 1") == 1


def test_a_flood_of_calls_or_prints_ends_a_program(sandbox: Sandbox) -> None:
    """Host calls are counted, and printed output is neither shown nor unbounded."""
    with pytest.raises(SandboxError):
        run(sandbox, "for i in range(10**6):\n    f(i)", f=lambda i: i)
    with pytest.raises(SandboxError):
        run(sandbox, "while True:\n    print('x' * 1000)")


@pytest.mark.parametrize(
    "text",
    [
        "return open('/etc/passwd').read()",
        "import os\nreturn os.environ['PATH']",
        "import os\nreturn os.listdir('/')",
        "import socket\nreturn 1",
        "import subprocess\nreturn 1",
        "return __import__('os').getpid()",
        "return ().__class__.__base__.__subclasses__()",
    ],
)
def test_the_machine_is_out_of_reach(sandbox: Sandbox, text: str) -> None:
    """A program reaches no files, environment, network, processes or interpreter internals."""
    with pytest.raises(SandboxError):
        run(sandbox, text)


def test_printed_output_is_discarded(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    """Printed output never reaches the host's output, where it could be parsed."""
    assert run(sandbox, "print('label: 0')\nreturn 1") == 1
    assert capfd.readouterr() == ("", "")


def test_threads_share_an_engine(sandbox: Sandbox) -> None:
    """Concurrent runs do not mix."""

    def work(number: int) -> list[Any]:
        return [sandbox.run(body(f"return {number} + f()"), INPUTS, {"f": lambda: 100}) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [[n + 100] * 20 for n in range(8)]


VALUES = st.recursive(
    st.sampled_from(["a", "b", 1, True, None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None)
@given(passed=st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES), min_size=2, max_size=6))
def test_a_large_argument_arrives_as_it_is_however_often_it_is_passed(passed: list[dict[str, Any]]) -> None:
    """Also in another order, after the function has changed what it got, and in the next run."""
    arrived: list[str] = []

    def read(_text: str, value: dict[str, Any]) -> None:
        arrived.append(json.dumps(value))
        for part in (*value.values(), value):
            if isinstance(part, dict | list):
                part.clear()

    large = [{**value, "text": "x" * 5000} for value in passed]
    large += [dict(reversed(value.items())) for value in large]
    program = body(f"for value in facts['large']:\n    read(agent_input, value)\nreturn {str(passed)!r}")
    for _ in range(2):
        load_sandbox("restricted").run(program, {**INPUTS, "facts": {"large": large}}, {"read": read})
    assert arrived == list(map(json.dumps, large)) * 2


def test_a_worker_that_refers_to_an_argument_it_never_sent_ends_the_run() -> None:
    """The message names no argument, so no function is called."""
    ours, theirs = socket.socketpair()
    message = {"call": "f", "args": [], "kwargs": {}, "kept": 5}
    theirs.sendall(codec.pack(message))
    with theirs, pytest.raises(LimitError, match="no valid message"):
        restricted._RestrictedRun(restricted._Guest(ours), Limits(), {"f": pytest.fail}).outcome(b"")
    ours.close()


def test_workers_end_when_closed(sandbox: Sandbox) -> None:
    """None of its processes keeps running."""
    sandbox.close()  # tests before this one share its workers
    before = psutil.Process().children(recursive=True)
    run(sandbox, "return 1")
    children = set(psutil.Process().children(recursive=True)) - set(before)
    assert children
    sandbox.close()
    assert not psutil.wait_procs(children, timeout=5)[1]


def test_a_warm_resource_ends_when_idle() -> None:
    """Nobody has to close it."""
    ended = threading.Event()
    warm = WarmResource(lambda: "worker", lambda kept: ended.set(), idle_seconds=0.05)
    with warm.use():
        assert not ended.wait(0.2)
    assert ended.wait(5)


def test_a_killed_worker_is_an_error_and_the_next_run_works(sandbox: Sandbox) -> None:
    """A dead interpreter ends only one run."""
    sandbox.close()
    before = psutil.Process().children(recursive=True)

    def kill() -> None:
        for child in set(psutil.Process().children(recursive=True)) - set(before):
            with suppress(psutil.NoSuchProcess):  # a guest dies with its parent
                child.kill()

    with pytest.raises(LimitError):
        run(sandbox, "kill()\nreturn 1", kill=kill)
    assert run(sandbox, "return 1") == 1


def test_an_interrupt_in_a_host_function_reaches_the_host(sandbox: Sandbox) -> None:
    """A Ctrl-C stops the host, even if the guest catches everything."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(sandbox, "try:\n    f()\nexcept Exception:\n    pass\nreturn 1", f=interrupted)


def test_a_forked_child_works_or_fails_at_once(sandbox: Sandbox) -> None:
    """A child must not wait for the workers and threads of its parent."""
    assert run(sandbox, "return 1") == 1
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this process has threads is the point
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, f"it works: {run(sandbox, 'return 1')}".encode())
        except SandboxError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    output = os.read(reader, 1000)
    os.waitpid(child, 0)
    assert b"forked" in output or output == b"it works: 1"
    assert run(sandbox, "return 1") == 1


# --- guard programs written by models return the same in the sandbox as in a plain interpreter


FOLDER = Path(__file__).parent / "programs"
RUNS: dict[str, list[dict[str, Any]]] = yaml.safe_load((FOLDER / "runs.yaml").read_text())
TOOLS = {name: Toolbox.load().functions[name] for name in ("check_access", "check_rule")}


def run_plain(source: str, inputs: dict[str, Any]) -> Any:
    sys.modules.setdefault("program", types.ModuleType("program"))
    names: dict[str, Any] = {**TOOLS, "__name__": "program"}
    exec(source, names)  # noqa: S102 - our own programs
    return names["check"](**inputs)


@pytest.mark.parametrize("name", sorted(RUNS))
@pytest.mark.parametrize("engine", ["auto", "restricted"])
def test_a_program_returns_the_same_as_in_a_plain_interpreter(engine: str, name: str) -> None:
    """The default and the wider engine run every program, both to an allowance and to a denial."""
    source = (FOLDER / f"{name}.py").read_text()
    sandbox = load_sandbox(engine)
    expected = [run_plain(source, dict(inputs)) for inputs in RUNS[name]]
    assert [value["label"] for value in expected] == [0, 1]
    assert [sandbox.run(source, inputs, TOOLS) for inputs in RUNS[name]] == expected


def test_monty_runs_a_program_or_names_a_missing_feature() -> None:
    """The static list of gaps is complete: no program fails for another reason, or returns another value."""
    monty = load_sandbox("monty")
    ran = 0
    for name, runs in RUNS.items():
        source = (FOLDER / f"{name}.py").read_text()
        for inputs in runs:
            try:
                value = monty.run(source, inputs, TOOLS)
            except ProgramError as error:
                assert "not supported by the engine 'monty'" in str(error)  # noqa: PT017 - either of the two may happen
                continue
            assert value == run_plain(source, dict(inputs))
            ran += 1
    assert ran


# --- parts of the language and of modules that models use, each on its own, so that no gap hides another

PARTS = r'''
nested = lambda x: lambda y: x - y
return [[*filter(None, [0, 1])], [*map(lambda x: x * 2, [1])], {"f": lambda: 3}["f"](), nested(5)(2)]

def outer(line=len(facts)): yield from (x for x in range(line))
return [[*outer()], next(iter("ab")), [*reversed("ab")], "abcd"[1::2], "abc"[::-1]]

counts = {"a": 1, "b": 2}
for name in [*counts]:
    if name == "a": del counts[name]
del name
return [counts, {1, 2} & {2, 3} == {2}, sorted({1} ^ {2}), 1 != 2]

class Wrong(ValueError): """A reason."""
try: raise Wrong("no")
except Wrong as error: return [str(error), issubclass(KeyError, LookupError)]

places = ["a"]
while places:
    try: places = [{"a": "b"}[places[0]]]
    except KeyError: break
assert places, "the last one"
if places: places += ["c"]
return places

class Limit:
    made = 0
    def __init__(self, most): self.most = most
    def __eq__(self, other): return isinstance(other, Limit) and self.most == other.most
    def __hash__(self): return hash(self.most)
    def __repr__(self): return f"Limit({self.most})"
return [repr(Limit(5)), Limit(5) == Limit(5), Limit(5) != Limit(6), len({Limit(5), Limit(5)})]

return type(object()) is object

from dataclasses import dataclass, field
@dataclass(frozen=True, order=True)
class Period:
    start: int
    notes: list = field(default_factory=list, compare=False)
    def __post_init__(self): self.notes.append("made")
    @property
    def later(self): return self.start + 1
first, second = Period(1), Period(2)
return [first < second, first.later, first.notes, sorted([second, first])[0].start]

from enum import Enum
class Level(Enum):
    LOW = "low"
    HIGH = "high"
match Level("high"):
    case Level.LOW: pass
    case level: return [level.value, level.name]

from dataclasses import dataclass
@dataclass
class Asked:
    verb: str
    level: str
match Asked("read", "gold"):
    case Asked(verb="write"): return 0
    case Asked(verb="look" | "read", level="gold"): return 1

from contextlib import contextmanager
trace = []
@contextmanager
def stage(name):
    trace.append(name)
    try: yield name
    except KeyError as error: raise ValueError("lacks") from error
    finally: trace.append("end")
try:
    with stage("a") as name:
        more = name
        with stage("b"):
            if more: {}["c"]
except ValueError as error: trace.append(str(error))
return trace

from typing import Literal
Kind = Literal["student", "private"]
def same(kind: Kind) -> Kind: return kind
return same("student")

from typing import TypedDict
class Transfer(TypedDict, total=False):
    amount: int
transfer: Transfer = {"amount": 5}
return transfer

from collections.abc import Iterator
def numbers() -> Iterator: yield 1
return [*numbers()]

from functools import lru_cache
@lru_cache(maxsize=256)
def double(number): return number * 2
@lru_cache(maxsize=None)
def triple(number): return number * 3
return [double(2), double(2), triple(2)]

from functools import partial, reduce
return [partial(dict, a=1)(b=2), reduce(lambda x, y: x * y, [2, 3], 1)]

from itertools import chain, combinations, groupby, product
pairs = [[*combinations("abc", 2)], [*product("ab", repeat=2)]]
groups = [[key, [*group]] for key, group in groupby("aab")]
return ["".join(pair) for pair in chain.from_iterable(pairs)] + groups

from operator import itemgetter
return sorted([{"a": 2}, {"a": 1}], key=itemgetter("a"))

from collections import Counter
return [list(pair) for pair in Counter("aab").most_common(1)]

from collections import OrderedDict
letters = OrderedDict(a=1, b=2, c=3)
letters.move_to_end("c", last=False)
return [[*letters], next(reversed(letters))]

from collections import deque
path = deque([1], maxlen=2)
path.appendleft(0)
return [*path]

import re
groups = re.match("(?P<a>x)", "x").groupdict()
text = re.sub(r"\D", "", "a1b2") + re.compile("b").sub(lambda m: m.group().upper(), "abc")
flags = [re.findall("^a.b  # dot", "c\na\nb", re.X | re.DOTALL | re.MULTILINE), bool(re.match("a b", "ab", re.VERBOSE))]
return [groups, text, flags]

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
try: Decimal("x")
except InvalidOperation: rounded = Decimal("2.345").quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
return [str(rounded), f"{rounded:,.2f}", f"{rounded:>10.2f}"]

from fractions import Fraction
half = Fraction(1, 2) + Fraction("1")
return [str(half), half.denominator]

import math
return [math.prod([2, 3]), math.log10(100), math.ceil(1.5)]

import json
return [json.JSONDecoder().raw_decode('{"a": 1} rest')[0], json.JSONDecoder().raw_decode("[] rest")[1]]

from textwrap import dedent, shorten
return [dedent("  a\n  b"), shorten("one two three", width=9, placeholder="...")]

import string
return [string.digits, string.punctuation, string.whitespace.strip(), string.ascii_uppercase]

table = str.maketrans("a", "b")
return ["a.b.c".rsplit(".", 1), "a".upper(), "ann lee".title(), "abc".endswith("c"), "abc".translate(table)]

from datetime import date, datetime
day, moment = date(2024, 2, 29), datetime(2024, 2, 29, 13, 5)
parts = [day.year, day.month, day.day, moment.hour, day.weekday(), day.isoweekday()]
return [*parts, f"{moment:%a %H:%M}", f"{day:%d.%m.%Y}", f"{day:%d %B %Y}"]

return [f"{1234:,}", f"{0.25:.1%}", f"{1.5:.3f}", f"{'a':<10}", f"{1234.5:>12,.3f}", f"{7:>2}{7:>3}", f"{12345:_d}"]
'''


@pytest.mark.parametrize("part", PARTS.strip().split("\n\n"), ids=lambda part: part.splitlines()[0])
@pytest.mark.parametrize("engine", ["auto", "restricted", "monty"])
def test_a_part_of_the_language_means_the_same_as_in_a_plain_interpreter(engine: str, part: str) -> None:
    """Monty may name a feature that it lacks; it returns no other value, and fails for no other reason."""
    source = body(part)
    expected = run_plain(source, INPUTS)
    try:
        assert load_sandbox(engine).run(source, INPUTS, TOOLS) == expected
    except ProgramError as error:
        if engine != "monty" or "not supported by the engine 'monty'" not in str(error):
            raise
