"""LangGraph programs of several graphs, and workflows by @entrypoint. CASES: name -> (what builds it, the graph expected)."""
# mypy: ignore-errors
# ruff: noqa: PERF401

from typing import Annotated, Literal, TypedDict

from expected import cases
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, Send, interrupt

CASES, case = cases()


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def model():
    return Model(messages=iter(()))


class State(TypedDict, total=False):
    text: str
    jobs: list


def step(state):
    return {"text": "done"}


@tool
def mail(to: str) -> str:
    """Sends."""
    return ""


def line(compile_with=None, **nodes):
    """A graph of some nodes one after another."""
    g = StateGraph(State)
    names = list(nodes)
    for name, function in nodes.items():
        g.add_node(name, function)
    for source, target in zip([START, *names], [*names, END]):
        g.add_edge(source, target)
    return g.compile(**(compile_with or {}))


@case("before sub/one sub/two after", "__start__>before before>sub/one sub/one>sub/two sub/two>after after>__end__")
def line_in_a_line():
    return line(before=step, sub=line(one=step, two=step), after=step)


@case("sub/deep/one sub/two", "__start__>sub/deep/one sub/deep/one>sub/two sub/two>__end__")
def graph_in_a_graph_in_a_graph():
    return line(sub=line(deep=line(one=step), two=step))


def choosing():
    g = StateGraph(State)
    for name in ("ask", "left", "right"):
        g.add_node(name, step)
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda s: s["text"], {"l": "left", "r": "right", "none": END})
    g.add_edge("left", END)  # and right just stops
    return g.compile()


@case(
    "sub/ask sub/left sub/right next",
    "__start__>sub/ask sub/ask?sub/left sub/ask?sub/right sub/ask?next sub/left>next sub/right>next next>__end__",
)
def graph_with_several_ends():
    return line(sub=choosing(), next=step)


@case(
    "sub/ask sub/left sub/right",
    "__start__>sub/ask sub/ask?sub/left sub/ask?sub/right sub/ask?__end__",
)
def graph_with_several_ends_that_nothing_follows():
    g = StateGraph(State)
    g.add_node("sub", choosing())
    g.add_edge(START, "sub")
    return g.compile()


@case(
    "sub/one a b",
    "__start__>sub/one sub/one?a sub/one?b a>__end__ b>sub/one",
)
def condition_behind_a_graph():
    g = StateGraph(State)
    g.add_node("sub", line(one=step))
    g.add_node("a", step)
    g.add_node("b", step)
    g.add_edge(START, "sub")
    g.add_conditional_edges("sub", lambda s: s["text"], {"a": "a", "b": "b"})
    g.add_edge("a", END)
    g.add_edge("b", "sub")
    return g.compile()


@case("split sub/one", "__start__>split split*sub/one sub/one>__end__")
def sends_into_a_graph():
    g = StateGraph(State)
    g.add_node("split", step)
    g.add_node("sub", line(one=step))
    g.add_edge(START, "split")
    g.add_conditional_edges("split", lambda s: [Send("sub", j) for j in s["jobs"]], ["sub"])
    g.add_edge("sub", END)
    return g.compile()


@case("sub/a sub/b after", "__start__>sub/a sub/a?sub/b sub/a?after sub/b>after after>__end__")
def command_for_the_graph_around():
    def a(state):
        if state["text"]:
            return Command(goto="after", graph=Command.PARENT)
        return Command(goto="b")

    inner = StateGraph(State)
    inner.add_node("a", a)
    inner.add_node("b", step)
    inner.add_edge(START, "a")
    inner.add_edge("b", END)
    outer = StateGraph(State)
    outer.add_node("sub", inner.compile())
    outer.add_node("after", step)
    outer.add_edge(START, "sub")
    outer.add_edge("sub", "after")
    outer.add_edge("after", END)
    return outer.compile()


def handoff(to):
    @tool(f"transfer_to_{to}")
    def transfer(state: Annotated[dict, InjectedState]) -> Command:
        """Hands over."""
        return Command(goto=to, graph=Command.PARENT, update={"messages": state["messages"]})

    return transfer


@case(
    "sales/model sales/tools:tool support/model support/tools:tool",
    "__start__>sales/model sales/model?sales/tools sales/model?__end__ sales/tools?sales/model sales/tools?support/model "
    "support/model?support/tools support/model?__end__ support/tools?support/model support/tools?sales/model",
    tools={"sales/tools": ["mail", "transfer_to_support"], "support/tools": ["transfer_to_sales"]},
)
def agents_that_hand_over():
    g = StateGraph(MessagesState)
    g.add_node("sales", create_agent(model(), [mail, handoff("support")]))
    g.add_node("support", create_agent(model(), [handoff("sales")]))
    g.add_edge(START, "sales")
    g.add_edge("sales", END)
    g.add_edge("support", END)
    return g.compile()


@case(
    "boss:router maths/model maths/tools:tool",
    "__start__>boss boss?maths/model boss?__end__ maths/model?maths/tools maths/model?boss maths/tools?maths/model",
    tools={"maths/tools": ["mail"]},
)
def boss_of_agents():
    def boss(state) -> Command[Literal["maths", "__end__"]]:
        return Command(goto="maths")

    g = StateGraph(MessagesState)
    g.add_node("boss", boss)
    g.add_node("maths", create_agent(model(), [mail]))
    g.add_edge(START, "boss")
    g.add_edge("maths", "boss")
    return g.compile()


