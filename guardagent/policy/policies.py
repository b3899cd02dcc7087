"""The compiled rules of a policy file, immutable and shared by all sessions, and the versions that a process holds.

A version never changes. All versions of a file share one `PolicyVersions`, so a host may keep the policies it loaded
first: `policies.session()` opens a session of the current version, and a running session keeps its own.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from guardagent.errors import InputError, name_hint
from guardagent.policy.dispatch import Dispatch, UnreadableCallError, inner_call
from guardagent.policy.evaluation.counters import Counter
from guardagent.policy.evaluation.history_index import AnyTool, HistoryIndex, index_type, names, union_of
from guardagent.policy.evaluation.history_query import HistoryQuery
from guardagent.policy.evaluation.monitor_interface import WITH_ZONE, Monitor, SessionCall
from guardagent.policy.evaluation.screen import CallScreen
from guardagent.policy.language import ANSWER, ANSWER_TEXT, ast
from guardagent.policy.monitors.automaton import LabelledEvent, Product
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule, RuleMetadata
from guardagent.policy.provenance.readers import DeclaredLabels
from guardagent.policy.provenance.spelling import appearance
from guardagent.policy.scope import EscalationStage
from guardagent.types import EMPTY, Check, Decision, Functions, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from guardagent.policy.file.file_keys import IgnoredFinding
    from guardagent.policy.file.policy_file import PolicyFile
    from guardagent.session.session import Session


# --- versions

_ANY = AnyTool()  # the tools of a request in natural language
KEPT = 16  # earlier versions that are kept for snapshots; one with a running session is kept in any case
MAX_LOADS = 5  # attempts to read files that change meanwhile

Condition = Callable[[Any], None]
"""Raises an InputError for a version that its host cannot use."""


class PolicyVersions:
    """The versions of one policy file.

    Args:
        first: the first version.
        load: loads the files again.
        digest: returns the digest of the files as they are now.

    Attributes:
        current: the version of new sessions.
    """

    def __init__(self, first: Policies, load: Callable[[], Policies], digest: Callable[[], str]) -> None:
        self.current = first
        self._load, self._digest = load, digest
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Policies] = OrderedDict({first.digest: first})
        self._alive: weakref.WeakValueDictionary[str, Policies] = weakref.WeakValueDictionary({first.digest: first})
        self._conditions: list[weakref.WeakMethod[Condition]] = []

    def reload(self, accept: Condition | None = None) -> Policies:
        """Loads the files again, as a whole or not at all. Returns the current version, a new one if they changed.

        Args:
            accept: a condition for this time; it raises an InputError.

        Raises:
            InputError: the new files are invalid, not locked, keep changing, or fail a condition; the current version
                stays in force.
        """
        with self._lock:
            loaded = self._loaded()
            if loaded.digest == self.current.digest:
                return self.current
            for condition in [*filter(None, [accept]), *self._live_conditions()]:
                condition(loaded)
            loaded.versions = self
            self._kept[loaded.digest] = self._alive[loaded.digest] = loaded
            self._kept.move_to_end(loaded.digest)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            self.current = loaded
            return loaded

    @property
    def is_current(self) -> bool:
        """Whether the files are now those of the current version."""
        try:
            return self._digest() == self.current.digest
        except InputError:
            return False

    def require(self, condition: Condition) -> None:
        """Adds a condition on new versions, for as long as the object of this method lives."""
        with self._lock:
            self._conditions.append(weakref.WeakMethod(condition))

    def find(self, digest: str) -> Policies | None:
        """Returns the version with this digest, if it is held."""
        return self._alive.get(digest)

    def held(self) -> tuple[Policies, ...]:
        """Returns all versions that are held."""
        return tuple(self._alive.values())

    def _loaded(self) -> Policies:
        """Loads the files until they have not changed in between, so that no version mixes two states."""
        for _ in range(MAX_LOADS):
            loaded = self._load()
            if self._digest() == loaded.digest:
                return loaded
        raise InputError(f"{self.current.path}: keeps changing while it is read; the current version stays in force")

    def _live_conditions(self) -> list[Condition]:
        live = [(reference, reference()) for reference in self._conditions]
        self._conditions = [reference for reference, condition in live if condition is not None]
        return [condition for _, condition in live if condition is not None]


# --- policies

MAX_UNKNOWN_TOOLS = 1000  # names of other tools whose checks are kept
MAX_EXTENDED = 64
_NAME = re.compile(r"[^\W\d][\w-]*(?:[.:/][\w-]+)*")
_LETTERS = str.maketrans(  # Cyrillic, Greek and other letters, which look like those of ASCII in one case at least
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u043a\u043c\u0442\u0432"
    "\u043d\u03b1\u03bd\u03c1\u03c5\u03b9\u03ba\u03c4\u03b5\u03c7\u03b2\u03b7\u03bc\u03b6\u0131\u0261\u0251\u03bf",
    "aeopcyxijshdqwkmtbhavpuiktexbhmzigao",
)


def _skeleton(name: str) -> str:
    """Returns the form that is equal for names that look alike."""
    return appearance(name).translate(_LETTERS)


@dataclass(frozen=True, slots=True)
class Applicability:
    """The checks of a policy that apply to a kind of call.

    Attributes:
        monitors: the applicable monitors, with their numbers.
        screen: finds those of them that have to judge a call.
        stateful: those that must process the call and its outcome.
        indexes: the numbers of the history indexes for it.
        pending: the numbers of those for it while it is in flight.
        problem: an error that denies every such call.
        arguments: the declared arguments of the tool; None allows any.
        listed: whether a rule covers the call, or unlisted calls are allowed.
        needs_more_checks: whether there are checks beyond the temporal rules.
        counters: the counters that may count the call.
        unjudged: whether every check passes. The call may still count for other calls.
        ignored: whether it also counts for no other call: no rule looks at it.
        free: whether every check passes if the arguments are declared.
    """

    monitors: tuple[tuple[int, Monitor], ...]
    screen: CallScreen
    stateful: tuple[tuple[int, Monitor], ...]
    indexes: tuple[int, ...]
    pending: tuple[int, ...] = ()
    problem: str | None = None
    arguments: frozenset[str] | None = None
    listed: bool = True
    needs_more_checks: bool = False
    counters: tuple[Counter, ...] = ()
    unjudged: bool = False
    ignored: bool = False
    free: bool = False

    def with_problem(self, problem: str) -> Applicability:
        return replace(self, problem=problem, needs_more_checks=True, unjudged=False, ignored=False, free=False)

    def for_memory(self) -> Applicability:
        """Returns the checks that leave something behind for later calls."""
        return replace(self, monitors=self.stateful, screen=_NO_SCREEN, needs_more_checks=False)


class ExtendedPolicies:
    """The policies with more rules for one task that were used last, by the digest of these rules."""

    def __init__(self) -> None:
        self._known: dict[str, Policies] = {}

    def get(self, digest: str) -> Policies | None:
        return self._known.get(digest)

    def put(self, digest: str, policies: Policies) -> None:
        for oldest in list(self._known)[: max(0, len(self._known) - MAX_EXTENDED + 1)]:
            self._known.pop(oldest, None)
        self._known[digest] = policies


class _ToolApplicability(dict[str, Applicability]):
    """The checks of each tool, found on its first call. Of tools that the policy does not name, only some are kept."""

    def __init__(self, known: frozenset[str], find: Callable[[str], Applicability]) -> None:
        super().__init__()
        self.known, self._find = known, find

    def __missing__(self, tool: str) -> Applicability:
        applicability = self._find(tool)
        if tool in self.known or len(self) < len(self.known) + MAX_UNKNOWN_TOOLS:
            self[tool] = applicability
        return applicability


_CALLS_ANOTHER = "{0!r} calls another tool, which is not known here"
_NO_SCREEN = CallScreen((), SessionCall("", {}))  # all monitors remain


class Policies:
    """The rules that a session enforces.

    Attributes:
        rules: the temporal rules.
        digest: a hash of the policy file and of the toolbox files that it names.
        requests: the `request:` policies, each with its check.
        tags: the sets of tools, by name.
        ignored: accepted findings of `verify`.
        path: the policy file.
        functions: the state functions, by name.
        failed_output: a compiled pattern for outputs of failed calls, or None.
        sources: the labels of sources; None if no rule reads them.
        counters: the counters across conversations.
        judges_answers: whether a rule speaks of the final answer.
        is_scoped: whether a policy has a scope (`applies_to`).
        approval_scopes: what a reviewer may grant, by the id of the rule that asks; one call for the other rules.
        shadow: the candidate (`shadow:`), which judges live calls too, without effect.
        versions: the versions of the file; None for rules that were not loaded from a file.
        source: the policy file as read; None for rules that are from no file.
        listing: the policies that list calls for `unlisted: deny`: rules for one task list none.
        of_tool: the checks of each tool, for calls without labels, as if every policy applied to everyone.
        dispatch: the tools that call others: sessions see the inner calls.
        locked: the lock file that pins the content of these rules, and of rules for one task; None without one.
        extended: the policies with more rules for one task, as used before.
    """

    shadow: Policies | None = None
    versions: PolicyVersions | None = None

    def __init__(
        self,
        rules: Sequence[Rule],
        history_queries: Sequence[HistoryQuery] = (),
        *,
        counters: Sequence[Counter] = (),
        requests: Sequence[tuple[RuleMetadata, Check]] = (),
        tools: Mapping[str, Sequence[str] | None] | None = None,
        tags: Mapping[str, frozenset[str]] | None = None,
        functions: Functions = EMPTY,
        failed_output: Any = None,
        unlisted: Literal["allow", "deny"] = "allow",
        digest: str = "",
        sources: DeclaredLabels | None = None,
        source: PolicyFile | None = None,
        base: Policies | None = None,
    ) -> None:
        self.dispatch: Mapping[str, Dispatch] = EMPTY if source is None else source.dispatch
        self.rules = tuple(rules)
        self.monitors = tuple(monitor for rule in rules for monitor in rule.monitors)
        self.rule_of = tuple(rule for rule in rules for _ in rule.monitors)
        self.requests = tuple(requests)
        self.counters = tuple(counters)
        self._sources = [*(rule.source for rule in self.rules), *(source for source, _ in self.requests)]
        self.is_scoped = any(source.applies_to is not None for source in self._sources)
        scopes = {source.id: source.approval_scope for source in self._sources}
        self.approval_scopes = {rule: scope for rule, scope in scopes.items() if scope is not None}
        self.functions = functions
        self.failed_output = failed_output
        self.digest = digest
        self.unlisted = unlisted
        self.ignored: tuple[IgnoredFinding, ...] = () if source is None else source.ignored
        self.path: Path | None = None if source is None else source.path
        self.sources = sources
        self.source = source
        self.extended = ExtendedPolicies()
        self.locked: Path | None = None
        self.history_queries = tuple(history_queries)
        keeps = base is not None and base.unlisted == "deny"
        self.listing: Policies = base.listing if base and keeps else self
        self.tags = tags or {}
        self._declared = tools
        groups = [*(monitor.tools for monitor in self.monitors), *(query.tools for query in history_queries)]
        named = set(union_of(tools for tools in groups if not isinstance(tools, AnyTool)))
        self.judges_answers = any(ANSWER in rule.mentioned_tools for rule in rules)
        named |= {tool for group in (tags or {}).values() for tool in group}
        named |= sources.tools if sources is not None else frozenset()
        named |= {tool for counter in counters for tool in counter.tools}
        named |= {tool for _, check in self.requests for tool in getattr(check, "tools", ())}
        self._tools = frozenset(named | set(tools or ()))
        self._labels = frozenset(name for rule in rules for name in rule.labels)
        self._alike = {_skeleton(name): name for name in (*sorted(self._tools), *sorted(self._labels))}
        self._other_tools = self._applicability(SessionCall("", {}))
        self._by_labels: dict[Any, Applicability] = {}
        self._named_in: dict[str, frozenset[str]] = {}
        self.of_tool = _ToolApplicability(self._tools | {ANSWER}, self._found)

    def warm_up(self) -> None:
        """Generates the code that screens calls now, instead of after the first checks of each tool."""
        for tool in self.of_tool.known:
            self.of_tool[tool].screen.generate()
        self._other_tools.screen.generate()

    @property
    def declared_tools(self) -> frozenset[str] | None:
        """The declared tools (`tools:`); None if the policy declares none."""
        return None if self._declared is None else frozenset(self._declared)

    @property
    def quick(self) -> bool:
        """Whether judging a call takes microseconds: it uses no state function, counter, model or solver."""
        return (
            not self.functions
            and not self.counters
            and not self.requests
            and not any(getattr(monitor, "slow", False) for monitor in self.monitors)
        )

    @property
    def asks_models(self) -> bool:
        """Whether every check calls a model."""
        return any(getattr(check, "asks_model", False) for _, check in self.requests)

    @cached_property
    def product(self) -> Product:
        """The product of the propositional monitors."""
        monitors = [monitor for monitor in self.monitors if isinstance(monitor, PropositionalMonitor)]
        return Product([(part.alphabet, part.automaton) for part in monitors])

    def named_in(self, text: str) -> frozenset[str]:
        """The tools of the policy that occur in the text of a rule."""
        if text not in self._named_in:
            self._named_in[text] = self._tools.intersection(_NAME.findall(text))
        return self._named_in[text]

    def can_be_approved(self, verdict: Verdict) -> bool:
        """Whether human approval would lift every violation of an escalated call."""
        lifted = (Decision.ESCALATE, Decision.WARN)
        return not verdict.errors and all(self.responses.get(rule) in lifted for rule in verdict.rules)

    @cached_property
    def responses(self) -> Mapping[str, Decision]:
        """The decision on a violation of each rule, by its id."""
        return {source.id: source.on_violation for source in self._sources}

    @cached_property
    def reads_usage(self) -> bool:
        """Whether a rule or a counter reads what models have used."""
        nodes = (node for rule in self.rules for tree in rule.rules for node in ast.walk(tree))
        return any(counter.is_usage for counter in self.counters) or any(map(ast.is_usage, nodes))

    @cached_property
    def zone_note(self) -> str:
        """A note on the rules and counters that read the zone of the session's clock; empty without any."""
        rules = (rule.id for rule in self.rules if any(map(ast.reads_zone, rule.rules)))
        names = [*map(repr, rules), *(f"counter {counter.name!r}" for counter in self.counters if counter.reads_zone)]
        if not names:
            return ""
        reads = "reads a local time, as hour(now) is, without a zone: if the clock has none, its calls are denied"
        return f"{', '.join(names)}: {reads}; {WITH_ZONE}"

    @cached_property
    def tool_halts(self) -> frozenset[str]:
        """The ids of the rules whose violation stops the tool."""
        return frozenset(source.id for source in self._sources if source.halts_tool)

    @cached_property
    def effects(self) -> Mapping[str, str]:
        """The effects of calls, by tool, as the file states them; empty if it states none."""
        return EMPTY if self.source is None else self.source.effects

    @cached_property
    def timeouts(self) -> Mapping[str, float]:
        """The seconds for which calls may run, by tool or by tag with `@`; empty if the file limits none."""
        return EMPTY if self.source is None else self.source.timeouts

    @cached_property
    def escalations(self) -> Mapping[str, tuple[EscalationStage, ...]]:
        """The approvers of each rule that escalates, by its id; empty where the rule does not state them."""
        return {source.id: source.escalate_to for source in self._sources if source.on_violation is Decision.ESCALATE}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all rules, in the order of the file."""
        return tuple(rule.id for rule in self.rules) + tuple(source.id for source, _ in self.requests)

    def session(
        self, state: Any = None, facts: Mapping[str, Any] = EMPTY, *, extra: Any = None, **options: Any
    ) -> Session:
        """Starts a session for one conversation with one owner, under the current version of these policies.

        Args:
            state: the state for `state(...)`: a live mapping, or a callable that returns the current state.
            facts: the facts of the host about the whole conversation.
            extra: rules for this conversation only: a policy file, its content or loaded policies. See `with_extra`.
            options: as for `Session`.
        """
        from guardagent.session.session import Session

        return Session(self.current.with_extra(extra), state, facts, **options)

    # --- versions

    @property
    def current(self) -> Policies:
        """The version of new sessions: the last one that `reload` loaded."""
        return self if self.versions is None else self.versions.current

    def reload(self) -> Policies:
        """Loads the policy file again, with the same options, as a whole or not at all.

        Sessions that run keep their version. New sessions get the new one, whichever version opens them: a host may
        keep the object that it loaded first.

        Returns:
            The current version: a new one if the files changed, otherwise the one in force.

        Raises:
            InputError: the new files are invalid, not locked or keep changing, or these policies do not come from a
                file. The version in force stays.
        """
        if self.versions is None:
            raise InputError("these policies were not loaded from a file; expected those of 'load_policies(path)'")
        return self.versions.reload()

    def version(self, digest: str) -> Policies:
        """The version with a digest, for a session that began under it.

        Raises:
            InputError: it is another policy, or an earlier version that is no longer held.
        """
        version = self if digest == self.digest else None if self.versions is None else self.versions.find(digest)
        if version is None:
            raise InputError(
                "the snapshot belongs to another policy, or to a version of it that is not loaded; expected the same "
                "policy file and toolbox"
            )
        return version

    def with_extra(self, extra: Any) -> Policies:
        """These rules and more for one task, with ids that begin with `extra.`; without any, these rules.

        Raises:
            InputError: the rules are invalid, or would change these rules.
        """
        if extra is None:
            return self
        from guardagent.policy.load import with_extra

        return with_extra(self, extra)

    def restore(self, snapshot: bytes, key: bytes, *, extra: Any = None, **options: Any) -> Session:
        """Continues a session from its snapshot. An existing session with the same id denies every call from then on.

        Args:
            snapshot: the result of `session.snapshot(key)`.
            key: the same key.
            extra: the same rules for this conversation as before.
            options: `newest`, the last known `session.sequence`: an older snapshot is refused; `state`, as for
                `session`; and `messages`, `counters`, `on_difference`, `clock` and `zone`, as for `Session`.

        Raises:
            InputError: the snapshot is not authentic, belongs to another policy, or is outdated.
        """
        from guardagent.session.session import Session

        return Session.restore(self.with_extra(extra), snapshot, key, **options)

    def looks_back(self, call: SessionCall) -> bool:
        """Whether the verdict on such a call can depend on earlier calls, for example after a halt."""
        rules = [*(rule.source for rule in self.rules), *(source for source, _ in self.requests)]
        return (
            bool(self.requests)
            or call.tool in self.dispatch
            or any(rule.on_violation is Decision.HALT for rule in rules)
            or any(
                not self.rule_of[at].simple or monitor.looks_back(call)
                for at, monitor in self.applicability(call).monitors
            )
        )

    @cached_property
    def index_factories(self) -> list[Callable[[], HistoryIndex]]:
        """For each history term, a function that makes its index of a session."""
        queries = self.history_queries
        return [partial(index_type(query), query) for query in queries]

    @cached_property
    def memory_factories(self) -> list[Callable[[], Any]]:
        """For each monitor, a function that makes its memory of a session."""
        return [monitor.start for monitor in self.monitors]

    def applicability(self, call: SessionCall) -> Applicability:
        """The checks that apply to a call. All names that the policy does not use share one entry."""
        applicability = self.for_everyone(call)
        return self._within_scopes(applicability, call) if self.is_scoped else applicability

    def for_everyone(self, call: LabelledEvent) -> Applicability:
        """The checks that apply to a call if every policy applies to everyone."""
        if call.action is None and call.decision is None and not call.tags:
            return self.of_tool[call.tool]
        return self._labelled(call)

    def _within_scopes(self, applicability: Applicability, call: SessionCall) -> Applicability:
        """The checks of the policies that judge the calls of this principal and agent."""
        others = {rule for rule in self.rules if not rule.source.covers(call.principal, call.agent)}
        listed = self._is_listed(call)
        return replace(
            applicability,
            screen=_NO_SCREEN,
            monitors=tuple(monitor for monitor in applicability.monitors if self.rule_of[monitor[0]] not in others),
            stateful=tuple(monitor for monitor in applicability.stateful if self.rule_of[monitor[0]] not in others),
            listed=listed,
            needs_more_checks=applicability.needs_more_checks or not listed,
            unjudged=False,
            ignored=False,
            free=False,
        )

    def dispatched(self, call: SessionCall, applicability: Applicability) -> Applicability:
        """Replaces a call of a tool that calls others by the inner call; returns the checks that apply to it."""
        if call.tool not in self.dispatch:
            return applicability
        outer = call.tool, call.args
        try:
            call.tool, call.args = inner_call(self.dispatch, *outer)
        except UnreadableCallError as error:
            return applicability.with_problem(str(error))
        call.sent = outer
        return self.applicability(call)

    def always_allows(self, tool: str) -> bool:
        """Whether any call of a tool is allowed that has only declared arguments."""
        return self.of_tool[tool].free and not self.is_scoped

    def never_allows(self, call: SessionCall) -> bool:
        """Whether all calls of a tool are denied for a principal, whatever their arguments and what came before."""
        checks = self.applicability(call)
        if checks.problem is not None or not checks.listed:
            return True
        return any(
            self.rule_of[at].source.on_violation in (Decision.DENY, Decision.HALT)
            and not self.rule_of[at].source.on_trial
            and hasattr(monitor, "permits")
            and not monitor.permits(call)
            for at, monitor in checks.monitors
        )

    def rules_for(self, principal: Mapping[str, Any] | None) -> tuple[Rule, ...]:
        """The rules that judge calls of a principal, whichever agent proposes them."""
        return tuple(rule for rule in self.rules if rule.source.covers(principal, None))

    def _found(self, tool: str) -> Applicability:
        if tool in self.dispatch:
            return self._other_tools.with_problem(_CALLS_ANOTHER.format(tool))
        if tool in self.of_tool.known:
            return self._applicability(SessionCall(tool, {}))
        problem = self.problem("tool", tool)
        return self._other_tools.with_problem(problem) if problem else self._other_tools

    def names_beyond(self, base: Policies) -> Iterator[tuple[str, str]]:
        """Yields (kind, name) of the tools and labels that these rules know and other rules do not."""
        yield from (("tool", tool) for tool in sorted(self._tools - base._tools))
        for label in sorted(self._labels - base._labels):
            kind, _, name = label.partition(":")
            yield (kind, name) if kind in ("action", "decision") else ("tag", label)

    def problem(self, kind: str, name: str) -> str | None:
        """The reason why a call with an unknown name is denied; None if it is not."""
        if kind == "tool" and name in self.dispatch:
            return _CALLS_ANOTHER.format(name)
        if kind == "tool" and self._declared is not None:
            return f"unknown tool {name!r}{name_hint(name, self._declared)}"
        known_name = self._alike.get(_skeleton(f"{kind}:{name}" if kind in ("action", "decision") else name))
        if known_name is None:
            return None
        known_name = known_name.rpartition(":")[2] if kind in ("action", "decision") else known_name
        return f"{kind} {name!r} differs from {known_name!r} only in case or space, or in signs that look alike"

    def _labelled(self, call: LabelledEvent) -> Applicability:
        tool = call.tool if call.tool in self.of_tool.known else ""
        action = call.action if f"action:{call.action}" in self._labels else None
        decision = call.decision if f"decision:{call.decision}" in self._labels else None
        tags = call.tags & self._labels
        key = tool, action, decision, tags
        if key not in self._by_labels:
            self._by_labels[key] = self._applicability(SessionCall(tool, {}).labelled(action, decision, tags))
        problems = [
            self.problem(kind, name)
            for kind, name, known in (
                ("tool", call.tool, call.tool == tool),
                ("action", call.action, action is not None or call.action is None),
                ("decision", call.decision, decision is not None or call.decision is None),
                *(("tag", tag, tag in tags) for tag in call.tags),
            )
            if not known and name is not None
        ]
        problem = next((problem for problem in problems if problem), None)
        applicability = self._by_labels[key]
        return applicability.with_problem(problem) if problem else applicability

    def _applicability(self, call: SessionCall) -> Applicability:
        is_answer = call.tool == ANSWER
        monitors = tuple(
            (at, monitor)
            for at, monitor in enumerate(self.monitors)
            if monitor.concerns(call) and (not is_answer or names(monitor.tools, ANSWER))
        )
        stateful = tuple((at, monitor) for at, monitor in monitors if monitor.stateful)
        indexes, pending = (
            tuple(
                at
                for at, query in enumerate(self.history_queries)
                if query.in_flight is in_flight
                and (names(query.tools, ANSWER) if is_answer else call.tool in query.tools)
            )
            for in_flight in (False, True)
        )
        listed = self._is_listed(call, anyone=True)
        counters = tuple(counter for counter in self.counters if call.tool in counter.tools)
        declared = (ANSWER_TEXT,) if is_answer else (self._declared or {}).get(call.tool)
        needs_more_checks = bool(self.requests or counters) or not listed
        free = not needs_more_checks and not any(monitor.reports(call) for _, monitor in monitors)
        unjudged = free and declared is None
        return Applicability(
            monitors,
            CallScreen(monitors, call),
            stateful,
            indexes,
            pending,
            arguments=None if declared is None else frozenset(declared),
            listed=listed,
            needs_more_checks=needs_more_checks or declared is not None,
            counters=counters,
            unjudged=unjudged,
            ignored=unjudged and not stateful and not indexes,
            free=free,
        )

    def _is_listed(self, call: SessionCall, *, anyone: bool = False) -> bool:
        """Whether a rule names the tool or a label of a call, or unlisted calls are allowed.

        A rule also names the calls that it demands before or after another one.

        Args:
            call: the call.
            anyone: whether it is enough that a policy for other principals or agents names it.
        """
        if self.unlisted == "allow" or call.tool == ANSWER:
            return True
        labels = {f"action:{call.action}", f"decision:{call.decision}", *call.tags}

        def permits(source: RuleMetadata) -> bool:
            return anyone or source.permits(call.principal, call.agent)

        listing = self.listing
        return (
            any(permits(source) and call.tool in getattr(check, "tools", _ANY) for source, check in listing.requests)
            or any(labels & rule.labels and permits(rule.source) for rule in listing.rules)
            or any(call.tool in rule.mentioned_tools and permits(rule.source) for rule in listing.rules)
        )
