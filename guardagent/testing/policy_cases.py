"""Files of cases, which pytest runs as tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guardagent.batch.cases import RuleCoverage, covered_rules, difference_lines, judge_case, read_expectation
from guardagent.batch.pipeline import Job, judge_line
from guardagent.batch.records import InputLine, LineReader, open_bytes
from guardagent.errors import GuardError
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.testing.pytest_plugin import POLICY, policy_beside

COVERAGE = RuleCoverage()
"""The coverage of this process's run."""


_LOADED = pytest.StashKey[dict[Path, Policies]]()


class CaseFailedError(Exception):
    """A case that is unreadable, or whose verdict is not the expected one. Its message is all that people read."""


class CasesFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[CaseItem]:
        """Yields a test for each line.

        Raises:
            CollectError: there is no policy, or it is invalid, or the file has no cases.
        """
        try:
            path = self._policy_path()
            policies = self._policies(path)
            with open_bytes(self.path) as stream:
                lines = [line for chunk in LineReader(stream).chunks() for line in chunk.lines]
        except GuardError as error:
            raise self.CollectError(str(error)) from None
        if not lines:
            raise self.CollectError(f"{self.path}: holds no cases; expected one JSON object per line")
        names: set[str] = set()
        for line in lines:
            name = _name_of(line)
            name = f"line {line.number}" if name is None else f"{name} (line {line.number})" if name in names else name
            names.add(name)
            yield CaseItem.from_parent(self, name=name, line=line, policies=policies, policy=path)

    def _policies(self, path: Path) -> Policies:
        loaded = self.config.stash.setdefault(_LOADED, {})
        if path not in loaded:
            loaded[path] = load_policies(path, model=os.environ.get("GUARDAGENT_MODEL") or None)
        return loaded[path]

    def _policy_path(self) -> Path:
        """`shop.yaml` for `shop.cases.jsonl` and `shop.refunds.cases.jsonl`; otherwise that of the ini-file."""
        if (beside := policy_beside(self.path)) is not None:
            return beside
        named = self.config.getini(POLICY)
        if not named:
            expected = self.path.with_name(self.path.name.split(".")[0] + ".yaml")
            raise self.CollectError(
                f"{self.path}: has no policy; expected {expected.name!r} beside it, or {POLICY!r} in the ini-file; "
                "'-p no:guardagent' switches the plug-in off"
            )
        return Path(self.config.inipath.parent if self.config.inipath else self.config.rootpath) / str(named)


class CaseItem(pytest.Item):
    """One case as a test."""

    def __init__(self, *, line: InputLine, policies: Policies, policy: Path, **options: Any) -> None:
        super().__init__(**options)
        self._line, self._policies, self._policy = line, policies, policy
        self.coverage: dict[str, Any] | None = None

    def runtest(self) -> None:
        """Judges the case as `guardagent test` does.

        Raises:
            CaseFailedError: the line is not a case, or the verdict is not the expected one.
        """
        job = Job(str(self.path), partial(load_policies, self._policy), read_expectation, judge_case)
        result = judge_line(job, self._policies, self._line)
        if result.error:
            raise CaseFailedError(result.error)
        case = read_expectation(self._line.text(self.path), self.path, self._line.number)
        path = os.path.relpath(self._policy, self.config.rootpath)
        record = json.loads(result.row)
        self.coverage = covered_rules(self._policies, path, case.proposed, record)
        if lines := difference_lines(result, self._policies.ids):
            place = f"{self.path}:{self._line.number}: case {str(record['id'])!r}"
            raise CaseFailedError("\n".join([f"{place} differs from its expectation", *lines]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Shows the message of a case, without a traceback."""
        if isinstance(excinfo.value, CaseFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place of the case, for pytest."""
        return self.path, self._line.number - 1, f"case {self.name}"


class CoverageReports:
    """Adds the coverage of a case to its report, with which it also leaves the processes of pytest-xdist."""

    name = "guardagent-coverage"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Adds the coverage to the report of the case itself."""
        report = yield
        if isinstance(item, CaseItem) and call.when == "call" and item.coverage is not None:
            report.guardagent_coverage = item.coverage
        return report


def _name_of(line: InputLine) -> str | None:
    """The id of a case; None if its line is unreadable."""
    try:
        record = json.loads(line.data or b"")
    except (ValueError, RecursionError):
        return None
    name = record.get("id") if isinstance(record, dict) else None
    if not isinstance(name, str | int):
        return None
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in str(name).strip()
    )
    return shown or None
