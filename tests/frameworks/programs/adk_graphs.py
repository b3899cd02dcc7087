"""Google ADK programs of workflow graphs. CASES: name -> (what builds it, the graph expected)."""
# mypy: ignore-errors

import functools

from expected import cases
from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions, RequestInput
from google.adk.tools import FunctionTool
from google.adk.workflow import DEFAULT_ROUTE, START, Edge, FunctionNode, JoinNode, Node, Workflow, node

CASES, case = cases()


def fetch(url: str) -> str:
    """Fetches a page."""
    return url


def mail(to: str) -> str:
    """Sends mail."""
    return to


def agent(name, *tools, **more):
    return LlmAgent(name=name, model="gemini-2.5-flash", tools=list(tools), **more)


def one(node_input: str) -> str:
    return node_input


def two(node_input: str) -> str:
    return node_input


def three(node_input: str) -> str:
    return node_input


def flow(*edges, name="flow", **more):
    return Workflow(name=name, edges=list(edges), **more)


STEPS = "one:passthrough two:passthrough"


@case(STEPS, "__start__>one one>two two>__end__")
def chain():
    return flow((START, one, two))


@case(
    f"{STEPS} join:passthrough three:passthrough",
    "__start__*one __start__*two one>join two>join join>three three>__end__",
)
def fork_and_join():
    return flow((START, (one, two), JoinNode(name="join"), three))


@case(f"{STEPS} three:passthrough", "__start__>one one*two one*three two>__end__ three>__end__")
def fork_without_a_join():
    return flow((START, one), (one, two), (one, three))


def grade(node_input: str):
    return Event(route="good" if len(node_input) > 3 else "bad")


@case(
    f"{STEPS} grade:router",
    "__start__>grade grade?one grade?two one>__end__ two>__end__",
    conditions={("grade", "one"): "good", ("grade", "two"): "bad"},
)
def routes():
    return flow((START, grade, {"good": one, "bad": two}))


@case(
    f"{STEPS} grade:router",
    "__start__>one one>grade grade?one grade?two two>__end__",
    conditions={("grade", "one"): "bad", ("grade", "two"): "good or fine"},
)
def back_edge_and_a_list_of_routes():
    first, last = FunctionNode(func=one), FunctionNode(func=two)
    choose = FunctionNode(func=grade)
    return flow(
        Edge(from_node=START, to_node=first),
        Edge(from_node=first, to_node=choose),
        Edge(from_node=choose, to_node=last, route=["good", "fine"]),
        Edge(from_node=choose, to_node=first, route="bad"),
    )


@case(
    f"{STEPS} grade:router three:passthrough",
    "__start__>grade grade?one grade?two grade?three one>__end__ two>__end__ three>__end__",
    conditions={("grade", "three"): "__DEFAULT__"},
)
def default_route():
    return flow((START, grade, {"good": one, "fair": two, DEFAULT_ROUTE: three}))


@case("grade:router one:passthrough", "__start__>grade grade?grade grade?one one>__end__")
def route_to_itself():
    return flow((START, grade, {"bad": grade, "good": one}))


@case(
    f"{STEPS} grade:router three:passthrough",
    "__start__>grade grade?one grade?two grade?three one>__end__ two>__end__ three>__end__",
)
def route_to_several():
    return flow((START, grade, {"good": (one, two), "bad": three}))


@case(
    "grade:passthrough one:passthrough two:passthrough", "__start__>grade grade?one grade>two one>__end__ two>__end__"
)
def routes_and_an_edge_that_is_always_taken():
    return flow((START, grade, {"good": one}), (grade, two))


def is_long(node_input: str):
    return Event(route=len(node_input) > 3)


@case(
    f"{STEPS} is_long:router",
    "__start__>is_long is_long?one is_long?two one>__end__ two>__end__",
    conditions={("is_long", "one"): "True", ("is_long", "two"): "False"},
)
def routes_that_are_true_or_false():
    return flow((START, is_long, {True: one, False: two}))


@case(
    "grade:router one:passthrough",
    "__start__>grade grade?one grade?__end__ one>__end__",
    conditions={("grade", "__end__"): "no route matches"},
)
def route_that_no_edge_names():
    return flow((START, grade, {"good": one}))


def only_says(node_input: str):
    return "good"


@case("only_says:router one:passthrough", "__start__>only_says only_says?one only_says?__end__ one>__end__")
def output_is_no_route():
    return flow((START, only_says, {"good": one}))


def perhaps(node_input: str):
    if node_input:
        return Event(route="good")
    return None


@case("perhaps:router one:passthrough", "__start__>perhaps perhaps?one perhaps?__end__ one>__end__")
def route_that_is_not_always_taken():
    return flow((START, perhaps, {"good": one}))


