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
from typing import TYPE_CHECKING, Any

from guardagent._support import syntax
from guardagent.errors import ContentError, InputError, name_hint
from guardagent.programs.program import read_program
from guardagent.sandbox.toolbox import source_files

if TYPE_CHECKING:
    from guardagent.sandbox.toolbox import Tool, Toolbox

FIRST_LINE = "# guardagent program 1"
_OPENING = re.compile(r"[ \t]*#[ \t]*guardagent program\b", re.IGNORECASE)
_DIGEST = "sha256:[0-9a-f]{64}"
_HEADER = re.compile(
    rf"(?P<head>{FIRST_LINE}\n# request: (?P<request>{_DIGEST})\n# specification: (?P<specification>{_DIGEST})\n"
    rf"(?P<toolbox>(?:# toolbox: [A-Za-z_]\w* {_DIGEST}\n)*)"
    rf"# examples: (?P<examples>{_DIGEST}) n=(?P<n>\d{{1,9}}) passed=(?P<passed>\d{{1,9}})\n"
    rf"# model: (?P<model>[^\n]+?)   date: (?P<date>\d{{4}}-\d\d-\d\d)\n# body: (?P<body>{_DIGEST})\n)"
    rf"# header: (?P<header>{_DIGEST})\n(?P<program>.*)",
    re.DOTALL,
)
_REMEDY = "compile it again ('guardagent compile'), or remove the header and take responsibility for the program"


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
    head = "".join(f"{line}\n" for line in lines)
    return f"{head}# header: {digest_of(head)}\n{_body(source)}"


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
    if lines[0] != FIRST_LINE:
        problem = f"{lines[0][:60]!r} is not a header of this version; expected {FIRST_LINE!r}"
        raise ContentError(f"{problem}; {_REMEDY}", path, 1)
    match = _HEADER.fullmatch(_body(text))
    if match is None or digest_of(match["head"]) != match["header"]:
        raise ContentError(f"the header was edited after 'guardagent compile' wrote it; {_REMEDY}", path, 1)
    body, proof = _body(match["program"]), ExampleEvidence(match["examples"], int(match["n"]), int(match["passed"]))
    if digest_of(body) != match["body"]:
        raise ContentError(f"the program was edited after it was compiled; {_REMEDY}", path, 1)
    if proof.passed != proof.n or not proof.n:
        problem = f"the program passed {proof.passed} of {proof.n} examples; expected all of at least one"
        raise ContentError(f"{problem}; {_REMEDY}", path, 1)
    functions = dict(line.split()[2:] for line in match["toolbox"].splitlines())
    sources = (match["request"], match["specification"], MappingProxyType(functions))
    return Header(*sources, proof, match["model"], match["date"], match["body"]), body


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
