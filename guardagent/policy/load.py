"""Loads a policy file: reads it, compiles its rules, and says where what is wrong with them stands."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from guardagent._support.patterns import compile_pattern as pattern
from guardagent.errors import ContentError, InputError
from guardagent.policy.evaluation.library import CompileError, Library
from guardagent.policy.file.policy_file import (
    PolicyFile,
    RuleSource,
    read_policy_data,
    read_policy_file,
    read_policy_text,
)
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.language import ast
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_rule
from guardagent.policy.monitors.rule import Rule, RuleMetadata
from guardagent.policy.policies import Policies
from guardagent.types import Check, Context, Event

if TYPE_CHECKING:
    from guardagent.models import Model


def load_policies(
    path: Path | str | None = None,
    *,
    text: str | None = None,
    data: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
    model: Model | str | None = None,
    locked: Path | str | None = None,
) -> Policies:
    """The rules of a policy file, compiled: immutable, and safe to share between threads.

    Args:
        path: the YAML file.
        text: instead, what such a file would hold.
        data: instead, its keys and values as a mapping.
        folder: where the files lie that `text` or `data` names by relative paths; without it, it may name none.
        model: what judges `request:` policies that have no program, and reads `conversation(...)` for solver rules.
        locked: a lock file (`guardagent lock`): nothing is loaded that does not stand in it as it is.

    Raises:
        InputError: something in the file, or in a file that it names, is wrong. Where it can be said, the message
            begins with `file:line:`, or with the keys in `data`; nothing is loaded partly.
    """
    file = _read_source(path, text, data, folder)
    if locked is not None:
        if path is None:
            raise InputError("a lock holds for files; expected the path of a policy file beside locked=")
        _require_locked(Path(locked), file)
    return compile_policies(file, _functions(file), lambda source: _request_check(source, file, model), model)


def _read_source(
    path: Path | str | None, text: str | None, data: Mapping[str, Any] | None, folder: Path | str | None
) -> PolicyFile:
    if [path, text, data].count(None) != 2:
        raise InputError("expected one of a path, text= and data=")
    if text is not None and isinstance(text, str):
        return read_policy_text(text, folder)
    if data is not None and isinstance(data, Mapping):
        return read_policy_data(data, folder)
    if path is None:
        raise InputError("text= is no string, or data= is no mapping; expected what a policy file holds")
    if folder is not None:
        raise InputError("folder= beside a path; expected it with text= or data=: files lie beside the policy file")
    return read_policy_file(path)


def read_policies(path: Path | str) -> Policies:
    """The rules of a policy file, to look at: of its toolbox only names and signatures are read, and nothing is run.

    Raises:
        InputError: as of `load_policies`.
    """
    file = read_policy_file(path)
    from guardagent.policy.stubs import stub_functions

    return compile_policies(file, stub_functions(file.toolbox), lambda _: inspection_only)


def _functions(file: PolicyFile) -> Mapping[str, Callable[..., Any]]:
    if not file.toolbox:
        return {}
    from guardagent.sandbox.toolbox import Toolbox

    return Toolbox(list(file.toolbox)).functions


def inspection_only(_event: Event, _context: Context) -> NoReturn:
    """Stands for what judges a rule in words, where rules are only looked at."""
    raise AssertionError("these rules are only looked at; expected load_policies")


def _require_locked(locked: Path, file: PolicyFile) -> None:
    """Before anything of it runs. What a model would be asked with must be locked too."""
    from guardagent.models.prompts import Prompts
    from guardagent.policy.file.lock_contents import policy_contents
    from guardagent.programs.runtime import lock
    from guardagent.sandbox.toolbox import Toolbox

    allowed = lock.Lock.load(locked)
    allowed.require(policy_contents(file.path))
    if any(rule.kind == "request" for rule in file.rules):
        allowed.require(lock.toolboxes(Toolbox.load(*file.toolbox)))
    if any(rule.program is None for rule in file.rules if rule.kind != "temporal"):
        allowed.require(lock.prompts(*Prompts().effective_files))


def compile_policies(
    file: PolicyFile,
    functions: Mapping[str, Callable[..., Any]],
    request_check: Callable[[RuleSource], Check],
    model: Model | str | None = None,
) -> Policies:
    """The rules of a policy file that has been read.

    Args:
        file: what it says.
        functions: the state functions, by name. Nothing here calls them.
        request_check: gives what judges a `request:` policy.
        model: what reads `conversation(...)` for solver rules; it is not asked here.

    Raises:
        InputError: as of `load_policies`.
    """
    library = Library(functions, file.tags, file.tools)
    rules: list[Rule] = []
    requests: list[tuple[RuleMetadata, Check]] = []
    for source in file.rules:
        if source.kind == "temporal":
            rules.append(_rule(source, library, sum(len(rule.monitors) for rule in rules)))
        elif source.kind == "request":
            requests.append((_metadata(source), request_check(source)))
        else:
            rules.append(_solver_rule(source, library, model, sum(len(rule.monitors) for rule in rules)))
    _refuse_bare_tools(file, rules)
    return Policies(
        rules,
        library.history_queries,
        requests=requests,
        tools=file.tools,
        tags=file.tags,
        functions=library.functions,
        failed_output=None if file.failed_output is None else pattern(file.failed_output),
        unlisted=file.unlisted,
        digest=file.digest,
        ignored=file.ignored,
        path=file.path,
    )


def _refuse_bare_tools(file: PolicyFile, rules: Sequence[Rule]) -> None:
    """A tag that one rule names and that is a tool for another is a tool whose `tool:` was forgotten."""
    tools = {tool for rule in rules for tool in rule.tools}
    sources = {source.id: source for source in file.rules}
    for rule in rules:
        for name in sorted(rule.labels & tools):
            problem = f"{name!r} is a tool in another rule, and stands here for a tag; did you mean tool:{name}?"
            raise sources[rule.id].statements[0].error(problem)


def _metadata(source: RuleSource) -> RuleMetadata:
    text = " AND ".join(text.text.strip() for text in source.statements)
    if source.solver is not None:
        permits = (f"{tool} is permitted if {one.permit.text}" for tool, one in source.solver.tools.items())
        text = "; ".join(permits)
    return RuleMetadata(source.id, text, source.message, source.on_violation, source.remedy)


def _rule(source: RuleSource, library: Library, first: int) -> Rule:
    read = [_read_formula(text) for text in source.statements]
    text = source.statements[0]
    try:
        if len(read) == 1:
            return Rule(_metadata(source), read, library, first)
        for number, rule in enumerate(read):  # each by itself first, so that an error has its text
            text = source.statements[number]
            Rule(_metadata(source), [rule], Library(library.functions, library.tags, library.tools))
        return Rule(_metadata(source), read, library, first)
    except CompileError as error:
        wrong = TemporalError(str(error), text.text, error.place.line, error.place.column)
        raise text.error(str(wrong), error.place.line, error.place.column) from None
    except InputError as error:
        raise text.error(str(error)) from None


def _solver_rule(source: RuleSource, library: Library, model: Model | str | None, first: int) -> Rule:
    from guardagent.policy.solver.compilation import compile_solver_rule

    return Rule(_metadata(source), [compile_solver_rule(source, library, model)], library, first)


def _read_formula(text: SourceText) -> ast.Rule:
    try:
        return read_rule(text.text)
    except TemporalError as error:
        raise text.error(str(error), error.line, error.column) from None


def _request_check(source: RuleSource, file: PolicyFile, model: Model | str | None) -> Check:
    from guardagent.policy.request import request_check

    try:
        return request_check(source.statements[0].text, source.program, file.toolbox, model)
    except ContentError:
        raise
    except InputError as error:
        raise ContentError(f"policy {source.id!r}: {error}", file.path, source.line) from None


def compile_rules(formulas: Sequence[str], **names: Any) -> Policies:
    """Policies of rules given as texts, named `rule 1`, `rule 2`, ...; `names` as of `Library`."""
    library = Library(**names)
    rules: list[Rule] = []
    for at, text in enumerate(formulas, 1):
        first = sum(len(rule.monitors) for rule in rules)
        rules.append(Rule(RuleMetadata(f"rule {at}", text), [read_rule(text)], library, first))
    digest = hashlib.sha256(repr((formulas, sorted(library.tags.items()))).encode()).hexdigest()
    return Policies(
        rules,
        library.history_queries,
        tools=library.tools,
        tags=library.tags,
        functions=library.functions,
        digest=digest,
    )
