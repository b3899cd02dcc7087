"""Rules of other languages and tools as a policy, each source rule beside its translation.

report         an import and its report: what is the same, stricter or wider, and what cannot be translated
cedar          Cedar, whose syntax `cedar_syntax` reads by `cedar.lark`
dogwood        Cedar with conditions on earlier calls
claude_code    the permissions of Claude Code; `codex` and `cursor` have those of the other coding agents

A format is a `RuleFormat` in a file of its own, and a row of `FORMATS`.
"""

from __future__ import annotations

from pathlib import Path

from guardagent._support.files import read_text
from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.translation.imports.report import NO_OPTIONS, ImportOptions, ImportReport, RuleFormat

FORMATS = Plugins(
    "format of rules",
    "",
    (),
    members={
        name: f"{__name__}.{name.replace('-', '_')}:FORMAT"
        for name in ("cedar", "claude-code", "codex", "cursor", "dogwood")
    },
)


def import_rules(name: str, path: Path, options: ImportOptions = NO_OPTIONS) -> ImportReport:
    """Translates a file of another format into a policy, which loads.

    Args:
        name: the format, a member of `FORMATS`.
        path: the file.
        options: what the format cannot say itself.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the file cannot be read, is invalid, with its line, or restricts nothing.
    """
    rule_format: RuleFormat = FORMATS.load(name)
    text = read_text(path, may_be_blank=True)
    try:
        report = rule_format.read(text, str(path), options)
    except (RecursionError, MemoryError):  # the second is that of Python's own parser
        raise InputError(f"{path}: is nested too deep; expected rules that a person can read") from None
    if not report.policy["policies"]:
        raise InputError(f"{path}: no rule in it asks or denies; expected one that restricts something")
    report.load()
    return report


def format_of(path: Path) -> str:
    """Returns the format of a file by its name.

    Raises:
        InputError: the name belongs to no format.
    """
    for name, rule_format in FORMATS.load_all():
        if any(path.match(pattern) for pattern in rule_format.files):
            return name
    expected = ", ".join(pattern for _, rule_format in FORMATS.load_all() for pattern in rule_format.files)
    raise InputError(f"{path}: the name belongs to no format of rules; expected {expected}")
