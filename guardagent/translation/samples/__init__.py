"""An agent as recorded calls show it: samples of calls, shapes of values, failures; and the facts of its host."""

from guardagent.translation.samples.facts import FactDescription, read_fact_descriptions
from guardagent.translation.samples.rendering import render
from guardagent.translation.samples.traces import CallSample, ToolSamples, TraceSamples, read_samples

__all__ = [
    "CallSample",
    "FactDescription",
    "ToolSamples",
    "TraceSamples",
    "read_fact_descriptions",
    "read_samples",
    "render",
]