def echo(node_input: str):
    return Event(route=node_input)


@case(f"{STEPS} echo:router", "__start__>echo echo?one echo?two echo?__end__ one>__end__ two>__end__", widened="echo")
def route_that_cannot_be_known():
    return flow((START, echo, {"good": one, "bad": two}))


def by_context(ctx, node_input: str):
    ctx.route = choose(node_input)
    return node_input


def choose(text):
    verdict = "good"
    if not text:
        verdict = "bad"
    return verdict


@case(f"{STEPS} by_context:router", "__start__>by_context by_context?one by_context?two one>__end__ two>__end__")
def route_on_the_context():
    return flow((START, by_context, {"good": one, "bad": two}))


def by_actions(node_input: str):
    yield Event(output=node_input, actions=EventActions(route=["good", "bad"]))


@case(f"{STEPS} by_actions:router", "__start__>by_actions by_actions?one by_actions?two one>__end__ two>__end__")
def routes_in_the_actions_of_an_event():
    return flow((START, by_actions, {"good": one, "bad": two}))


GOOD = Event(route="good")


def by_helper(node_input: str):
    return verdict_on(node_input)


def verdict_on(text):
    return GOOD if text else Event(route="bad")


@case(f"{STEPS} by_helper:router", "__start__>by_helper by_helper?one by_helper?two one>__end__ two>__end__")
def route_of_a_helper():
    return flow((START, by_helper, {"good": one, "bad": two}))


# People.


def approve(node_input: str):
    yield RequestInput(message="ok?")


@case(
    f"{STEPS} approve:human",
    "__start__>one one>approve approve?two approve?one two>__end__",
    conditions={("approve", "two"): "yes", ("approve", "one"): "no"},
)
def person_who_routes():
    return flow((START, one, approve, {"yes": two, "no": one}))


def question(text):
    return RequestInput(message=text)


def asks_by_a_helper(node_input: str):
    if node_input:
        yield question("sure?")


@case("asks_by_a_helper:human one:passthrough", "__start__>asks_by_a_helper asks_by_a_helper>one one>__end__")
def question_in_a_helper():
    return flow((START, asks_by_a_helper, one))


def at_the_terminal(node_input: str):
    return input("sure? ")


@case("at_the_terminal:human", "__start__>at_the_terminal at_the_terminal>__end__")
def question_at_the_terminal():
    return flow((START, at_the_terminal))


@case("human_review:passthrough", "__start__>human_review human_review>__end__")
def name_of_a_person_alone():
    return flow((START, node(one, name="human_review")))


@case("one:human two:human three:passthrough", "__start__>one one>two two>three three>__end__")
def nodes_that_need_a_confirmation():
    return flow(
        (
            START,
            node(one, require_confirmation=True),
            node(two, require_confirmation=is_risky),
            node(three, require_confirmation=lambda node_input: False),
        )
    )


def is_risky(node_input: str) -> bool:
    return "delete" in node_input


# Tools and agents as nodes.


@case(
    "mail:tool fetch:tool one:passthrough",
    "__start__>mail mail>fetch fetch>one one>__end__",
    tools={"mail": "mail", "fetch": "fetch"},
    gated={"mail": "mail"},
)
def tools_as_nodes():
    return flow((START, FunctionTool(mail, require_confirmation=True), FunctionTool(fetch), one))


@case(
    "draft grade:router send:tool one:passthrough",
    "__start__>draft draft>grade grade?send grade?one send>__end__ one>__end__",
    tools={"send": "mail fetch"},
)
def agents_as_nodes():
    return flow((START, agent("draft"), grade, {"good": agent("send", mail, fetch), "bad": one}))


@case("triage x one:passthrough", "__start__>triage triage?x x?triage triage?one x?one one>__end__")
def agent_that_transfers_as_a_node():
    return flow((START, agent("triage", sub_agents=[agent("x")]), one))


@case(
    f"triage {STEPS}", "__start__>triage triage?one triage?two triage?__end__ one>__end__ two>__end__", widened="triage"
)
def model_that_takes_no_route():
    return flow((START, agent("triage"), {"good": one, "bad": two}))


@case(f"a b c d {STEPS}", "__start__>one one>a a>b b*c b*d c>two d>two two>__end__")
def groups_as_nodes():
    group = SequentialAgent(name="s", sub_agents=[
        agent("a"), agent("b"), ParallelAgent(name="p", sub_agents=[agent("c"), agent("d")]),
    ])  # fmt: skip
    return flow((START, one, group, two))


@case(f"a {STEPS}", "__start__>one one>a a@a a?two two>__end__")
def loop_as_a_node():
    return flow((START, one, LoopAgent(name="l", sub_agents=[agent("a")], max_iterations=2), two))


