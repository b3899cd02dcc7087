#!/bin/sh
# Version: opentelemetry-instrumentation-langchain 0.62.4, with langchain-core 1.8.3
# Source: langchain-core: ToolMessage.status is the status of the tool invocation; the semantic conventions: error.type
#   is required if the operation ended in an error.
# Behaviour: where a tool raises ToolException and hands the error to the model (handle_tool_error), its message has the
#   status `error`, and its span `gen_ai.task.status` of `success`, the status code UNSET, and no error.type.
# Output seen:
#   message error
#   span success UNSET error.type None
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile opentelemetry-instrumentation-langchain==0.62.4 \
    langchain-core==1.8.3 opentelemetry-sdk==1.45.2
"$folder/venv/bin/python" - <<'PYTHON'
from langchain_core.tools import ToolException, tool
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
LangchainInstrumentor().instrument(tracer_provider=provider)


@tool
def refund(order: int) -> str:
    """Refunds an order."""
    raise ToolException("card declined")


refund.handle_tool_error = True
message = refund.invoke({"type": "tool_call", "id": "1", "name": "refund", "args": {"order": 7}})
(span,) = exporter.get_finished_spans()
seen = span.attributes["gen_ai.task.status"], span.status.status_code.name, span.attributes.get("error.type")
print("message", message.status)
print("span", seen[0], seen[1], "error.type", seen[2])
assert (message.status, *seen) == ("error", "success", "UNSET", None)
PYTHON
