"""The commands `approvals`, `stop`, `stops` and `reload`, for the people who answer for the agents of a server.

`approvals` is a reviewer's terminal for the calls that wait. Stops work on a server, or on a stop file that guards in
processes of this machine watch. `reload` can stop the sessions that run under earlier versions of a policy.

Agents and other people chose most of the strings that it shows. They are escaped, and long lines are split with a mark,
so that none can imitate or hide another line.
"""

from __future__ import annotations

import getpass
import math
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from guardagent._terminal import single_line
from guardagent.cli.options import Json, JsonLines, note, print_json, print_line, print_result, read_facts
from guardagent.enforcement.approval import ApprovalRequest, escaped, quoted_name, wrapped_line
from guardagent.enforcement.remote.client import TOKEN_VARIABLE, ServerClient, checked_address, token_source
from guardagent.enforcement.stops import Stop, StopFile, new_stop
from guardagent.enforcement.wire import dumps
from guardagent.errors import ForbiddenError, GuardError, InputError, RemoteError, UnknownNameError
from guardagent.policy.language.values import duration_of
from guardagent.server.approvals import clock_text
from guardagent.server.console import left, time_text
from guardagent.types import Decision, Verdict

# --- approvals

JSON = dict[str, Any]
_SECONDS = 10.0  # for a request with its repetitions
_PAUSE_SECONDS = 2.0
_WAITING = "/v1/approvals?status=pending&limit=500"
_ID, _LONG_ID, _SHORT_ID = re.compile("a_[0-9a-f]{1,40}"), 42, 12  # and the characters of an id
_SHORT = 100  # characters of a call in a list
_CHOICES = ("approve", "reject", "edit")
_OWN_LINES = frozenset(  # of the card, or left out
    ("call", "args", "reasons", "read", "expected", "created", "views", "stages", "may_answer", "grantable")
)

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the first characters of it.")]
Choice = Annotated[str, typer.Argument(metavar="CHOICE", help="approve, reject or edit.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; the agent reads the reason of a rejection.")]
Arguments = Annotated[str | None, typer.Option("--args", help="For edit: all arguments, JSON (a file, or inline).")]
Grant = Annotated[
    str | None,
    typer.Option(help="For approve: more calls like this, JSON (a file, or inline); {} is all that may be."),
]
SeenVersion = Annotated[int | None, typer.Option("--seen", help="The version that you saw; none other is answered.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask on a terminal.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of a command that asks a server: its address, and who asks."""

    server: Annotated[str, typer.Option(envvar="GUARDAGENT_SERVER", metavar="URL", help="The address of the server.")]
    token_file: Annotated[
        Path | None, typer.Option(help="The file with your token (default: the variable GUARDAGENT_TOKEN).")
    ] = None


def list_approvals(*, server: ServerOptions, as_json: JsonLines = False) -> None:
    """List the calls that wait for a person, the one that expires first at the top."""
    page = OperatedServer(server).ask("GET", _WAITING)
    for approval in page["approvals"]:
        print_result(approval, _row(approval), as_json=as_json)
    if page["cursor"] or not page["approvals"]:
        note("there are more, which expire later" if page["cursor"] else "nothing waits")


def show(name: ApprovalId, *, server: ServerOptions, as_json: Json = False) -> None:
    """Show all of a request: its arguments, the evidence, and what would happen if it were approved."""
    approval = OperatedServer(server).approval(name)
    print_json(approval) if as_json else print_line("\n".join(_card(approval)))


def answer(
    name: ApprovalId,
    choice: Choice,
    *,
    reason: Reason = "",
    args: Arguments = None,
    grant: Grant = None,
    seen: SeenVersion = None,
    yes: Yes = False,
    server: ServerOptions,
    as_json: Json = False,
) -> None:
    """Approve, reject or edit a call as it is shown. Exits with 1 if the answer is not taken."""
    if choice not in _CHOICES:
        raise UnknownNameError("choice", choice, _CHOICES)
    if (choice == "edit") is (args is None):
        raise InputError("'edit' and '--args' belong together; expected both or neither")
    if grant is not None and choice != "approve":
        raise InputError(f"'--grant' is for 'approve'; expected 'approve', or no '--grant' with {choice!r}")
    if choice == "reject" and not reason.strip():
        raise InputError("'--reason' is missing; the agent reads it, so say what it should do instead")
    edited = {} if args is None else {"args": read_facts(args, "--args")}
    client = OperatedServer(server)
    approval = client.approval(name)
    if choice != "reject" and sys.stdin.isatty() and not yes:
        changed = {**edited, "views": {}, "expected": {}} if edited else {}  # both are of the call as it was proposed
        note("\n".join(_card({**approval, **changed})))
        if not typer.confirm("Approve this?", err=True):
            raise typer.Exit(1)
    body = {"choice": choice, "version": approval["version"] if seen is None else seen, "of": approval["digest"]}
    more: JSON = {"reason": reason.strip()} if reason.strip() else {}
    more |= {} if grant is None else {"grant": read_facts(grant, "--grant")}
    answered = client.ask("POST", f"/v1/approvals/{approval['id']}/answer", {**body, **edited, **more})
    print_result(answered, f"{_outcome(answered)}  {_call(answered)}", as_json=as_json)


def follow(*, server: ServerOptions, as_json: JsonLines = False) -> None:
    """Show requests as they come, with a bell on a terminal, and how they are answered, until Ctrl-C."""
    client, waiting, is_lost = OperatedServer(server), set[str](), False
    while True:
        try:
            now = {approval["id"]: approval for approval in client.ask("GET", _WAITING)["approvals"]}
            gone = [client.ask("GET", f"/v1/approvals/{quote(name, safe='')}") for name in waiting - now.keys()]
        except RemoteError as error:
            note(f"guardagent: {error}; trying again") if not is_lost else None
            is_lost = True
        else:
            for approval in gone:
                if approval["status"] != "pending":  # else more urgent ones have only taken its place
                    line = f"= {_outcome(approval)}  {_call(approval)}"
                    print_result({"event": "answered", **approval}, line, as_json=as_json)
            for approval in (now[name] for name in now if name not in waiting):
                print_result({"event": "requested", **approval}, f"? {_row(approval)}", as_json=as_json)
                sys.stderr.write("\a" if sys.stderr.isatty() else "")
            sys.stdout.flush()
            waiting, is_lost = set(now), False
        time.sleep(_PAUSE_SECONDS)


class NotTakenError(ForbiddenError):
    """The server does not take an answer, or not from this caller."""

    exit_status = 1


class OperatedServer:
    """A server, asked with the token of a reviewer."""

    def __init__(self, options: ServerOptions) -> None:
        address = checked_address(options.server, allow_http=False)
        if options.token_file is None and not os.environ.get(TOKEN_VARIABLE):
            raise InputError(f"your token is missing; expected '--token-file FILE' or the variable {TOKEN_VARIABLE}")
        self._client = ServerClient(address, token_source(None, options.token_file))

    def ask(self, method: str, path: str, body: JSON | None = None) -> JSON:
        """Sends a request, and returns the answer.

        Raises:
            NotTakenError: the caller may not do this, or it contradicts what has happened.
            InputError: the request is wrong, or the token.
            RemoteError: there is no usable answer.
        """
        text, key = (None, None) if body is None else (dumps(body), secrets.token_hex(16))
        try:
            value: JSON = self._client.exchange(method, path, text, time.monotonic() + _SECONDS, key=key)
        except RemoteError as error:
            message = single_line(error)
            if error.retried or not 400 <= (error.status or 0) < 500:
                raise RemoteError(message) from None
            raise (NotTakenError if error.status in (403, 409) else InputError)(message) from None
        return value

    def approval(self, prefix: str) -> JSON:
        """Returns an approval, with its preview as `expected` and the calls before as `evidence`; raises as `ask`.

        Args:
            prefix: the first characters of its id. One that is not the whole id is looked for among those that wait and
                the newest.
        """
        if _ID.fullmatch(prefix) is None:
            raise InputError(f"the id is {prefix[:80]!r}; expected one such as 'a_3f2b1c9d0e', or its first characters")
        names = {prefix}
        if len(prefix) < _LONG_ID:
            pages = [self.ask("GET", path)["approvals"] for path in (_WAITING, "/v1/approvals?limit=500")]
            names = {item["id"] for page in pages for item in page if item["id"].startswith(prefix)} or names
        if len(names) > 1:
            raise InputError(f"{len(names)} ids begin with {prefix!r}; expected more characters, as in {min(names)!r}")
        path = f"/v1/approvals/{quote(names.pop(), safe='')}"
        approval = self.ask("GET", path)
        try:
            if approval["status"] == "pending":
                approval["expected"] = self.ask("GET", f"{path}/preview")
            approval["evidence"] = self.ask("GET", f"/v1/sessions/{quote(approval['session'], safe='')}")["calls"]
        except GuardError as error:  # the request is shown all the same
            approval["expected"] = {"decision": "unknown", "errors": [str(error)]}
        return approval


# --- what is shown


def _row(approval: JSON) -> str:
    """Returns an approval that waits: the call with the arguments that rules read, why it waits, and for whom."""
    due, why = left(approval["deadline"] - time.time()), single_line("; ".join(approval["reasons"]))
    lines = [why, *(_waits(approval) if approval["stages"] else ())]
    return "\n    ".join([f"{_call(approval, approval.get('read'))}  {due} left", *lines])


def _call(approval: JSON, names: list[str] | None = None) -> str:
    """Returns the beginning of the id, and the call on one line, with all arguments or some."""
    args = approval["call"]["args"] if approval["args"] is None else approval["args"]
    parts = [f"{quoted_name(name)}={escaped(args[name])}" for name in (names or args)]
    text = ", ".join([*parts, "…"] if len(parts) < len(args) else parts)
    text = text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
    return f"{single_line(approval['id'])[:_SHORT_ID]}  {quoted_name(approval['call']['tool'])}({text})"


def _waits(approval: JSON) -> Iterator[str]:
    """Yields who may answer now, and who after them, for each rule that lacks approvers."""
    for entry in approval["may_answer"]:
        who, then = (" or ".join(part["groups"] or ["any approver"]) if part else "" for part in (entry, entry["next"]))
        until = f" until {clock_text(entry['until'], time.time())}{then and f'; then for {then}'}"
        yield single_line(f"waits for {who}{until}; {entry['agreeing']} of {entry['quorum']} agree")


def _outcome(approval: JSON) -> str:
    who = ", ".join(dict.fromkeys(step["by"] for step in approval["steps"])) or "the deadline"
    agreeing = f"{len(approval['agreeing'])} of {approval['quorum']} agree"
    status = "approved and used" if approval["status"] == "used" else approval["status"]
    return single_line(f"pending, {agreeing}" if status == "pending" else f"{status} by {who}")


def _card(approval: JSON) -> Iterator[str]:
    """Yields the lines of a request: the call as reviewers see it everywhere, then all other fields."""
    call, args = approval["call"], approval["args"]
    verdict = Verdict(Decision.ESCALATE, reasons=tuple(approval["reasons"]))
    now = call["args"] if args is None else args
    agent, facts = call.get("agent"), call.get("facts") or {}
    views = approval.get("views") or {}
    request = ApprovalRequest(call["tool"], now, verdict, approval["session"], agent=agent, facts=facts, views=views)
    yield from request.text().split("\n")
    for line in _waits(approval):
        yield from wrapped_line(line)
    for scope in (approval.get("grantable") or {}).values():
        yield from wrapped_line(f"you may grant more with --grant: {escaped(scope['covers'])}")
    fields = {} if args is None else {"the agent proposed": call["args"]}
    fields |= {f"if approved now, {name}": value for name, value in (approval.get("expected") or {}).items()}
    fields |= {name.replace("_", " "): value for name, value in approval.items() if name not in _OWN_LINES}
    due = f"in {left(approval['deadline'] - time.time())}, " if approval["status"] == "pending" else ""
    fields["deadline"] = f"{due}{time_text(approval['deadline'])}"
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            label = name if name.replace(" ", "").replace(",", "").isalnum() and name.isascii() else quoted_name(name)
            yield from wrapped_line(f"{label}: {escaped(item)}") if item not in (None, "", {}) else ()


# --- stops: calls that no agent may make until a person says so

_VARIABLE = "GUARDAGENT_SERVER"
_NO_PLACE = "say where: --server URL (or the variable GUARDAGENT_SERVER), or --file PATH for guards with that stop file"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPlace:
    """The place of stops: a server, or a file."""

    server: Annotated[str | None, typer.Option(envvar=_VARIABLE, metavar="URL", help="The address of the server.")] = (
        None
    )
    token_file: Annotated[
        Path | None, typer.Option(help="The file with your token (default: the variable GUARDAGENT_TOKEN).")
    ] = None
    file: Annotated[Path | None, typer.Option("--file", help="The stop file, in place of a server.")] = None

    def open(self) -> OperatedServer | StopFile:
        """Returns the server or the file.

        Raises:
            InputError: neither is named, or both are.
        """
        if self.file is not None and self.server not in {None, os.environ.get(_VARIABLE)}:
            raise InputError("--server and --file are two places; run the command once for each")
        if self.file is not None:
            return StopFile(self.file)  # not created here: no guard would watch it
        if self.server is None:
            raise InputError(_NO_PLACE)
        return OperatedServer(ServerOptions(server=self.server, token_file=self.token_file))


Duration = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="How long, such as 2h; else until it is lifted.")
]


