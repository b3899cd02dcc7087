"""OpenTelemetry: one span per check if the host has loaded it. Each test runs in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

SPANS = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
CHECKS = """
import asyncio, sys
from guardagent.enforcement import HostCall
from tests.enforcement.guards import LIMIT, guard, refund

one = guard(LIMIT)
verdicts = [one.before(refund(50, id="1", agent="desk")), asyncio.run(one.abefore(refund(500, id="2")))]
verdicts += [one.before(HostCall("refund", {}, None, id="3"))]
"""
SHOWN = """
print(json.dumps([{"name": span.name, **span.attributes} for span in exporter.get_finished_spans()], default=list))
"""


def run(code: str) -> Any:
    """Runs a program and returns the JSON that it prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_each_check_has_a_span() -> None:
    """Attributes follow the GenAI conventions, others have one prefix; arguments are not included."""
    pytest.importorskip("opentelemetry.sdk")
    allowed, denied, unchecked = run(SPANS + CHECKS + SHOWN)
    assert allowed.pop("guardagent.elapsed_ms") >= 0
    assert allowed == {
        "name": "check refund",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.id": "1",
        "gen_ai.conversation.id": "c",
        "gen_ai.agent.name": "desk",
        "guardagent.decision": "allow",
        "guardagent.label": 0,
        "guardagent.rules": [],
        "guardagent.checked_by": "policy",
        "guardagent.model_calls": 0,
    }
    assert (denied["guardagent.decision"], denied["guardagent.rules"]) == ("deny", ["rule 1"])
    assert "error.type" not in denied
    assert unchecked["error.type"] == "guardagent.unchecked"
    assert "gen_ai.conversation.id" not in unchecked
    assert "W1" not in json.dumps(denied)


def test_a_check_is_a_child_of_the_span_around_it() -> None:
    """It has the same parent as the host's own tool call."""
    pytest.importorskip("opentelemetry.sdk")
    around = 'with trace.get_tracer("host").start_as_current_span("host"):\n    ' + CHECKS.strip().replace(
        "\n", "\n    "
    )
    shown = "\nprint(json.dumps([bool(span.parent) for span in exporter.get_finished_spans()]))"
    assert run(SPANS + around + shown) == [True, True, True, False]


@pytest.mark.parametrize("fails", ["on_start", "on_end"])
def test_a_telemetry_failure_changes_no_verdict(fails: str) -> None:
    """The failure is only logged."""
    pytest.importorskip("opentelemetry.sdk")
    broken = f"""
from opentelemetry.sdk.trace import SpanProcessor

class Broken(SpanProcessor):
    def {fails}(self, *args, **options):
        raise RuntimeError("no collector")

provider.add_span_processor(Broken())
"""
    assert run(f"{SPANS}{broken}{CHECKS}\nprint([one.label for one in verdicts])") == [0, 1, 1]


def test_a_provider_that_comes_later_gets_spans() -> None:
    """A host may load OpenTelemetry long before it configures it."""
    pytest.importorskip("opentelemetry.sdk")
    early = "from opentelemetry import trace\n" + CHECKS
    again = "\none.before(refund(7, id='4'))"
    shown = "\nprint(json.dumps([span.name for span in exporter.get_finished_spans()]))"
    assert run(early + SPANS + again + shown) == ["check refund"]


def test_opentelemetry_is_not_imported_by_the_guard() -> None:
    """Neither the guard nor the adapter imports OpenTelemetry."""
    code = "import json, guardagent.frameworks.python.adapter\n" + CHECKS
    assert run(code + '\nprint(json.dumps([name for name in sys.modules if "opentelemetry" in name]))') == []


def test_denials_and_halts_are_events_of_the_span() -> None:
    pytest.importorskip("opentelemetry.sdk")
    stopped = """
from guardagent.enforcement.stops import StopFile, new_stop
import tempfile
stops = StopFile(tempfile.mkdtemp() + "/stops.json", create=True)
stops.add(new_stop("wrong", "ann"))
verdicts.append(guard(LIMIT, stop_file=stops).before(refund(50, id="4")))
print(json.dumps([[(event.name, dict(event.attributes)) for event in span.events] for span in
                  exporter.get_finished_spans()], default=list))
"""
    allowed, denied, unchecked, halted = run(SPANS + CHECKS + stopped)
    assert allowed == []
    assert denied == [["guardagent.denied", {"guardagent.rules": ["rule 1"]}]]
    assert unchecked[0][0] == "guardagent.denied"
    [[name, values]] = halted
    assert name == "guardagent.halted"
    assert values["guardagent.stop"].startswith("st_")
