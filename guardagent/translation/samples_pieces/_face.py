"""An agent as recorded calls show it: samples of calls, shapes of values, failures; and the facts of its host."""

from guardagent.translation.samples import CallSample, ToolSamples, TraceSamples, read_samples
from guardagent.translation.samples_pieces.facts import FactDescription, read_fact_descriptions
from guardagent.translation.samples_pieces.rendering import render

__all__ = [
    "CallSample",
    "FactDescription",
    "ToolSamples",
    "TraceSamples",
    "read_fact_descriptions",
    "read_samples",
    "render",
]
