"""LangGraph programs with tools and agents. CASES: name -> (what builds the graph, the graph expected)."""
# mypy: ignore-errors

import warnings
from typing import Annotated, TypedDict

from expected import cases
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    TodoListMiddleware,
    before_model,
    wrap_tool_call,
)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.tools import InjectedToolArg, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent, tools_condition
from langgraph.types import interrupt

CASES, case = cases()


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def model():
    return Model(messages=iter(()))


class State(TypedDict, total=False):
    text: str
    messages: list


def step(state):
    return {"text": "done"}


@tool
def mail(to: str) -> str:
    """Sends."""
    return ""


@tool
def search(query: str, state: Annotated[dict, InjectedState], limit: Annotated[int, InjectedToolArg] = 3) -> str:
    """Searches."""
    return ""


@tool(return_direct=True)
def answer(text: str) -> str:
    """Answers."""
    return text


def delete(path: str) -> str:
    """Deletes."""
    return ""


REACT = "__start__>model model?tools model?__end__ tools?model"


@case("model tools:tool", REACT, tools={"tools": ["mail", "search", "delete"]})
def agent_with_tools():
    return create_agent(model(), tools=[mail, search, delete])


@case("model", "__start__>model model>__end__")
def agent_without_tools():
    return create_agent(model(), tools=[])


@case("model tools:tool", REACT + " tools?__end__", tools={"tools": ["mail", "answer"]})
def agent_with_a_last_tool():
    return create_agent(model(), tools=[mail, answer])


@case("model:tool tools:tool", REACT, tools={"model": ["web_search"], "tools": ["mail"]})
def agent_with_a_tool_of_the_provider():
    return create_agent(model(), tools=[mail, {"type": "web_search"}])


HITL = "HumanInTheLoopMiddleware.after_model"


@case(
    f"model {HITL}:human tools:tool",
    f"__start__>model model>{HITL} {HITL}?tools {HITL}?__end__ {HITL}?model tools?model",
    tools={"tools": ["mail", "search", "delete"]},
    gated={"tools": ["mail", "delete"]},
)
def agent_that_asks_about_some_tools():
    asks = {"mail": True, "search": False, "delete": {"allowed_decisions": ["approve", "reject"]}}
    return create_agent(
        model(), [mail, search, delete], middleware=[HumanInTheLoopMiddleware(asks)], checkpointer=InMemorySaver()
    )


@case(
    f"model {HITL}:human tools:tool",
    f"__start__>model model>{HITL} {HITL}?tools {HITL}?__end__ {HITL}?model tools?model",
    tools={"tools": ["mail", "delete"]},
    gated={"tools": ["delete"]},
)
def agent_that_asks_now_and_then():
    sometimes = {"allowed_decisions": ["approve"], "when": lambda request: request.tool_call["args"]["to"] == "all"}
    gate = HumanInTheLoopMiddleware({"mail": sometimes, "delete": True}, interrupt_mode="per_call")
    return create_agent(model(), [mail, delete], middleware=[gate], checkpointer=InMemorySaver())


@case("model tools:tool", REACT, tools={"tools": ["mail"]}, gated={"tools": ["mail"]})
def agent_that_stops_before_its_tools():
    return create_agent(model(), [mail], interrupt_before=["tools"], checkpointer=InMemorySaver())


@case("model tools:tool", REACT, tools={"tools": ["mail"]}, gated={"tools": ["mail"]})
def agent_whose_calls_are_wrapped():
    @wrap_tool_call
    def ask(request, handler):
        interrupt(request.tool_call)
        return handler(request)

    return create_agent(model(), [mail], middleware=[ask])


class Log(AgentMiddleware):
    tools = [answer]

    def before_agent(self, state, runtime):
        return None

    def after_agent(self, state, runtime):
        return None


