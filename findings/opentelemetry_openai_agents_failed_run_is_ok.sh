#!/bin/sh
# Version: opentelemetry-instrumentation-openai-agents 0.62.4 with openai-agents 0.24.0
# Source: the OpenTelemetry specification, "Recording errors": a span whose operation ended with an error has the
#   status ERROR.
# Behaviour: a run that raised because the model named a tool that is not there leaves spans that all have the
#   status OK, and none of a tool.
# Output seen:
#   ModelBehaviorError
#   a.agent OK
#   Agent Workflow OK
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile \
  openai-agents==0.24.0 opentelemetry-instrumentation-openai-agents==0.62.4 opentelemetry-sdk==1.45.2
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio

from agents import Agent, Model, ModelResponse, Runner
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Script(Model):
    async def get_response(self, *args, **options):
        call = ResponseFunctionToolCall(type="function_call", name="absent", arguments="{}", call_id="1")
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    stream_response = None


exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
outcome = "no error"
try:
    asyncio.run(Runner.run(Agent(name="a", model=Script()), "go"))
except Exception as error:
    outcome = type(error).__name__
print(outcome)
spans = [(span.name, span.status.status_code.name) for span in exporter.get_finished_spans()]
print("\n".join(" ".join(span) for span in spans))
assert outcome == "ModelBehaviorError"
assert spans and {status for _, status in spans} == {"OK"}
PYTHON
