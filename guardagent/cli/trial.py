"""The command `try`: judges calls as they are typed, each with the results of the rules that judge it.

A call that may run counts as made, with the output after `->`. So the next calls are judged by their history.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.cli import options
from guardagent.cli.options import Json, print_json, print_line, screen
from guardagent.errors import InputError, UnknownNameError
from guardagent.types import EMPTY, rule_of_error

if TYPE_CHECKING:
    from guardagent.policy.policies import Policies
    from guardagent.session.session import Session
    from guardagent.types import Event, Verdict

HELP = """\
TOOL(NAME=VALUE, …)                   judge a call; if it may run, it counts as made
TOOL(…) -> VALUE                      … with this output, such as {"status": "delivered"}
TOOL(…) -> failed VALUE               … as a call that failed
:approve                              approve the call that was just escalated
:undo                                 forget the last call
:end                                  judge the end, and begin a new conversation
:help, :quit"""
_MARKS = {"satisfied": "✔", "violated": "✘", "undecided": "?", "approved": "✔"}


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
                options.print_error("content", str(error), 2, as_json=as_json)
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
        from guardagent.session.counters import new_counters

        self._policies, self._facts, self._as_json = policies, facts, as_json
        self._counters = new_counters(policies)
        self._begin()

    def _begin(self) -> None:
        self._counted = self._counters and self._counters.copied()  # so that `:undo` can begin from the earlier ones
        self._session: Session = self._policies.session(facts=self._facts, counters=self._counted)
        self._steps: list[tuple[Event, bool]] = []  # the calls so far, and whether each was approved
        self._escalated: Verdict | None = None

    def take(self, line: str) -> int:
        """Takes a line: a call or a command. Returns 1 if a call may not run, else 0.

        Raises:
            InputError: the line is neither.
        """
        commands = {":approve": self._approve, ":undo": self._undo, ":end": self._end, ":help": _help}
        if line in commands:
            return commands[line]()
        if line.startswith(":"):
            raise UnknownNameError("command", line, [*commands, ":quit"])
        from guardagent.batch.records import read_call

        call = read_call(line)
        return self._show(call, self._made(call, approved=False))

    def _made(self, call: Event, *, approved: bool) -> Verdict:
        """Judges a call, and records its outcome if it may run."""
        verdict = self._session.check(call.tool, call.args)
        verdict = self._session.approve(verdict) if approved else verdict
        self._steps.append((call, approved))
        self._escalated = verdict if verdict.decision == "escalate" else None
        permit = verdict.permit if verdict.label == 0 else None
        if permit is not None:
            self._session.use(permit)
            self._session.record(call.output, call.status == "failed", permit)
        return verdict

    def _approve(self) -> int:
        if self._escalated is None:
            raise InputError("no call waits for approval; expected ':approve' right after a call that needs it")
        lifted, (call, _) = dict.fromkeys(self._escalated.rules, "approved"), self._steps[-1]
        self._undo()
        return self._show(call, self._made(call, approved=True), lifted)

    def _undo(self) -> int:
        if not self._steps:
            raise InputError("there is nothing to forget; expected ':undo' after a call")
        steps = self._steps[:-1]
        self._begin()
        for call, approved in steps:
            self._made(call, approved=approved)
        return 0

    def _end(self) -> int:
        verdict = self._session.finish()
        self._counters = self._counted
        self._begin()
        self._print(verdict, dict.fromkeys(verdict.rules, "violated"))
        return verdict.label

    def _show(self, call: Event, verdict: Verdict, lifted: Mapping[str, str] = EMPTY) -> int:
        from guardagent.batch.cases import rule_results

        self._print(verdict, {**rule_results(self._policies, call, verdict.rules, verdict.errors), **lifted})
        return verdict.label

    def _print(self, verdict: Verdict, results: Mapping[str, str]) -> None:
        pending = self._session.obligations
        if self._as_json:
            print_json({**verdict.to_dict(), "results": results, "pending": pending})
            return
        from guardagent._terminal import printable
        from guardagent.batch.cases import rule_causes
        from guardagent.cli.render import show_decision

        show_decision(verdict, screen())
        for rule, result in results.items():
            causes = [f"      {cause}" for cause in rule_causes(self._policies, verdict, rule)]
            print_line(printable("\n".join([f"  {_MARKS[result]} {rule}: {result}", *causes])))
        others = [error for error in verdict.errors if rule_of_error(error, self._policies.ids) not in results]
        lines = [*(others or (() if results else verdict.reasons)), *map(": pending: ".join, pending.items())]
        for text in [*lines, *(["':approve' approves it"] if self._escalated is not None else [])]:
            print_line(printable(f"  {text}"))


def _help() -> int:
    print_line(HELP)
    return 0
