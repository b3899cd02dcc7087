"""Admits the requests of the proxy, and judges the tool calls or the answer of each response.

The options of the guardrail come from the proxy's `config.yaml`. The tools of an admitted request are known to the
rules, and its messages to the guard. A request of another API that may lead to tool calls is refused.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from litellm.litellm_core_utils.litellm_logging import Logging
from litellm.types.guardrails import LitellmParams

from guardagent._support.arguments import normalized_name
from guardagent.enforcement import EnforcementPoint, HostCall, ToolGuard, ToolSpec
from guardagent.enforcement.calls import REPEATS
from guardagent.enforcement.host_adapter import HostApproval
from guardagent.enforcement.remote import RemoteGuard, wait_for_reviewers
from guardagent.enforcement.schema import read_object, validate_arguments
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import InputError, name_hint
from guardagent.frameworks.litellm.adapter import conversations
from guardagent.frameworks.litellm.adapter.formats import GatewayCall, ModelApi, ModelMessage, Rewriting, ShownHistory
from guardagent.frameworks.litellm.adapter.formats.chat import ChatApi
from guardagent.frameworks.litellm.adapter.formats.messages import MessagesApi
from guardagent.frameworks.litellm.adapter.formats.responses import ResponsesApi
from guardagent.log import AuditLog
from guardagent.types import Decision, Verdict, sorted_json, thaw

_log = logging.getLogger("guardagent")


# --- options

_LOCAL = ("policies", "ledger", "counters", "log", "answers", "approver", "facts", "state", "deadline", "max_replans")
_REMOTE = ("server", "server_policy", "token_file", "ca", "allow_http", "reviewers", "on_behalf_of")
_BOTH = ("aliases", "absent")
_IMPORTED = ("answers", "approver", "facts", "state")
_HOOKS = frozenset({"pre_call", "post_call"})


@dataclass(frozen=True, slots=True)
class GuardrailOptions:
    """The behaviour of the guardrail.

    Attributes:
        conversation: the header that names the conversation.
        replan: whether the proxy asks the model again if all calls of its response were denied.
        unguarded: the kinds of requests that pass without a guard.
        unguarded_tools: the kinds of tools that run at the provider, or in the proxy, without a guard.
        unknown_calls: with `judge`, messages may show calls that this guard never judged; rules about earlier calls
            deny then. With `refuse`, such a request is refused.
        roles_from: the metadata that names the roles of the principal.
    """

    conversation: str = conversations.HEADER
    replan: bool = True
    unguarded: frozenset[str] = frozenset()
    unguarded_tools: frozenset[str] = frozenset()
    unknown_calls: str = "refuse"
    roles_from: conversations.RolesFrom = "team"


@dataclass(slots=True)
class ReadOptions:
    """The options as they are read: each is taken once."""

    values: dict[str, Any]
    known: list[str] = field(default_factory=list)

    def take(self, name: str, kind: type | tuple[type, ...], default: Any, expected: str) -> Any:
        """Returns an option.

        Raises:
            InputError: it has another type.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise InputError(f"the option {name!r} of the guardrail is {value!r}; expected {expected}")
        return value

    def take_names(self, name: str) -> frozenset[str]:
        """Returns an option that is a list of strings."""
        names = self.take(name, (list, tuple, set, frozenset), (), "a list of strings")
        if not all(isinstance(name, str) for name in names):
            raise InputError(f"the option {name!r} of the guardrail is {names!r}; expected a list of strings")
        return frozenset(names)


def read_options(values: Mapping[str, Any]) -> tuple[GuardrailOptions, EnforcementPoint]:
    """Returns the behaviour of the guardrail and its guard.

    Raises:
        InputError: an option is invalid.
    """
    own = {name: value for name, value in values.items() if value is not None}
    _refuse_unknown(own)
    options = ReadOptions(own)
    return _behaviour(options), _guard(options)


