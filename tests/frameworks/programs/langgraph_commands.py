"""LangGraph programs whose nodes lead on by commands. CASES: name -> (what builds the graph, the graph expected)."""
# mypy: ignore-errors

import functools
from enum import StrEnum
from typing import Literal, TypedDict

from expected import cases
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send
from pydantic import BaseModel

CASES, case = cases()


class State(TypedDict, total=False):
    text: str
    jobs: list


class Member(StrEnum):
    MATHS = "maths"
    PROSE = "prose"


class Answer(BaseModel):
    """The structured answer of a model, which may leave out the choice."""

    who: Member | None = None


class Choice(TypedDict):
    """The structured answer of a model."""

    next: Literal["maths", "prose", "FINISH"]


def step(state):
    return {"text": "done"}


def graph(**nodes):
    g = StateGraph(State)
    for name, function in nodes.items():
        g.add_node(name, function)
    return g


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def bare_command():
    def pick(state):
        if state["text"]:
            return Command(goto="b")
        return Command(goto="c", update={"text": ""})

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?__end__ b>__end__ c>__end__")
def target_in_a_variable():
    def pick(state):
        goto = "b"
        if state["text"] == "enough":
            goto = END
        return Command(goto=goto)

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?pick pick?b pick?c pick?__end__ b>__end__ c>__end__", widened="pick")
def target_in_the_state():
    def pick(state):
        return Command(goto=state["text"])

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("boss:router maths prose", "__start__>boss boss?maths boss?prose boss?__end__ maths>boss prose>boss")
def answer_of_a_model():
    llm = None

    def boss(state):
        answer = llm.with_structured_output(Choice).invoke(state["text"])
        goto = answer["next"]
        if goto == "FINISH":
            goto = END
        return Command(goto=goto)

    g = graph(boss=boss, maths=step, prose=step)
    g.add_edge(START, "boss")
    g.add_edge("maths", "boss")
    g.add_edge("prose", "boss")
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def command_of_a_helper():
    def hand_over(to, state):
        return Command(goto=to, update={"text": to})

    def pick(state):
        return hand_over("b", state) if state["text"] else hand_over(to="c", state=state)

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def table_of_targets():
    table = {"x": "b", "y": "c"}

    def pick(state):
        return Command(goto=table[state["text"]])

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick b c", "__start__>pick pick*b pick*c b>__end__ c>__end__")
def list_of_targets():
    def pick(state):
        return Command(goto=["b", "c"])

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick work", "__start__>pick pick*work work>__end__")
def sends_by_command():
    def pick(state):
        return Command(goto=[Send("work", {"text": job}) for job in state["jobs"]])

    g = graph(pick=pick, work=step)
    g.add_edge(START, "pick")
    g.add_edge("work", END)
    return g.compile()


@case("pick work rest", "__start__>pick pick*work pick*rest work>__end__ rest>__end__")
def sends_and_goes_on():
    def pick(state):
        return Command(goto=[Send("work", {}), "rest"])

    g = graph(pick=pick, work=step, rest=step)
    g.add_edge(START, "pick")
    g.add_edge("work", END)
    g.add_edge("rest", END)
    return g.compile()


@case("try_ b", "__start__>try_ try_?b try_?__end__ b>__end__")
def command_or_nothing():
    def try_(state):
        if state["text"]:
            return Command(goto="b")
        return {"text": "nothing to do"}

    g = graph(try_=try_, b=step)
    g.add_edge(START, "try_")
    g.add_edge("b", END)
    return g.compile()


@case("try_ b c", "__start__>try_ try_?b try_>c b>__end__ c>__end__")
def command_beside_an_edge():
    def try_(state):
        if state["text"]:
            return Command(goto="b")
        return {"text": "go on"}

    g = graph(try_=try_, b=step, c=step)
    g.add_edge(START, "try_")
    g.add_edge("try_", "c")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("one b", "__start__>one one?b b>__end__")
def one_target_is_no_choice():
    def one(state) -> Command[Literal["b"]]:
        return Command(goto="b")

    g = graph(one=one, b=step)
    g.add_edge(START, "one")
    g.add_edge("b", END)
    return g.compile()