def stop(
    *,
    reason: Annotated[str, typer.Option(help="Why; the agents read it.")],
    tenant: Annotated[str | None, typer.Option(help="Only calls of this tenant; your own by default.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only calls of this agent.")] = None,
    session: Annotated[str | None, typer.Option(help="Only calls of this session, or conversation.")] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME|@TAG", help="Only calls of this tool or tag.")] = None,
    duration: Duration = None,
    place: StopPlace,
    as_json: Json = False,
) -> None:
    """Stop agents: from the moment this returns, no call that fits is allowed.

    Without a tenant, an agent, a session or a tool, everything is stopped. Calls that were allowed before are listed:
    their programs may still run them. Approvals that wait for such calls are void.
    """
    seconds = None if duration is None else duration_of(duration)
    if duration is not None and not seconds:
        raise InputError(f"--for is {duration!r}; expected a duration such as 30m or 2h")
    named = {"tenant": tenant, "agent": agent, "session": session, "tool": tool}
    where = place.open()
    if isinstance(where, StopFile):
        made = new_stop(reason, getpass.getuser(), named, seconds=None if seconds is None else float(seconds))
        where.add(made)
        stopped: JSON = made.json
        if made.named:
            note("a stop file knows no names: if this one is misspelled, nothing is stopped; look at the next calls")
    else:
        stopped = where.ask("POST", "/v1/stops", {"reason": reason, "for": duration, **named})
    if as_json:
        print_json(stopped)
        return
    _show(stopped)