@case(
    "sub/ask:human sub/send:tool", "__start__>sub/ask sub/ask>sub/send sub/send>__end__", tools={"sub/send": ["mail"]}
)
def person_in_a_graph():
    def ask(state):
        return {"text": interrupt("?")}

    return line(sub=line(ask=ask, send=ToolNode([mail])))


@case("a sub:human sub/send:tool", "__start__>a a>sub sub>sub/send sub/send>__end__", tools={"sub/send": ["mail"]})
def person_before_a_graph():
    return line({"interrupt_before": ["sub"]}, a=step, sub=line(send=ToolNode([mail])))


@case(
    "sub/one sub/interrupt_after:human b",
    "__start__>sub/one sub/one>sub/interrupt_after sub/interrupt_after>b b>__end__",
)
def person_after_a_graph():
    return line({"interrupt_after": ["sub"]}, sub=line(one=step), b=step)


@case(
    "sub/send:tool", "__start__>sub/send sub/send>__end__", tools={"sub/send": ["mail"]}, gated={"sub/send": ["mail"]}
)
def stop_inside_a_graph():
    return line(sub=line({"interrupt_before": ["send"]}, send=ToolNode([mail])))


@case("sub:subgraph sub/a sub/b b", "__start__>sub sub?sub/a sub?b sub/a>b b>__end__ sub/b>b")
def graph_that_may_be_passed_by():
    inner = StateGraph(State)
    inner.add_node("a", step)
    inner.add_node("b", step)
    inner.add_conditional_edges(START, lambda s: "a" if s["text"] else END)
    inner.add_edge("a", END)
    inner.add_edge("b", END)
    return line(sub=inner.compile(), b=step)


@case(
    "call:subgraph call/one call/send:tool",
    "__start__>call call?call/one call/one>call/send call/send@call call>__end__",
    tools={"call/send": ["mail"]},
)
def graph_run_by_a_function():
    inner = line(one=step, send=ToolNode([mail]))

    def call(state):
        return {"text": inner.invoke({"text": state["text"]})["text"]}

    return line(call=call)


@case(
    "agent/model agent/tools:tool agent/tools/model agent/tools/tools:tool",
    "__start__>agent/model agent/model?agent/tools agent/model?__end__ agent/tools?agent/model "
    "agent/tools?agent/tools/model agent/tools/model?agent/tools/tools agent/tools/tools?agent/tools/model agent/tools/model@agent/tools",
    tools={"agent/tools": ["research"], "agent/tools/tools": ["mail"]},
)
def agent_as_a_tool():
    helper = create_agent(model(), [mail])

    @tool
    def research(question: str) -> str:
        """Asks another agent."""
        return helper.invoke({"messages": [question]})["messages"][-1].content

    return line(agent=create_agent(model(), [research]))


@case("sub/a after", "__start__>sub/a sub/a?after after>__end__")
def way_out_by_command_only():
    def a(state):
        return Command(goto="after", graph=Command.PARENT)

    outer = StateGraph(State)
    outer.add_node("sub", StateGraph(State).add_node("a", a).add_edge(START, "a").compile())
    outer.add_node("after", step)
    outer.add_edge(START, "sub")
    outer.add_edge("after", END)
    return outer.compile()


@case("one/a two/a", "__start__>one/a one/a>two/a two/a>__end__")
def same_graph_twice():
    inner = line(a=step)
    return line(one=inner, two=inner)


@case("flow:passthrough", "__start__>flow flow>__end__")
def function_alone():
    @entrypoint()
    def flow(text: str) -> str:
        return text.upper()

    return flow


@case("flow:human", "__start__>flow flow>__end__")
def function_that_asks():
    @entrypoint(checkpointer=InMemorySaver())
    def flow(text: str) -> str:
        return interrupt(text)

    return flow


@task
def write(topic):
    return f"about {topic}"


@task
def send(text):
    return mail.invoke({"to": text})


@case(
    "flow:passthrough flow/write:passthrough flow/interrupt:human flow/send:tool",
    "__start__>flow flow>flow/write flow/write>flow/interrupt flow/interrupt?flow/send flow/interrupt?__end__ flow/send>__end__",
    tools={"flow/send": ["mail"]},
)
def tasks_and_a_person():
    @entrypoint(checkpointer=InMemorySaver())
    def flow(topic: str) -> str:
        text = write(topic).result()
        if interrupt({"review": text}) == "no":
            return "not sent"
        return send(text).result()

    return flow


@case(
    "flow:passthrough flow/write:passthrough flow/send:tool",
    "__start__>flow flow?flow/write flow?flow/send flow/write?flow/write flow/write?flow/send flow/send>__end__",
    tools={"flow/send": ["mail"]},
)
def tasks_in_a_loop():
    @entrypoint()
    async def flow(topics: list) -> str:
        texts = []
        for topic in topics:
            texts.append(await write(topic))
        return await send("".join(texts))

    return flow


@case(
    "flow:passthrough flow/write:passthrough flow/both:passthrough flow/send:tool",
    "__start__>flow flow>flow/both flow/both>flow/write flow/write>flow/send flow/send>__end__",
    tools={"flow/send": ["mail"]},
)
def tasks_in_a_helper():
    def both(topic):
        return send(write(topic).result()).result()

    @entrypoint()
    def flow(topic: str) -> str:
        return both(topic)

    return flow


@case(
    "a flow/flow:passthrough flow/flow/write:passthrough",
    "__start__>a a>flow/flow flow/flow>flow/flow/write flow/flow/write>__end__",
)
def function_as_a_node():
    @entrypoint()
    def flow(state: dict) -> dict:
        return {"text": write(state["text"]).result()}

    return line(a=step, flow=flow)
