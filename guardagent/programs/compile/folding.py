"""The division of a request into parts, and the folding of their programs into one file.

The model proposes the partition, and the host checks that it covers each sentence once. Each program becomes the body
of its own function, verbatim. No part can define, shadow or change names of another one: its definitions are local to
its function, `global` is refused, and each part judges a copy of the facts. The code around the parts is the same for
every divided program.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent._support import syntax
from guardagent.errors import AnswerError, InputError, ModelError, name_hint
from guardagent.models.prompts import ModelCall
from guardagent.programs.answers import objects
from guardagent.programs.compile.candidate import CompileContext
from guardagent.programs.compile.examples import CompileTarget
from guardagent.programs.compile.request import Clause
from guardagent.programs.compile.trial import Properties

MODES = ("auto", "always", "never")

DIVIDE_ABOVE = 30
"""The mode `auto` divides requests with more sentences than this."""

_KEYS = ("parts", "context")


@dataclass(frozen=True, slots=True)
class RequestPart:
    """The sentences that one program judges."""

    clauses: tuple[Clause, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(clause.number for clause in self.clauses)

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"clause{'s' * (len(self.clauses) > 1)} {', '.join(map(str, self.numbers))}"


@dataclass(frozen=True, slots=True)
class Division:
    """A request divided into parts.

    Attributes:
        context: the sentences that set no rule, such as definitions.
        undivided: why the request was not divided although the mode asked for it.
    """

    parts: tuple[RequestPart, ...] = ()
    context: tuple[Clause, ...] = ()
    undivided: str = ""


def division_of(target: CompileTarget, context: CompileContext, mode: str, rounds: int) -> Division:
    """Has the model divide a request; returns a division without parts for a request that stays whole.

    Args:
        target: the request with its specification and toolbox.
        context: the model that divides it.
        mode: one of MODES.
        rounds: how often an invalid division goes back to the model.

    Raises:
        InputError: the mode is unknown.
        ModelError: the model did not answer, or gave no valid division in mode `always`.
    """
    if mode not in MODES:
        raise InputError(f"'divide' is {mode!r}; expected one of {', '.join(map(repr, MODES))}{name_hint(mode, MODES)}")
    if mode == "never" or len(target.clauses) < 2 or (mode == "auto" and len(target.clauses) <= DIVIDE_ABOVE):
        return Division()
    problem = before = ""
    for _ in range(1 + rounds):
        try:
            division = read_division(_request_division(target, context, problem), target.clauses)
        except AnswerError as error:
            before, problem = problem, str(error)
            if problem == before:  # the next prompt would be the same
                break
            continue
        if len(division.parts) > 1:
            context.progress(f"the request is divided into {len(division.parts)} parts")
            return division
        return Division(undivided="the model put all its sentences into one part")
    if mode == "always":
        raise ModelError(
            f"the model gave no valid division of the request: {problem}; try again, or use the mode 'auto' or 'never'"
        )
    return Division(undivided=f"the model gave no valid division: {problem}")


def read_division(answer: str, clauses: Sequence[Clause]) -> Division:
    """Reads the division in an answer: each sentence in exactly one part, or in the context.

    Raises:
        AnswerError: the division is missing or invalid, or a sentence is missing or appears twice.
    """
    found = [value for value in objects(answer) if "parts" in value]
    if len(found) != 1 or set(found[0]) - set(_KEYS):
        raise AnswerError(
            "invalid division; expected a JSON object with 'parts' (lists of numbers) and 'context' (numbers)"
        )
    parts, context = found[0]["parts"], found[0].get("context", [])
    if not isinstance(parts, list) or not parts or not all(map(_is_part, parts)) or not _are_numbers(context):
        raise AnswerError(
            "invalid division; expected non-empty lists of numbers in 'parts', and a list of numbers in 'context'"
        )
    by_number = {clause.number: clause for clause in clauses}
    places = Counter(number for numbers in (*parts, context) for number in numbers)
    _refuse_misplaced(places, by_number)
    parts_found = [RequestPart(tuple(by_number[number] for number in sorted(numbers))) for numbers in parts]
    return Division(
        tuple(sorted(parts_found, key=lambda part: part.numbers)),
        tuple(by_number[number] for number in sorted(context)),
    )


def _refuse_misplaced(places: Mapping[int, int], known: Mapping[int, Clause]) -> None:
    wrong = [
        (sorted(set(places) - set(known)), "sentence {} does not exist"),
        (sorted(number for number, count in places.items() if count > 1), "sentence {} appears twice"),
        (sorted(set(known) - set(places)), "sentence {} is missing"),
    ]
    for numbers, message in wrong:
        if numbers:
            raise AnswerError(f"{message.format(numbers[0])}; expected each number from 1 to {len(known)} once")


def _is_part(value: Any) -> bool:
    return _are_numbers(value) and bool(value)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _request_division(target: CompileTarget, context: CompileContext, problem: str) -> str:
    request, specification = target.request, target.specification
    prompt = context.prompts.render(
        "compile_divide", {"problem": problem}, request=request, specification=specification, clauses=target.clauses
    )
    return context.ask(ModelCall(prompt, nonce=context.redaction.nonce))


# --- folding

_LONGEST = 110
_DEPTH = 4  # spaces
_SPELT = 4  # numbers in a name
_OPENING = ("STRING", "FSTRING_START", "TSTRING_START")
_CLOSING = ("STRING", "FSTRING_END", "TSTRING_END")
_HELPERS = ("PARTS", "copied", "merged")

_HEAD = '"""Judges each part of the guard request by itself; the parts were compiled one by one, and folded."""\n'
_TAIL = '''

PARTS = (
@parts@)


def copied(value):
    """The facts for one part: what it does to them, no other part sees."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def merged(details, more, name):
    """The details of all parts: lists are joined, and a value that differs is kept under the part's name."""
    for key, value in more.items():
        known = details.get(key)
        if known is None or known == value:
            details[key] = value
        elif isinstance(known, list) and isinstance(value, list):
            details[key] = known + [item for item in value if item not in known]
        elif isinstance(known, dict) and isinstance(value, dict):
            details[key] = merged(dict(known), value, name)
        else:
            details[str(key) + " (" + name + ")"] = value
    return details


