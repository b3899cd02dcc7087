"""The commands `stop`, `stops list` and `stops lift`: calls that no agent may make until a person says so.

They work on a server, or on a stop file that guards in processes of this machine watch. `reload` loads the policy of a
server again, for which it can stop the sessions that run under earlier versions.
"""

from __future__ import annotations

import getpass
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from guardagent.cli.approvals import OperatedServer, ServerOptions
from guardagent.cli.options import Json, JsonLines, note, print_json, print_line, print_result
from guardagent.enforcement.approval import escaped
from guardagent.enforcement.stops import Stop, StopFile, new_stop
from guardagent.errors import InputError
from guardagent.policy.language.values import duration_of
from guardagent.server.console import left, time_text

JSON = dict[str, Any]
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
    print_line(_row(stopped))
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
        print_result(item, _row(item), as_json=as_json)
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


def _row(values: JSON) -> str:
    stop = Stop.of({name: value for name, value in values.items() if name in Stop.__dataclass_fields__})
    named = ", ".join(f"{name} {escaped(value)}" for name, value in stop.named.items()) or "everything"
    until = "" if stop.until is None else f", {left(math.ceil(stop.until - time.time()))} left"
    by = f"by {escaped(stop.by)}, {time_text(stop.since)}{until}"
    what = "goes on under this version, or else is stopped" if stop.migrates else "is stopped"
    return f"{stop.id}: {named} {what}: {escaped(stop.reason)} ({by})"
