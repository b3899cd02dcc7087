"""Decides on the events of one installed hook.

Denies what would change the guard itself: its policy, its state, the hooks and their settings, by any tool.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from guardagent.enforcement import Approval, HostCall, Outcome, SqliteLedger, ToolGuard
from guardagent.enforcement.approval import BY_HOST
from guardagent.enforcement.conversations import NotBegunError
from guardagent.errors import GuardError, InputError, error_text
from guardagent.hooks.calls import SHELL_TOOLS, judged_arguments, real_path
from guardagent.hooks.hook_event import HookAnswer, HookDecision, HookEvent, HookHost, HookKind
from guardagent.hooks.hook_state import HookLock, PendingAsks, SessionRetention, changed, record_unchecked
from guardagent.log import AuditLog
from guardagent.packs.shell.commands import all_commands
from guardagent.packs.shell.foreign_code import INTERPRETERS, code_effects, inline_code
from guardagent.packs.shell.script import ShellCommand
from guardagent.policy.file.inclusions import policy_contents
from guardagent.server.state import open_state
from guardagent.session.calls import ClaimConflictError, NotClaimedError
from guardagent.types import Decision, Verdict

# --- what guards the agent

_READING = frozenset(
    "cat less more head tail grep egrep fgrep rg ls stat file wc diff cmp md5sum sha256sum jq tree du find fd bat nl "
    "cut sort uniq realpath readlink basename dirname test [ [[ echo printf pwd cd true which type".split()
)
_READING_TOOLS = re.compile(
    r"(?:Read|Grep|Glob|LS|NotebookRead|(?:.*__)?(?:read|list|search|grep|glob|get|find|view)_?\w*)"
)
_WRITING_OPTIONS = frozenset(
    ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fls", "-o", "--output", "--in-place")
)
_OWN_COMMANDS = re.compile(r"hook\s+(?:install|uninstall)|guardagent[\w./-]*\s+watch|hook_daemon|hooks[./]client")
# Commands that change folders with all that is in them.
_WHOLE_FOLDERS = frozenset(("rm", "mv", "rmdir", "shred", "chmod", "chown", "chattr", "rsync", "ln", "mount", "find"))
_PACKAGE_MANAGERS = frozenset("pip pip3 pipx uv poetry pdm conda mamba".split())
_LONGEST_PATH = 4096
_MAX_MATCHES, _MAX_COMMANDS = 1000, 2000
_REASON = "This would change what guards this agent: {}. Only its operator may."


class Protection:
    """The protected files and folders.

    Args:
        paths: absolute paths; what lies in a folder is protected, too.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        named = [os.path.abspath(path) for path in paths if path]
        self._paths = tuple(dict.fromkeys([*named, *map(os.path.realpath, named)]))
        self._tails = tuple({"/".join(path.split("/")[-2:]) for path in self._paths})

    def problem(self, tool: str, args: Mapping[str, Any], cwd: str) -> str | None:
        """Returns why a call is denied; None if it leaves the guard alone."""
        if tool in SHELL_TOOLS:
            texts = [value for name, value in args.items() if name in ("command", "cmd", "script") and value]
            return next(
                (problem for text in texts if (problem := self._of_command(text, args.get("cwd") or cwd))), None
            )
        if _READING_TOOLS.fullmatch(tool):
            return None
        touched = next((touched_path for text in _strings(args) if (touched_path := self._touched(text, cwd))), None)
        return None if touched is None else _REASON.format(touched)

    def _touched(self, text: str, cwd: str) -> str | None:
        """Returns the protected path that a string names or contains."""
        return (self._reached(text, cwd, holders=True) if _is_path(text) else None) or self._mentioned(text)

    def _mentioned(self, text: str) -> str | None:
        """Returns the end of a protected path that a string contains, as code does."""
        return next((tail for tail in self._tails if tail in text), None)

    def _reached(self, path: str, cwd: str, *, holders: bool) -> str | None:
        """Returns the protected path that a path is or lies in; with `holders`, also one that lies in the path."""
        for expanded_path in _expanded(os.path.join(cwd or os.sep, os.path.expanduser(path))):
            for whole in {os.path.normpath(expanded_path), real_path(expanded_path, cwd)}:
                for protected in self._paths:
                    if (
                        _is_in(whole, protected)
                        or _is_below(protected, whole)
                        or (holders and _is_in(protected, whole))
                    ):
                        return protected
        return None

    # --- shell commands

    def _of_command(self, command: Any, cwd: str) -> str | None:
        text = command if isinstance(command, str) else " ".join(map(str, command)) if isinstance(command, list) else ""
        if _OWN_COMMANDS.search(text):
            return _REASON.format("its hooks")
        commands = list(islice(all_commands(text), _MAX_COMMANDS))
        for simple_command in commands:
            if simple_command is None:  # unknown: what it says must not even name the guard
                target = next((tail for tail in self._tails if tail in text), None)
            else:
                target = self._of_simple(simple_command, cwd)
            if target is not None:
                return _REASON.format(target)
        return None

    def _of_simple(self, command: ShellCommand, cwd: str) -> str | None:
        folder = os.path.join(cwd, os.path.expanduser(command.folder)) if command.folder else cwd
        written = (value for word in command.writes for value in word)
        if target := next((path for value in written if (path := self._touched(value, folder))), None):
            return target
        if _removes_package(command):
            return "its package"
        if _only_reads(command):
            return None
        if target := self._of_code(command, folder):
            return target
        values = [value for word in command.words[1:] for value in word]
        named = (self._named(value, folder, holders=command.name in _WHOLE_FOLDERS) for value in values)
        return next((named_path for named_path in named if named_path), None)

    def _of_code(self, command: ShellCommand, folder: str) -> str | None:
        """Returns the protected path that the code of an interpreter may change."""
        if not INTERPRETERS.fullmatch(command.name or ""):
            return None
        texts = [command.text, *(source.text for source in command.sources), *(inline_code(command.words) or ())]
        texts += [value for source in command.sources for word in source.words[1:] for value in word]
        for text in filter(None, texts):
            effects = code_effects(command.name or "", text)
            if effects is None:  # it is denied or asked about; it must not even name the guard
                if of_code := self._mentioned(text) or self._like(re.findall(r"[\w.*?-]+", text), folder):
                    return of_code
            elif effects.writes:
                strings = [*effects.files, *effects.others]
                reached = (self._reached(string, folder, holders=False) for string in strings if _is_path(string))
                if of_code := self._like(strings, folder) or next((path for path in reached if path), None):
                    return of_code
        return None

    def _like(self, strings: Iterable[str], folder: str) -> str | None:
        """Returns the protected file whose name a string in code has; also one of the folder, by a pattern."""
        parts = {string.rpartition("/")[2] for string in strings}
        for path in self._paths:
            name = os.path.basename(path)
            is_near = _is_in(path, folder) and any(fnmatchcase(name, part) for part in parts)
            if "." in name[1:] and (name in parts or is_near):
                return path
        return None

    def _named(self, value: str, folder: str, *, holders: bool) -> str | None:
        for part in (value, value.partition("=")[2]):
            if _is_path(part) and (path := self._reached(part, folder, holders=holders)):
                return path
        return self._mentioned(value)


