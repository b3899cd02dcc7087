"""The pytest plug-in: runs the cases beside a policy as tests, and reports which rules they cover.

    shop.yaml  shop.cases.jsonl  shop.refunds.cases.jsonl     both files hold cases of shop.yaml

This module loads in every pytest run, so it imports nothing; the rest loads with the first file of cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SUFFIX = ".cases.jsonl"
FULL_COVERAGE = "guardagent_full_coverage"
POLICY = "guardagent_policy"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("guardagent", "cases of policies")
    text = "Fail unless the cases violate and satisfy each rule of their policies."
    group.addoption("--guardagent-full-coverage", action="store_true", default=None, dest=FULL_COVERAGE, help=text)
    parser.addini(FULL_COVERAGE, text, type="bool", default=False)
    parser.addini(POLICY, "The policy of files of cases that have none beside them (relative to the ini-file).")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collects a file of cases."""
    if not file_path.name.endswith(SUFFIX):
        return None
    from guardagent.testing.policy_cases import CasesFile, CoverageReports

    manager = parent.config.pluginmanager
    if not manager.has_plugin(CoverageReports.name):
        manager.register(CoverageReports(), CoverageReports.name)
    return CasesFile.from_parent(parent, path=file_path)


def policy_beside(cases: Path) -> Path | None:
    """The policy of a file of cases: `shop.yaml` for `shop.cases.jsonl` and `shop.refunds.cases.jsonl`."""
    stem = cases.name.removesuffix(SUFFIX)
    while stem:
        for suffix in (".yaml", ".yml"):
            if (policy := cases.with_name(stem + suffix)).is_file():
                return policy
        stem = stem.rpartition(".")[0]
    return None


def pytest_runtest_logreport(report: Any) -> None:
    """Notes what a case covers. With pytest-xdist, reports come from other processes."""
    coverage = getattr(report, "guardagent_coverage", None)
    if coverage is not None:
        from guardagent.testing.policy_cases import COVERAGE

        COVERAGE.add(coverage)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Reports the coverage of rules, if there were cases."""
    coverage = _coverage()
    if coverage is None:
        return
    terminalreporter.section("rules covered by cases")
    for line in coverage.lines():
        terminalreporter.write_line(line)
    if _must_be_full(config) and not coverage.is_full:
        terminalreporter.write_line("FAILED: the cases do not cover every rule", red=True)


def pytest_sessionstart() -> None:
    """Begins without coverage: one process can run several sessions."""
    coverage = _coverage()
    if coverage is not None:
        coverage.clear()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run whose cases do not cover every rule, if that is required."""
    coverage = _coverage()
    if coverage is not None and _must_be_full(session.config) and not coverage.is_full and session.exitstatus == 0:
        session.exitstatus = 1


def _must_be_full(config: pytest.Config) -> bool:
    return bool(config.getoption(FULL_COVERAGE) or config.getini(FULL_COVERAGE))


def _coverage() -> Any:
    """The coverage of this run; None if it has no cases."""
    import sys

    module = sys.modules.get("guardagent.testing.policy_cases")
    return None if module is None or not module.COVERAGE.policies else module.COVERAGE
