"""The cost of a guard per tool call in a LangGraph ToolNode, unguarded and guarded in the same run."""

from __future__ import annotations

import time
from typing import Any


def measure(calls: int, clock: Any = time.perf_counter) -> tuple[list[float], list[float]]:
    """Seconds per call, alternating unguarded and guarded, each through a graph of one node.

    Args:
        calls: the number of calls of each kind.
        clock: `time.perf_counter`, or `time.process_time` for CPU time.
    """
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.prebuilt import ToolNode

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.langgraph import guarded_tool_node

    @tool
    def refund(order_id: str, amount: int = 500) -> str:
        """Pays."""
        return f"{order_id} {amount}"

    guard = limit_guard()
    graphs = [_graph(ToolNode([refund])), _graph(guarded_tool_node(guard, [refund]))]
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls + 20):
        args = {"order_id": f"W{at}", "amount": 50}
        message = AIMessage("", tool_calls=[{"name": "refund", "args": args, "id": f"c{at}"}])
        for graph, seconds in zip(graphs, taken, strict=True):
            started = clock()
            graph.invoke({"messages": [message]}, {"configurable": {"thread_id": f"t{at % 10}"}})
            seconds.append(clock() - started)
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


def _graph(node: Any) -> Any:
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState)
    builder.add_node("tools", node)
    builder.add_edge(START, "tools")
    return builder.compile()
