"""Code that a CodeExecutorAgent runs without a tool call, judged as the call `execute_code(language=..., code=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult

from guardagent.enforcement import ToolSpec
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.autogen.adapter.calls import AutoGenCalls
from guardagent.frameworks.autogen.adapter.guarded_tool import undumped
from guardagent.frameworks.autogen.adapter.outcomes import outcome_of_code

EXECUTE = ToolSpec(
    "execute_code",
    {"type": "object", "properties": {"language": {"type": "string"}, "code": {"type": "string"}}},
    "Runs a block of code.",
)


class GuardedExecutor(CodeExecutor):
    """Judges each block of code, and runs it with another executor.

    Args:
        executor: the executor itself. It is not changed.
        calls: judges.
    """

    def __init__(self, executor: Any, calls: AutoGenCalls) -> None:
        if not isinstance(executor, CodeExecutor):
            raise InputError(f"this is a {type(executor).__name__}; expected a CodeExecutor of AutoGen")
        self._executor, self.guardagent_calls = executor, calls

    def __getattr__(self, name: str) -> Any:
        if name == "_executor":
            raise AttributeError(name)
        return getattr(self._executor, name)

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Runs blocks until one fails. A denial is a failure with the reason as its output."""
        result, outputs = CodeResult(exit_code=0, output=""), list[str]()
        for block in code_blocks:
            result = await self._execute(block, cancellation_token)
            outputs.append(result.output)
            if result.exit_code != 0:
                break
        result.output = "\n".join(outputs)
        return result

    async def _execute(self, block: CodeBlock, cancellation_token: CancellationToken) -> CodeResult:
        args = {"language": str(block.language), "code": str(block.code)}
        try:
            allowed = await self.guardagent_calls.authorize(EXECUTE.name, args, _validated)
        except ToolDenied as denied:
            return CodeResult(exit_code=1, output=str(denied))
        judged = CodeBlock(code=allowed.args["code"], language=allowed.args["language"])
        run = self._executor.execute_code_blocks
        result: CodeResult = await allowed.run(lambda: run([judged], cancellation_token), outcome_of_code)
        return result

    async def start(self) -> None:
        await self._executor.start()

    async def stop(self) -> None:
        await self._executor.stop()

    async def restart(self) -> None:
        await self._executor.restart()

    def dump_component(self) -> Any:
        raise undumped("the code executor")


def _validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
    if edited.keys() != {"language", "code"} or not all(isinstance(one, str) for one in edited.values()):
        raise InputError("expected a 'language' and a 'code', each a string")
    return edited
