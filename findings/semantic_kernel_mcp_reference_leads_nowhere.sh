#!/bin/sh
# Version: semantic-kernel 1.45.0 with mcp 1.30.0
# Source: JSON Schema, $ref: a reference is resolved in the schema that it stands in. The input schema of an MCP tool
#   has its types in $defs, as Pydantic writes a parameter that is a model.
# Behaviour: the plugin for MCP takes the properties out of the schema and leaves $defs behind. The function that the
#   LLM is shown has a reference to nothing, so it knows no field of the argument. No step warns.
# Output seen:
#   server: ['$defs', 'properties', 'required', 'title', 'type'] {'$ref': '#/$defs/Item'}
#   shown to the model: ['properties', 'required', 'type'] {'$ref': '#/$defs/Item'}
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile semantic-kernel==1.45.0 mcp==1.30.0
cat > "$folder/server.py" <<'PYTHON'
from mcp.server.fastmcp import FastMCP
from pydantic import BaseModel

server = FastMCP("shop", log_level="ERROR")

class Item(BaseModel):
    name: str
    count: int

@server.tool()
def order(item: Item) -> str:
    """Orders an item."""
    return f"{item.count} {item.name}"

server.run()
PYTHON
cat > "$folder/program.py" <<'PYTHON'
import asyncio
import sys

from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_calling_utils import kernel_function_metadata_to_function_call_format
from semantic_kernel.connectors.mcp import MCPStdioPlugin


async def main():
    async with MCPStdioPlugin(name="shop", command=sys.executable, args=[sys.argv[1]]) as plugin:
        served = (await plugin.session.list_tools()).tools[0].inputSchema
        kernel = Kernel()
        kernel.add_plugin(plugin)
        (metadata,) = kernel.get_full_list_of_function_metadata()
    return served, kernel_function_metadata_to_function_call_format(metadata)["function"]["parameters"]


served, shown = asyncio.run(main())
print("server:", sorted(served), served["properties"]["item"])
print("shown to the model:", sorted(shown), shown["properties"]["item"])
assert served["$defs"]["Item"]["required"] == ["name", "count"]
assert shown["properties"]["item"] == {"$ref": "#/$defs/Item"}
assert "$defs" not in shown
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder/server.py"