def check(agent_input, agent_output, facts):
    """The most severe answer of the parts stands, with the reasons of all of them."""
    denied, reasons, unknown, invalid, answers, details = False, [], [], [], [], {}
    for name, judge in PARTS:
        try:
            found = judge(agent_input, agent_output, copied(facts))
        except ValueError as error:
            if type(error).__name__ != "ValueError":
                raise
            invalid.append(name + ": " + str(error))
            continue
        more = dict(found.get("details") or {})
        lacks = more.pop("unknown", None) or []
        if found["label"] not in (0, 1) or not isinstance(lacks, list) or (lacks and not found["label"]):
            raise TypeError(name + " gives no answer; expected label 0 or 1, and label 1 where something is unknown")
        denied = denied or (found["label"] == 1 and not lacks)
        reasons += [reason for reason in found.get("reasons") or [] if reason not in reasons]
        unknown += [name + ": " + text for text in lacks]
        answers += [found.get("answer")] if found["label"] == 0 and found.get("answer") not in answers else []
        details = merged(details, more, name)
    if denied:
        more = {"undecided": invalid + unknown} if invalid or unknown else {}
        return {"label": 1, "reasons": reasons, "details": merged(details, more, "other parts"), "answer": None}
    if invalid:
        raise ValueError("; ".join(invalid))
    if unknown:
        return {"label": 1, "reasons": reasons, "details": {**details, "unknown": unknown}, "answer": None}
    if len(answers) > 1:
        raise ValueError("the parts do not agree on the answer of this run")
    return {"label": 0, "reasons": reasons, "details": details, "answer": answers[0]}
