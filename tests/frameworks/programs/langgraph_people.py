"""LangGraph programs that ask a person, or do not. CASES: name -> (what builds the graph, the graph expected)."""
# mypy: ignore-errors

import functools
from typing import TypedDict

from expected import cases
from langchain_core.tools import BaseTool, tool
from langgraph import types
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeInterrupt
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

CASES, case = cases()


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
def pay(amount: int) -> str:
    """Pays, if a person says so."""
    answer = interrupt({"pay": amount})
    return "paid" if answer == "yes" else "not paid"


@tool
def pay_much(amount: int) -> str:
    """Asks a person about much only."""
    if amount > 1000:
        interrupt({"pay": amount})
    return "paid"


class Wipe(BaseTool):
    name: str = "wipe"
    description: str = "Wipes, if a person says so."

    def _run(self, path: str) -> str:
        if interrupt({"wipe": path}) != "yes":
            return "kept"
        return "wiped"


def line(compile_with=None, **nodes):
    """A graph of some nodes one after another."""
    g = StateGraph(State)
    names = list(nodes)
    for name, function in nodes.items():
        g.add_node(name, function)
    for source, target in zip([START, *names], [*names, END]):
        g.add_edge(source, target)
    return g.compile(checkpointer=InMemorySaver(), **(compile_with or {}))


@case("a ask:human b", "__start__>a a>ask ask>b b>__end__")
def question_in_a_helper():
    def confirm(text):
        return interrupt({"text": text})

    def ask(state):
        return {"text": confirm(state["text"])}

    return line(a=step, ask=ask, b=step)


@case("ask:human", "__start__>ask ask>__end__")
def question_by_a_module():
    return line(ask=lambda state: {"text": types.interrupt(state["text"])})


@case("ask:human", "__start__>ask ask>__end__")
def question_by_an_import_inside():
    def ask(state):
        from langgraph.types import interrupt as pause

        return {"text": pause("?")}

    return line(ask=ask)


@case("ask:human", "__start__>ask ask>__end__")
def question_in_a_method():
    class Gate:
        def __init__(self, words):
            self.words = words

        def _ask(self, state):
            return interrupt(self.words)

        async def __call__(self, state):
            return {"text": self._ask(state)}

    return line(ask=Gate("ok?"))


@case("work:human", "__start__>work work>__end__")
def question_in_a_decorator():
    def needs_a_person(function):
        @functools.wraps(function)
        def inner(state):
            interrupt(function.__name__)
            return function(state)

        return inner

    @needs_a_person
    def work(state):
        return {"text": "worked"}

    return line(work=work)


@case("ask:human", "__start__>ask ask>__end__")
def question_by_an_exception():
    def ask(state):
        if len(state["text"]) > 5:
            raise NodeInterrupt("too long")
        return {}

    return line(ask=ask)


@case("ask:human", "__start__>ask ask>__end__")
def question_at_the_terminal():
    def ask(state):
        return {"text": input("your answer: ")}

    return line(ask=ask)


@case("ask:human", "__start__>ask ask>__end__")
def question_until_it_is_answered():
    def ask(state):
        question = "how old?"
        while True:
            answer = interrupt(question)
            if isinstance(answer, int):
                break
            question = "a number!"
        return {"text": str(answer)}

    return line(ask=ask)


@case("human_review approve", "__start__>human_review human_review>approve approve>__end__")
def names_alone():
    return line(human_review=step, approve=step)


@case("a:passthrough", "__start__>a a>__end__")
def interrupt_of_ones_own():
    def interrupt(words):
        return words

    def a(state):
        return {"text": interrupt("no question")}

    return line(a=a)


@case("ask:human b c", "__start__>ask ask?b ask?c b>__end__ c>__end__")
def question_that_decides():
    def ask(state):
        if interrupt("ok?") == "yes":
            return Command(goto="b")
        return Command(goto="c")

    g = StateGraph(State)
    g.add_node("ask", ask)
    g.add_node("b", step)
    g.add_node("c", step)
    g.add_edge(START, "ask")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a:human b c", "__start__>a a?b a?c b>__end__ c>__end__")
