"""The file of a compiled guard program: readable Python under a header that records its sources.

    # guardagent program 1
    # request: sha256:…                       the request's words
    # specification: sha256:…                 the specification's words and its front matter
    # toolbox: check_access sha256:…          one line per toolbox function that the program names
    # examples: sha256:… n=12 passed=12
    # model: openai/gpt-4.1   date: 2026-01-31
    # body: sha256:…                          everything below the header
    # header: sha256:…                        the lines above

If one of these has changed since, the program is *stale*: its tests no longer cover its decisions. The digests detect
accidental or unnoticed changes only: anyone who can write the file can update them too. A lock file in another place
prevents that (`guardagent lock`).

A program without a header was written by hand. It runs unchanged, and is never stale by itself.
"""

from __future__ import annotations

import ast
import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from guardagent._support import syntax
from guardagent.errors import ContentError, InputError, name_hint
from guardagent.programs.program import read_program
from guardagent.sandbox.toolbox import source_files

if TYPE_CHECKING:
    from guardagent.sandbox.toolbox import Tool, Toolbox

FIRST_LINE = "# guardagent program 1"
_KEYS = ("request", "specification", "toolbox", "examples", "model", "body", "header")
_OPENING = re.compile(r"[ \t]*#[ \t]*guardagent program\b", re.IGNORECASE)
_LINE = re.compile(r"# (\w+): (.+)")
_DIGEST = r"(sha256:[0-9a-f]{64})"
_FORMS = {
    "toolbox": re.compile(rf"([A-Za-z_]\w*) {_DIGEST}"),
    "examples": re.compile(rf"{_DIGEST} n=(\d{{1,9}}) passed=(\d{{1,9}})"),
    "model": re.compile(r"(.+?)   date: (\d{4}-\d\d-\d\d)"),
}
_EXPECTED = {
    "toolbox": "a function's name and a digest",
    "examples": "a digest, n=NUMBER and passed=NUMBER",
    "model": "a name, then 'date:' and a day such as 2026-01-31",
}


@dataclass(frozen=True, slots=True)
class ExampleEvidence:
    """The examples that a program was tested on: their digest, their number, and how many passed."""

    digest: str
    n: int
    passed: int


@dataclass(frozen=True, slots=True)
class Header:
    """The sources of a compiled program. All digests are strings such as `sha256:…`.

    Attributes:
        toolbox: function name -> digest of the file that defines it, with the private files that it imports.
    """

    request: str
    specification: str
    toolbox: Mapping[str, str]
    examples: ExampleEvidence
    model: str
    date: str
    body: str


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """A program file: its text, its header if any, and the problem with an invalid header."""

    source: str
    header: Header | None = None
    problem: str = ""


def read_program_file(path: Path | str) -> ProgramFile:
    """Reads a program file. Returns an invalid header as a problem instead of raising.

    Raises:
        ContentError: the file is not valid Python, or does not define `check`.
    """
    source = read_program(path)
    try:
        return ProgramFile(source, parse(source, path)[0])
    except ContentError as error:
        return ProgramFile(source, problem=str(error))


def fresh_program(path: Path | str, toolbox: Toolbox, request: str | None = None) -> str:
    """Reads a program that runs without a known agent.

    Raises:
        ContentError: it is not a program, its header is invalid, or it is stale for this toolbox (and request).
    """
    source = read_program(path)
    header, _ = parse(source, path)
    if header is not None and (changed := _differences(header, toolbox, request)):
        raise ContentError(f"the program is stale: {'; '.join(changed)}; compile it again: 'guardagent compile'", path)
    return source


def header_of(
    source: str, request: str, specification: str, toolbox: Toolbox, examples: ExampleEvidence, *, model: str
) -> Header:
    """Builds the header of a program. `specification` is a `whole_specification`.

    Raises:
        InputError: the program already has a header.
    """
    body = _body(source)
    if any(_OPENING.match(line) for line in body.split("\n")):
        raise InputError("the program already has a header; expected the body only")
    return Header(
        digest_of_words(request),
        digest_of_words(specification),
        MappingProxyType({name: digest_of_tool(toolbox[name]) for name in called_functions(body, toolbox)}),
        examples,
        " ".join("".join(c if c.isprintable() else " " for c in model).split()) or "unknown",
        dt.datetime.now(dt.UTC).date().isoformat(),
        digest_of(body),
    )


def write(source: str, header: Header) -> str:
    """Returns the text of a program file."""
    proof = header.examples
    lines = [
        FIRST_LINE,
        f"# request: {header.request}",
        f"# specification: {header.specification}",
        *(f"# toolbox: {name} {digest}" for name, digest in sorted(header.toolbox.items())),
        f"# examples: {proof.digest} n={proof.n} passed={proof.passed}",
        f"# model: {header.model}   date: {header.date}",
        f"# body: {header.body}",
    ]
    return "\n".join([*lines, f"# header: {digest_of(_joined(lines))}", _body(source)])


def parse(text: str, path: Path | str) -> tuple[Header | None, str]:
    """Returns (header, body) of a program file. The header of a handwritten program is None.

    Raises:
        ContentError: the header is malformed, or does not match the body.
    """
    lines = _body(text).split("\n")
    for number, line in enumerate(lines[1:], start=2):
        if _OPENING.match(line):
            raise ContentError("unexpected header line; expected a header on the first line only", path, number)
    if not _OPENING.match(lines[0]):
        return None, text
    return _HeaderReader(lines, path).read()