def _behaviour(options: ReadOptions) -> GuardrailOptions:
    choices = {"unknown_calls": ("refuse", "judge"), "roles_from": ("team", "key")}
    chosen = {name: options.take(name, str, these[0], _either(these)) for name, these in choices.items()}
    for name, value in chosen.items():
        if value not in choices[name]:
            raise InputError(f"the option {name!r} of the guardrail is {value!r}; expected {_either(choices[name])}")
    return GuardrailOptions(
        conversation=options.take("conversation", str, conversations.HEADER, "the name of a header"),
        replan=options.take("replan", bool, default=True, expected="true or false"),
        unguarded=options.take_names("unguarded"),
        unguarded_tools=options.take_names("unguarded_tools"),
        **chosen,
    )


def _guard(options: ReadOptions) -> EnforcementPoint:
    names = [name for name in ("guard", "policies", "server") if name in options.values]
    if len(names) != 1:
        raise InputError(f"the guardrail has {_listed(names)}; expected one of 'policies', 'server' and 'guard'")
    others = {"guard": (), "policies": (*_LOCAL, *_BOTH), "server": (*_REMOTE, *_BOTH)}[names[0]]
    odd = [name for name in (*_LOCAL, *_REMOTE, *_BOTH) if name in options.values and name not in others]
    if odd:
        raise InputError(f"the option {odd[0]!r} of the guardrail does not go with {names[0]!r}")
    guard = {"guard": _own, "policies": _local, "server": _remote}[names[0]](options)
    HostApproval(guard).report_missing("the guardrail has neither 'approver' nor, with a server, 'reviewers'")
    return guard


def _own(options: ReadOptions) -> EnforcementPoint:
    guard = options.values["guard"]
    guard = _imported(guard) if isinstance(guard, str) else guard
    if not isinstance(guard, EnforcementPoint):
        raise InputError(f"the option 'guard' is a {type(guard).__name__}; expected a ToolGuard or a RemoteGuard")
    return guard


def _local(options: ReadOptions) -> ToolGuard:
    local = {name: options.values[name] for name in (*_LOCAL, *_BOTH) if name in options.values}
    local |= {name: _imported(local[name]) for name in _IMPORTED if isinstance(local.get(name), str)}
    if isinstance(local.get("log"), str):
        local["log"] = AuditLog(local["log"])
    return ToolGuard(local.pop("policies"), principal=conversations.principal, **local)


def _remote(options: ReadOptions) -> RemoteGuard:
    remote = {
        name: options.values[name] for name in ("token_file", "ca", "allow_http", *_BOTH) if name in options.values
    }
    if "reviewers" in options.values:
        remote["approver"] = wait_for_reviewers(options.values["reviewers"])
    if options.take("on_behalf_of", bool, default=False, expected="true or false"):
        remote["on_behalf_of"] = conversations.principal
    policy = options.take("server_policy", str, "default", "the name of a policy on the server")
    return RemoteGuard(options.take("server", str, "", "the address of a server"), policy=policy, **remote)


def _imported(path: str) -> Any:
    """Returns an object by its import path, such as `my_shop.guards.answers`.

    Raises:
        InputError: there is no such object.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{path!r} cannot be imported: {error}; expected 'MODULE.NAME'") from None


def check_mode(mode: Any) -> list[str]:
    """Returns the hooks of the guardrail.

    Raises:
        InputError: they are not exactly the two that it needs.
    """
    modes = mode if isinstance(mode, list | tuple) else [mode]
    names = {str(getattr(mode, "value", mode)) for mode in modes}
    if names != _HOOKS:
        raise InputError(
            f"'mode' of the guardrail is {mode!r}; expected 'mode: [pre_call, post_call]', since calls are judged in "
            "the response, and their results come with the next request"
        )
    return sorted(_HOOKS)


def _refuse_unknown(values: Mapping[str, Any]) -> None:
    own = (*GuardrailOptions.__dataclass_fields__, *_LOCAL, *_REMOTE, *_BOTH, "guard")
    for name in values:
        if name not in own and name not in LitellmParams.model_fields:
            raise InputError(f"the guardrail has no option {name!r}{name_hint(name, own)}")


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(map(repr, names))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names)) or "no policies"


# --- declared tools

_MOST = 1000  # lists of tools that are remembered


class ComparedTools:
    """Compares each list of tools with the rules, once.

    Args:
        guard: has the rules.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self._compared: OrderedDict[tuple[str, ...], None] = OrderedDict()

    async def compare(self, tools: Sequence[ToolSpec]) -> None:
        """Compares the tools of a request with the rules.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these, or names are ambiguous.
        """
        if twice := _ambiguous(tools):
            raise InputError(twice)
        key = tuple(sorted(tool.digest for tool in tools))
        if key in self._compared:
            self._compared.move_to_end(key)
            return
        await asyncio.to_thread(self._guard.attach, tools)
        self._compared[key] = None
        if len(self._compared) > _MOST:
            self._compared.popitem(last=False)


