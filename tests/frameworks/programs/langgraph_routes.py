"""LangGraph programs whose edges come from conditions. CASES: name -> (what builds the graph, the graph expected)."""
# mypy: ignore-errors
# ruff: noqa: PLW0603, UP042

import enum
import functools
import operator
from typing import Annotated, Literal, TypedDict

from expected import cases
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send

CASES, case = cases()


class State(TypedDict, total=False):
    text: str
    jobs: list
    verdict: Literal["good", "bad"]
    done: Annotated[list, operator.add]


def step(state):
    return {"text": "done"}


def graph(*names):
    g = StateGraph(State)
    for name in names:
        g.add_node(name, step)
    return g


@case("ask think", "__start__>ask ask?think ask?__end__ think>ask")
def map_with_the_end():
    g = graph("ask", "think")
    g.set_entry_point("ask")
    g.add_conditional_edges("ask", lambda s: len(s["text"]) > 3, {True: "think", False: END})
    g.add_edge("think", "ask")
    return g.compile()


@case("one two", "__start__?one __start__?two one>__end__ two>__end__")
def choice_at_the_beginning():
    g = graph("one", "two")
    g.set_conditional_entry_point(lambda s: "x", {"x": "one", "y": "two"})
    g.set_finish_point("one")
    g.set_finish_point("two")
    return g


