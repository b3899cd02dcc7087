"""pydantic-graph programs of a GraphBuilder. CASES: name -> (what builds the graph, the graph expected)."""
# mypy: ignore-errors

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from expected import cases
from pydantic_graph import BaseNode, End, GraphRunContext
from pydantic_graph.graph_builder import GraphBuilder
from pydantic_graph.join import ReduceFirstValue, reduce_list_append
from pydantic_graph.step import StepContext, StepNode
from pydantic_graph.util import TypeExpression

CASES, case = cases()


async def plain(ctx: StepContext[Any, Any, Any]) -> Any:
    return ctx.inputs


async def asks(ctx: StepContext[Any, Any, Any]) -> Any:
    return input("?")


async def may_ask(ctx: StepContext[Any, Any, Any]) -> Any:
    return input("?") if ctx.inputs else 1


def built(*edges, start, **steps):
    """A builder with steps by name, of which some lead to others."""
    g = GraphBuilder(name="g")
    made = {name: g.step(call, node_id=name) for name, call in steps.items()}
    made["__end__"] = g.end_node
    g.add(g.edge_from(g.start_node).to(made[start]))
    for source, target in (edge.split(">") for edge in edges):
        g.add(g.edge_from(made[source]).to(made[target]))
    return g, made


@case("a:passthrough", "__start__>a a>__end__")
def one_step():
    return built("a>__end__", start="a", a=plain)[0].build()


@case("a:passthrough b:human c:human", "__start__>a a>b b>c c>__end__")
def steps_that_ask():
    return built("a>b", "b>c", "c>__end__", start="a", a=plain, b=asks, c=may_ask)[0].build()


@case(
    "a:passthrough a_broadcast_fork:passthrough b:passthrough c:passthrough join:passthrough",
    "__start__>a a>a_broadcast_fork a_broadcast_fork*b a_broadcast_fork*c b>join c>join join>__end__",
)
def broadcast_and_join():
    g, s = built("a>b", "a>c", start="a", a=plain, b=plain, c=plain)
    join = g.join(reduce_list_append, initial_factory=list, node_id="join")
    g.add(g.edge_from(s["b"], s["c"]).to(join), g.edge_from(join).to(g.end_node))
    return g.build()


@case(
    "a:passthrough both:passthrough b:passthrough c:passthrough join:passthrough",
    "__start__>a a>both both*b both*c b>join c>join join>__end__",
)
def broadcast_by_name():
    g, s = built(start="a", a=plain, b=plain, c=plain)
    join = g.join(reduce_list_append, initial_factory=list, node_id="join")
    g.add(g.edge_from(s["a"]).to(s["b"], s["c"], fork_id="both"))
    g.add(g.edge_from(s["b"], s["c"]).to(join), g.edge_from(join).to(g.end_node))
    return g.build()


@case(
    "a:passthrough each:passthrough b:passthrough join:passthrough",
    "__start__>a a>each each*b b>join join>__end__",
)
def map_and_join():
    g, s = built(start="a", a=plain, b=plain)
    join = g.join(reduce_list_append, initial_factory=list, node_id="join")
    g.add(g.edge_from(s["a"]).map(fork_id="each").to(s["b"]), g.edge_from(s["b"]).to(join))
    g.add(g.edge_from(join).to(g.end_node))
    return g.build()


@case(
    "a:passthrough each:passthrough b:passthrough join:passthrough",
    "__start__>a a>each each*b each?join b>join join>__end__",
    conditions={("each", "join"): "nothing to map"},
)
def map_of_what_may_be_empty():
    g, s = built(start="a", a=plain, b=plain)
    join = g.join(reduce_list_append, initial_factory=list, node_id="join")
    g.add(g.edge_from(s["a"]).map(fork_id="each", downstream_join_id="join").to(s["b"]), g.edge_from(s["b"]).to(join))
    g.add(g.edge_from(join).to(g.end_node))
    return g.build()


@case(
    "a:passthrough which:router b:passthrough c:passthrough",
    "__start__>a a>which which?b which?c which?__end__ b>__end__ c>__end__",
    conditions={("which", "b"): "str", ("which", "c"): "Literal[1, 2]", ("which", "__end__"): "is_last"},
)
def decision():
    def is_last(value):
        return value == 9

    g, s = built("b>__end__", "c>__end__", start="a", a=plain, b=plain, c=plain)
    choice = g.decision(node_id="which").branch(g.match(str).to(s["b"]))
    choice = choice.branch(g.match(TypeExpression[Literal[1, 2]]).to(s["c"]))
    choice = choice.branch(g.match(int, matches=is_last).to(g.end_node))
    g.add(g.edge_from(s["a"]).to(choice))
    return g.build()


@case(
    "a:passthrough which:router b:passthrough",
    "__start__>a a>which which?b which?a b>__end__",
    conditions={("which", "b"): "good", ("which", "a"): "again", ("a", "which"): "judged"},
)
def decision_that_goes_back_with_labels():
    g, s = built("b>__end__", start="a", a=plain, b=plain)
    choice = g.decision(node_id="which").branch(g.match(str).label("good").to(s["b"]))
    choice = choice.branch(g.match(int).label("again").to(s["a"]))
    g.add(g.edge_from(s["a"]).label("judged").to(choice))
    return g.build()


@case(
    "a:passthrough which:router both:passthrough b:passthrough c:passthrough join:passthrough",
    "__start__>a a>which which?both which?__end__ both*b both*c b>join c>join join>__end__",
)
def decision_with_a_fork():
    g, s = built(start="a", a=plain, b=plain, c=plain)
    join = g.join(reduce_list_append, initial_factory=list, node_id="join")
    choice = g.decision(node_id="which").branch(g.match(str).to(s["b"], s["c"], fork_id="both"))
    choice = choice.branch(g.match(int).to(g.end_node))
    g.add(g.edge_from(s["a"]).to(choice), g.edge_from(s["b"], s["c"]).to(join), g.edge_from(join).to(g.end_node))
    return g.build()


