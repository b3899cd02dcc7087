"""An import and its report: each source rule beside its translation, with every difference.

Nothing is dropped: a rule that cannot be translated is a row as well, with the reason and what happens instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from guardagent._support.sections import Quoted, ReportSection, ReportTable, markdown
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.translation.assembly.layout import dumped

Status = Literal["same", "stricter", "wider", "not translated"]
"""How a translation differs from its source: `stricter` denies more, `wider` allows more. Later ones outweigh."""
Difference = tuple[Status, str]
ORDER: tuple[Status, ...] = get_args(Status)


def differences(*, stricter: Iterable[str] = (), wider: Iterable[str] = ()) -> tuple[Difference, ...]:
    """Returns differences, by how they differ."""
    return (*(("stricter", reason) for reason in stricter), *(("wider", reason) for reason in wider))


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The knowledge of the caller that the format does not have.

    Attributes:
        schema: the text of a Cedar schema, for groups of actions.
        target: the target of an AgentCore gateway whose tools the agent calls by their short names.
        project: the absolute folder of the project, for entries that allow paths in it.
        on_error: the decision where a rule that forbids cannot be evaluated: `deny`, or `skip` as Cedar does.
    """

    schema: str = ""
    target: str = ""
    on_error: Literal["deny", "skip"] = "deny"
    project: str = ""


NO_OPTIONS = ImportOptions()


@dataclass(frozen=True, slots=True)
class ImportedRule:
    """A source rule and its translation.

    Attributes:
        line: the line in the source.
        source: the rule as it is there.
        policies: the ids of the policies that it became, or is a part of.
        translation: the text of the translation.
        differences: how the translation differs from the source, with the reason.
    """

    line: int
    source: str
    policies: tuple[str, ...]
    translation: str
    differences: tuple[Difference, ...] = ()

    @property
    def status(self) -> Status:
        return max((kind for kind, _ in self.differences), key=ORDER.index, default="same")

    @property
    def reasons(self) -> str:
        return "; ".join(reason for _, reason in self.differences)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The policy that a file became, and how.

    Attributes:
        title: the format's name for people.
        documentation: the documentation of the format's semantics, with its version.
        file: the source file.
        policy: the content of the policy file.
        rules: the source rules in their order.
        everywhere: the differences that concern all rules.
    """

    title: str
    documentation: str
    file: str
    policy: Mapping[str, Any]
    rules: tuple[ImportedRule, ...]
    everywhere: tuple[Difference, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether no translation allows more than its source, and each rule has one."""
        return all(ORDER.index(rule.status) <= ORDER.index("stricter") for rule in self.rules)

    def load(self) -> Policies:
        """Returns the policy."""
        return load_policies(data=dict(self.policy))

    def policy_text(self) -> str:
        """Returns the policy file."""
        head = f"# Imported from {Quoted(Path(self.file).name)} ({self.title}); the report has each difference.\n"
        return head + dumped(dict(self.policy))

    def to_dict(self) -> dict[str, Any]:
        """Returns all of it, with the status of each rule, for JSON."""
        return {**asdict(self), "rules": [{**asdict(rule), "status": rule.status} for rule in self.rules]}

    def to_markdown(self) -> str:
        """Returns the report for people."""
        counts = Counter(rule.status for rule in self.rules)
        summary = ", ".join(f"{counts[status]} {status}" for status in ORDER if counts[status]) or "no rules"
        notes = ((Quoted(Path(self.file).name), f": {summary}. Semantics: {self.documentation}."),)
        general = tuple((f"{status}: {reason}",) for status, reason in self.everywhere)
        rows = tuple(
            (str(rule.line), *map(Quoted, (rule.source, rule.status, rule.translation, rule.reasons)))
            for rule in self.rules
        )
        table = ReportTable(("line", "source", "status", "translation", "difference"), rows, texts=5)
        parts = [ReportSection("Rules", table=table), *([ReportSection("All rules", general)] if general else [])]
        return markdown(f"Import from {self.title}", "", [ReportSection("Summary", notes), *parts])


@dataclass(frozen=True, slots=True)
class RuleFormat:
    """A format of rules.

    Attributes:
        title: its name for people.
        files: the patterns of its files' names.
        read: translates the text of a file, whose name messages have.
    """

    title: str
    files: tuple[str, ...]
    read: Callable[[str, str, ImportOptions], ImportReport]