def read_arguments(name: str, args: Any, tools: Mapping[str, ToolSpec]) -> dict[str, Any]:
    """Returns the arguments of a call as its tool will get them, with the defaults that its schema declares.

    Raises:
        InputError: the request declares no such tool, or the arguments do not fit it.
    """
    tool = tools.get(name)
    if tool is None:
        raise InputError(f"unknown tool {name!r}{name_hint(name, tools)}")
    if args is not None and not isinstance(args, str | Mapping):
        raise InputError(f"the arguments of {name!r} are a {type(args).__name__}; expected a JSON object")
    read = dict(args) if isinstance(args, Mapping) else read_object(args or "", name)
    return validate_arguments(name, read, tool.schema)


def _ambiguous(tools: Sequence[ToolSpec]) -> str | None:
    """Returns why clients may take one tool for another: two names that differ in case or width only."""
    names: dict[str, str] = {}
    for tool in tools:
        other = names.setdefault(normalized_name(tool.name), tool.name)
        if other != tool.name or sum(tool_spec.name == tool.name for tool_spec in tools) > 1:
            return f"the tools {other!r} and {tool.name!r} have one name for many readers; expected unique names"
    return None


# --- one request and its response


@dataclass(slots=True, weakref_slot=True)
class GatewayExchange:
    """One request and its response.

    Attributes:
        api: reads both; None if they have no calls.
        conversation: its id; None if the request names none, and needs none.
        tools: the declared tools.
        history: the messages of the request.
        seen: the ids of calls whose results the messages show, if some are unknown.
    """

    api: ModelApi | None
    conversation: str | None = None
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    history: ShownHistory | None = None
    seen: Sequence[str] | None = None


# --- the response

_WHY = "the response with this call does not reach the client"


@dataclass(slots=True)
class JudgedMessage:
    """A response with its verdicts.

    Attributes:
        message: the response.
        changed: whether the client gets another one.
        verdicts: the place of each call -> its verdict.
        allowed: the place of each allowed call -> the call.
        withheld: the text in place of the answer; empty if it may pass.
    """

    message: ModelMessage
    changed: bool = False
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    allowed: dict[int, HostCall] = field(default_factory=dict)
    withheld: str = ""

    @property
    def denials(self) -> dict[int, str]:
        """The place of each denied call -> the reason and the remedy."""
        return {at: verdict.feedback() for at, verdict in self.verdicts.items() if verdict.label}

    @property
    def may_replan(self) -> bool:
        """Whether all calls were denied, and the model may try others."""
        verdicts = self.verdicts.values()
        final = any(verdict.decision is Decision.HALT or gave_up(verdict) for verdict in verdicts)
        return bool(verdicts) and not self.allowed and not final

    def rewriting(self) -> Rewriting:
        """Returns the changes of the response."""
        calls = {at: GatewayCall(call.id, call.tool, thaw(call.args)) for at, call in self.allowed.items()}
        return Rewriting(calls, self.withheld or "\n\n".join([*self.denials.values(), *self._last_words()]))

    def _last_words(self) -> list[str]:
        return [verdict.reasons[-1] for verdict in self.verdicts.values() if gave_up(verdict)][:1]