@case(
    "model tools:tool Log.before_agent Log.after_agent count.before_model:passthrough",
    "__start__>Log.before_agent Log.before_agent>count.before_model count.before_model?model count.before_model?Log.after_agent "
    "model?tools model?Log.after_agent tools?count.before_model tools?Log.after_agent Log.after_agent>__end__",
    tools={"tools": ["answer", "mail"]},
)
def agent_with_hooks():
    @before_model(can_jump_to=["end"])
    def count(state, runtime):
        return {"jump_to": "end"} if len(state["messages"]) > 9 else None

    return create_agent(model(), [mail], middleware=[Log(), count])


@case(
    "ask.before_model:human model tools:tool",
    "__start__>ask.before_model ask.before_model>model model?tools model?__end__ tools?ask.before_model",
    tools={"tools": ["mail"]},
)
def agent_with_a_question_before_its_model():
    @before_model
    def ask(state, runtime):
        interrupt("go on?")

    return create_agent(model(), [mail], middleware=[ask])


@case(
    "model tools:tool TodoListMiddleware.after_model",
    "__start__>model model>TodoListMiddleware.after_model TodoListMiddleware.after_model?tools "
    "TodoListMiddleware.after_model?__end__ TodoListMiddleware.after_model?model tools?model",
    tools={"tools": ["mail", "write_todos"]},
)
def agent_with_middleware_that_brings_a_tool():
    return create_agent(model(), [mail], middleware=[TodoListMiddleware()])


@case(
    "agent tools:tool",
    "__start__>agent agent?tools agent?__end__ tools>agent",
    tools={"tools": ["mail"]},
    gated={"tools": ["mail"]},
)
def agent_of_the_older_kind():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_react_agent(model(), [mail], interrupt_before=["tools"], checkpointer=InMemorySaver())


@case("bot tools:tool", "__start__>bot bot?tools bot?__end__ tools>bot", tools={"tools": ["mail", "search"]})
def tools_condition_of_langgraph():
    g = StateGraph(MessagesState)
    g.add_node("bot", step)
    g.add_node("tools", ToolNode([mail, search]))
    g.add_edge(START, "bot")
    g.add_conditional_edges("bot", tools_condition)
    g.add_edge("tools", "bot")
    return g.compile()


def one(function):
    g = StateGraph(State)
    g.add_node("act", function)
    g.add_edge(START, "act")
    g.add_edge("act", END)
    return g.compile()


ONE = ("act:tool", "__start__>act act>__end__")


@case(*ONE, tools={"act": ["mail"]})
def tool_as_a_node():
    return one(mail)


@case(*ONE, tools={"act": ["mail", "search"]})
def tools_by_name():
    tools = {one.name: one for one in (mail, search)}

    def act(state):
        return {"messages": [tools[call["name"]].invoke(call["args"]) for call in state["messages"][-1].tool_calls]}

    return one(act)


@case(*ONE, tools={"act": ["mail"]})
def tool_node_in_a_function():
    node = ToolNode([mail])

    async def act(state):
        return await node.ainvoke(state)

    return one(act)


@case(*ONE, tools={"act": ["mail", "search"]})
def tool_node_made_in_a_function():
    def act(state):
        return ToolNode([mail, search]).invoke(state)

    return one(act)


@case(*ONE, tools={"act": ["mail"]})
def agent_made_in_a_function():
    def act(state):
        agent = create_agent(model(), tools=[mail])
        return agent.invoke(state)

    return one(act)


@case("act", "__start__>act act>__end__")
def model_that_is_only_given_tools():
    bound = model()

    def act(state):
        return {"messages": [bound.bind_tools([mail]).invoke(state["messages"])]}

    return one(act)


@case(*ONE, tools={"act": ["delete"]})
def tool_of_a_function():
    return one(ToolNode([StructuredTool.from_function(delete)]))


@case(*ONE, tools={"act": ["mail"]})
def tool_in_a_helper_of_a_class():
    class Sender:
        def __init__(self, tool):
            self.tool = tool

        def _send(self, to):
            return self.tool.invoke({"to": to})

        def __call__(self, state):
            return {"text": self._send(state["text"])}

    return one(Sender(mail))


@case(*ONE, tools={"act": ["mail"]})
def tool_in_a_sequence():
    return one((lambda state: {"to": state["text"]}) | mail | (lambda text: {"text": text}))
