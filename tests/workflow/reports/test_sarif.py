"""SARIF output follows the standard, with locations, paths and suppressions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.workflow.analysis.report import Report
from guardagent.workflow.reports.sarif import render
from tests.workflow.samples import WAY, hostile_report, support, support_report
from tests.workflow.sarif_shapes import problems


def run_of(report: Report) -> Any:
    """The one run of a log."""
    return json.loads(render(report))["runs"][0]


@pytest.mark.parametrize("report", [support_report(), hostile_report()], ids=["support", "hostile"])
def test_it_has_the_shape_of_the_standard(report: Report) -> None:
    """No property is unknown or missing, and no value is out of range."""
    log = json.loads(render(report))
    assert list(problems(log)) == []
    assert log["version"] == "2.1.0"


@pytest.mark.skipif("SARIF_SCHEMA" not in os.environ, reason="SARIF_SCHEMA names no file with the published schema")
@pytest.mark.parametrize("report", [support_report(), hostile_report()], ids=["support", "hostile"])
def test_it_validates_against_the_published_schema(report: Report) -> None:
    """The test needs a copy of the schema."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(Path(os.environ["SARIF_SCHEMA"]).read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(render(report)), schema)


def test_a_result_names_its_rule_and_its_rule_is_described() -> None:
    """A result has the id and the index of its rule."""
    run = run_of(support_report())
    rules = run["tool"]["driver"]["rules"]
    assert [result["ruleId"] for result in run["results"]] == [
        "policy/ask-first", "policy/answer", "human_coverage", "exit_reachability", "dead_ends", "human_presence"
    ]  # fmt: skip
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)


def test_a_result_is_at_the_definition_of_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file below the working directory is relative to it; every location has the name of the node."""
    monkeypatch.chdir(tmp_path)
    for file, uri in ((f"{tmp_path}/a b/c%.py", "a%20b/c%25.py"), ("/lib/x.py", "file:///lib/x.py"), ("d.py", "d.py")):
        report = support_report(support(file=file, line=12))
        steps = run_of(report)["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"]
        location = steps[1]["location"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == uri
        assert location["physicalLocation"]["region"] == {"startLine": 12}
        assert location["logicalLocations"][0]["fullyQualifiedName"] == "support/classify"


def test_without_sources_the_target_is_the_place() -> None:
    """Code scanning rejects a result without a file; a bare name has only the node."""
    result = run_of(support_report())["results"][2]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "agents/support.py"
    bare = run_of(support_report(target="support"))["results"][2]
    assert list(bare["locations"][0]) == ["logicalLocations"]


def test_a_witness_is_a_code_flow() -> None:
    """Each step has its condition and its calls."""
    flow = run_of(support_report())["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["executionOrder"] for step in flow] == [1, 2, 3, 4]
    assert flow[3]["location"]["message"]["text"] == (
        "if amount <= 100: refund: tool; tools: refund (needs approval), notify; calls refund"
    )


def test_a_suppression_has_its_reason() -> None:
    """The suppression is in the source if there is one, else in the policy."""
    suppressed = run_of(support_report())["results"][4]["suppressions"]
    assert suppressed == [{"kind": "external", "status": "accepted", "justification": "the platform stops it"}]


def test_notes_and_undecidable_rules_are_notifications() -> None:
    """The log also has the status of every rule."""
    run = run_of(support_report())
    notifications = run["invocations"][0]["toolExecutionNotifications"]
    assert [notification["message"]["text"] for notification in notifications] == [
        "team: its edges are assumed: it is chosen at run time",
        "the state is not typed",
        "limit cannot be decided before run time: it depends on data",
    ]
    assert {rule["id"]: rule["status"] for rule in run["properties"]["rules"]}["no-drop"] == "proved"


def test_texts_are_neither_places_for_arguments_nor_links() -> None:
    """Braces and brackets have a meaning in messages of SARIF."""
    texts = [text for text in _texts(json.loads(render(hostile_report()))) if "alert(1)" in text or "7 * 7" in text]
    assert texts
    assert all("](" not in text and "{" not in text.replace("{{", "") for text in texts)


def test_results_keep_their_fingerprints_and_differ() -> None:
    """Fingerprints stay the same in other runs, and if the graph grows elsewhere."""
    prints = [result["partialFingerprints"]["guardagent/v1"] for result in run_of(support_report())["results"]]
    assert len(set(prints)) == len(prints)
    again = run_of(support_report(support(file="moved.py", line=99)))["results"]
    assert prints == [result["partialFingerprints"]["guardagent/v1"] for result in again]


@pytest.mark.slow
def test_paths_beyond_what_services_take_are_left_out_with_a_word() -> None:
    """The results without paths are kept."""
    report = support_report()
    finding = replace(report.findings[0], witness=WAY * 1_000)
    run = run_of(replace(report, findings=(finding,) * 15, rules=()))
    assert sum("codeFlows" in result for result in run["results"]) == 12
    assert len(run["results"]) == 15
    assert "3 results have no path" in run["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"]


def _texts(value: Any) -> Iterator[str]:
    """Returns the strings of all messages."""
    if isinstance(value, dict):
        yield from (text for key, text in value.items() if key == "text")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(part)
