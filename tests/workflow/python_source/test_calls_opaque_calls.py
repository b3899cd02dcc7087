"""Code that an extractor cannot see may call anything: rules about tools are then undecidable, not proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent import verify
from guardagent.policy.load import compile_rules
from guardagent.workflow.python_source.source_graphs import graph_of_source

RULES = compile_rules(["G !tool:refund"])

LANGGRAPH = """
from langchain_core.tools import tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.pregel.remote import RemoteGraph
from missing_lib import agent, run_agent, tools
@tool
def refund(x: int) -> str: "r"
@tool
def look(x: int) -> str: "l"
@tool
def outer(x: int) -> str:
    "o"
    return run_agent(x)
REG = {"refund": refund}
g = StateGraph(MessagesState)
def node(s, config):
    BODY
    return {}
g.add_node("n", NODE)
g.add_edge(START, "n")
g.add_edge("n", END)
graph = g.compile()
"""
BODIES = [
    "agent.invoke(s)",
    "run_agent(s)",
    "config['tool'].invoke(s)",
    "REG.get(s['x']).invoke(s)",
    "f = refund.invoke; f(s)",
    "list(map(refund.invoke, [s]))",
    "getattr(refund, 'invoke')(s)",
    "getattr(refund, s['how'])(s)",
    "exec(s['code'])",
    "ToolNode(tools).invoke(s)",
    "create_react_agent('m', config['tools']).invoke(s)",
    "import importlib; importlib.import_module('other').refund.invoke(s)",
    "import threading; threading.Thread(target=refund.invoke, args=(s,)).start()",
    "import crewai; crewai.Crew(agents=[]).kickoff()",
    "config['client'].call_tool('refund')",
]
NODES = ["agent", "ToolNode(tools)", "ToolNode([look, outer])", "RemoteGraph('a', url='u')", "ToolNode([look, *tools])"]

OPENAI = """
from agents import Agent, AgentHooks, Runner, function_tool, handoff
from missing_lib import agentx, run_it, toolx, tools
@function_tool
def refund(x: int) -> str: "r"
@function_tool
def look(x: int) -> str: "l"
billing = Agent(name="billing", tools=[refund])
async def runs(*args): await Runner.run(billing, "x")
class Hooks(AgentHooks):
    async def on_start(self, context, agent): await runs()
@function_tool
async def t(x: str) -> str:
    "t"
    BODY
agent = Agent(name="a", GIVEN)
"""
OPENAI_BODIES = [
    "return await run_it(x)",
    "exec(x)",
    "r = Runner.run; await r(billing, x)",
    "await Runner.run(agentx, x)",
]
OPENAI_UNSEEN = [
    "tools=tools", "tools=[look, toolx]", "handoffs=[agentx]", "tools=[look], hooks=Hooks()",
    "tools=[look], instructions=runs", "tools=[look], tool_use_behavior=runs",
    "handoffs=[handoff(Agent(name='c'), on_handoff=runs)]",
]  # fmt: skip

ADK = """
from google.adk.agents import Agent, BaseAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, FunctionTool
from google.adk.tools.mcp_tool import McpToolset
from missing_lib import run_it, sub, toolx, tools
def look(x: int) -> str: ...
def refund(x: int) -> str: ...
billing = Agent(name="billing", model="m", tools=[refund])
async def runs(context):
    async for event in InMemoryRunner(billing).run_async(user_id="u"): ...
class Own(BaseAgent):
    async def _run_async_impl(self, context):
        async for event in sub.run_async(context): yield event
async def t(x: int) -> str:
    BODY
root_agent = GIVEN
"""
ADK_BODIES = [
    "return run_it(x)", "exec(x)", "return await FunctionTool(refund).run_async(args={})",
    "return [e async for e in InMemoryRunner(billing).run_async(user_id='u')]",
]  # fmt: skip
ADK_UNSEEN = [
    *(f"Agent(name='a', model='m', {argument})" for argument in (
        "tools=tools", "tools=[look, toolx]", "sub_agents=[sub]", "tools=[AgentTool(agent=sub)]",
        "tools=[McpToolset()]", "tools=[look], before_agent_callback=runs",
    )),
    "Own(name='a')",
]  # fmt: skip

AUTOGEN = """
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.tools import FunctionTool
from autogen_ext.tools.mcp import McpWorkbench
from missing_lib import agentx, run_it, toolx, tools
def look(x: int) -> str: ...
def refund(x: int) -> str: ...
billing = AssistantAgent("billing", None, tools=[refund])
class Own(BaseChatAgent):
    async def on_messages(self, messages, token): return await billing.on_messages(messages, token)
