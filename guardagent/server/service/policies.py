"""The policies of a server: versions in force, candidates, violations of rules, and reports.

A candidate is judged beside the live version, or replayed on the log, without effect. The history tells what changed in
the rules, in natural language, and when. Reports have the rules with their violations in the newest verdicts of a log,
lint, and versions with differences; others verify and draw the workflow graphs that the settings name.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent.batch.cases import (
    MEMORY_BYTES,
    difference_lines,
    explain_line,
    explainer,
    judge_case,
    read_candidate,
    read_expectation,
)
from guardagent.batch.pipeline import Job, judge_line
from guardagent.batch.pool import worker_processes
from guardagent.batch.records import InputLine
from guardagent.batch.replay import replay
from guardagent.batch.replay.conversation import ReplayPolicy
from guardagent.errors import InputError, LedgerError, LimitError
from guardagent.policy.language.parser import named_arguments
from guardagent.policy.load import load_policies
from guardagent.policy.logic.semantics import needs_earlier_step
from guardagent.policy.policies import Policies
from guardagent.policy.words import policies_in_words
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.stores import LogQueries
from guardagent.server.settings import PolicySettings, WorkflowSettings, is_among
from guardagent.server.state import StateStore
from guardagent.types import Decision

if TYPE_CHECKING:
    from guardagent.workflow.analysis.report import Report

_log = logging.getLogger("guardagent")

# --- the policies by their names

_RELOADED = "reloaded"


class PolicyCatalogue:
    """The policies of a server by their names.

    A server loads the files of a policy again when another one that shares the state has done so, before it opens
    another session.

    Args:
        settings: the settings of each policy.

    Raises:
        InputError: a policy is invalid.
    """

    def __init__(self, settings: Mapping[str, PolicySettings]) -> None:
        self._settings = dict(settings)
        self._state: StateStore | None = None
        self._seen: dict[str, int] = {}  # the version of the note of a policy's last reload, by any server
        self._lock = threading.Lock()
        self._loaded = {name: load_policies(setting.files) for name, setting in settings.items()}

    def share(self, state: StateStore) -> None:
        """Follows the servers that share a state from now on, and lets them follow."""
        self._state = state

    def names(self, tenant: str) -> list[str]:
        """Returns the names of the policies that a tenant may use."""
        return [name for name, setting in self._settings.items() if is_among(tenant, setting.tenants)]

    def settings(self, name: str, tenant: str) -> PolicySettings:
        """Returns the settings of a policy.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        setting = self._settings.get(name)
        if setting is None or not is_among(tenant, setting.tenants):
            raise UnknownItemError(f"there is no policy {name!r}; expected one of {', '.join(self.names(tenant))}")
        return setting

    def current(self, name: str) -> Policies:
        """Returns the current version of a policy."""
        self._follow(name)
        return self._loaded[name].current

    def version(self, name: str, digest: str) -> Policies | None:
        """Returns a version of a policy; None if this server does not have it."""
        loaded = self._loaded.get(name)
        if loaded is None:
            return None
        if loaded.current.digest == digest:
            return loaded.current
        if loaded.versions is None:
            return None
        return loaded.versions.find(digest) or (loaded.versions.find(digest) if self._follow(name) else None)

    def held(self, name: str) -> list[str]:
        """Returns the digests of the versions that this server has, the current one first."""
        loaded = self._loaded[name]
        others = () if loaded.versions is None else loaded.versions.held()
        return [
            loaded.current.digest,
            *(version.digest for version in others if version.digest != loaded.current.digest),
        ]

    def reload(self, name: str) -> Policies:
        """Loads the files of a policy again, for new sessions.

        Raises:
            InputError: they are invalid; the current version stays in force.
        """
        reloaded = self._loaded[name].reload()
        if self._state is not None:
            put(self._state, _RELOADED, "", name, {"digest": reloaded.digest})
        return reloaded

    def _follow(self, name: str) -> bool:
        """Loads the files again if another server has done so since; whether they were those that it has loaded."""
        item = None if self._state is None else self._state.get(_RELOADED, "", name)
        with self._lock:
            loaded = self._loaded[name]
            if item is None or item.version == self._seen.get(name) or loaded.versions is None:
                return False
            self._seen[name], digest = item.version, item.value["digest"]
            if loaded.current.digest == digest:
                return False

            def require_same(version: Policies) -> None:
                if version.digest != digest:
                    raise InputError("the files differ from those that another server has loaded again")

            try:
                loaded.versions.reload(require_same)
            except InputError as error:
                _log.error("the policy %r stays as it was loaded here: %s", name, error)
                return False
            return True