@case("a b", "__start__>a a?a a?b a?__end__ b>__end__", widened="a")
def route_that_nothing_is_known_of():
    g = graph("a", "b")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda s: s["text"])
    g.add_edge("b", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def route_by_its_code_alone():
    def after_a(state):
        target = "b"
        if not state["jobs"]:
            target = "c"
        return target

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?__end__ b>__end__ c>a")
def route_through_a_helper_and_a_table():
    table = {"hot": "b", "cold": END}

    def look_up(word, default):
        return table.get(word, default)

    def after_a(state):
        return look_up(state["text"], "b")

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", "a")
    return g.compile()


@case("a b c", "__start__>a a?b a?c a?__end__ b>__end__ c>__end__")
def literal_wins_over_the_code():
    def after_a(state) -> Literal["b", "c", "__end__"]:
        return state["text"]

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b c", "__start__>a a*b a*c b>__end__ c>__end__")
def list_of_literals():
    def after_a(state) -> list[Literal["b", "c"]]:
        return state["jobs"]

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def enumeration_of_places():
    class Place(str, enum.Enum):
        B = "b"
        C = "c"

    def after_a(state):
        return Place.B if state["text"] else Place.C

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a good bad", "__start__>a a?good a?bad good>__end__ bad>__end__")
def field_of_the_state_that_is_declared():
    def after_a(state: State):
        return state["verdict"]

    g = graph("a", "good", "bad")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("good", END)
    g.add_edge("bad", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def method_of_an_object():
    class Router:
        def __init__(self, first, second):
            self.first, self.second = first, second

        def choose(self, state):
            return self.first if state["text"] else self.second

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", Router("b", "c").choose)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def object_that_is_called():
    class Router:
        targets = ("b", "c")

        def __call__(self, state):
            return self.targets[len(state["text"]) % 2]

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", Router())
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def partial_function():
    def choose(first, state, second):
        return first if state["text"] else second

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", functools.partial(choose, "b", second="c"))
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b", "__start__>a a?b a?__end__ b>__end__")
def async_condition():
    async def after_a(state):
        if state["text"]:
            return "b"
        return END

    g = graph("a", "b")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    return g.compile()


@case("a b", "__start__>a a?b a?__end__ b>__end__")
def runnable_as_condition():
    g = graph("a", "b")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", RunnableLambda(lambda s: "b" if s["text"] else END, name="x"))
    g.add_edge("b", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def decorated_condition():
    def logged(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    @logged
    def after_a(state):
        return "b" if state["text"] else "c"

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b c d", "__start__>a a?b a?c a?d b>__end__ c>__end__ d>__end__")
def two_conditions_of_one_node():
    def first(state):
        return "b" if state["text"] else "c"

    def second(state) -> Literal["d"]:
        return "d"

    g = graph("a", "b", "c", "d")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", first)
    g.add_conditional_edges("a", second)
    for name in "bcd":
        g.add_edge(name, END)
    return g.compile()


@case("split work gather", "__start__>split split*work work>gather gather>__end__")
def sends_without_a_map():
    def fan(state):
        return [Send("work", {"text": job}) for job in state["jobs"]]

    g = graph("split", "work", "gather")
    g.add_edge(START, "split")
    g.add_conditional_edges("split", fan)
    g.add_edge("work", "gather")
    g.add_edge("gather", END)
    return g.compile()


@case("split work gather", "__start__>split split*work split?gather work>gather gather>__end__")
def sends_or_goes_on():
    def fan(state):
        if not state["jobs"]:
            return "gather"
        return [Send("work", {"text": job}) for job in state["jobs"]]

    g = graph("split", "work", "gather")
    g.add_edge(START, "split")
    g.add_conditional_edges("split", fan, ["work", "gather"])
    g.add_edge("work", "gather")
    g.add_edge("gather", END)
    return g.compile()


@case("split small large", "__start__>split split*small split*large small>__end__ large>__end__")
def sends_of_two_kinds():
    def fan(state):
        packets = []
        for job in state["jobs"]:
            if job > 3:
                packets.append(Send("large", {"text": job}))
            else:
                packets += [Send(node="small", arg={"text": job})]
        return packets

    g = graph("split", "small", "large")
    g.add_edge(START, "split")
    g.add_conditional_edges("split", fan, ["small", "large"])
    g.add_edge("small", END)
    g.add_edge("large", END)
    return g.compile()


@case("split x y", "__start__>split split*split split*x split*y x>__end__ y>__end__", widened="split")
def sends_to_whoever_is_named():
    def fan(state):
        return [Send(job["who"], job) for job in state["jobs"]]

    g = graph("split", "x", "y")
    g.add_edge(START, "split")
    g.add_conditional_edges("split", fan)
    g.add_edge("x", END)
    g.add_edge("y", END)
    return g.compile()


@case("work", "__start__*work work>__end__")
def sends_at_once():
    g = graph("work")
    g.add_conditional_edges(START, lambda s: [Send("work", {"text": j}) for j in s["jobs"]], ["work"])
    g.add_edge("work", END)
    return g.compile()


@case("a b c d", "__start__>a a>b a>c b>d c>d d>__end__", waits={"d": [["b", "c"]]})
def fork_and_join():
    g = graph("a", "b", "c", "d")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    g.add_edge("a", "c")
    g.add_edge(["b", "c"], "d")
    g.add_edge("d", END)
    return g.compile()


@case("a b", "__start__>a a>b b>__end__")
def sequence_of_steps():
    g = StateGraph(State).add_sequence([("a", step), ("b", step)])
    g.add_edge(START, "a")
    g.add_edge("b", END)
    return g.compile()


@case("step other", "__start__>step step>other other>__end__")
def named_by_their_functions():
    async def other(state):
        return {}

    g = StateGraph(State)
    g.add_node(step)
    g.add_node(other)
    g.add_edge(START, "step")
    g.add_edge("step", "other")
    g.add_edge("other", END)
    return g.compile()


@case("a late", "__start__>a a>late late>__end__")
def deferred_and_tried_again():
    g = StateGraph(State)
    g.add_node("a", step, retry_policy=RetryPolicy(max_attempts=2))
    g.add_node("late", step, defer=True)
    g.add_edge(START, "a")
    g.add_edge("a", "late")
    g.add_edge("late", END)
    return g.compile()


@case("a hand:passthrough", "__start__>a a>hand hand>__end__")
def runnables_as_nodes():
    g = StateGraph(State)
    g.add_node("a", RunnableLambda(step) | RunnableLambda(lambda s: s))
    g.add_node("hand", RunnablePassthrough())
    g.add_edge(START, "a")
    g.add_edge("a", "hand")
    g.add_edge("hand", END)
    return g.compile()


@case("a lost", "__start__>a a>__end__")
def node_that_nothing_leads_to():
    g = graph("a", "lost")
    g.add_edge(START, "a")
    g.add_edge("a", END)
    return g.compile()


@case("a b", "__start__>a a>b")
def run_that_just_stops():
    g = graph("a", "b")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g.compile()


@case("a __error_handler__a b", "__start__>a a>b a?__error_handler__a __error_handler__a>__end__ b>__end__")
def handler_of_errors():
    g = StateGraph(State)
    g.add_node("a", step, error_handler=lambda s: {"text": "failed"})
    g.add_node("b", step)
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    g.add_edge("b", END)
    return g.compile()


@case("a b", "__start__>a a?b a?__end__ b>__end__")
def alias_of_a_literal():
    global Next
    Next = Literal["b", "__end__"]

    def after_a(state) -> "Next":
        return state["text"]

    g = graph("a", "b")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def targets_of_a_loop():
    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    for index, target in enumerate(("b", "c")):

        def route(state, target=target):
            return target

        route.__name__ = f"route_{index}"
        g.add_conditional_edges("a", route)
        g.add_edge(target, END)
    return g.compile()


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def match_of_a_state():
    def after_a(state):
        match state:
            case {"text": "x"}:
                return "b"
            case _:
                return "c"

    g = graph("a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", after_a)
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


@case("a b", "__start__>a a?b b>__end__")
def route_to_a_name_that_is_no_node():
    g = graph("a", "b")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda s: "b" if s["text"] else "gone")
    g.add_edge("b", END)
    return g.compile()


@case("a b", "__start__>a a>b b>__end__")
def added_after_it_was_compiled():
    g = graph("a", "b")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    g.add_edge("b", END)
    compiled = g.compile()
    g.add_node("late", step)
    return compiled
