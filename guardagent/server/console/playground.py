"""The playground: a made-up conversation, and what a policy says of its next call, without any effect.

The address holds all fields of the form, compressed, so that a link does too. They make a case, which is judged.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from guardagent._support import json_values
from guardagent._terminal import printable
from guardagent.batch.records import read_arguments
from guardagent.errors import InputError
from guardagent.server.access import AccessedOperation, authorize
from guardagent.server.console import Answer, ConsolePage, ConsoleRequest, DownloadedFile, GoTo, ShownPage, moment
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.guard_service import MAX_TIMELINE, GuardService

MAX_LINK = 6_000  # characters that an address can have everywhere
MAX_CONTENT, MAX_STEPS = 512 * 1024, 200
MAX_TYPED = 2_000  # characters of `name=value, …`, which take a hundred times as long to read as JSON
_FAILED: dict[str, bool | None] = {"ok": False, "failed": True}
_TEXTS = ("policy", "text", "note", "tool", "args", "facts", "principal", "state", "now")
_ROW = ("tool", "args", "output", "status", "time")

JSON = dict[str, Any]


# --- the fields of the form, in the address too, and the case that they make


def _packed(form: JSON) -> str:
    rows = {f"{name}_{number}": row[name] for number, row in enumerate(form["rows"]) for name in _ROW}
    fields = {name: text for name, text in ({name: form[name] for name in _TEXTS} | rows).items() if text}
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(fields).encode(), 9)).decode()


def _unpacked(link: str) -> dict[str, str]:
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(base64.b64decode(link, b"-_", validate=True), MAX_CONTENT)
        fields = json_values.loads(text) if stream.eof else None
    except (ValueError, zlib.error):
        fields = None
    if not isinstance(fields, dict) or not all(isinstance(field, str) for field in fields.values()):
        raise InputError("the link is incomplete or too large; expected one that the playground made")
    return fields


def _form(fields: Mapping[str, str]) -> JSON:
    """Returns the fields as they were typed, with a row for each step that is not blank."""
    texts = {name: fields.get(name, "").replace("\r\n", "\n").strip() for name in _TEXTS}
    rows = ({name: fields.get(f"{name}_{at}", "").strip() for name in _ROW} for at in range(MAX_STEPS + 1))
    return {**texts, "rows": [row for row in rows if row["tool"] or row["args"] or row["output"]]}


def _case(form: JSON) -> JSON:
    """Returns the case of a form.

    Raises:
        InputError: a field is invalid.
    """
    if len(form["rows"]) > MAX_STEPS:
        raise InputError(f"there are more than {MAX_STEPS} steps; expected fewer")
    history = []
    for number, row in enumerate(form["rows"], 1):
        step = {"tool": row["tool"], "args": _mapping(f"step {number}, arguments", row["args"])}
        step |= {"output": _value(row["output"]), "failed": _FAILED.get(row["status"])}
        history.append(step | ({"time": _value(row["time"])} if row["time"] else {}))
    call = {"tool": form["tool"], "args": _mapping("the call's arguments", form["args"])}
    more = {name: _mapping(name, form[name]) for name in ("facts", "principal", "state") if form[name]}
    more |= {"now": _value(form["now"])} if form["now"] else {}
    case = {"history": history, "proposed": call, **more}
    return {"id": f"playground-{zlib.crc32(json.dumps(case).encode()):08x}", **case}


def _mapping(name: str, text: str) -> JSON:
    """Reads a JSON object, or `name=value, …`."""
    if not text.startswith("{") and len(text) > MAX_TYPED:
        raise InputError(f"{name}: more than {MAX_TYPED:,} characters; expected a JSON object")
    try:
        value = json_values.loads(text) if text.startswith("{") else read_arguments(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError, InputError) as error:
        raise InputError(f"{name}: {error}; expected a JSON object, or NAME=VALUE, …") from None
    return value


def _value(text: str) -> Any:
    """Reads JSON; any other text is a string."""
    try:
        return json_values.loads(text) if text else None
    except ValueError:
        return text


def _text(value: Any) -> str:
    """Returns the text that is read as a value, on one line and without characters that a page would replace."""
    if value in (None, {}):
        return ""
    if isinstance(value, str) and value and "\n" not in value and _value(value) == value == printable(value.strip()):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if printable(text) == text else json.dumps(value)


def _recorded(service: GuardService, request: ConsoleRequest) -> dict[str, str]:
    """Returns the fields for a call of a session, which the address names by its approval or by its entry in the log.

    Raises:
        UnknownItemError: the tenant has no such call.
    """
    authorize(request.caller, AccessedOperation.READ_SESSIONS, request.tenant)
    query, tenant = request.query, request.tenant
    approval = service.show_approval(tenant, query["approval"]) if query.get("approval") else None
    call = {} if approval is None else approval["call"]
    session = service.show_session(tenant, query.get("session", "") if approval is None else approval["session"])
    steps, notes = session["timeline"], ["A state that the host sent is not in the log."]
    verdicts = [(at, step) for at, step in enumerate(steps) if step["kind"] == "verdict"]
    fits = (
        pair for pair in verdicts if query.get("seq") == str(pair[1]["seq"]) or call.get("id") == pair[1]["call_id"]
    )
    if (last := next(fits, None)) is None:
        raise UnknownItemError("there is no such call in the newest entries of the session")
    outcomes = {step["call_id"]: step for step in steps if step["kind"] == "outcome"}
    exact = {made["id"]: made for made in session["calls"]}
    allowed = [step for at, step in verdicts if at < last[0] and step["decision"] in ("allow", "warn")]
    history = [{**step, **outcomes.get(step["call_id"], {}), **exact.get(step["call_id"], {})} for step in allowed]
    history = [step for step in history if step.get("status") != "withdrawn"]
    for step in history:
        step["time"] = moment(step["time"], "auto") if isinstance(step["time"], float) else step["time"]
    if history and not exact:
        notes.append("Values are as in the log; those that it cuts or hides are not as they were.")
    if len(steps) == MAX_TIMELINE or len(history) > MAX_STEPS:
        notes.append("Earlier calls are missing.")
    if service.policies.current(session["policy"]).digest != session["policy_version"]:
        notes.append("The session ran under another version of the policy.")
    rows = enumerate(history[-MAX_STEPS:])
    fields = {
        f"{name}_{at}": step[name] if name in ("tool", "status") else _text(step.get(name))
        for at, step in rows
        for name in _ROW
        if name in step
    }
    proposed = {"facts": {}, "args": {}, **last[1], **call, "principal": session["principal"], "now": last[1]["time"]}
    fields |= {name: _text(proposed[name]) for name in ("args", "facts", "principal", "now")}
    return {**fields, "policy": session["policy"], "note": " ".join(notes), "tool": proposed["tool"]}


# --- the page


def _show(service: GuardService, request: ConsoleRequest) -> Answer:
    query = request.query
    if query.get("approval") or query.get("session"):
        return _shown(service, request, _form(_recorded(service, request)))
    return _shown(service, request, _form(_unpacked(query["s"]) if query.get("s") else query))


def _change(service: GuardService, request: ConsoleRequest) -> Answer:
    form, action = _form(request.form), request.form.get("action", "")
    rows = form["rows"]
    if action == "save":
        return _shown(service, request, form, is_saved=True)
    if action == "record":
        outcome = {name: request.form.get(name, "").strip() for name in ("output", "status")}
        rows.append({"tool": form["tool"], "args": form["args"], "time": form["now"], **outcome})
        form |= {"tool": "", "args": ""}
    if (at := action.removeprefix("remove:")) in map(str, range(len(rows))):
        del rows[int(at)]
    packed = _packed(form)
    return GoTo("/playground", {"s": packed}) if len(packed) <= MAX_LINK else _shown(service, request, form)


def _shown(service: GuardService, request: ConsoleRequest, form: JSON, *, is_saved: bool = False) -> Answer:
    answer, problem, names, packed = None, "", service.policies.names(request.tenant), _packed(form)
    tools = set[str]()
    form["policy"] = form["policy"] or next(iter(names), "")
    try:
        service.policies.settings(form["policy"], request.tenant)
        tools = {tool for rule in service.policies.current(form["policy"]).rules for tool in rule.tools}
        case = _case(form)
        if form["tool"]:
            answer = service.candidates.explain(form["policy"], form["text"], json.dumps(case))
            if is_saved:
                line = json.dumps({**case, "label": answer["label"], "rules": answer["violated"]})
                return DownloadedFile(f"{case['id']}.jsonl", "application/jsonl", f"{line}\n")
    except (InputError, RequestConflictError) as error:
        problem = str(error)
    values: JSON = {"form": form, "policies": names, "answer": answer, "problem": problem, "size": len(packed)}
    values["tools"] = sorted(tool for tool in tools if not tool.startswith("@"))
    values |= {"link": packed if len(packed) <= MAX_LINK else "", "longest": MAX_LINK}
    return ShownPage("playground.html", values, 422 if problem else 200)


PLAYGROUND = (
    ConsolePage("/playground", AccessedOperation.READ_POLICIES, _show, "Playground", 5),
    ConsolePage("/playground", AccessedOperation.READ_POLICIES, _change, method="POST"),
)