def _show(stopped: JSON) -> None:
    print_line(_stop_row(stopped))
    for call in stopped.get("in_flight", ()):
        print_line(f"  still in flight: {escaped(call['tool'])} {escaped(call['id'])} of session {call['session']}")
    for problem in stopped.get("unknown", ()):
        note(f"{problem}; the stop holds all the same")
    if not stopped.get("complete", True):
        note("there are more open sessions; look at the console for their calls in flight")
    if stopped.get("void"):
        note(f"requests for approval that are void: {stopped['void']}")


def list_stops(*, place: StopPlace, as_json: JsonLines = False) -> None:
    """List the stops that are in force."""
    where = place.open()
    if isinstance(where, StopFile):
        stops = [stop.json for stop in where.stops() if stop.until is None or time.time() < stop.until]
    else:
        stops = where.ask("GET", "/v1/stops")["stops"]
    for item in stops:
        print_result(item, _stop_row(item), as_json=as_json)
    if not stops:
        note("nothing is stopped")


def lift(name: Annotated[str, typer.Argument(metavar="ID", help="The id of the stop.")], *, place: StopPlace) -> None:
    """Lift a stop. On a server, this needs the role admin."""
    where = place.open()
    if isinstance(where, StopFile):
        where.lift(name)
    else:
        where.ask("DELETE", f"/v1/stops/{quote(name, safe='')}")
    note(f"lifted {name}")