def put(state: StateStore, kind: str, tenant: str, name: str, value: Mapping[str, Any]) -> None:
    """Stores a value in place of the one that is there."""
    while not state.add(kind, tenant, name, value):
        item = state.get(kind, tenant, name)
        if item is not None and state.replace(kind, tenant, name, item.version, value):
            break


def unchanging(version: Policies, candidate: Policies | None) -> Policies:
    """Returns a version that no reload replaces, for a guard of sessions that began under it.

    Args:
        version: the version.
        candidate: judges too, without effect, in place of the one that the version names; None for that one.
    """
    fixed = copy.copy(version)
    fixed.versions = None
    fixed.shadow = version.shadow if candidate is None else candidate
    return fixed


# --- candidates

_CHOSEN, _TEXT = "shadow", "candidate"
_LINT_SECONDS, _EXPLAIN_SECONDS = 10.0, 10.0
_MAX_CASES = 1000


class CandidatePolicies:
    """The candidates of all tenants, which each server can read.

    Args:
        state: stores them.
        catalogue: the live policies.
        settings: the settings of the policies.
    """

    def __init__(self, state: StateStore, catalogue: PolicyCatalogue, settings: Mapping[str, PolicySettings]) -> None:
        self._state, self._catalogue, self._settings = state, catalogue, settings
        self._loaded: dict[str, Policies] = {}
        self._replaying, self._explaining = threading.Lock(), threading.BoundedSemaphore(2)

    def chosen(self, tenant: str, name: str) -> str:
        """Returns the id of the candidate that judges new sessions too; empty if there is none."""
        item = self._state.get(_CHOSEN, tenant, name)
        return "" if item is None else str(item.value["candidate"])

    def choose(self, tenant: str, name: str, text: str | None) -> str:
        """Sets the candidate of new sessions, or none. Returns its id.

        Raises:
            InputError: the text is not a policy, or refers to other files than the live policy does.
        """
        candidate = "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if text is not None:
            self._loaded[candidate] = self.read(name, text)
            self._state.add(_TEXT, tenant, candidate, {"text": text})
        put(self._state, _CHOSEN, tenant, name, {"candidate": candidate})
        return candidate

    def find(self, tenant: str, name: str, candidate: str) -> Policies | None:
        """Returns a candidate; None for the id of none.

        Raises:
            LedgerError: the state lacks it.
        """
        if not candidate:
            return None
        if candidate not in self._loaded:
            item = self._state.get(_TEXT, tenant, candidate)
            if item is None:
                raise LedgerError("the state lacks the candidate with which the session began")
            self._loaded[candidate] = self.read(name, item.value["text"])
        return self._loaded[candidate]

    def read(self, name: str, text: str) -> Policies:
        """Reads the text of a candidate. It calls no model.

        Raises:
            InputError: it is not a policy, or refers to other files than the live policy does: an admin over HTTP
                does not choose the code that runs here.
        """
        return read_candidate(self._settings[name].files, text)

    def explain(self, name: str, text: str, case: str) -> dict[str, Any]:
        """Judges a case by a candidate, or by the live policy if the text is empty; see `explained`. It has no effect.

        A candidate has a process of its own, which ends after some seconds or with too little memory.

        Raises:
            InputError: as `read`; the case is invalid; or the candidate takes too long.
            RequestConflictError: others are being judged on this server.
        """
        if not text.strip():
            return explain_line(self._catalogue.current(name), case)
        if not self._explaining.acquire(blocking=False):
            raise RequestConflictError("other pasted policies are being judged on this server; try again")
        try:
            with worker_processes(partial(explainer, self._settings[name].files, text), 1) as submit:
                explained: dict[str, Any] = submit(case).result(_EXPLAIN_SECONDS)
                return explained
        except (TimeoutError, LimitError):
            limits = f"{_EXPLAIN_SECONDS:g} s or {MEMORY_BYTES // 2**30} GiB"
            raise InputError(f"the pasted policy takes more than {limits}; simplify it") from None
        finally:
            self._explaining.release()

    def replay(
        self, name: str, text: str, log: str, digests: Collection[str], days: int | None = None
    ) -> dict[str, Any]:
        """Returns what a candidate would have decided on the calls of a log.

        Args:
            name: the name of the live policy.
            text: the candidate.
            log: the address of the log.
            digests: the versions of the live policy; conversations under other policies are not replayed.
            days: replays only conversations that had a verdict in the last days; None for all.

        Raises:
            InputError: as `read`.
            RequestConflictError: another replay is running on this server.
        """
        candidate = self.read(name, text)
        since = "" if days is None else (datetime.now(UTC) - timedelta(days=days)).isoformat()[:19]

        def selects(fields: Mapping[str, Any]) -> bool:
            return fields.get("policy") in digests and str(fields.get("time")) >= since

        if not self._replaying.acquire(blocking=False):
            raise RequestConflictError("another replay is running on this server; try again later")
        try:
            report = replay(log, ReplayPolicy(candidate), selects=selects)
        finally:
            self._replaying.release()
        more = {"changed": report.table.changed, "conversations": report.conversations, "notes": report.notes}
        return {**report.table.to_dict(), **more}

    def examine(self, name: str, text: str, cases: str) -> dict[str, Any]:
        """Returns the findings of lint on a candidate, and how its cases differ from what they expect.

        Args:
            name: the name of the live policy.
            text: the candidate.
            cases: one case a line; empty for the cases beside the files of the live policy.

        Raises:
            InputError: as `read`, or there are too many cases.
        """
        candidate = self.read(name, text)
        data = cases.encode() if cases.strip() else _cases_beside(self._settings[name].files)
        lines = [InputLine(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        if len(lines) > _MAX_CASES:
            raise InputError(f"{len(lines):,} cases are too many; expected at most {_MAX_CASES:,}")
        job = Job("the cases", lambda: candidate, read_expectation, judge_case)
        results = [judge_line(job, candidate, line) for line in lines]
        texts = [[result.error] if result.error else difference_lines(result, candidate.ids) for result in results]
        names = [str(json.loads(result.row)["id"]) if result.row else "" for result in results]
        different = [(name, text) for name, text in zip(names, texts, strict=True) if text]
        return {"lint": _lint(candidate), "cases": len(lines), "different": different}


def _cases_beside(files: Iterable[Path]) -> bytes:
    beside = [file.with_name(f"{file.stem}.cases.jsonl") for file in files]
    return b"\n".join(path.read_bytes() for path in beside if path.is_file())


def _lint(version: Policies) -> dict[str, Any]:
    from guardagent.policy.lint import lint_report

    report = lint_report(version, seconds=_LINT_SECONDS)
    return {"findings": list(map(asdict, report.findings)), "undecided": report.undecided + report.notes}


# --- versions

_KIND = "policy_version"


@dataclass(frozen=True, slots=True)
class PolicyVersionRecord:
    """A version of a policy.

    Attributes:
        digest: its digest.
        since: when a server first had it in force, or had it again; in seconds since the epoch.
        rules: the rules in words, by their ids.
        messages: the messages of their authors, by their ids; of rules that have any.
        commit: the commit that the files came from when they were loaded last; empty if no file names it.
    """

    digest: str
    since: float
    rules: Mapping[str, str]
    messages: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""

    @classmethod
    def of(cls, version: Policies, since: float = 0.0) -> PolicyVersionRecord:
        """Returns the record of a version that this server has."""
        rules = {rule: words.text for rule, words in policies_in_words(version).items()}
        sources = () if version.source is None else version.source.rules
        messages = {source.id: source.message for source in sources if source.message}
        return cls(version.digest, since, rules, messages)


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule that two versions do not share alike; the words are None where there is no such rule."""

    rule: str
    earlier: str | None
    later: str | None
    message: str = ""


class PolicyHistory:
    """The history of all policies, in the state that servers share.

    Args:
        state: stores it.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state

    def note(self, name: str, version: Policies, commit: str) -> None:
        """Notes that a version is in force, and its commit. One that is there and is not the newest is so again."""
        newest = [record for record in self.versions(name, 1) if record.digest == version.digest]
        if newest and newest[0].commit == commit:
            return
        self._state.delete(_KIND, name, version.digest)
        record = PolicyVersionRecord.of(version, newest[0].since if newest else time.time())
        value = {"since": record.since, "rules": dict(record.rules), "messages": dict(record.messages)}
        value |= {"commit": commit} if commit else {}
        self._state.add(_KIND, name, version.digest, value)

    def versions(self, name: str, limit: int = 20) -> list[PolicyVersionRecord]:
        """Returns the versions of a policy, the newest first."""
        items = self._state.page(_KIND, name, None, limit)
        return [PolicyVersionRecord(item.name, **item.value) for item in items]


def changes(earlier: PolicyVersionRecord, later: PolicyVersionRecord) -> list[RuleChange]:
    """Returns the rules that were added, removed or changed, by their ids."""
    names = sorted({*earlier.rules, *later.rules})
    messages = {**earlier.messages, **later.messages}
    rule_changes = [
        RuleChange(name, earlier.rules.get(name), later.rules.get(name), messages.get(name, "")) for name in names
    ]
    return [rule_change for rule_change in rule_changes if rule_change.earlier != rule_change.later]


# --- violations


@dataclass(slots=True)
class RuleHits:
    """The verdicts in which a rule was violated.

    Attributes:
        decisions: their number by decision.
        near_misses: those in which every violated rule asks for an earlier step: the call itself violated no other.
        last: the time of the last one; empty without any.
        days: their number by day, in UTC.
    """

    decisions: dict[str, int]
    near_misses: int = 0
    last: str = ""
    days: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The number of all."""
        return sum(self.decisions.values())


def rule_hits(
    policies: Policies, digests: Collection[str], verdicts: Iterable[Mapping[str, Any]]
) -> dict[str, RuleHits]:
    """Returns the hits of each rule, by its id.

    Args:
        policies: the current version.
        digests: the versions that count.
        verdicts: entries of the log, in order.
    """
    rule_hits = {name: RuleHits({}) for name in policies.ids}
    order = {rule.id for rule in policies.rules if needs_earlier_step(rule)}
    for entry in verdicts:
        if entry.get("policy") not in digests:
            continue
        violated = list(dict.fromkeys(entry.get("rules") or ()))
        for name in violated:
            if name in rule_hits:
                hits = rule_hits[name]
                hits.decisions[entry["decision"]] = hits.decisions.get(entry["decision"], 0) + 1
                hits.near_misses += all(rule_id in order for rule_id in violated)
                hits.last = entry["time"]
                hits.days[entry["time"][:10]] += 1
    return rule_hits


# --- reports

JSON = dict[str, Any]
_VERDICTS = 2000  # the newest ones, for the hits of rules
_DAYS = 14


class PolicyReports:
    """Reports on the policies of a server; each is for a tenant that may use the policy.

    Args:
        policies: the policies.
        history: their versions.
        candidates: those that judge too, without effect.
        log: the logs of tenants.
    """

    def __init__(
        self, policies: PolicyCatalogue, history: PolicyHistory, candidates: CandidatePolicies, log: LogQueries
    ) -> None:
        self._policies, self._history, self._candidates, self._log = policies, history, candidates, log
        self._lint: dict[str, JSON] = {}

    def explain(self, tenant: str, name: str) -> JSON:
        """Returns the rules of the current version in words, with their hits among the newest verdicts.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self._policies.settings(name, tenant)
        current = self._policies.current(name)
        texts = PolicyVersionRecord.of(current)
        known = self._history.versions(name, 2)
        earlier = next((record for record in known if record.digest != current.digest), None)
        verdicts = self._log.entries(tenant, None, _VERDICTS, {"kind": "verdict"})
        hits = rule_hits(current, self.digests(name), verdicts)
        shadow = self._log.entries(tenant, None, _VERDICTS, {"kind": "shadow"})
        return {
            "name": name,
            "digest": current.digest,
            "commit": next((record.commit for record in known if record.digest == current.digest), ""),
            "rules": hits,
            "texts": texts,
            "changed": None if earlier is None else changes(earlier, texts),
            "verdicts": verdicts,
            "days": _days(verdicts),
            "candidate": self._candidates.chosen(tenant, name),
            "differences": shadow[-20:][::-1],
        }

    def lint(self, tenant: str, name: str) -> JSON:
        """Returns the findings of lint on the current version.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self._policies.settings(name, tenant)
        current = self._policies.current(name)
        if current.digest not in self._lint:
            self._lint = {current.digest: _lint(current)}
        return {"name": name, "digest": current.digest, **self._lint[current.digest]}

    def versions(self, tenant: str, name: str) -> JSON:
        """Returns the versions, the newest first, each with its changes since the previous version.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self._policies.settings(name, tenant)
        versions = self._history.versions(name)
        pairs = zip(versions, [*versions[1:], None], strict=True)
        return {
            "name": name,
            "versions": [(pair, None if earlier is None else changes(earlier, pair)) for pair, earlier in pairs],
        }

    def digests(self, name: str) -> set[str]:
        """Returns the digests of the versions of a policy."""
        return {self._policies.current(name).digest, *(version.digest for version in self._history.versions(name))}

    def texts(self, name: str, digest: str) -> PolicyVersionRecord:
        """Returns the rules of a version in words and their messages; without any if this server does not know it."""
        version = self._policies.version(name, digest)
        if version is not None:
            return PolicyVersionRecord.of(version)
        versions = (record for record in self._history.versions(name) if record.digest == digest)
        return next(versions, PolicyVersionRecord(digest, 0.0, {}))

    def words(self, name: str, digest: str, rules: Iterable[str]) -> dict[str, str]:
        """Returns rules of a version in words, by their ids; without those that this server does not know."""
        known = self.texts(name, digest).rules
        return {rule: known[rule] for rule in rules if rule in known}

    def arguments_read(self, name: str, digest: str, rules: Collection[str]) -> set[str]:
        """Returns the arguments that rules of a version name; none of a version that this server does not have."""
        version = self._policies.version(name, digest)
        read = (part for rule in version.rules if rule.id in rules for part in rule.rules) if version else ()
        return {argument.name for part in read for argument in named_arguments(part)}

    def shown_arguments(self, approval: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of an approval's call that the rules read; without any, all."""
        args = approval["call"]["args"] if approval["args"] is None else approval["args"]
        read = self.arguments_read(approval["policy"], approval["policy_version"], approval["rules"])
        return {name: value for name, value in args.items() if name in read} or dict(args)

    def escalating_call(self, tenant: str) -> tuple[str, str, list[str]] | None:
        """Returns a policy, a tool about which a rule asks a person, and its arguments; None without such a rule.

        A tool whose arguments a rule names comes first: `refund(amount=1000)` says more than a call of a pack's tool.
        """
        for name in self._policies.names(tenant):
            rules = self._policies.current(name).rules
            asks = (rule for rule in rules if rule.source.on_violation is Decision.ESCALATE)
            tools = {tool: set[str]() for rule in asks for tool in rule.tools if tool.isidentifier()}
            for argument in (argument for rule in rules for part in rule.rules for argument in named_arguments(part)):
                for tool in tools.keys() & argument.tools:
                    tools[tool].add(argument.name)
            if tools:
                tool = min(tools, key=lambda tool: (not tools[tool], tool))
                return name, tool, sorted(tools[tool])
        return None


def _days(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the last days since the first of some verdicts, in UTC, without those before the last two weeks."""
    if not verdicts:
        return []
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days=ago)).isoformat() for ago in range(_DAYS)]
    return sorted(day for day in days if day >= verdicts[0]["time"][:10])


class WorkflowReports:
    """The reports on all workflows. A report is made again when the graph's file or the policy has changed.

    Args:
        settings: the workflows by their names.
        policies: the policies.
    """

    def __init__(self, settings: Mapping[str, WorkflowSettings], policies: PolicyCatalogue) -> None:
        self._settings, self._policies = settings, policies
        self._made: dict[str, tuple[object, Report]] = {}

    def all(self, tenant: str) -> dict[str, Report | str]:
        """Returns the report on each workflow of a tenant, or why there is none."""
        names = [name for name, setting in self._settings.items() if is_among(tenant, setting.tenants)]
        return {name: self._report_or_problem(tenant, name) for name in names}

    def report(self, tenant: str, name: str) -> Report:
        """Returns the report on a workflow.

        Raises:
            UnknownItemError: the tenant has no such workflow.
            InputError: its graph cannot be read.
        """
        setting = self._settings.get(name)
        if setting is None or not is_among(tenant, setting.tenants):
            raise UnknownItemError(f"there is no workflow {name[:80]!r}; the settings of the server name them")
        policies = self._policies.current(setting.policy) if setting.policy else None
        try:
            changed = setting.graph.stat()
        except OSError as error:
            raise InputError(f"the graph of the workflow {name!r} cannot be read: {error.strerror}") from None
        key = (changed.st_mtime_ns, changed.st_size, None if policies is None else policies.digest)
        made = self._made.get(name)
        if made is None or made[0] != key:
            from guardagent.workflow.verify import verify

            made = self._made[name] = key, verify(setting.graph, policies, name=name)
        return made[1]

    def picture(self, tenant: str, name: str) -> str:
        """Returns the graph of a workflow as SVG.

        Raises:
            UnknownItemError, InputError: as `report`; or the graph is too large for a picture.
        """
        from guardagent.workflow.drawing import svg

        return svg.render(self.report(tenant, name).graph)

    def _report_or_problem(self, tenant: str, name: str) -> Report | str:
        try:
            return self.report(tenant, name)
        except InputError as error:
            return str(error)
