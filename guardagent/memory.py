"""The memory: one folder per known target agent, and retrieval of demonstrations (paper, Section 4.2).

NAME/request.md              the guard request, in words
NAME/specification.md        what the agent does, reads and writes; its front matter may name required checks
NAME/demonstrations.jsonl    past guards: agent_input, agent_output, plan (four steps), code
NAME/program.py              a guard program for every run of that agent (optional)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent._content import shipped
from guardagent._files import parse_yaml, read_json_lines, read_text
from guardagent.errors import ContentError, InputError, UnknownNameError, nearest
from guardagent.program import parse_python, read_program
from guardagent.required import RequiredCheck

PLAN_STEPS = (
    "summarise the guard request",
    "filter what concerns the agent's input",
    "summarise the agent's output and locate it in the request",
    "say how code compares the two, and the engine that runs it",
)
"""The four mandatory steps of a demonstration's plan (Section 4.2), in order."""

_KEYS = ("agent_input", "agent_output", "plan", "code")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_KEYS = ("required_checks", "data")
# What looks like front matter that is none, and a required check that stands outside: neither must get lost.
_OPENING = re.compile(r"\s*(?:-{3,}|\+{3,}|`{3,})")
_STRAY = re.compile(r"^[ \t]*-?[ \t]*required_checks[ \t]*:", re.MULTILINE)
_FILES = ("request.md", "specification.md", "demonstrations.jsonl", "program.py")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One past guard, D = [I_i, I_o, P, C] in the paper."""

    agent_input: str
    agent_output: str
    plan: tuple[str, ...]
    code: str

    def to_json(self) -> str:
        record = {key: getattr(self, key) for key in _KEYS} | {"plan": list(self.plan)}
        return json.dumps(record, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """What is known of one target agent."""

    name: str
    path: Path
    request: str
    specification: str
    demonstrations: tuple[Demonstration, ...]
    program: str | None = None
    required: tuple[RequiredCheck, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def program_path(self) -> Path:
        return self.path / "program.py"


class Memory:
    """The agents under the given folders, then under the shipped one; the first that has a name wins."""

    def __init__(self, *folders: Path | str) -> None:
        self._roots = [Path(folder) for folder in folders]
        for root in self._roots:
            if not root.is_dir():
                raise InputError(f"{root}: no such memory folder; expected one folder per agent in it")
        self._roots.append(shipped("memory"))

    def names(self) -> dict[str, Path]:
        """Agent name -> its folder."""
        found: dict[str, Path] = {}
        for root in self._roots:
            for folder in sorted(path for path in root.iterdir() if path.is_dir()):
                if any((folder / name).exists() for name in _FILES):
                    found.setdefault(folder.name, folder)
        return found

    def agent(self, name: str) -> AgentMemory:
        """Everything known of an agent.

        Raises:
            UnknownNameError: no folder has that name.
            ContentError: one of its files is wrong.
        """
        folders = self.names()
        if name not in folders:
            raise UnknownNameError("agent", name, folders, where=" or ".join(map(str, self._roots)))
        return load_agent(folders[name])


def load_agent(path: Path) -> AgentMemory:
    """Reads one agent's folder.

    Raises:
        InputError: a file is missing or wrong; the message says which line and what was expected.
    """
    front, specification = read_specification(path / "specification.md")
    program = path / "program.py"
    return AgentMemory(
        name=path.name,
        path=path,
        request=read_text(path / "request.md").strip(),
        specification=specification,
        demonstrations=tuple(read_demonstrations(path / "demonstrations.jsonl")),
        program=read_program(program) if program.exists() else None,
        required=tuple(front["required_checks"]),
        data=front["data"],
    )


def read_specification(path: Path) -> tuple[dict[str, Any], str]:
    """(front matter, text) of a specification: `required_checks` parsed, and the `data` they use.

    Raises:
        ContentError: the front matter is wrong, does not end, or seems to stand elsewhere than at the beginning.
    """
    text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")
    match = _FRONT_MATTER.match(text)
    body = text[match.end() :] if match else text
    stray = _STRAY.search(body) or (None if match else _OPENING.match(body))
    if stray:
        raise ContentError(
            f"{stray[0].strip()!r} is no front matter here; expected the file to begin with a line '---', "
            "then required_checks: and data:, then a line '---'",
            path,
            text[: len(text) - len(body) + stray.end()].count("\n") + 1,
        )
    values = parse_yaml(match[1], path, first_line=2) if match else {}
    return _front_matter(values, path), body.strip()


def _front_matter(values: Any, path: Path) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ContentError("the front matter is no mapping; expected `required_checks:` and `data:`", path, 2)
    for key in values:
        if key not in _FRONT_KEYS:
            raise ContentError(f"unknown key {key!r}{nearest(str(key), _FRONT_KEYS)}", path, 2)
    data, checks = values.get("data", {}), values.get("required_checks", [])
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise ContentError("`data` is no mapping of names; expected names and values", path, 2)
    if not isinstance(checks, list) or not all(isinstance(check, str) for check in checks):
        raise ContentError("`required_checks` is no list of calls, such as `- check_access(...)`, or []", path, 2)
    return {"data": data, "required_checks": [RequiredCheck.parse(check, data, path) for check in checks]}


def read_demonstrations(path: Path) -> list[Demonstration]:
    """The demonstrations of a JSON Lines file, each validated."""
    return [demonstration(record, path, line) for line, record in read_json_lines(path)]


def demonstration(record: Mapping[str, Any], path: Path | str, line: int) -> Demonstration:
    """Validates one demonstration.

    Raises:
        ContentError: a key is missing, unknown or of the wrong type, or the plan has not exactly four steps.
    """
    for key in record:
        if key not in _KEYS:
            raise ContentError(f"unknown key {key!r}{nearest(key, _KEYS)}", path, line)
    for key in ("agent_input", "agent_output", "code"):
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise ContentError(f"key {key!r} is missing or empty; expected a text", path, line)
    plan = record.get("plan")
    if not isinstance(plan, list) or not all(isinstance(step, str) and step.strip() for step in plan):
        raise ContentError("key 'plan' is no list of texts; expected four steps", path, line)
    if len(plan) != len(PLAN_STEPS):
        steps = "; ".join(f"{number}) {step}" for number, step in enumerate(PLAN_STEPS, start=1))
        raise ContentError(f"the plan has {len(plan)} steps; expected four: {steps}", path, line)
    parse_python(record["code"], path, line)
    return Demonstration(record["agent_input"], record["agent_output"], tuple(plan), record["code"])


def retrieve(
    demonstrations: Sequence[Demonstration],
    agent_input: str,
    agent_output: str,
    k: int,
    *,
    least_similar: bool = False,
) -> list[Demonstration]:
    """The k demonstrations nearest to a run, nearest first; with `least_similar`, the k farthest, farthest first.

    The distance is the Levenshtein distance between the inputs plus that between the outputs
    (Section 4.2; least similarity: Appendix M). Exact; equal distances keep the order of the memory.
    """
    from rapidfuzz.distance.Levenshtein import distance

    def rank(item: Demonstration) -> int:
        total = distance(item.agent_input, agent_input) + distance(item.agent_output, agent_output)
        return -total if least_similar else total

    return sorted(demonstrations, key=rank)[:k]


def add_demonstrations(folder: Path, source: Path | str) -> int:
    """Appends the demonstrations of a JSON Lines file to an agent's folder; all of them, or none.

    Returns:
        How many were added.

    Raises:
        InputError: the folder has no agent, or a demonstration is wrong.
    """
    target = folder / "demonstrations.jsonl"
    if not (folder / "request.md").is_file():
        raise InputError(f"{folder}: no agent here; expected request.md and specification.md")
    name = "standard input" if str(source) == "-" else source
    known = set(read_demonstrations(target)) if target.exists() else set()
    new = []
    for line, record in read_json_lines(source):
        item = demonstration(record, name, line)
        if item in known:
            raise ContentError("this demonstration is there already; expected a new one", name, line)
        known.add(item)
        new.append(item)
    append_demonstrations(target, new)
    return len(new)


def append_demonstrations(path: Path, new: Sequence[Demonstration]) -> None:
    """Adds to a file of demonstrations, written aside and renamed: a crash leaves the old memory or the new one."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    separator = "" if not old or old.endswith("\n") else "\n"
    fresh = path.with_suffix(".new")
    fresh.write_text(old + separator + "".join(item.to_json() + "\n" for item in new), encoding="utf-8")
    fresh.replace(path)