def question_in_a_condition():
    def after_a(state):
        return "b" if interrupt("b?") else "c"

    g = StateGraph(State)
    g.add_node("a", step)
    g.add_node("b", step)
    g.add_node("c", step)
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a send:tool", "__start__>a a>send send>__end__", tools={"send": ["mail"]}, gated={"send": ["mail"]})
def stop_before_a_tool_node():
    return line({"interrupt_before": ["send"]}, a=step, send=ToolNode([mail]))


@case("a send:tool", "__start__>a a>send send>__end__", tools={"send": ["mail"]})
def stop_after_a_tool_node():
    return line({"interrupt_after": ["send"]}, a=step, send=ToolNode([mail]))


@case("a wait:human b", "__start__>a a>wait wait>b b>__end__")
def stop_before_a_step():
    return line({"interrupt_before": ["wait"]}, a=step, wait=lambda state: None, b=step)


@case("a:human send:tool", "__start__>a a>send send>__end__", tools={"send": ["mail"]})
def stop_after_a_step():
    return line({"interrupt_after": ["a"]}, a=step, send=ToolNode([mail]))


@case("a:human send:tool", "__start__>a a>send send>__end__", tools={"send": ["mail"]}, gated={"send": ["mail"]})
def stop_before_everything():
    return line({"interrupt_before": "*"}, a=step, send=ToolNode([mail]))


@case(
    "act:tool",
    "__start__>act act>__end__",
    tools={"act": ["mail", "pay", "pay_much", "wipe"]},
    gated={"act": ["pay", "wipe"]},
)
def tools_that_ask():
    return line(act=ToolNode([mail, pay, pay_much, Wipe()]))


def with_a_person(inner):
    """A tool that asks a person, and then runs another."""

    @tool(inner.name, description=inner.description, args_schema=inner.args_schema)
    async def asking(**arguments):
        if interrupt([inner.name, arguments]) == "no":
            return "refused"
        return await inner.ainvoke(arguments)

    return asking


@case("act:tool", "__start__>act act>__end__", tools={"act": ["mail"]}, gated={"act": ["mail"]})
def tool_behind_a_person():
    return line(act=ToolNode([with_a_person(mail)]))


@case("act:tool", "__start__>act act>__end__", tools={"act": ["mail"]}, gated={"act": ["mail"]})
def asked_and_then_run():
    def act(state):
        if interrupt("send?") != "yes":
            return {"text": "not sent"}
        return {"text": mail.invoke({"to": state["text"]})}

    return line(act=act)


@case("act:tool", "__start__>act act>__end__", tools={"act": ["mail"]})
def run_and_then_asked():
    def act(state):
        sent = mail.invoke({"to": state["text"]})
        interrupt("was that right?")
        return {"text": sent}

    return line(act=act)


@case("act:tool", "__start__>act act>__end__", tools={"act": ["mail", "pay"]}, gated={"act": ["pay"]})
def asked_about_some_in_a_loop():
    by_name = {one.name: one for one in (mail, pay)}

    def act(state):
        out = []
        for call in state["messages"][-1].tool_calls:
            if call["name"] == "mail":
                interrupt(call)
            out.append(by_name[call["name"]].invoke(call["args"]))
        return {"messages": out}

    return line(act=act)


@case("act:tool", "__start__>act act>__end__", tools={"act": ["mail"]}, gated={"act": ["mail"]})
def wrapped_by_a_person():
    def wrapper(request, handler):
        interrupt(request.tool_call)
        return handler(request)

    return line(act=ToolNode([mail], wrap_tool_call=wrapper))


@case("act:tool", "__start__>act act>__end__", tools={"act": ["mail", "pay"]}, gated={"act": ["pay"]})
def wrapped_by_a_person_now_and_then():
    def wrapper(request, handler):
        if request.tool_call["name"] == "mail":
            interrupt(request.tool_call)
        return handler(request)

    return line(act=ToolNode([mail, pay], wrap_tool_call=wrapper))
