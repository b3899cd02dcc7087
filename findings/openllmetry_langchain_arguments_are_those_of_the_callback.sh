#!/bin/sh
# Version: opentelemetry-instrumentation-langchain 0.62.4, with langchain-core 1.8.3
# Source: the semantic conventions for generative AI: gen_ai.tool.call.arguments has the parameters passed to the tool
#   call, and gen_ai.tool.call.result what the tool call returned.
# Behaviour: they have the arguments of LangChain's callbacks. Those of the tool are one level deeper, at `inputs`, and
#   once more as the text of a Python dict; the result is at `output`, in LangChain's own serialization.
# Output seen:
#   arguments {'input_str': "{'order': 7}", 'tags': [], 'metadata': {}, 'inputs': {'order': 7}, 'kwargs': {'color': ...
#   result keys ['kwargs', 'output']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile opentelemetry-instrumentation-langchain==0.62.4 \
    langchain-core==1.8.3 opentelemetry-sdk==1.45.2
"$folder/venv/bin/python" - <<'PYTHON'
import json

from langchain_core.tools import tool
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
    return "refunded"


refund.invoke({"type": "tool_call", "id": "1", "name": "refund", "args": {"order": 7}})
(span,) = exporter.get_finished_spans()
arguments = json.loads(span.attributes["gen_ai.tool.call.arguments"])
result = json.loads(span.attributes["gen_ai.tool.call.result"])
assert (arguments["inputs"], arguments["input_str"]) == ({"order": 7}, "{'order': 7}")
print("arguments", arguments)
print("result keys", sorted(result))
assert sorted(result) == ["kwargs", "output"]
PYTHON