'''


@dataclass(frozen=True, slots=True)
class FoldedProgram:
    """A program folded from several parts.

    Attributes:
        source: the program.
        lines: part -> the lines of its own code.
    """

    source: str
    lines: Mapping[RequestPart, range]

    @property
    def host_lines(self) -> frozenset[int]:
        """The lines that belong to no part."""
        own = {line for lines in self.lines.values() for line in lines}
        return frozenset(range(1, self.source.count("\n") + 2)) - own


def fold_programs(programs: Mapping[RequestPart, str], reserved: Collection[str]) -> FoldedProgram:
    """Folds programs that `problem_of` accepts into one. `reserved`: the names of the toolbox."""
    used_names = set(reserved)
    names = {part: _fresh_name(_identifier(part), used_names) for part in programs}
    text, lines = _HEAD, dict[RequestPart, range]()
    for part, program in programs.items():
        text += f"\n\n{_part_comment(part)}def {names[part]}():\n"
        first = text.count("\n") + 1
        text += indented(program)
        lines[part] = range(first, text.count("\n") + 1)
        text += "\n    return check\n"
    tail = _TAIL
    for name in _HELPERS:
        tail = tail.replace(name, _fresh_name(name, used_names))
    rows = "".join(f'    ("{part.name}", {names[part]}()),\n' for part in programs)
    return FoldedProgram(text + tail.replace("@parts@", rows), lines)


def fold_properties(properties: Mapping[RequestPart, Properties]) -> Properties:
    """Folds the properties of all parts into one block, each part with its helpers in its own function."""
    texts = []
    for part, own in properties.items():
        if own.numbers:
            name = f"of_{_identifier(part)}"
            entries = ", ".join(f'"{number}": property_{number}' for number in own.numbers)
            texts.append(f"def {name}():\n{indented(own.source)}\n    return {{{entries}}}\n")
            texts += [
                f"def property_{number}(agent_input, agent_output, facts):\n"
                f'    return {name}()["{number}"](agent_input, agent_output, facts)\n'
                for number in own.numbers
            ]
    return Properties("\n\n".join(texts))


def problem_of(source: str) -> str:
    """Returns why a source cannot become a function body with the same meaning; empty if it can."""
    tree = syntax.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            return f"line {node.lineno}: 'global' is not available in the code of a part; expected parameters"
    if any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in _module_level_nodes(tree.body)):
        return "the code has a 'return' outside a function; expected functions, one of them 'check'"
    try:
        result = _body_of(syntax.parse(f"def body():\n{indented(source)}\n    return check\n"))
        same = result == [ast.dump(node) for node in syntax.parse(_without_future(source)).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        same = False
    return "" if same else "the code changes its meaning when indented; expected no form feeds and plain line ends"


def indented(source: str) -> str:
    """Indents a source by four spaces, except lines inside multi-line strings."""
    source = _without_future(source).strip("\n")
    inside = _string_lines(source)
    lines = enumerate(source.split("\n"), start=1)
    return "".join(f"{' ' * _DEPTH if line.strip() and number not in inside else ''}{line}\n" for number, line in lines)


def _string_lines(source: str) -> set[int]:
    """Returns the lines that begin inside a string."""
    found, begun = set[int](), list[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind in _OPENING:
            begun.append(token.start[0])
        if kind in _CLOSING:
            found.update(range(begun.pop() + 1, token.end[0] + 1))
    return found


def _without_future(source: str) -> str:
    """Removes `from __future__ import …`, which is valid at the beginning of a file only and changes no verdict."""
    lines = source.split("\n")
    for node in syntax.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.end_lineno is not None:
            first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
            rest = f"{first[: node.col_offset]}pass{last[node.end_col_offset :]}"
            lines[node.lineno - 1 : node.end_lineno] = [rest, *[""] * (node.end_lineno - node.lineno)]
    return "\n".join(lines)


def _module_level_nodes(body: Sequence[ast.AST]) -> list[ast.AST]:
    """Returns all nodes outside functions."""
    found: list[ast.AST] = []
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


def _body_of(tree: ast.Module) -> list[str]:
    """Dumps the body of a module's only function without its last statement; empty for any other module."""
    only = tree.body[0] if len(tree.body) == 1 else None
    return [ast.dump(node) for node in only.body[:-1]] if isinstance(only, ast.FunctionDef) else []


def _identifier(part: RequestPart) -> str:
    """Returns a function name for a part; with the first and last of many clauses."""
    if len(part.numbers) <= _SPELT:
        return re.sub(r"\W+", "_", part.name)
    return f"clauses_{part.numbers[0]}_to_{part.numbers[-1]}"


def _fresh_name(name: str, used_names: set[str]) -> str:
    """Returns an unused name, and reserves it."""
    while name in used_names:
        name += "_"
    used_names.add(name)
    return name


def _part_comment(part: RequestPart) -> str:
    """Returns the part's sentences as comments, one per line."""
    lines = [f"{clause.number}. {clause.text}" for clause in part.clauses]
    shown = ["".join(one if one.isprintable() and one != "#" else " " for one in line) for line in lines]
    return "".join(f"# Sentence {line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…'}\n" for line in shown)