def staleness(header: Header, request: str, specification: str, toolbox: Toolbox) -> str:
    """Describes the changes since a program was compiled; empty if nothing changed."""
    return "; ".join(_differences(header, toolbox, request, specification))


def whole_specification(body: str, required: Sequence[str] = (), data: Mapping[str, Any] | None = None) -> str:
    """Returns a specification with its front matter, the text of its digest."""
    if not required and not data:
        return body
    front = {"required_checks": list(required), "data": dict(data or {})}
    return f"{json.dumps(front, sort_keys=True, ensure_ascii=False, default=str)}\n{body}"


def called_functions(source: str, toolbox: Mapping[str, Any]) -> list[str]:
    """Returns the toolbox functions that a program names, called or passed on."""
    read = {node.id for node in ast.walk(syntax.parse(source)) if isinstance(node, ast.Name)}
    return sorted(read & set(toolbox))


def digest_of(text: str | bytes) -> str:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest_of_words(text: str) -> str:
    """Returns the digest of a text, independent of white space."""
    return digest_of(" ".join(text.split()))


def digest_of_tool(tool: Tool) -> str:
    """Returns the digest of all source that a toolbox function may run: its file, and the private files it imports.

    It covers whole files, since a function can depend on any line of its file.
    """
    digest = hashlib.sha256()
    for path in source_files(tool.path):
        name, data = path.relative_to(tool.path.parent).as_posix().encode(), path.read_bytes()
        digest.update(b"%d %s %d " % (len(name), name, len(data)) + data)
    return f"sha256:{digest.hexdigest()}"


def _differences(
    header: Header, toolbox: Toolbox, request: str | None = None, specification: str | None = None
) -> list[str]:
    """Lists the changes. A request or specification of None is not compared."""
    changed = []
    for name, now, then in (
        ("request", request, header.request),
        ("specification", specification, header.specification),
    ):
        if now is not None and digest_of_words(now) != then:
            changed.append(f"the {name} has changed since it was compiled")
    for name, digest in header.toolbox.items():
        if name not in toolbox:
            changed.append(f"the toolbox function {name!r}, which it calls, no longer exists{name_hint(name, toolbox)}")
        elif digest_of_tool(toolbox[name]) != digest:
            changed.append(f"the toolbox function {name!r} ('{toolbox[name].path}') has changed since it was compiled")
    return changed


def _body(text: str) -> str:
    """Normalizes line ends, with one at the end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") + "\n"


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


class _HeaderReader:
    """Reads the header line by line."""

    def __init__(self, lines: list[str], path: Path | str) -> None:
        self._lines = lines
        self._path = path
        self._at = 1
        self._found: dict[str, str] = {}
        self._toolbox: dict[str, str] = {}

    def read(self) -> tuple[Header, str]:
        if self._lines[0] != FIRST_LINE:
            self._refuse(f"{self._lines[0][:60]!r} is not a header of this version; expected {FIRST_LINE!r}")
        while "header" not in self._found:
            self._at += 1
            self._line()
        body = _body("\n".join(self._lines[self._at :]))
        self._verify(body)
        return self._header(), body

    def _line(self) -> None:
        match = _LINE.fullmatch(self._lines[self._at - 1]) if self._at <= len(self._lines) else None
        if match is None:
            missing = next(key for key in _KEYS if key not in self._found and key != "toolbox")
            self._refuse(f"the header ends too early; expected a line '# {missing}: …'")
        key, value = match.groups()
        if key not in _KEYS:
            self._refuse(f"unknown key {key!r} in the header{name_hint(key, _KEYS)}")
        form = _FORMS.get(key, re.compile(_DIGEST)).fullmatch(value)
        if form is None:
            self._refuse(f"{key!r} is {value[:80]!r}; expected {_EXPECTED.get(key, 'a digest, sha256: and 64 digits')}")
        self._keep(key, value, form)

    def _keep(self, key: str, value: str, match: re.Match[str]) -> None:
        known, name = (self._toolbox, match[1]) if key == "toolbox" else (self._found, key)
        if name in known:
            self._refuse(f"{name!r} appears twice in the header; expected it once")
        known[name] = match[2] if key == "toolbox" else value

    def _verify(self, body: str) -> None:
        for key in _KEYS:
            if key != "toolbox" and key not in self._found:
                self._refuse(f"the header has no line {key!r}; expected one")
        if digest_of(_joined(self._lines[: self._at - 1])) != self._found["header"]:
            self._refuse("the header was edited after 'guardagent compile' wrote it: its digest differs")
        if digest_of(body) != self._found["body"]:
            self._refuse("the program was edited after it was compiled: its digest differs from the header")

    def _header(self) -> Header:
        examples, model = (_FORMS[key].fullmatch(self._found[key]) for key in ("examples", "model"))
        assert examples is not None
        assert model is not None
        proof = ExampleEvidence(examples[1], int(examples[2]), int(examples[3]))
        if proof.passed != proof.n or not proof.n:
            self._refuse(f"the program passed {proof.passed} of {proof.n} examples; expected all of at least one")
        texts = (self._found["request"], self._found["specification"], MappingProxyType(self._toolbox))
        return Header(*texts, proof, model[1], model[2], self._found["body"])

    def _refuse(self, message: str) -> NoReturn:
        remedy = "compile it again ('guardagent compile'), or remove the header and take responsibility for the program"
        raise ContentError(f"{message}; {remedy}", self._path, min(self._at, len(self._lines)))
