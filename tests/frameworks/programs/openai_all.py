"""OpenAI Agents SDK programs. CASES: name -> (what builds the first agent, the graph expected)."""
# mypy: ignore-errors

from agents import (
    Agent,
    ApplyPatchTool,
    CodeInterpreterTool,
    FileSearchTool,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    HostedMCPTool,
    Runner,
    ShellTool,
    WebSearchTool,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from agents.mcp import MCPServerStdio
from agents.realtime import RealtimeAgent, realtime_handoff
from expected import cases
from pydantic import BaseModel

CASES, case = cases()


@function_tool
def fetch(url: str) -> str:
    """Fetches a page."""
    return url


@function_tool(needs_approval=True)
def mail(to: str) -> str:
    """Sends mail."""
    return to


def agent(name, *tools, **more):
    return Agent(name=name, instructions=name, tools=list(tools), **more)


@case("a", "__start__>a a>__end__")
def one_agent():
    return agent("a")


# Hand-offs.


@case(
    "triage billing:tool tech",
    "__start__>triage triage?billing triage?tech triage?__end__ billing>__end__ tech>__end__",
    tools={"billing": "mail"},
    gated={"billing": "mail"},
    conditions={
        ("triage", "billing"): "transfer_to_billing",
        ("triage", "tech"): "to_tech",
        ("triage", "__end__"): "final output",
    },
)
def handoffs():
    return agent("triage", handoffs=[agent("billing", mail), handoff(agent("tech"), tool_name_override="to_tech")])


@case("a b c", "__start__>a a?b b?c c?a a?__end__ b?__end__ c?__end__")
def handoffs_in_a_ring():
    a, b, c = agent("a"), agent("b"), agent("c")
    a.handoffs, b.handoffs, c.handoffs = [b], [handoff(c)], [a]
    return a


@case("a", "__start__>a a?a a?__end__")
def handoff_to_itself():
    a = agent("a")
    a.handoffs.append(a)
    return a


@case("a b", "__start__>a a?b a?__end__ b>__end__")
def handoffs_that_are_off_and_on():
    return agent(
        "a", handoffs=[handoff(agent("off"), is_enabled=False), handoff(agent("b"), is_enabled=lambda c, a: True)]
    )


@case("a b b#2:tool", "__start__>a a?b a?b#2 a?__end__ b>__end__ b#2>__end__", tools={"b#2": "fetch"})
def agents_of_one_name():
    return agent("a", handoffs=[agent("b"), agent("b", fetch)])


EXPERT = agent("expert")


async def to_the_expert(context, text):
    return EXPERT


@case("a expert", "__start__>a a?expert a?__end__ expert>__end__", conditions={("a", "expert"): "ask_expert"})
def handoff_of_the_programs_own():
    return agent("a", handoffs=[Handoff("ask_expert", "asks", {}, to_the_expert, "expert")])


async def to_anybody(context, text):
    return context.context[text]


@case(
    "a b someone:tool",
    "__start__>a a?b a?someone someone?a someone?b someone?someone a?__end__ b>__end__ someone?__end__",
    tools={"someone": "someone.*"},
    widened="a someone",
)
def handoff_to_whom_cannot_be_known():
    return agent("a", handoffs=[agent("b"), Handoff("ask", "asks", {}, to_anybody, "someone")])


@case("a b:tool c", "__start__>a a?b a?c a?__end__ b>__end__ c>__end__", tools={"b": "fetch"})
def agents_that_speak():
    return RealtimeAgent(
        name="a", handoffs=[realtime_handoff(RealtimeAgent(name="b", tools=[fetch])), RealtimeAgent(name="c")]
    )


# Agents as tools.


@case("boss:tool", "__start__>boss boss>__end__", tools={"boss": "ask"})
def agent_as_a_tool():
    return agent("boss", agent("helper", handoffs=[agent("other")]).as_tool("ask", "asks"))


@case(
    "boss:tool worker:tool second:tool",
    "__start__>boss boss?worker worker?second worker?boss second>boss boss?__end__",
    tools={"boss": "ask", "worker": "fetch", "second": "mail"},
    gated={"boss": "ask", "second": "mail"},
    conditions={("boss", "worker"): "calls ask", ("worker", "boss"): "final output"},
)
def agent_with_tools_as_a_tool():
    worker = agent("worker", fetch, handoffs=[agent("second", mail)])
    return agent("boss", worker.as_tool("ask", "asks", needs_approval=True))


@case("a:tool b:tool", "__start__>a a?b a?__end__ b?a b?__end__", tools={"a": "use_b", "b": "fetch"})
def agent_as_a_tool_and_by_handoff():
    b = agent("b", fetch)
    return agent("a", b.as_tool("use_b", "uses"), handoffs=[b])


@case("a:tool m:tool n:tool", "__start__>a a?m m?n n>m m?a a?__end__", tools={"a": "use_m", "m": "use_n", "n": "fetch"})
def tools_in_tools():
    return agent("a", agent("m", agent("n", fetch).as_tool("use_n", "uses")).as_tool("use_m", "uses"))


@case("a:tool b:tool", "__start__>a a?b b?a a?__end__", tools={"a": "use_b", "b": "use_a"})
def agents_as_tools_of_each_other():
    a, b = agent("a"), agent("b")
    a.tools, b.tools = [b.as_tool("use_b", "uses")], [a.as_tool("use_a", "uses")]
    return a


INNER = agent("inner", fetch)


@function_tool
async def research(question: str) -> str:
    """Asks another agent."""
    return await asked(question)


async def asked(question):
    result = await Runner.run(INNER, question)
    return result.final_output


@case("a:tool inner:tool", "__start__>a a?inner inner>a a?__end__", tools={"a": "research", "inner": "fetch"})
def agent_run_inside_a_tool():
    return agent("a", research)


@function_tool
async def anybody(name: str) -> str:
    """Asks any agent."""
    return (await Runner.run(starting_agent=find(name), input=name)).final_output


def find(name):
    raise NotImplementedError


@case("a:tool", "__start__>a a>__end__", tools={"a": "anybody"}, widened="a")
def agent_run_inside_a_tool_that_cannot_be_known():
    return agent("a", anybody)


# Tools and gates.


async def is_large(context, parameters, call_id):
    return parameters["amount"] > 100


async def never(context, parameters, call_id):
    return False


@function_tool(needs_approval=is_large)
def pay(amount: int) -> str:
    """Pays."""
    return str(amount)


@function_tool(needs_approval=never)
def look(amount: int) -> str:
    """Looks."""
    return str(amount)


@function_tool(is_enabled=False)
def off() -> str:
    """Nothing."""
    return ""


@function_tool
def ask_at_the_terminal() -> str:
    """Asks."""
    return input("sure?")


@function_tool
def ask_perhaps(amount: int) -> str:
    """Asks."""
    return input("sure?") if amount > 100 else ""


def own(name, **more):
    async def invoke(context, arguments):
        return arguments

    return FunctionTool(
        name=name, description="own", params_json_schema={}, on_invoke_tool=invoke, strict_json_schema=False, **more
    )


@case(
    "a:tool",
    "__start__>a a>__end__",
    tools={"a": "fetch mail pay look ask_at_the_terminal ask_perhaps one"},
    gated={"a": "mail pay ask_at_the_terminal one"},
)
def functions_as_tools():
    return agent("a", fetch, mail, pay, look, off, ask_at_the_terminal, ask_perhaps, own("one", needs_approval=True))


def hosted(label, approver=None, **config):
    return HostedMCPTool(
        {"type": "mcp", "server_label": label, "server_url": "https://mcp.example", **config}, approver
    )


@case(
    "a:tool",
    "__start__>a a>__end__",
    tools={"a": "web_search file_search code_interpreter read delete plain.* free x.* mine"},
    gated={"a": "delete plain.*"},
    widened="a",
)
def hosted_tools():
    some = {"never": {"tool_names": ["read"]}, "always": {"tool_names": ["delete"]}}
    return agent(
        "a",
        WebSearchTool(),
        FileSearchTool(vector_store_ids=["x"]),
        CodeInterpreterTool({"type": "code_interpreter", "container": {"type": "auto"}}),
        hosted("some", allowed_tools=["read", "delete"], require_approval=some),
        hosted("plain"),
        hosted("free", allowed_tools={"tool_names": ["free"]}, require_approval="never"),
        hosted("x", require_approval="never"),
        hosted("mine", lambda request: {"approve": True}, allowed_tools=["mine"]),
    )


def by_a_person(context, item):
    return {"approve": input("ok? ") == "y"}


@case("a:tool", "__start__>a a>__end__", tools={"a": "shell apply_patch edit"}, gated={"a": "shell edit"})
def tools_that_are_approved():
    return agent(
        "a",
        ShellTool(executor=print, needs_approval=True),
        ApplyPatchTool(editor=None, needs_approval=True, on_approval=lambda context, item: {"approve": True}),
        ApplyPatchTool(editor=None, name="edit", needs_approval=True, on_approval=by_a_person),
    )


def server(name, **more):
    return MCPServerStdio(params={"command": "no-such-command"}, name=name, **more)


@case("a:tool", "__start__>a a>__end__", tools={"a": "delete files.* read"}, gated={"a": "delete read"}, widened="a")
def mcp_servers():
    files = server("files", require_approval={"always": {"tool_names": ["delete"]}})
    allowed = {"allowed_tool_names": ["read", "write"], "blocked_tool_names": ["write"]}
    return agent("a", mcp_servers=[files, server("pages", tool_filter=allowed, require_approval="always")])


@case("a:tool", "__start__>a a>__end__", tools={"a": "mcp_my_files__read"})
def mcp_server_with_its_name_before_its_tools():
    some = server("my files", tool_filter={"allowed_tool_names": ["read"]})
    return agent("a", mcp_servers=[some], mcp_config={"include_server_in_tool_names": True})


@case("a:tool", "__start__>a a>__end__", tools={"a": "prompt.*"}, widened="a")
def prompt_that_is_stored():
    return Agent(name="a", prompt={"id": "pmpt_1"})


@case(
    "a:tool b:tool",
    "__start__>a a?b a?__end__ b>__end__",
    tools={"a": "fetch", "b": "fetch mail"},
    gated={"b": "mail"},
    conditions={("a", "__end__"): "final output or after fetch"},
)
def tools_that_end_the_run():
    stops = {"stop_at_tool_names": ["mail", "none"]}
    return agent(
        "a", fetch, tool_use_behavior="stop_on_first_tool", handoffs=[agent("b", fetch, mail, tool_use_behavior=stops)]
    )


# Guardrails.


@input_guardrail
async def on_topic(context, agent, text):
    await Runner.run(INNER, text)
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


@output_guardrail
async def polite(context, agent, output):
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


class Answer(BaseModel):
    text: str


@case(
    "a b inner:tool",
    "__start__>a a?b a?inner inner>a a?__end__ b>__end__",
    tools={"inner": "fetch"},
    conditions={("a", "inner"): "calls on_topic"},
)
def guardrails():
    second = agent("b", input_guardrails=[on_topic])
    return agent("a", input_guardrails=[on_topic], output_guardrails=[polite], output_type=Answer, handoffs=[second])