def _is_path(text: str) -> bool:
    return 0 < len(text) < _LONGEST_PATH and "\n" not in text and not text.startswith("-")


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_below(path: str, pattern: str) -> bool:
    """Whether a path is one of `folder/**` or `folder/**/name`, as the outputs of commands that list files are."""
    folder, deep, name = pattern.partition("/**")
    return bool(deep) and _is_in(path, folder or "/") and fnmatchcase(os.path.basename(path), name.strip("/") or "*")


def _only_reads(command: ShellCommand) -> bool:
    options = {value.partition("=")[0] for word in command.words[1:] for value in word}
    return command.name in _READING and not options & _WRITING_OPTIONS


def _removes_package(command: ShellCommand) -> bool:
    """Whether a package manager removes this package, or replaces it by a version that is named."""
    words = [word[0] if word else "" for word in command.words]
    if command.name not in _PACKAGE_MANAGERS and words[1:3] != ["-m", "pip"]:
        return False
    is_removed = bool({"uninstall", "remove", "rm"} & set(words)) and "guardagent" in (
        re.split(r"[\[=]", word)[0].lower() for word in words[1:]
    )
    return is_removed or any(
        re.match(r"guardagent(?:\[[\w,-]*\])?\s*(?:[=<!~]=|<|@)", word, re.IGNORECASE) for word in words
    )