@case("pick:passthrough b c", "__start__>pick pick?b pick?c pick?__end__ b>__end__ c>__end__")
def union_of_state_and_command():
    def pick(state) -> State | Command[Literal["b", "c"]]:
        return step(state)

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def destinations_that_are_declared():
    def pick(state):
        return Command(goto=state["text"])

    g = graph(b=step, c=step)
    g.add_node("pick", pick, destinations=("b", "c"))
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def destinations_with_labels():
    def pick(state):
        return Command(goto="b")

    g = graph(b=step, c=step)
    g.add_node("pick", pick, destinations={"b": "when b", "c": "when c"})
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def more_in_the_code_than_in_the_annotation():
    def pick(state) -> Command[Literal["b"]]:
        return Command(goto="c")

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def partial_of_a_router():
    def pick(first, second, state):
        return Command(goto=first if state["text"] else second)

    g = graph(pick=functools.partial(pick, "b", "c"), b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def router_made_in_a_closure():
    def make(*members):
        async def pick(state):
            for member in members:
                if member in state["text"]:
                    return Command(goto=member)
            return Command(goto=members[0])

        return pick

    g = graph(pick=make("b", "c"), b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("b c", "__start__?b __start__?c b?c c?b c?__end__")
def commands_in_a_ring():
    class Worker:
        def __init__(self, after):
            self.after = after

        def run(self, state):
            return Command(goto=self.after)

    def c(state):
        if state["jobs"]:
            return Command(goto="b")
        return {"text": "done"}

    g = graph(b=Worker("c").run, c=c)
    g.add_conditional_edges(START, lambda s: "b" if s["text"] else "c")
    return g.compile()


@tool
def book(place: str) -> Command:
    """Books, and hands over."""
    return Command(goto="confirm", update={})


@tool
def look(place: str) -> str:
    """Looks."""
    return ""


@case(
    "ask act:tool confirm", "__start__>ask ask>act act?confirm act>ask confirm>__end__", tools={"act": ["book", "look"]}
)
def tool_that_leads_on():
    g = StateGraph(MessagesState)
    g.add_node("ask", step)
    g.add_node("act", ToolNode([book, look]))
    g.add_node("confirm", step)
    g.add_edge(START, "ask")
    g.add_edge("ask", "act")
    g.add_edge("act", "ask")
    g.add_edge("confirm", END)
    return g.compile()


@case("a b", "__start__>a a?b b>__end__")
def command_kept_in_a_constant():
    on = Command(goto="b")

    def a(state):
        return on

    g = graph(a=a, b=step)
    g.add_edge(START, "a")
    g.add_edge("b", END)
    return g.compile()


@case("a b c", "__start__>a a*b a*c b>__end__ c>__end__")
def commands_in_a_list():
    def a(state):
        return [Command(goto="b"), Command(goto="c")]

    g = graph(a=a, b=step, c=step)
    g.add_edge(START, "a")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b", "__start__>a a>b b>__end__")
def command_that_only_updates():
    def a(state):
        return Command(update={"text": "x"})

    g = graph(a=a, b=step)
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    g.add_edge("b", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def command_under_another_name():
    def pick(state):
        from langgraph.types import Command as Go

        return Go(goto="b") if state["text"] else Go(goto="c")

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def options_spread_into_the_command():
    def pick(state):
        options = {"goto": "b"} if state["text"] else {"goto": "c"}
        return Command(**options)

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("boss:router maths prose", "__start__>boss boss?maths boss?prose boss?__end__ maths>boss prose>boss")
def member_of_an_enumeration():
    llm = None

    def boss(state):
        return Command(goto=llm.with_structured_output(Answer).invoke(state).who or END)

    g = graph(boss=boss, maths=step, prose=step)
    g.add_edge(START, "boss")
    g.add_edge("maths", "boss")
    g.add_edge("prose", "boss")
    return g.compile()


@case("pick:router b c", "__start__>pick pick?b pick?c b>__end__ c>__end__")
def name_that_is_checked():
    known = ("b", "c")

    def pick(state):
        name = state["text"].strip()
        if name not in known:
            name = "c"
        return Command(goto=name)

    g = graph(pick=pick, b=step, c=step)
    g.add_edge(START, "pick")
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()