class Strange(BaseChatAgent):
    async def on_messages(self, messages, token): return await agentx.on_messages(messages, token)
async def t(x: str) -> str:
    BODY
team = RoundRobinGroupChat([GIVEN])
"""
AUTOGEN_BODIES = [
    "return run_it(x)", "exec(x)", "return await billing.run(task=x)",
    "return await FunctionTool(refund, description='r').run_json({}, None)",
]  # fmt: skip
AUTOGEN_UNSEEN = [
    "agentx", "Own('a', 'd')", "Strange('a', 'd')", "AssistantAgent('a', None, tools=[look, toolx])",
    "AssistantAgent('a', None, tools=tools)", "AssistantAgent('a', None, workbench=McpWorkbench(None))",
]  # fmt: skip

CREWAI = """
from crewai import Agent, Crew, Task
from crewai.flow.flow import Flow, start
from crewai.tools import BaseTool, tool
from crewai_tools import MCPServerAdapter
from missing_lib import agentx, run_it, taskx, toolx
@tool("look")
def look(x: int) -> str: "l"
@tool("refund")
def refund(x: int) -> str: "r"
bill = Agent(role="bill", goal="g", backstory="b", tools=[refund])
crew_of_bill = Crew(agents=[bill], tasks=[Task(description="d", expected_output="e", agent=bill)])
def runs(output): crew_of_bill.kickoff()
class Own(BaseTool):
    name: str = "own"
    def _run(self, x): return crew_of_bill.kickoff()
@tool("t")
def t(x: str) -> str:
    "t"
    BODY
def crew_with(agent, **more):
    return Crew(agents=[agent], tasks=[Task(description="d", expected_output="e", agent=agent, **more)])
def having(*tools, **more):
    return Agent(role="a", goal="g", backstory="b", tools=list(tools), **more)
class F(Flow):
    @start()
    def go(self):
        METHOD
graph = GIVEN
"""
CREWAI_BODIES = ["return run_it(x)", "exec(x)", "return refund.run(1)", "return crew_of_bill.kickoff()"]
CREWAI_METHODS = ["return run_it()", "exec('x')", "k = crew_of_bill.kickoff; return k()", "return agentx.kickoff()"]
CREWAI_UNSEEN = [
    "crew_with(agentx)", "Crew(agents=[bill], tasks=[taskx])", "crew_with(having(look, toolx))",
    "crew_with(having(*MCPServerAdapter({}).tools))", "crew_with(having(mcps=['http://x']))",
    "crew_with(having(Own()))", "crew_with(having(look), callback=runs)",
]  # fmt: skip

PROGRAMS = [
    *(LANGGRAPH.replace("BODY", body).replace("NODE", "node") for body in BODIES),
    *(LANGGRAPH.replace("BODY", "pass").replace("NODE", body) for body in NODES),
    *(OPENAI.replace("BODY", body).replace("GIVEN", "tools=[t]") for body in OPENAI_BODIES),
    *(OPENAI.replace("BODY", "pass").replace("GIVEN", body) for body in OPENAI_UNSEEN),
    *(ADK.replace("BODY", body).replace("GIVEN", "Agent(name='a', model='m', tools=[t])") for body in ADK_BODIES),
    *(ADK.replace("BODY", "pass").replace("GIVEN", body) for body in ADK_UNSEEN),
    *(
        AUTOGEN.replace("BODY", body).replace("GIVEN", "AssistantAgent('a', None, tools=[t])")
        for body in AUTOGEN_BODIES
    ),
    *(AUTOGEN.replace("BODY", "pass").replace("GIVEN", body) for body in AUTOGEN_UNSEEN),
    *(CREWAI.replace("BODY", body).replace("GIVEN", "crew_with(having(t))") for body in CREWAI_BODIES),
    *(CREWAI.replace("METHOD", body).replace("GIVEN", "F()") for body in CREWAI_METHODS),
    *(CREWAI.replace("METHOD", "pass").replace("GIVEN", body) for body in CREWAI_UNSEEN),
]
PLAIN = "import json, time; y = json.loads(str(time.time())).strip()"
SEEN = [
    LANGGRAPH.replace("BODY", PLAIN).replace("NODE", "node"),
    LANGGRAPH.replace(
        "BODY", "from langchain_openai import ChatOpenAI; m = ChatOpenAI().bind_tools([look]).with_retry(); m.invoke(s)"
    ).replace("NODE", "node"),
    OPENAI.replace("BODY", PLAIN).replace("GIVEN", "tools=[look, t]"),
    ADK.replace("BODY", PLAIN).replace("GIVEN", "Agent(name='a', model='m', tools=[look, t])"),
    AUTOGEN.replace("BODY", PLAIN).replace("GIVEN", "AssistantAgent('a', None, tools=[look, t])"),
    CREWAI.replace("BODY", PLAIN).replace("METHOD", "pass").replace("GIVEN", "crew_with(having(look, t))"),
]


def rule_status(program: str, folder: Path) -> tuple[str, str]:
    """Returns the status of the rule as drawn, and for every run."""
    for mark in ("BODY", "METHOD"):
        program = program.replace(mark, "pass")
    path = folder / "program.py"
    names = ("graph", "agent", "root_agent", "team")
    path.write_text(program)
    graph = graph_of_source(path, next(name for name in names if f"\n{name} = " in program))
    (rule,) = verify(graph, RULES).rules
    return rule.status, rule.every_run.status


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_with_opaque_calls_are_not_proved(program: str, tmp_path: Path) -> None:
    """The program runs the tool, or may run it."""
    assert "proved" not in rule_status(program, tmp_path)


@pytest.mark.parametrize("program", SEEN)
def test_programs_without_opaque_calls_are_proved(program: str, tmp_path: Path) -> None:
    """A body without opaque calls may do anything else."""
    assert rule_status(program, tmp_path)[0] == "proved"


RECURSIONS = [  # the body of a tool `t`
    # a calculator that reads a syntax tree
    """
    def value(node):
        if isinstance(node, ast.Expression):
            return value(node.body)
        elif isinstance(node, ast.BinOp):
            left = value(node.left)
            right = value(node.right)
            return OPERATORS[type(node.op)](left, right)
        elif isinstance(node, ast.UnaryOp):
            return OPERATORS[type(node.op)](value(node.operand))
        return node.value
    try:
        return str(value(ast.parse(x, mode="eval")))
    except Exception as error:
        return f"error: {error}"