class ResponseJudge:
    """Judges responses.

    Args:
        records: has the guard.
    """

    def __init__(self, records: conversations.CallRecords) -> None:
        self._records = records

    async def judge(self, exchange: GatewayExchange, message: ModelMessage) -> JudgedMessage:
        """Judges the calls of a response, each with the earlier ones in flight; of one without calls, the answer."""
        judged = JudgedMessage(message)
        if not message.calls:
            await self._judge_answers(exchange, judged)
            return judged
        try:
            await self._judge_calls(exchange, judged)
        except BaseException:
            await self.withdraw(judged)
            raise
        if any(verdict.decision is Decision.HALT for verdict in judged.verdicts.values()):
            await self.withdraw(judged)
        return judged

    async def withdraw(self, judged: JudgedMessage) -> None:
        """Withdraws the allowed calls of a response that no client gets."""
        while judged.allowed:
            _, call = judged.allowed.popitem()
            judged.changed = True
            try:
                await self._records.withdraw(call, _WHY)
            except Exception:  # noqa: BLE001 - it stays in flight, which allows nothing
                _log.exception("call %r stays in flight", call.id)

    async def _judge_calls(self, exchange: GatewayExchange, judged: JudgedMessage) -> None:
        step, ids = secrets.token_hex(8), set[str]()
        for at, proposed in enumerate(judged.message.calls):
            call, problem = _host_call(exchange, proposed, step, self._records.new_claim())
            if call.id in ids:
                problem = REPEATS
            ids.add(call.id)
            if problem is not None:
                judged.verdicts[at] = await self._records.guard.arefuse(call, problem)
                continue
            verdict, allowed = await self._records.judge(call)
            judged.verdicts[at] = verdict
            if verdict.label == 0:
                judged.allowed[at] = allowed
        judged.changed = len(judged.allowed) < len(judged.message.calls) or any(
            not _is_same(judged.message.calls[at], allowed_call) for at, allowed_call in judged.allowed.items()
        )

    async def _judge_answers(self, exchange: GatewayExchange, judged: JudgedMessage) -> None:
        guard = self._records.guard
        if not guard.judges_answers:
            return
        user = exchange.history.user if exchange.history is not None else ""
        for text in judged.message.texts:
            verdict = await guard.aanswer(exchange.conversation or "", user, text)
            if verdict.label:
                judged.changed, judged.withheld = True, f"The answer is withheld.\n{verdict.feedback()}"
                return


def _host_call(
    exchange: GatewayExchange, proposed: GatewayCall, step: str, claim: str | None
) -> tuple[HostCall, str | None]:
    """Returns a proposed call, and why it cannot be judged, if it cannot."""
    name = proposed.name
    validate = partial(read_arguments, name, tools=exchange.tools)
    messages = exchange.history.messages if exchange.history is not None else None
    about: dict[str, Any] = {"step": step, "claim": claim, "messages": messages, "seen": exchange.seen}
    about["id"] = proposed.id or f"call_{secrets.token_hex(12)}"
    try:
        args, problem = validate(proposed.args), None
    except InputError as error:
        args, problem = {}, str(error)
    return HostCall(name, args, exchange.conversation, validate_edit=validate, **about), problem


def _is_same(proposed: GatewayCall, call: HostCall) -> bool:
    """Whether a client reads the judged call in the model's own response."""
    args = proposed.args if isinstance(proposed.args, Mapping) else read_object(proposed.args or "", proposed.name)
    return proposed.id == call.id and sorted_json(args) == sorted_json(call.args)


# --- the API of a request

_APIS: dict[str, ModelApi] = {api.call_type: api for api in (ChatApi(), ResponsesApi(), MessagesApi())}
_NO_CALLS = frozenset(
    "embedding aembedding moderation amoderation rerank arerank image_generation aimage_generation image_edit "
    "aimage_edit transcription atranscription speech aspeech ocr aocr search asearch atext_completion text_completion "
    "afile_list afile_retrieve afile_delete acreate_file vector_store_search avector_store_search".split()
)
"""Requests whose responses have no tool calls, unless they declare tools."""

_CALLS = ("tool_calls", "function_call", "functionCall", "toolUse")
_TOOLS = ("tools", "functions", "function_call", "tool_choice", "toolConfig", "tool_config", "mcp_servers")


def api_of(data: Mapping[str, Any], call_type: str, unguarded: Collection[str]) -> ModelApi | None:
    """Returns the API of a request; None if its response has no tool calls, or nobody judges them.

    Args:
        data: the request.
        call_type: the host's name of the kind of request.
        unguarded: the kinds of requests that the operator lets pass.

    Raises:
        InputError: its tool calls could not be judged.
    """
    api = _APIS.get(call_type)
    if api is not None and _judged_later(data):
        return api
    if call_type in unguarded or (call_type in _NO_CALLS and not declares_tools(data)):
        return None
    raise InputError(
        f"no guard sees the tool calls of a request of the kind {call_type!r}"
        f"{' in a socket, a batch or a nested request' if api is not None else ''}; expected chat completions, "
        f"responses or messages over HTTP, or 'unguarded: [{call_type}]' in the guardrail's options"
    )


