"""Loads a policy file: reads it, compiles its rules and locates errors.

Rules for one task only are added to the rules of a policy, which they cannot remove, weaken or redefine.

A `request:` policy is a rule in natural language, judged by a guard program or by a model that writes one. The agent
input of the program is the facts and the history as JSON; the agent output is the proposed call as JSON.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from guardagent._support.execution import without_garbage_collection
from guardagent._support.files import require_regular
from guardagent._support.syntax import compile_pattern
from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.evaluation.counter_definitions import compile_condition, compile_counter
from guardagent.policy.evaluation.operands import CompileError, Library
from guardagent.policy.evaluation.terms import Compiler
from guardagent.policy.file.policy_file import PolicyFile, added, read_policy_data, read_policy_file, read_policy_text
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.file.source_tree import SourceText
from guardagent.policy.functions import rule_functions
from guardagent.policy.language import ANSWER, ANSWER_TEXT, ast
from guardagent.policy.language.declarations import Declarations
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_rule, unknown_arguments
from guardagent.policy.language.term_parser import read_definition
from guardagent.policy.monitors.rule import Rule, RuleMetadata, labels_of
from guardagent.policy.policies import Policies, PolicyVersions
from guardagent.types import Check, Context, Event, Functions, Verdict, thaw

if TYPE_CHECKING:
    from guardagent.models import Model


def load_policies(
    path: Path | str | Sequence[Path | str] | None = None,
    *,
    text: str | None = None,
    data: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
    model: Model | str | None = None,
    locked: Path | str | None = None,
    require_review: bool | Path | str = False,
) -> Policies:
    """Loads and compiles the rules of a policy file. The result is immutable and safe to share between threads.

    Args:
        path: the YAML file, or several: the rules of all of them hold.
        text: the content of a policy file, instead of a path.
        data: the content as a mapping, instead of a path.
        folder: the base of relative paths in `text` or `data`; without it they cannot contain any.
        model: judges `request:` policies without a program, and reads `conversation(...)` for solver rules.
        locked: a lock file (`guardagent lock`): only content that it pins is loaded.
        require_review: whether people must have confirmed every sentence and rule as it stands, in the review file
            beside the policy file; or the path of another review file.

    Raises:
        InputError: the file, or a file that it refers to, is invalid. The message begins with `file:line:`, or with the
            path of keys in `data`, where possible. Loading is all or nothing.
    """

    @without_garbage_collection()
    def load() -> Policies:
        file = _read_source(path, text, data, folder)
        _require_trusted(file, path, locked, require_review)
        policies = compile_file(file, model)
        policies.locked = None if locked is None else Path(locked)
        if require_review is not False and read_policy_file(file.path).digest != file.digest:
            raise InputError(f"{file.path}: changed while it was loaded; expected the files that were reviewed")
        return policies

    policies = load()
    if path is not None:
        several = path if isinstance(path, list | tuple) else [path]
        files = [*map(Path, several), *filter(None, [policies.locked])]

        def load_again() -> Policies:
            require_regular(*files)
            return load()

        def digest() -> str:
            require_regular(*files)
            return read_policy_files(path).digest

        policies.versions = PolicyVersions(policies, load_again, digest)
    return policies


def _require_trusted(file: PolicyFile, path: object, locked: Path | str | None, review: object) -> None:
    """Holds files to their lock and their review, before any code of theirs runs."""
    if path is None and (locked is not None or review is not False):
        option = "locked" if locked is not None else "require_review"
        raise InputError(f"'{option}=' only applies to files; expected the path of a policy file")
    if review is not False:
        from guardagent.policy.review.requirement import require_review, required_review

        review = required_review(path, review)
        require_review(file, review)
    if locked is not None:
        require_locked(Path(locked), file, review if isinstance(review, Path) else None)


def compile_file(file: PolicyFile, model: Model | str | None = None) -> Policies:
    """Compiles a policy file that has been read, with its shadow.

    Raises:
        InputError: as for `load_policies`.
    """
    policies = compile_policies(file, functions_of(file, toolbox_functions), request_checks(file, model=model), model)
    if file.shadow is not None:
        policies.shadow = _shadow(file.shadow)
    return policies


def _shadow(file: PolicyFile) -> Policies:
    """Compiles the candidate of `shadow:`, which calls no model."""
    candidate = compile_policies(file, functions_of(file, toolbox_functions), request_checks(file))
    for number, monitor in enumerate(candidate.monitors):
        if any(check.requested for check in getattr(monitor, "checks", {}).values()):
            line = next(rule.line for rule in file.rules if rule.id == candidate.rule_of[number].id)
            raise ContentError("a shadow calls no model, so its rules cannot read the conversation", file.path, line)
    return candidate


def _read_source(
    path: Path | str | Sequence[Path | str] | None,
    text: str | None,
    data: Mapping[str, Any] | None,
    folder: Path | str | None,
) -> PolicyFile:
    if [path, text, data].count(None) != 2:
        raise InputError("expected exactly one of a path, 'text=' and 'data='")
    if text is not None and isinstance(text, str):
        return read_policy_text(text, folder)
    if data is not None and isinstance(data, Mapping):
        return read_policy_data(data, folder)
    if path is None:
        raise InputError("'text=' is not a string, or 'data=' is not a mapping; expected the content of a policy file")
    if folder is not None:
        raise InputError(
            "'folder=' cannot be combined with a path; relative paths start at the folder of the policy file"
        )
    return read_policy_files(path)


def read_policy_files(path: Path | str | Sequence[Path | str]) -> PolicyFile:
    """Reads one policy file, or several as one.

    Raises:
        InputError: as for `load_policies`.
    """
    if isinstance(path, str | Path):
        return read_policy_file(path)
    paths = list(path) if isinstance(path, Sequence) else []
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        raise InputError("the policy files are not a list of paths; expected a path, or a list of them")
    if len(paths) == 1:
        return read_policy_file(paths[0])
    from guardagent.policy.file.policy_file import together

    return together([read_policy_file(path) for path in paths])


def read_policies(path: Path | str | Sequence[Path | str]) -> Policies:
    """Loads a policy file, or several, for inspection: toolboxes are only read, no code runs.

    Raises:
        InputError: as for `load_policies`.
    """
    file = read_policy_files(path)
    from guardagent.policy.stubs import stub_functions

    return compile_policies(file, functions_of(file, stub_functions), inspection_only)


def functions_of(file: PolicyFile, load: Callable[[Sequence[Path]], Functions]) -> Functions:
    """The toolbox functions of a policy file, under the prefixes of their files."""
    boxes = file.toolboxes.items()
    return {prefix + name: function for prefix, paths in boxes for name, function in load(paths).items()}


def toolbox_functions(paths: Sequence[Path]) -> Functions:
    from guardagent.sandbox.toolbox import Toolbox

    return Toolbox(list(paths)).functions


def inspection_only(source: RuleSource) -> Check:
    """The check of a policy that is only inspected: policies in Cedar are read, no program is."""
    return _not_loaded if source.cedar is None else _request_check(source, None, None)


def _not_loaded(_event: Event, _context: Context) -> NoReturn:
    raise AssertionError("these rules were loaded for inspection only; use 'load_policies'")


def require_locked(locked: Path, file: PolicyFile, review: Path | None = None) -> None:
    """Requires every file to be pinned, before any code runs. Prompts of a model and reviews must be pinned too."""
    from guardagent.models.prompts import Prompts
    from guardagent.policy.file.policy_file import contents_of, reviews_of
    from guardagent.programs import lock
    from guardagent.sandbox.toolbox import Toolbox

    allowed = lock.Lock.load(locked)
    allowed.require(contents_of(file))
    allowed.require(reviews_of(file, review, pinned=allowed.files.get("review", ())))
    if any(rule.kind == "request" for rule in file.rules):
        allowed.require(lock.toolboxes(*(Toolbox.load(*paths) for paths in file.toolboxes.values()), Toolbox.load()))
    if any(rule.program is None for rule in file.rules if rule.kind in ("solver", "request")):
        allowed.require(lock.prompts(*Prompts().effective_files))


def _shared_contexts(file: PolicyFile) -> AbstractContextManager[None]:
    if all(source.kind != "solver" for source in file.rules):
        return nullcontext()
    from guardagent.policy.solver.sources import shared_contexts

    return shared_contexts()


def compile_policies(
    file: PolicyFile,
    functions: Functions,
    request_check: Callable[[RuleSource], Check],
    model: Model | str | None = None,
    *,
    base: Policies | None = None,
) -> Policies:
    """Compiles the rules of a policy file that has been read.

    Args:
        file: the policy file.
        functions: the state functions, by name. They are not called here.
        request_check: returns the check of a `request:` policy.
        model: reads `conversation(...)` for solver rules. It is not called here.
        base: the compiled first rules of the file; the others only restrict.

    Raises:
        InputError: as for `load_policies`.
    """
    library = _library(file, functions, base)
    rules: list[Rule] = [] if base is None else list(base.rules)
    requests: list[tuple[RuleMetadata, Check]] = [] if base is None else list(base.requests)
    with _shared_contexts(file):
        for source in file.rules[len(rules) + len(requests) :]:
            scoped, first = library.scoped(source.scopes), _monitor_count(rules)
            if source.kind == "temporal":
                rules.append(_rule(source, scoped, first))
            elif source.kind == "solver":
                rules.append(_solver_rule(source, scoped, model, first))
            else:
                requests.append((_metadata(source), request_check(source)))
    _refuse_bare_tools(file, rules)
    _refuse_unknown_arguments(file, rules)
    _refuse_unknown_scopes(file, rules)
    _refuse_outer_tools(file, rules)
    reads_sources = "sources" in library.features or (base is not None and base.sources is not None)
    return Policies(
        rules,
        library.history_queries,
        counters=tuple(library.counters.values()),
        requests=requests,
        tools=file.tools,
        tags=file.tags,
        functions=library.functions,
        failed_output=None if file.failed_output is None else compile_pattern(file.failed_output),
        unlisted=file.unlisted or "allow",
        digest=file.digest,
        sources=library.sources if reads_sources else None,
        source=file,
        base=base,
    )


def _library(file: PolicyFile, functions: Functions, base: Policies | None) -> Library:
    """The names that the rules of a file can use; after those of its compiled first rules."""
    queries = [] if base is None else list(base.history_queries)
    library = Library(functions, file.tags, file.tools, _declarations(file, functions), file.labels, queries)
    library.counters.update(
        {
            name: compile_counter(name, counter, library.scoped(counter.scopes))
            for name, counter in file.counters.items()
        }
    )
    _check_definitions(file, library)
    library.sources = file.labels.with_conditions(partial(compile_condition, library=library))
    return library


def _declarations(file: PolicyFile, functions: Functions) -> Declarations:
    for name in functions.keys() & rule_functions().keys():
        if next(iter(inspect.signature(functions[name]).parameters), "") != "state":
            problem = f"the toolbox function {name!r} has the name of a function of the language; rename it"
            raise ContentError(problem, file.path)
    if clash := next((name for name in (*file.definitions, *file.constants) if name in functions), None):
        key = "define" if clash in file.definitions else "constants"
        problem = f"{clash!r} is also a function of the toolbox; expected one meaning for each name"
        raise ContentError(problem, file.place_of(key, clash))
    constants = {name: constant.value for name, constant in file.constants.items() if constant.value is not None}
    return Declarations(constants=constants, definitions=file.definitions)


def declarations_of(policies: Policies) -> Declarations:
    """The names that the rules of loaded policies can use.

    Raises:
        InputError: the policies come from no policy file.
    """
    file = policies.source
    if file is None:
        raise InputError("these policies have no source; expected policies that 'load_policies' loaded")
    return replace(
        _declarations(file, policies.functions),
        functions=frozenset(policies.functions),
        labels=file.labels.declared,
        counters={name: len(counter.keys) for name, counter in file.counters.items()},
        tags=frozenset(file.tags),
    )


def _check_definitions(file: PolicyFile, library: Library) -> None:
    """Compiles each definition alone, so that its errors have its place."""
    names = library.names
    for name, definition in file.definitions.items():
        body = read_definition(name, names)
        compiler = Compiler(replace(library, history_queries=[]))
        try:
            compiler.term(body, {parameter: compiler.place() for parameter in definition.parameters})
        except CompileError as error:
            text = definition.body
            wrong = TemporalError(str(error), text.text, error.place.line, error.place.column)
            raise text.error(str(wrong), error.place.line, error.place.column) from None


def _monitor_count(rules: Sequence[Rule]) -> int:
    return rules[-1].first_monitor + len(rules[-1].monitors) if rules else 0


def _refuse_bare_tools(file: PolicyFile, rules: Sequence[Rule]) -> None:
    """Rejects a tag that is a tool in another rule: its `tool:` was forgotten."""
    tools = {tool for rule in rules for pattern in rule.patterns for tool in pattern.tools}
    tools |= {tool for rule in rules for tool in rule.tools}
    sources = {source.id: source for source in file.rules}
    for rule in rules:
        for text, read in zip(sources[rule.id].statements, rule.rules, strict=False):
            for name in sorted(labels_of(read) & tools) if rule.labels else ():
                problem = f"{name!r} is a tool in another rule, but is used as a tag; did you mean 'tool:{name}'?"
                raise text.error(problem)


def _refuse_unknown_arguments(file: PolicyFile, rules: Sequence[Rule]) -> None:
    """Rejects arguments that `tools:` does not declare, such as those that a solver rule reads."""
    sources = {source.id: source for source in file.rules}
    signatures = {**(file.tools or {}), ANSWER: (ANSWER_TEXT,)}
    for rule in rules:
        if rule.mentioned_tools.isdisjoint(signatures):
            continue
        source = sources[rule.id]
        for at, read in enumerate(rule.rules):
            for argument in unknown_arguments(read, file.tags, signatures):
                if not source.statements:
                    raise ContentError(f"policy {rule.id!r}: {argument.problem}", source.location)
                text = source.statements[at]
                shown = TemporalError(argument.problem, text.text, argument.place.line, argument.place.column)
                raise text.error(str(shown), argument.place.line, argument.place.column)


def _refuse_unknown_scopes(file: PolicyFile, rules: Sequence[Rule]) -> None:
    """Rejects approvals of a tool that their rule does not see, and arguments that `tools:` does not declare."""
    judged = {rule.id: rule.tools for rule in rules}
    for source in file.rules:
        if (scope := source.approval_scope) is not None:
            declared = (file.tools or {}).get(scope.tool)
            arguments = [("argument", name, declared) for name in (*scope.same, *scope.bounded, *scope.any)]
            for kind, name, known in (("tool", scope.tool, judged.get(source.id, file.tools)), *arguments):
                if known is not None and name not in known:
                    problem = f"'approvals' has the unknown {kind} {name!r}{name_hint(name, known)}"
                    raise ContentError(problem, source.path, source.line)


def _refuse_outer_tools(file: PolicyFile, rules: Sequence[Rule]) -> None:
    """Rejects rules about tools that only call others: rules see the inner calls."""
    for rule in rules:
        for tool in sorted(rule.named_tools & file.dispatch.keys()):
            problem = f"rule {rule.id!r} names {tool!r}, which 'dispatch:' resolves; name the tools that it calls"
            raise ContentError(problem, file.place_of("dispatch", tool))


def _metadata(source: RuleSource) -> RuleMetadata:
    text = " AND ".join(text.text.strip() for text in source.statements)
    if source.solver is not None:
        permits = (
            f"{tool} is permitted if {solver_tool.permit.text}" for tool, solver_tool in source.solver.tools.items()
        )
        text = "; ".join(permits)
    if source.cedar is not None:
        text = f"permitted by {source.cedar.policies.name}"
    return RuleMetadata(
        source.id,
        text,
        source.message,
        source.on_violation,
        source.remedy,
        source.location,
        source.applies_to,
        source.in_pack,
        source.on_trial,
        source.approval_scope,
        source.escalate_to,
        source.halts_tool,
    )


def _rule(source: RuleSource, library: Library, first: int) -> Rule:
    read = [_read_formula(text, library.names) for text in source.statements]
    text = source.statements[0]
    try:
        if len(read) == 1:
            return Rule(_metadata(source), read, library, first)
        for number, rule in enumerate(read):  # compile each alone first, to locate errors
            text = source.statements[number]
            Rule(_metadata(source), [rule], replace(library, history_queries=[]))
        return Rule(_metadata(source), read, library, first)
    except CompileError as error:
        wrong = TemporalError(str(error), text.text, error.place.line, error.place.column)
        raise text.error(str(wrong), error.place.line, error.place.column) from None
    except InputError as error:
        raise text.error(str(error)) from None


def _solver_rule(source: RuleSource, library: Library, model: Model | str | None, first: int) -> Rule:
    from guardagent.policy.solver.monitor import compile_solver_rule

    return Rule(_metadata(source), [compile_solver_rule(source, library, model)], library, first)


def _read_formula(text: SourceText, declarations: Declarations) -> ast.Rule:
    try:
        return read_rule(text.text, declarations)
    except TemporalError as error:
        raise text.error(str(error), error.line, error.column) from None


def request_checks(
    file: PolicyFile, loaded: Policies | None = None, model: Model | str | None = None
) -> Callable[[RuleSource], Check]:
    """Returns the checks of `request:` and `cedar:` policies; from those that were loaded before, if any."""
    if loaded is None:
        return lambda source: _request_check(source, file, model)
    known = [check for _, check in loaded.requests]
    return lambda _: known.pop(0)


def _request_check(source: RuleSource, file: PolicyFile | None, model: Model | str | None) -> Check:
    try:
        if source.cedar is not None:
            from guardagent.policy.cedar import cedar_check

            return cedar_check(source.cedar)
        assert file is not None, "only policies in Cedar do without"
        return request_check(source.statements[0].text, source.program, file.toolboxes.get(source.scopes[0], ()), model)
    except ContentError:
        raise
    except InputError as error:
        raise ContentError(f"policy {source.id!r}: {error}", source.path, source.line) from None


def compile_rules(formulas: Sequence[str], **names: Any) -> Policies:
    """Compiles formulas to policies with the ids `rule 1`, `rule 2`, ...; `names` as for `Library`."""
    library = Library(**names)
    rules: list[Rule] = []
    for at, text in enumerate(formulas, 1):
        rules.append(
            Rule(RuleMetadata(f"rule {at}", text), [read_rule(text, library.names)], library, _monitor_count(rules))
        )
    digest = hashlib.sha256(repr((formulas, sorted(library.tags.items()))).encode()).hexdigest()
    return Policies(
        rules,
        library.history_queries,
        tools=library.tools,
        tags=library.tags,
        functions=library.functions,
        digest=digest,
        sources=library.sources if "sources" in library.features else None,
    )


# --- rules for one task

PREFIX = "extra."
_FIXED = {
    "tools": "the policy declares the tools",
    "failed_output": "the policy tells failed calls apart",
    "ignored": "they are not verified",
    "dispatch": "the policy resolves the calls of other tools",
}
_SOURCES = "rules of the policy read the sources of values, and these would get other labels"


def with_extra(base: Policies, extra: Any) -> Policies:
    """The rules of a policy and more rules, with ids that begin with `extra.`.

    The added rules can use the names of the policy. A call that no rule of the policy covers stays denied where
    unlisted calls are denied: an added rule only restricts.

    Args:
        base: the policy.
        extra: the added rules: a policy file (a path), its content (a string with several lines, or a mapping), or
            loaded policies.

    Raises:
        InputError: the rules are invalid, or they would change the policy.
    """
    if base.source is None:
        raise InputError("rules for one task need policies from 'load_policies'")
    own = extra if isinstance(extra, Policies) else None
    file = _file(extra)
    if (known := base.extended.get(file.digest)) is not None:
        return known
    _refuse_changes(base.source, file, base_reads_sources=base.sources is not None)
    if base.locked is not None:
        require_locked(base.locked, file)
    functions = functions_of(file, toolbox_functions) if own is None else own.functions
    _refuse_clashes(base, file, functions)
    policies = compile_policies(
        added(base.source, file, PREFIX),
        {**base.functions, **{PREFIX + name: function for name, function in functions.items()}},
        request_checks(file, own),
        base=base,
    )
    _refuse_similar_names(base, policies)
    base.extended.put(file.digest, policies)
    return policies


def _file(extra: Any) -> PolicyFile:
    if isinstance(extra, Policies):
        if extra.source is None:
            raise InputError(
                "the rules for one task are not from 'load_policies'; expected a policy file or its content"
            )
        return extra.source
    if isinstance(extra, Mapping):
        return read_policy_data(extra)
    if isinstance(extra, str) and ("\n" in extra or extra.lstrip().startswith("{")):
        return read_policy_text(extra)
    if isinstance(extra, str | Path):
        return read_policy_file(extra)
    raise InputError(
        f"the rules for one task are a {type(extra).__name__}; expected a policy file, its content or loaded policies"
    )


def _refuse_changes(base: PolicyFile, file: PolicyFile, *, base_reads_sources: bool) -> None:
    for field, why in _FIXED.items():
        if getattr(file, field):
            key = "ignore" if field == "ignored" else field
            raise ContentError(f"rules for one task cannot have {key!r}: {why}; remove it", file.path)
    if base_reads_sources and (file.labels.sources or file.labels.ids):
        key = "labels" if file.labels.sources else "ids"
        raise ContentError(f"rules for one task cannot have {key!r}: {_SOURCES}; remove it", file.path)
    for rule in file.rules:
        if PREFIX + rule.id in {rule.id for rule in base.rules}:
            raise ContentError(f"policy id {PREFIX + rule.id!r} is already used by the policy", rule.path, rule.line)


def _refuse_clashes(base: Policies, file: PolicyFile, functions: Functions) -> None:
    source = base.source
    assert source is not None
    known = {"tags": source.tags, "constants": source.constants, "define": source.definitions}
    own = {"tags": file.tags, "constants": file.constants, "define": file.definitions}
    for key, names in own.items():
        if twice := sorted(names.keys() & known[key].keys()):
            raise ContentError(_taken(twice[0], source.place_of(key, twice[0])), file.place_of(key, twice[0]))
    if twice := sorted(functions.keys() & base.functions.keys()):
        raise ContentError(_taken(twice[0], str(source.path)), file.path)


def _taken(name: str, there: str) -> str:
    return f"the policy already declares {name!r} in {there}; rules for one task cannot redefine it"


def _refuse_similar_names(base: Policies, policies: Policies) -> None:
    """Rejects names that the policy denies as misspellings: a rule about them would make them known."""
    for kind, name in policies.names_beyond(base):
        if problem := base.problem(kind, name):
            raise InputError(f"the rules for one task name the {problem}; expected the policy's name")


# --- rules in natural language


def request_check(request: str, program: Path | None, toolbox: Sequence[Path], model: Model | str | None) -> Check:
    """The check of a `request:` policy.

    Raises:
        InputError: the program and the model are both missing, or one of them is invalid.
    """
    judge = _judge_function(request, program, toolbox, model)

    def check(event: Event, context: Context) -> Verdict:
        known = {"facts": thaw(context.facts), "history": [call_data(call) for call in context.history]}
        call = {"tool": event.tool, "args": thaw(event.args)}
        return judge(_json(known), _json(call), context.facts)

    check.asks_model = program is None  # type: ignore[attr-defined]
    return check


def _judge_function(
    request: str, program: Path | None, toolbox: Sequence[Path], model: Model | str | None
) -> Callable[[str, str, Mapping[str, Any]], Verdict]:
    from guardagent.guard import GuardAgent, judge_with
    from guardagent.programs.program_file import fresh_program
    from guardagent.sandbox import Engines
    from guardagent.sandbox.toolbox import Toolbox

    if program is not None:
        tools = Toolbox.load(*toolbox)
        return judge_with(fresh_program(program, tools, request), Engines("auto").get("auto"), tools)
    if model is None:
        raise InputError(
            "a request needs a program or a model; expected 'program:', or 'load_policies(..., model=...)'"
        )
    return GuardAgent(request, model=model, toolbox=list(toolbox), mode="generate").guard


def call_data(event: Event) -> dict[str, Any]:
    """A call of the history as JSON for a program."""
    return {
        "tool": event.tool,
        "args": thaw(event.args),
        "output": thaw(event.output),
        "status": event.status or "in flight",
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
