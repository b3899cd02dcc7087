"""The contract of each kind of plug-in, which every member fulfils, shipped or from another package."""

from __future__ import annotations

import contextlib
import inspect
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from guardagent import AuditLog
from guardagent._support.plugins import Plugins
from guardagent.enforcement.ledger import LEDGERS, METHODS
from guardagent.errors import InputError
from guardagent.log.stores import STORES, open_reader
from guardagent.models import BACKENDS
from guardagent.policy.lint import LintFinding
from guardagent.policy.lint.target import CHECKS as LINT_CHECKS
from guardagent.policy.lint.target import subject_of
from guardagent.policy.review.record import Review
from guardagent.programs.memory.retrieval import STORES as DEMONSTRATION_STORES
from guardagent.sandbox import ENGINES
from guardagent.session.counters import STORES as COUNTER_STORES
from guardagent.translation.report import summarize
from guardagent.translation.report_formats import FORMATS as TRANSLATION_REPORTS
from guardagent.workflow import drawing, reports
from guardagent.workflow.analysis.checks import CHECKS as STRUCTURAL_CHECKS
from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.extraction import EXTRACTORS, FRAMEWORKS, SOURCES
from guardagent.workflow.model.targets import GraphListing, WorkflowGraph
from tests.workflow.samples import support, support_report

POLICIES = "version: 1\npolicies:\n  - id: paid\n    temporal: G(tool:refund -> O tool:find_order)\n"


def model_backend(loaded: Any, _name: str) -> None:
    assert callable(loaded.Backend.complete)
    assert next(iter(inspect.signature(loaded.Backend).parameters.values())).kind is not inspect.Parameter.KEYWORD_ONLY


def sandbox_engine(loaded: Any, _name: str) -> None:
    assert isinstance(loaded.problem(), str)
    assert all(callable(getattr(loaded.Engine, needed)) for needed in ("run", "close", "unconfined"))


def log_store(loaded: Any, name: str) -> None:
    """Appended entries are read from either end, also after reopening the file; addresses are read strictly."""
    if getattr(loaded, "HAS_ADDRESSES", False):
        with contextlib.suppress(InputError):
            loaded.LogReader(f"{name}:/no-address")
            raise AssertionError
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"run.{name}")
        assert [AuditLog(path).append({"kind": "check"}), AuditLog(path).append({"kind": "check"})] == [1, 2]
        assert [entry.seq for entry in open_reader(path)] == [1, 2]
        assert [entry.seq for entry in open_reader(path).backwards()] == [2, 1]


def demonstration_store(loaded: Any, _name: str) -> None:
    assert all(callable(getattr(loaded, needed)) for needed in ("add", "known", "nearest", "__len__", "__iter__"))


def ledger(loaded: Any, name: str) -> None:
    """Its methods are those of the ledger in memory; tests/enforcement/test_ledger.py tests what they do."""
    opened = getattr(loaded, "func", loaded)  # a partial function gives its class
    assert all(callable(getattr(opened, needed)) for needed in METHODS)
    assert name in LEDGERS


def counter_store(loaded: Any, name: str) -> None:
    opened = getattr(loaded, "func", loaded)  # a partial function gives its class
    assert all(callable(getattr(opened, needed)) for needed in ("read", "reserve", "settle", "release", "pending"))
    assert name in COUNTER_STORES


def lint_check(loaded: Any, _name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "policies.yaml")
        path.write_text(POLICIES)
        assert all(isinstance(finding, LintFinding) for finding in loaded(subject_of(path)))


def structural_check(loaded: Any, _name: str) -> None:
    assert isinstance(loaded.order, int)
    assert isinstance(loaded.about, CheckDescription)
    assert all(isinstance(finding, GraphFinding) for finding in loaded.check(CheckContext(support())))


def report(loaded: Any, _name: str) -> None:
    assert loaded.suffix.startswith(".")
    assert isinstance(loaded.render(support_report()), str)


def translation_report(loaded: Any, _name: str) -> None:
    assert loaded.suffix.startswith(".")
    assert isinstance(loaded.render(summarize(Review("policy.md", "", ()))), str)


def picture(loaded: Any, _name: str) -> None:
    assert isinstance(loaded(GraphListing("support", (WorkflowGraph("support", "", 1, support()),))), str)


def framework(facts: Any, name: str) -> None:
    """It has the parts that its facts declare, and recognises no objects of other frameworks."""
    assert facts.FRAMEWORK
    if facts.OBJECTS:
        assert EXTRACTORS.load(name).recognises(object()) is False
    if facts.PACKAGES:
        assert SOURCES.load(name).is_workflow(object()) is False
    public = import_module(facts.__name__.rpartition(".")[0])
    if all(map(_is_installed, facts.DISTRIBUTIONS)):
        assert all(getattr(public, public_name) for public_name in getattr(public, "__all__", ()))


def _is_installed(distribution: str) -> bool:
    try:
        return bool(version(distribution))
    except PackageNotFoundError:
        return False


CONTRACTS: tuple[tuple[Plugins, Callable[[Any, str], None]], ...] = (
    (BACKENDS, model_backend),
    (ENGINES, sandbox_engine),
    (STORES, log_store),
    (DEMONSTRATION_STORES, demonstration_store),
    (LEDGERS, ledger),
    (COUNTER_STORES, counter_store),
    (LINT_CHECKS, lint_check),
    (STRUCTURAL_CHECKS, structural_check),
    (reports.FORMATS, report),
    (TRANSLATION_REPORTS, translation_report),
    (drawing.FORMATS, picture),
    (FRAMEWORKS, framework),
)


def every_member() -> list[tuple[Plugins, Callable[[Any, str], None], str]]:
    """Returns each plug-in of this installation, with its contract."""
    return [(kind, contract, name) for kind, contract in CONTRACTS for name in kind]


if __name__ == "__main__":
    for plugins, passes, member in every_member():
        passes(plugins.load(member), member)
        print(plugins.kind, member)  # noqa: T201 - so that somebody can see who was asked