@case(
    f"{STEPS} three:passthrough",
    "__start__>one one*two two>three three>__end__",
    conditions={("one", "two"): "for each item"},
)
def node_for_each_item():
    return flow((START, one, node(two, parallel_worker=True), three))


# Workflows in workflows.


@case(
    "one:passthrough approve:human inner/two:passthrough two:passthrough three:passthrough",
    "__start__>two two>one one>approve approve?inner/two approve?one inner/two>three three>__end__",
)
def workflow_in_a_workflow():
    inner = flow((START, one, approve, {"yes": two, "no": one}), name="inner")
    return flow((START, two, inner, three))


@case(
    f"grade:router {STEPS} three:passthrough",
    "__start__>grade grade?one grade?three one>two two>__end__ three>__end__",
    conditions={("grade", "one"): "good"},
)
def workflow_behind_a_route():
    return flow((START, grade, {"good": flow((START, one, two), name="inner"), "bad": three}))


@case(
    f"grade:router {STEPS}",
    "__start__>grade grade?one grade?two one>two two>__end__",
    conditions={("grade", "two"): "no route matches"},
)
def branch_that_ends_inside():
    return flow((START, flow((START, grade, {"good": one}), name="inner"), two))


@case(
    "one:passthrough two:passthrough b/two:passthrough join:passthrough three:passthrough",
    "__start__>one one*two one*b/two two>join b/two>join join>three three>__end__",
)
def workflows_side_by_side():
    a, b = flow((START, two), name="a"), flow((START, two), name="b")
    return flow((START, one, (a, b), JoinNode(name="join"), three))


# Nodes of the program's own.


class Ask(Node):
    async def run_node_impl(self, *, ctx, node_input):
        yield RequestInput(message="?")


class Choose(Node):
    async def run_node_impl(self, *, ctx, node_input):
        yield Event(route="good" if node_input else "bad")


@case(f"ask:human choose:router {STEPS}", "__start__>ask ask>choose choose?one choose?two one>__end__ two>__end__")
def classes_of_nodes():
    return flow((START, Ask(name="ask"), Choose(name="choose"), {"good": one, "bad": two}))


HELPER = agent("helper", fetch)


async def runs_others(ctx, node_input: str):
    first = await ctx.run_node(one, node_input)
    return await ctx.run_node(HELPER, first)


@case(
    "runs_others:passthrough two:passthrough one:passthrough helper:tool",
    "__start__>runs_others runs_others?one one>runs_others runs_others?helper helper>runs_others "
    "runs_others?two two>__end__",
    tools={"helper": "fetch"},
    conditions={("runs_others", "helper"): "calls helper"},
)
def nodes_run_by_code():
    return flow((START, runs_others, two))


async def runs_any(ctx, node_input):
    return await ctx.run_node(node_input)


@case(
    f"runs_any:passthrough {STEPS}",
    "__start__>runs_any runs_any?one one?runs_any runs_any?two two?runs_any one>two two>__end__",
    widened="runs_any",
)
def nodes_run_by_code_that_cannot_be_known():
    return flow((START, runs_any, one, two))


@case("grade:router one:passthrough", "__start__>grade grade?one grade?__end__ one>__end__")
def partial_function():
    return flow((START, node(functools.partial(grade), name="grade"), {"good": one}))


# Workflows as tools.


@case("boss:tool", "__start__>boss boss>__end__", tools={"boss": "quiet send"})
def nodes_as_tools():
    quiet = flow((START, one, two), name="quiet", input_schema=str)
    return agent("boss", quiet, FunctionNode(func=mail, name="send", parameter_binding="node_input"))


@case(
    "boss:tool one:passthrough approve:human two:passthrough",
    "__start__>boss boss?one one>approve approve>two two>boss boss?__end__",
    tools={"boss": "careful"},
)
def workflow_with_a_person_as_a_tool():
    return agent("boss", flow((START, one, approve, two), name="careful", input_schema=str))


@case("boss:tool", "__start__>boss boss>__end__", tools={"boss": "send"}, gated={"boss": "send"})
def node_with_a_confirmation_as_a_tool():
    return agent(
        "boss",
        FunctionNode(
            func=mail, name="send", parameter_binding="node_input", require_confirmation=True, rerun_on_resume=True
        ),
    )


class Guarded(Workflow):
    async def _run_impl(self, *, ctx, node_input):
        if node_input:
            async for event in super()._run_impl(ctx=ctx, node_input=node_input):
                yield event


@case(
    f"guarded:passthrough {STEPS}",
    "__start__>guarded guarded?one one>two two>guarded guarded?__end__",
    widened="guarded",
)
def workflow_with_code_around_it():
    return Guarded(name="guarded", edges=[(START, one, two)])
