#!/bin/sh
# Version: openinference-instrumentation-langchain 0.1.80, with langchain-core 1.8.3
# Source: opentelemetry-api, StatusCode.OK: the operation has been validated by an application developer or operator to
#   have completed successfully; langchain-core: ToolMessage.status is the status of the tool invocation.
# Behaviour: where a tool raises ToolException and hands the error to the model (handle_tool_error), the span has the
#   status OK beside an output whose own status is `error`.
# Output seen:
#   message error
#   span OK output status error
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile openinference-instrumentation-langchain==0.1.80 \
    langchain-core==1.8.3 opentelemetry-sdk==1.45.2
"$folder/venv/bin/python" - <<'PYTHON'
import json

from langchain_core.tools import ToolException, tool
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
LangChainInstrumentor().instrument(tracer_provider=provider)


@tool
def refund(order: int) -> str:
    """Refunds an order."""
    raise ToolException("card declined")


refund.handle_tool_error = True
message = refund.invoke({"type": "tool_call", "id": "1", "name": "refund", "args": {"order": 7}})
(span,) = exporter.get_finished_spans()
output = json.loads(span.attributes["output.value"])["data"]
print("message", message.status)
print("span", span.status.status_code.name, "output status", output["status"])
assert (message.status, span.status.status_code.name, output["status"]) == ("error", "OK", "error")
PYTHON