def reload(
    policy: Annotated[str, typer.Argument(help="The name of the policy.")] = "default",
    *,
    running: Annotated[
        Literal["keep", "deny", "apply"],
        typer.Option(help="Sessions that run: keep their version, are stopped, or go on under the new one."),
    ] = "keep",
    server: ServerOptions,
    as_json: Json = False,
) -> None:
    """Load the files of a server's policy again. This needs the role admin.

    With `--running apply`, the history of each session is replayed under the new version before its next call. A
    session that cannot be taken over is denied, with the reason.
    """
    path = f"/v1/policies/{quote(policy, safe='')}/reload"
    reloaded = OperatedServer(server).ask("POST", path, {"running": running})
    if as_json:
        print_json(reloaded)
        return
    print_line(f"{escaped(policy)}: {'now' if reloaded['changed'] else 'still'} version {reloaded['version'][:19]}")
    if "stop" in reloaded:
        _show(reloaded["stop"])


def _stop_row(values: JSON) -> str:
    stop = Stop.of({name: value for name, value in values.items() if name in Stop.__dataclass_fields__})
    named = ", ".join(f"{name} {escaped(value)}" for name, value in stop.named.items()) or "everything"
    until = "" if stop.until is None else f", {left(math.ceil(stop.until - time.time()))} left"
    by = f"by {escaped(stop.by)}, {time_text(stop.since)}{until}"
    what = "goes on under this version, or else is stopped" if stop.migrates else "is stopped"
    return f"{stop.id}: {named} {what}: {escaped(stop.reason)} ({by})"