def _expanded(path: str) -> Sequence[str]:
    """Returns the files that a pattern matches, and the pattern itself."""
    if not any(sign in path for sign in "*?["):
        return (path,)
    return (path, *islice(glob.iglob(path), _MAX_MATCHES))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _strings(name)
            yield from _strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)


# --- the decisions

CHECK_SECONDS = 15.0
"""The limit of a check, below that of the client."""
MAX_REPLANS = 1000
"""A hook cannot hand control back to the user; `guardagent:runaway` stops an agent that repeats itself."""
_log = logging.getLogger("guardagent")


class HookJudge:
    """Judges the tool calls of one hook. Its state is in SQLite, so that parallel processes share it.

    Args:
        lock: the lock of the hook.
        host: the host.
        folder: the state folder.

    Raises:
        GuardError: the policy is invalid or has changed, or the state cannot be opened.
    """

    def __init__(self, lock: HookLock, host: HookHost, folder: Path) -> None:
        self._lock, self._host = lock, host
        self._policies = lock.load()
        self._files = [
            Path(lock.policy),
            *(policy_content.path for policy_content in policy_contents(Path(lock.policy))),
        ]
        self._stamps: list[tuple[int, ...] | None] = []
        project = Path(lock.project) if lock.project else None
        package = Path(__file__).parents[1]
        files = [lock.policy, lock.settings, str(folder), str(package), *map(str, host.agent_files(project))]
        self._protection = Protection(files)
        state = open_state(f"sqlite:{folder / 'asks.db'}")
        self.asks, self._retention = PendingAsks(state), SessionRetention(state)
        self._ledger = SqliteLedger(folder / "ledger.db")
        self._log = AuditLog(folder / "log.db")
        self._guard = ToolGuard(
            self._policies,
            ledger=self._ledger,
            log=self._log,
            deadline=CHECK_SECONDS,
            max_replans=MAX_REPLANS,
        )

    def answer(self, event: HookEvent) -> HookAnswer:
        """Answers an event. Never raises: an error before a tool runs is a denial."""
        try:
            self._retention.note_use(self._conversation(event))
            match event.kind:
                case HookKind.BEFORE:
                    return self._before(event)
                case HookKind.AFTER:
                    self._after(event)
                case HookKind.PROMPT:
                    self._guard.turn(self._conversation(event))
                case HookKind.STOP:
                    return self._stop(event)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            reason = str(error) if isinstance(error, GuardError) else error_text(error)
            _log.error("%s: %s", event.name, reason)
            if event.kind is HookKind.BEFORE:
                return HookAnswer(HookDecision.DENY, reason)
        return HookAnswer()

    def forget(self, conversations: Iterable[str]) -> None:
        """Forgets sessions that were deleted."""
        for conversation in conversations:
            self._guard.release(conversation)

    def _require_locked_policy(self) -> None:
        """Requires that the files of the policy are those that were locked.

        Raises:
            InputError: they are not.
        """
        stamps = [_stamp_of(path) for path in self._files]
        if stamps != self._stamps:
            try:
                digest = self._policies.reload().digest
            except GuardError as error:
                raise InputError(f"{changed(self._lock.policy)} ({error})") from None
            if digest != self._lock.digest:
                raise InputError(changed(self._lock.policy))
            self._stamps = stamps

    # --- before a tool runs

    def _before(self, event: HookEvent) -> HookAnswer:
        self._require_locked_policy()
        if self._ledger.policy_of(self._conversation(event)) not in (None, self._lock.digest):
            raise InputError("this session began under another version of the policy; start a new session of the agent")
        args = judged_arguments(event.tool, event.args, event.cwd)
        call = self._call(event, args)
        if (problem := self._protection.problem(event.tool, args, event.cwd)) is not None:
            self._guard.refuse(call, problem)
            return HookAnswer(HookDecision.DENY, problem)
        verdict = self._guard.before(call)
        if verdict.decision is Decision.ESCALATE:
            return self._escalated(event, call, verdict)
        return _answer_of(verdict)

    def _escalated(self, event: HookEvent, call: HostCall, verdict: Verdict) -> HookAnswer:
        answer = self.asks.answer_of(self._lock.host, event.session, call.tool, call.args)
        if answer is not None and answer.status == "rejected":
            return HookAnswer(HookDecision.DENY, "A person has rejected this call.")
        if answer is not None and answer.status == "approved" and self.asks.use(answer.name):
            return _answer_of(self._guard.resolve(call, Approval("approve", of=call.digest, by="guardagent watch")))
        self.asks.request(self._lock.host, event.session, call.tool, call.args, tuple(verdict.reasons))
        question = HookAnswer(HookDecision.ASK, verdict.feedback() or "A person has to decide on this call.")
        is_left = self._lock.ask == "watch" and self._host.asks
        return question.left_to_watch("The operator has people asked elsewhere.") if is_left else question

    # --- after it has run

    def _after(self, event: HookEvent) -> None:
        args = judged_arguments(event.tool, event.args, event.cwd)
        outcome = Outcome(event.output, event.failed)
        conversation = self._conversation(event)
        call_id = event.call_id or self._open_call(conversation, event.tool, args)
        if not event.ran:
            if self._guard.claimed_calls.session(conversation).claimed(call_id) is not None:
                self._guard.claimed_calls.withdraw(conversation, call_id, "the host did not run it")
            return
        try:
            self._guard.claimed_calls.record(conversation, call_id, outcome)
        except ClaimConflictError:
            _log.warning("call %r has another outcome already", call_id)
        except (NotClaimedError, NotBegunError):
            self._ran_without_verdict(event, args, outcome)

    def _ran_without_verdict(self, event: HookEvent, args: dict[str, Any], outcome: Outcome) -> None:
        """Records a call that ran although no verdict allowed it: the host let it run, or nobody decided."""
        call = self._call(event, args)
        request = self.asks.answer_of(self._lock.host, event.session, call.tool, call.args)
        is_rejected = request is not None and request.status == "rejected"
        host_decides = self._host.asks and self._lock.ask == "host" and self._guard.has_request(call)
        if host_decides and not is_rejected:
            verdict = self._guard.resolve(call, Approval("approve", of=call.digest, by=BY_HOST))
            if verdict.label == 0:
                self._guard.claimed_calls.record(self._conversation(event), call.id, outcome)
                return
        unchecked = record_unchecked(
            self._guard.claimed_calls.session(self._conversation(event)), self._log, call, outcome
        )
        if unchecked is not None:
            _log.error("a call of %r ran without a verdict that allows it: %s", event.tool, unchecked.reasons)

    # --- the end of a turn

    def _stop(self, event: HookEvent) -> HookAnswer:
        """Holds the agent, once, if it still has to do something."""
        try:
            pending = {} if event.repeated else self._guard.claimed_calls.session(self._conversation(event)).obligations
        except NotBegunError:
            pending = {}
        if not pending:
            return HookAnswer()
        lines = [f"- {rule}: {what}" for rule, what in pending.items()]
        return HookAnswer(HookDecision.DENY, "\n".join(["Before you end, these are still due:", *lines]))

    # --- calls

    def _conversation(self, event: HookEvent) -> str:
        return f"{self._lock.host}/{event.session}"

    def _call(self, event: HookEvent, args: dict[str, Any]) -> HostCall:
        conversation = self._conversation(event)
        call_id = event.call_id or self._new_id(conversation, event.tool, args)
        claim = call_id if event.call_id else secrets.token_hex(8)
        return HostCall(event.tool, args, conversation, call_id, event.agent, claim=claim)

    def _new_id(self, conversation: str, tool: str, args: dict[str, Any]) -> str:
        """Returns an id for a call of a host that has none: a hash of the call, and its number."""
        prefix = _key(tool, args)
        return f"{prefix}-{len(self._calls(conversation, prefix))}"

    def _open_call(self, conversation: str, tool: str, args: dict[str, Any]) -> str:
        """Returns the id of the oldest such call that is in flight; that of the next one if there is none."""
        prefix = _key(tool, args)
        calls = self._calls(conversation, prefix)
        return next((call.id for call in calls if call.status is None), f"{prefix}-{len(calls)}")

    def _calls(self, conversation: str, prefix: str) -> list[Any]:
        history = self._guard.claimed_calls.session(conversation).history
        return [call for call in history if call.id is not None and call.id.startswith(f"{prefix}-")]


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    """Returns what changes with a file; its time of change cannot be set by hand."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def _key(tool: str, args: dict[str, Any]) -> str:
    text = json.dumps([tool, args], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _answer_of(verdict: Verdict) -> HookAnswer:
    if verdict.label == 0:
        return HookAnswer(note="\n".join(verdict.reasons) if verdict.decision is Decision.WARN else "")
    return HookAnswer(HookDecision.DENY, verdict.feedback() or "denied")
