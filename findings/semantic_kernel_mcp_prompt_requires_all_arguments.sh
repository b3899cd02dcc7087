#!/bin/sh
# Version: semantic-kernel 1.45.0 with mcp 1.30.0
# Source: the MCP specification, prompts: an argument of a prompt says with required whether it must be provided.
# Behaviour: the plugin for MCP requires every argument. A prompt whose second argument is optional cannot be used with
#   the first alone, and what the LLM is shown says so, too; the session that the plugin holds gets it.
# Output seen:
#   server: {'topic': True, 'style': False}
#   shown to the model: ['topic', 'style']
#   session: short advice on tea
#   kernel: Parameter style is required but not provided in the arguments.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile semantic-kernel==1.45.0 mcp==1.30.0
cat > "$folder/server.py" <<'PYTHON'
from mcp.server.fastmcp import FastMCP

server = FastMCP("shop", log_level="ERROR")

@server.prompt()
def advice(topic: str, style: str = "short") -> str:
    """Asks for advice."""
    return f"{style} advice on {topic}"

server.run()
PYTHON
cat > "$folder/program.py" <<'PYTHON'
import asyncio
import logging
import sys

from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_calling_utils import kernel_function_metadata_to_function_call_format
from semantic_kernel.connectors.mcp import MCPStdioPlugin
from semantic_kernel.exceptions import KernelInvokeException

logging.disable(logging.CRITICAL)


async def main():
    async with MCPStdioPlugin(name="shop", command=sys.executable, args=[sys.argv[1]]) as plugin:
        (prompt,) = (await plugin.session.list_prompts()).prompts
        served = {argument.name: argument.required for argument in prompt.arguments}
        answer = (await plugin.session.get_prompt("advice", {"topic": "tea"})).messages[0].content.text
        kernel = Kernel()
        kernel.add_plugin(plugin)
        (metadata,) = kernel.get_full_list_of_function_metadata()
        shown = kernel_function_metadata_to_function_call_format(metadata)["function"]["parameters"]["required"]
        try:
            error = await kernel.invoke(plugin_name="shop", function_name="advice", topic="tea")
        except KernelInvokeException as raised:
            error = raised.__cause__
    return served, shown, answer, str(error)


served, shown, answer, error = asyncio.run(main())
print("server:", served)
print("shown to the model:", shown)
print("session:", answer)
print("kernel:", error)
assert (served, shown) == ({"topic": True, "style": False}, ["topic", "style"])
assert answer == "short advice on tea"
assert "style is required" in error
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder/server.py"
