"""pydantic-graph programs of classes that come from BaseNode. CASES: name -> (what builds the graph, what is expected).

With a version that has no `Graph(nodes=...)`, the same classes are given to a GraphBuilder.
"""
# mypy: ignore-errors

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from expected import cases
from pydantic_graph import BaseNode, Edge, End, Graph, GraphRunContext
from pydantic_graph.graph_builder import GraphBuilder

CASES, case = cases()
CLASSIC = not hasattr(Graph, "render")


def classic(nodes, edges, **more):
    """The same of a program that only a version with `Graph(nodes=...)` can have."""
    return case(nodes, edges, **more) if CLASSIC else lambda build: build


def graph(*kinds):
    if CLASSIC:
        return Graph(nodes=kinds)
    builder = GraphBuilder()
    builder.add(builder.edge_from(builder.start_node).to(kinds[0]), *map(builder.node, kinds))
    return builder.build()


@dataclass
class Only(BaseNode):
    async def run(self, ctx: GraphRunContext) -> End[int]:
        return End(1)


@case("Only:passthrough", "__start__>Only Only>__end__")
def one_node():
    return graph(Only)


@dataclass
class First(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Second:
        return Second(1)


@dataclass
class Second(BaseNode):
    n: int

    async def run(self, ctx: GraphRunContext) -> End[int]:
        return End(self.n)


@case("First:passthrough Second:passthrough", "__start__>First First>Second Second>__end__")
def two_nodes():
    return graph(First, Second)


@dataclass
class Begin(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Choose:
        return Choose()


@dataclass
class Choose(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Choose | Second | End[int]:
        if ctx.state > 3:
            return Second(1)
        return Choose() if ctx.state else End(0)


@case(
    "Begin:passthrough Choose:router Second:passthrough",
    "__start__>Begin Begin>Choose Choose?Choose Choose?Second Choose?__end__ Second>__end__",
)
def node_that_chooses():
    return graph(Begin, Choose, Second)


@dataclass
class Labelled(BaseNode):
    async def run(
        self, ctx: GraphRunContext
    ) -> Annotated[Second, Edge(label="on")] | Annotated[End[int], Edge(label="off")]:
        return Second(1) if ctx.state else End(1)


@case(
    "Labelled:router Second:passthrough",
    "__start__>Labelled Labelled?Second Labelled?__end__ Second>__end__",
    conditions={("Labelled", "Second"): "on", ("Labelled", "__end__"): "off"},
)
def edges_with_labels():
    return graph(Labelled, Second)


@dataclass
class Liar(BaseNode):
    """Returns what it is not declared to return: nothing keeps it from that."""

    async def run(self, ctx: GraphRunContext) -> End[int]:
        return Second(1) if ctx.state else End(1)


@dataclass
class ToBoth(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Liar | Second:
        return Liar()


@case(
    "ToBoth:router Liar:router Second:passthrough",
    "__start__>ToBoth ToBoth?Liar ToBoth?Second Liar?Second Liar?__end__ Second>__end__",
)
def node_that_returns_more_than_declared():
    return graph(ToBoth, Liar, Second)


def another(wanted):
    return Second(1) if wanted else ThroughHelper()


@dataclass
class ThroughHelper(BaseNode):
    async def run(self, ctx: GraphRunContext) -> End[int] | Second:
        return another(ctx.state)


@case(
    "Begins:passthrough ThroughHelper:router Second:passthrough",
    "__start__>Begins Begins>ThroughHelper ThroughHelper?ThroughHelper ThroughHelper?Second ThroughHelper?__end__ "
    "Second>__end__",
)
def node_that_a_function_makes():
    return graph(Begins, ThroughHelper, Second)


@dataclass
class Begins(BaseNode):
    async def run(self, ctx: GraphRunContext) -> ThroughHelper:
        return ThroughHelper()


@dataclass
class Asks(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Second | End[int]:
        return Second(1) if input("ok?") == "y" else End(0)


@case("Asks:human Second:passthrough", "__start__>Asks Asks?Second Asks?__end__ Second>__end__")
def node_that_asks():
    return graph(Asks, Second)


@dataclass
class Human(BaseNode):
    async def run(self, ctx: GraphRunContext) -> End[int]:
        return End(1)


@case("Human:passthrough", "__start__>Human Human>__end__")
def name_alone_makes_no_human():
    return graph(Human)


@dataclass
class Ping(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Pong | End[int]:
        return Pong()


@dataclass
class Pong(BaseNode):
    async def run(self, ctx: GraphRunContext) -> Ping:
        return Ping()


@classic(
    "Ping:router Pong:passthrough",
    "__start__?Ping __start__?Pong Ping?Pong Ping?__end__ Pong>Ping",
)
def nodes_in_a_ring():
    return graph(Ping, Pong)


@dataclass
class Anything(BaseNode):
    async def run(self, ctx: GraphRunContext) -> BaseNode:
        return ctx.state.following


@classic(
    "Anything:router Second:passthrough",
    "__start__>Anything Anything?Anything Anything?Second Anything?__end__ Second>__end__",
    widened="Anything",
)
def node_that_can_return_any():
    return graph(Anything, Second)


@dataclass
class AnyButKnown(BaseNode):
    async def run(self, ctx: GraphRunContext) -> BaseNode:
        return Second(2)


@classic("AnyButKnown:passthrough Second:passthrough", "__start__>AnyButKnown AnyButKnown>Second Second>__end__")
def node_that_says_any_and_returns_one():
    return graph(AnyButKnown, Second)