""",
    "def walk(n): return [walk(k) for k in n.children]\n    return walk(ast.parse(x))",
    "def walk(n): return {k: walk(v) for k, v in n.items()} if isinstance(n, dict) else n\n    return walk(x)",
    "def down(n): return up(n.left)\n    def up(n): return down(n.right)\n    return down(ast.parse(x))",
    "def fact(n): return n * fact(n - 1) if n else 1\n    return fact(5)",
    "def gcd(a, b): return gcd(b, a % b) if b else a\n    return gcd(len(x), 12)",
    "def flat(l, depth=0): return [flat(i, depth=depth + 1) for i in l]\n    flat([[x]])",
    "def again(n):\n        try: return again(n.next)\n        except ValueError: return n\n    again(x)",
    "walk = lambda n: walk(n.left) or walk(n.right)\n    return walk(ast.parse(x))",
    "class R:\n        def read(self, n): return self.read(n.left) + self.read(n.right)\n    R().read(ast.parse(x))",
]
RECURSIVE = LANGGRAPH.replace("REG =", "import ast, operator\nOPERATORS = {ast.Add: operator.add}\nREG =").replace(
    "g = StateGraph", "@tool\ndef t(x: str) -> str:\n    't'\n    RECURSION\ng = StateGraph"
)
RECURSIVE = RECURSIVE.replace("BODY", "pass").replace("NODE", "ToolNode([t])")
RUNNING = [  # functions that call themselves, and a tool on the way
    "def walk(n): return refund.invoke(n) if n.last else walk(n.next)\n    return walk(x)",
    "def walk(n, f): return walk(n.next, refund.invoke) or f(n)\n    return walk(x, print)",
    "def walk(n, f=print): return f(n), [walk(k, f=refund.invoke) for k in n.nodes]\n    return walk(x)",
    "def down(n): return up(n.left)\n    def up(n): refund.invoke(n); return down(n.right)\n    down(x)",
    "def walk(n): run_agent(n.left); return walk(n.right)\n    return walk(x)",
]
DEEP = "".join(f"def f{at}(x):\n        return f{at + 1}(x)\n    " for at in range(300))


@pytest.mark.parametrize("body", RECURSIONS)
def test_a_function_that_calls_itself_is_followed_to_its_end(body: str, tmp_path: Path) -> None:
    """Its arguments differ at each level; no more than one of these levels is followed."""
    assert rule_status(RECURSIVE.replace("RECURSION", body.strip()), tmp_path)[0] == "proved"


@pytest.mark.parametrize("body", [*RUNNING, f"{DEEP}def f300(x):\n        return refund.invoke(x)\n    return f0(x)"])
def test_a_tool_within_a_recursion_is_not_overlooked(body: str, tmp_path: Path) -> None:
    """The last body has calls that are nested too deeply to follow."""
    assert "proved" not in rule_status(RECURSIVE.replace("RECURSION", body), tmp_path)