def declares_tools(data: Mapping[str, Any]) -> bool:
    """Whether a request declares tools, in the words of any API."""
    return any(data.get(name) for name in _TOOLS)


def _judged_later(data: Mapping[str, Any]) -> bool:
    """Whether the host calls the guardrail again with the response: it does for requests over HTTP."""
    return isinstance(data.get("litellm_logging_obj"), Logging) and "proxy_server_request" in data


def carries_calls(response: Any) -> bool:
    """Whether a response of an unknown request may have tool calls."""
    dump = getattr(response, "model_dump", None)
    value = dump() if callable(dump) else response
    if isinstance(value, Mapping):
        named = any(value.get(name) for name in _CALLS) or str(value.get("type")).endswith(("tool_use", "_call"))
        return named or any(map(carries_calls, value.values()))
    return isinstance(value, list | tuple) and any(map(carries_calls, value))


# --- admission


class Admission:
    """Decides whether a request may go to the model.

    Args:
        records: the calls that the guard allowed.
        options: the behaviour of the guardrail.
    """

    def __init__(self, records: conversations.CallRecords, options: GuardrailOptions) -> None:
        self._records, self._options = records, options
        self._tools, self._open = ComparedTools(records.guard), conversations.OpenConversations(records.guard)

    async def admit(self, data: Mapping[str, Any], auth: Any, call_type: str) -> GatewayExchange:
        """Returns the exchange that a request begins.

        Raises:
            InputError: the request is refused; the message says what to do.
        """
        options, guard = self._options, self._records.guard
        api = api_of(data, call_type, options.unguarded)
        if api is None:
            return GatewayExchange(None)
        tools = api.tools(data, options.unguarded_tools)
        history = api.history(data, options.unguarded_tools)
        conversation = conversations.conversation_of(data, auth, options.conversation)
        if conversation is None:
            if tools or history.calls or history.results or guard.judges_answers:
                raise InputError(self._unnamed())
            return GatewayExchange(api, None, {}, history)
        await self._tools.compare(tools)
        if isinstance(guard, ToolGuard) and guard.lifecycle.time_limit.inline:
            seen = self._confirm(conversation, history)  # nothing here waits
        else:
            seen = await asyncio.to_thread(self._confirm, conversation, history)
        exchange = GatewayExchange(api, conversation, {tool.name: tool for tool in tools}, history, seen)
        self._open.enter(conversation, exchange)
        return exchange

    def _confirm(self, conversation: str, history: ShownHistory) -> list[str] | None:
        """Compares a client's messages with what the guard allowed, and records new results.

        Returns:
            The ids of all results, if the guard does not know one; otherwise None.

        Raises:
            InputError: they show something else.
        """
        steps = [partial(self._records.settle, conversation, *pair) for pair in history.results.items()]
        steps += [partial(self._check, conversation, call) for call in history.calls]
        unknown = [error for step in steps if (error := _unknown_call(step)) is not None]
        if unknown and self._options.unknown_calls != "judge":
            raise InputError(
                f"{unknown[0]}; begin a new conversation, keep conversations in a ledger that all processes of the "
                "proxy share, or set 'unknown_calls: judge' in the guardrail's options"
            )
        if history.new_turn:
            self._records.guard.turn(conversation)
        return list(history.results) if unknown else None

    def _check(self, conversation: str, call: Any) -> None:
        args = call.args if isinstance(call.args, Mapping) else read_object(str(call.args or ""), call.name)
        self._records.check_shown(conversation, call.id, call.name, args)

    def _unnamed(self) -> str:
        return (
            "this request names no conversation, so its tool calls cannot be judged: send the header "
            f"{self._options.conversation!r}, 'litellm_session_id', or 'session_id' in the metadata, with one id for "
            "all requests of a conversation"
        )


def _unknown_call(step: Callable[[], None]) -> conversations.UnknownCallError | None:
    """Returns the error of a step if it is about an unknown call."""
    try:
        step()
    except conversations.UnknownCallError as error:
        return error
    return None