@case(
    "a:passthrough which:human b:passthrough",
    "__start__>a a>which which?b which?__end__ b>__end__",
)
def decision_that_asks():
    g, s = built("b>__end__", start="a", a=plain, b=plain)
    choice = g.decision(node_id="which").branch(g.match(str, matches=lambda value: input("?") == "y").to(s["b"]))
    g.add(g.edge_from(s["a"]).to(choice.branch(g.match(object).to(g.end_node))))
    return g.build()


@case("a:human b:passthrough", "__start__>a a>b b>__end__")
def transform_that_asks():
    g, s = built("b>__end__", start="a", a=plain, b=plain)
    g.add(g.edge_from(s["a"]).transform(lambda ctx: input("?")).to(s["b"]))
    return g.build()


@case(
    "a:passthrough a_broadcast_fork:passthrough b:passthrough c:passthrough d:passthrough first:passthrough",
    "__start__>a a>a_broadcast_fork a_broadcast_fork*b a_broadcast_fork*c b>d d>first c>first b?first first>__end__",
    conditions={("b", "first"): "another branch was first"},
)
def join_that_takes_the_first():
    g, s = built("a>b", "a>c", "b>d", start="a", a=plain, b=plain, c=plain, d=plain)
    join = g.join(ReduceFirstValue(), initial=0, node_id="first")
    g.add(g.edge_from(s["d"], s["c"]).to(join), g.edge_from(join).to(g.end_node))
    return g.build()


@case(
    "a:passthrough a_broadcast_fork:passthrough b:passthrough c:passthrough d:passthrough",
    "__start__>a a>a_broadcast_fork a_broadcast_fork*b a_broadcast_fork*c b>d d>__end__ c>__end__ b?__end__",
    conditions={("b", "__end__"): "another branch ended the run"},
)
def branches_that_end_the_run():
    g, _ = built("a>b", "a>c", "b>d", "d>__end__", "c>__end__", start="a", a=plain, b=plain, c=plain, d=plain)
    return g.build()


@case(
    "stream:passthrough each:passthrough b:passthrough j:passthrough",
    "__start__>stream stream>each each*b b>j j>__end__",
)
def step_that_streams():
    g = GraphBuilder()

    @g.stream
    async def stream(ctx):
        yield 1

    b, j = g.step(plain, node_id="b"), g.join(reduce_list_append, initial_factory=list, node_id="j")
    g.add(g.edge_from(g.start_node).to(stream), g.edge_from(stream).map(fork_id="each").to(b))
    g.add(g.edge_from(b).to(j), g.edge_from(j).to(g.end_node))
    return g.build()


@case("stream:human each:passthrough j:human", "__start__>stream stream>each each*j j>__end__")
def stream_and_reducer_that_ask():
    g = GraphBuilder()

    @g.stream
    async def stream(ctx):
        yield input("?")

    def reduce(current, one):
        return [*current, input(one)]

    j = g.join(reduce, initial_factory=list, node_id="j")
    g.add(g.edge_from(g.start_node).to(stream), g.edge_from(stream).map(fork_id="each").to(j))
    g.add(g.edge_from(j).to(g.end_node))
    return g.build()


@dataclass
class Node(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Other | End[int]:
        return Other() if ctx.state else End(1)


@dataclass
class Other(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Node:
        return Node()


@case(
    "a:passthrough Node:router Other:passthrough",
    "__start__>a a>Node Node?Other Node?__end__ Other>Node",
)
def step_before_classes():
    async def a(ctx: StepContext[Any, Any, Any]) -> Node:
        return Node()

    g = GraphBuilder()
    g.add(g.edge_from(g.start_node).to(g.step(a)), g.node(Node), g.node(Other))
    return g.build()


later = GraphBuilder()
work = later.step(plain, node_id="work")


@dataclass
class ToStep(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Annotated[StepNode, work]:
        return work.as_node(1) if ctx.state else End(0)


later.add(later.edge_from(later.start_node).to(ToStep), later.node(ToStep))
later.add(later.edge_from(work).to(later.end_node))


@case("work:passthrough ToStep:router", "__start__>ToStep ToStep?work ToStep?__end__ work>__end__")
def class_before_a_step():
    return later.build()


def inner():
    return built("x>y", "y>__end__", start="x", x=plain, y=asks)[0].build()


INNER = inner()


async def runs_inner(ctx: StepContext[Any, Any, Any]) -> Any:
    return await INNER.run(inputs=ctx.inputs)


@case(
    "a:subgraph x:passthrough y:human b:passthrough",
    "__start__>a a?x x>y y@a a?b b>__end__",
)
def graph_in_a_graph():
    return built("a>b", "b>__end__", start="a", a=runs_inner, b=plain)[0].build()


@case("a:passthrough b:passthrough", "__start__>a a>b")
def step_that_leads_nowhere():
    return built("a>b", start="a", a=plain, b=plain)[0].build(validate_graph_structure=False)


class Worker:
    async def work(self, ctx: StepContext[Any, Any, Any]) -> Any:
        return self.ask()

    def ask(self):
        return input("?")


@case("work:human", "__start__>work work>__end__")
def step_of_a_method():
    return built("work>__end__", start="work", work=Worker().work)[0].build()


async def calls_a_model(ctx: StepContext[Any, Any, Any]) -> Any:
    return await ctx.deps.client.chat.completions.create(model="m", messages=[])


@case("a", "__start__>a a>__end__")
def step_that_calls_a_model():
    return built("a>__end__", start="a", a=calls_a_model)[0].build()
