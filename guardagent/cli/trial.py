"""The command `try`: judges calls as they are typed, each with the results of the rules that judge it.

A call that may run counts as made, with the output after `->`. So the next calls are judged by their history.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli import options
from guardagent.cli.options import Json, print_json, print_line, screen
from guardagent.errors import InputError, UnknownNameError
from guardagent.types import EMPTY

if TYPE_CHECKING:
    from guardagent.policy.policies import Policies
    from guardagent.session.session import Session
    from guardagent.types import Event, Verdict

HELP = """\
TOOL(NAME=VALUE, …)                   judge a call; if it may run, it counts as made
TOOL(…) -> VALUE                      … with this output, such as {"status": "delivered"}
TOOL(…) -> failed VALUE               … as a call that failed
:approve                              approve the call that was just escalated
:pending                              show the obligations if the conversation ended now
:undo                                 forget the last call
:end                                  judge the end, and begin a new conversation
:help, :quit"""
_CALL = re.compile(r"\s*(?P<tool>[^\s()]+)\s*\((?P<rest>.*)", re.DOTALL)
_MARKS = {
    "satisfied": ("✔", "green"),
    "violated": ("✘", "bold red"),
    "undecided": ("?", "yellow"),
    "approved": ("✔", "magenta"),
}
_NAMES = {"true": True, "false": False, "null": None}


def try_(
    policies: Annotated[list[str], typer.Argument(metavar="POLICY...", help="The policy files: all rules hold.")],
    *,
    facts: options.FactsText = None,
    model: options.RequestModelName = None,
    as_json: Json = False,
) -> None:
    """Judge calls as you type them, with the result of each rule that judges them.

    A call is written like refund(order="W1", amount=90), with its output after '->'. ':help' lists the rest. Without a
    terminal, calls are read from standard input; then the exit status is 1 if one may not run, and 2 if a line is
    invalid.
    """
    from guardagent.policy.load import load_policies

    trial = PolicyTrial(load_policies(policies, model=model), options.read_facts(facts), as_json=as_json)
    is_terminal = bool(sys.stdin and sys.stdin.isatty())
    if is_terminal and not as_json:
        print_line(HELP)
    status = 0
    for line in _typed() if is_terminal else sys.stdin or ():
        if line.strip() == ":quit":
            break
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                status = max(status, trial.take(line.strip()))
            except InputError as error:
                options.unreadable(str(error), as_json=as_json)
                status = 2
    raise typer.Exit(0 if is_terminal else status)


def _typed() -> Iterator[str]:
    """Yields the lines of a person, who can edit them and repeat earlier ones."""
    import contextlib

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - `input` uses it
    with contextlib.suppress(EOFError):
        while True:
            yield input("> ")


class PolicyTrial:
    """A conversation that a person makes up, under the rules of a policy.

    Args:
        policies: the rules.
        facts: the facts of the host.
        as_json: whether results are printed as JSON.
    """

    def __init__(self, policies: Policies, facts: Mapping[str, Any], *, as_json: bool) -> None:
        self._policies, self._facts, self._as_json = policies, facts, as_json
        self._commands = {"approve": self._approve, "pending": self._pending, "undo": self._undo, "end": self._end}
        self._begin()

    def _begin(self) -> None:
        self._session: Session = self._policies.session(facts=self._facts)
        self._steps: list[tuple[Event, bool]] = []  # the calls so far, and whether each was approved
        self._escalated: Verdict | None = None

    def take(self, line: str) -> int:
        """Takes a line: a call or a command. Returns 1 if a call may not run, else 0.

        Raises:
            InputError: the line is neither.
        """
        name = line.removeprefix(":").strip()
        if name == line:
            return self._judge(read_call(line))
        if name == "help":
            print_line(HELP)
            return 0
        if name not in self._commands:
            raise UnknownNameError("command", name, [*self._commands, "help", "quit"])
        return self._commands[name]()

    def _judge(self, call: Event) -> int:
        before = self._session.obligations
        return self._show(self._made(call), before)

    def _made(self, call: Event, *, approved: bool = False) -> Verdict:
        """Judges a call, and records its outcome if it may run."""
        verdict = self._session.check(call.tool, call.args)
        self._steps.append((call, approved))
        if approved:
            verdict = self._session.approve(verdict)
        self._record(call, verdict)
        return verdict

    def _record(self, call: Event, verdict: Verdict) -> None:
        self._escalated = verdict if verdict.decision == "escalate" else None
        permit = verdict.permit if verdict.label == 0 else None
        if permit is not None:
            self._session.use(permit)
            self._session.record(call.output, call.status == "failed", permit)

    def _approve(self) -> int:
        if self._escalated is None:
            raise InputError("no call waits for approval; expected ':approve' right after a call that needs it")
        before, (call, _), lifted = self._session.obligations, self._steps[-1], self._escalated.rules
        verdict = self._session.approve(self._escalated)
        self._steps[-1] = (call, True)
        self._record(call, verdict)
        return self._show(verdict, before, dict.fromkeys(lifted, "approved"))

    def _undo(self) -> int:
        if not self._steps:
            raise InputError("there is no call to forget; expected ':undo' after a call")
        steps = self._steps[:-1]
        self._begin()
        for call, approved in steps:
            self._made(call, approved=approved)
        return 0

    def _show(self, verdict: Verdict, before: Mapping[str, str], lifted: Mapping[str, str] = EMPTY) -> int:
        from guardagent.batch.cases import rule_results

        results = rule_results(self._policies, self._steps[-1][0], verdict.rules, verdict.errors)
        pending = {rule: text for rule, text in self._session.obligations.items() if before.get(rule) != text}
        self._print(verdict, {**results, **lifted}, pending)
        return verdict.label

    def _print(self, verdict: Verdict, results: Mapping[str, str], pending: Mapping[str, str]) -> None:
        if self._as_json:
            print_json({**verdict.to_dict(), "results": dict(results), "pending": dict(pending)})
            return
        from guardagent._terminal import printable
        from guardagent.cli.render import show_decision

        console = screen()
        show_decision(verdict, console)
        for rule, result in results.items():
            mark, style = _MARKS[result]
            console.print(f"  {mark} ", style=style, end="")
            console.print(printable(f"{rule}: {result}"), markup=False, highlight=False)
            for line in _causes(verdict, rule):
                console.print(f"      {printable(line)}", markup=False, highlight=False)
        others = [error for error in verdict.errors if not any(error.startswith(f"{rule}: ") for rule in results)]
        for text in (*others, *(verdict.reasons if not results and not others else ())):
            console.print(f"  {printable(text)}", markup=False, highlight=False)
        lines = [f"… {rule}: pending: {text}" for rule, text in pending.items()]
        for text in [*lines, *(["':approve' approves it"] if self._escalated is not None else [])]:
            console.print(f"  {printable(text)}", markup=False, highlight=False)

    def _pending(self) -> int:
        obligations = self._session.obligations
        if self._as_json:
            print_json({"pending": obligations})
        for line in [] if self._as_json else [f"{rule}: {text}" for rule, text in obligations.items()] or ["none"]:
            print_line(line)
        return 0

    def _end(self) -> int:
        verdict = self._session.finish()
        self._print(verdict, dict.fromkeys(verdict.rules, "violated"), {})
        self._begin()
        return verdict.label


def _causes(verdict: Verdict, rule: str) -> Iterator[str]:
    """Yields why a rule is violated or undecided, and what to do."""
    for violation in verdict.violations:
        if violation.policy == rule:
            yield violation.message
            evidence = violation.evidence if isinstance(violation.evidence, Mapping) else {}
            yield from (f"{name}: {evidence[name]}" for name in ("needed", "missing") if name in evidence)
            if violation.remedy:
                yield f"to comply: {violation.remedy}"
    for error in verdict.errors:
        if error.startswith(f"{rule}: "):
            yield error.removeprefix(f"{rule}: ")


def read_call(text: str) -> Event:
    """Reads a call with its output, such as `get_order(id="W1") -> {"status": "delivered"}`.

    Values are those of Python or JSON. A call without output has the output null.

    Raises:
        InputError: the text is not a call.
    """
    from guardagent.types import Event

    match = _CALL.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not a call; expected TOOL(NAME=VALUE, …), such as refund(amount=90)")
    source, outcome = _parted(f"f({match['rest']}")
    call = _parsed(source, text)
    if not isinstance(call, ast.Call) or call.args:
        raise InputError(f"{text!r} has an argument without a name; expected NAME=VALUE, such as amount=90")
    args: dict[str, Any] = {}
    for keyword in call.keywords:
        value = _value(keyword.value, text)
        if keyword.arg is None and not isinstance(value, dict):
            raise InputError(f"{text!r}: '**' is not followed by an object; expected one, such as **{{\"a-b\": 1}}")
        more = value if keyword.arg is None else {keyword.arg: value}
        if repeated := args.keys() & more.keys():
            raise InputError(f"{text!r} has the argument {min(repeated)!r} twice; expected it once")
        args |= more
    has_failed = outcome.split(" ")[0] == "failed"
    output = outcome.removeprefix("failed").strip() if has_failed else outcome
    value = _value(_parsed(output, text), text) if output else None
    return Event(match["tool"], args, output=value, status="failed" if has_failed else "ok")


def _parted(text: str) -> tuple[str, str]:
    """The source of a call, and what follows the arrow after it; an arrow in a string is part of it."""
    for end in (match.start() + 1 for match in re.finditer(r"\)\s*(?:->|$)", text)):
        try:
            ast.parse(text[:end], mode="eval")
        except (SyntaxError, ValueError):
            continue
        return text[:end], text[end:].strip().removeprefix("->").strip()
    return text, ""


def _parsed(source: str, text: str) -> ast.expr:
    try:
        return ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"{text!r} cannot be read: {why}; expected TOOL(NAME=VALUE, …) -> OUTPUT") from None


class _Constants(ast.NodeTransformer):
    """Reads the constants of JSON."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_NAMES[node.id]) if node.id in _NAMES else node


def _value(node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(_Constants().visit(node))
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise InputError(f"{text!r} has a value that is not a literal; expected one such as 90, 'W1' or [1]") from None
