"""Random LangGraph programs as source text, in the ways in which people write them."""

from __future__ import annotations

import random
import textwrap

TOOLS = ("search", "mail", "pay", "log")
HEAD = '''
import operator
import random
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from langgraph.types import Command, Send

RAN = []


class State(MessagesState, total=False):
    n: Annotated[int, operator.add]
    word: Annotated[str, lambda old, new: new]


class Model(BaseChatModel):
    """A model that calls any tool that it has, or answers."""

    names: list = []

    @property
    def _llm_type(self):
        return "random"

    def bind_tools(self, tools, **more):
        return Model(names=[one.name for one in tools])

    def _generate(self, messages, stop=None, run_manager=None, **more):
        calls = [{"name": one, "args": {}, "id": str(random.random())} for one in self.names if random.random() < 0.4]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("done", tool_calls=calls))])


llm = Model()
'''
TOOL = '''

@tool
def {name}() -> str:
    """Does it."""
    RAN.append("{name}")
    return "done"
'''
HELPERS = """
TOOLS = [search, mail]
BY_NAME = {"search": search, "mail": mail, "pay": pay, "log": log}


def use(one, times=1):
    for _ in range(times):
        one.invoke({})


def try_all(tools):
    return [one.invoke({}) for one in tools]


class Desk:
    def __init__(self, own, limit=2):
        self.own = own
        self.limit = limit

    def step(self, state):
        self.own.invoke({})
        return {"n": 1}

    def __call__(self, state):
        return self.step(state)


def bound(state, own):
    own.invoke({})
    return {"n": 1}

"""


class Writer:
    """Writes one program; the workflow is the variable `graph`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.lines: list[str] = []
        self._count = 0

    def program(self) -> str:
        self._graph("graph", depth=1)
        return HEAD + "".join(TOOL.format(name=name) for name in TOOLS) + HELPERS + "\n".join(self.lines) + "\n"

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _flip(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def _graph(self, variable: str, depth: int) -> None:
        """Writes a graph of some nodes, and how each leads on."""
        names = [self._name("n") for _ in range(self.random.randint(2, 5))]
        adding, added = list[str](), dict[str, str]()
        goes = {name: self.random.choice(["edge", "edge", "route", "mapped", "command", "send"]) for name in names}
        for at, name in enumerate(names):
            onward = [*names[at + 1 :], "END"]
            some = self.random.sample([*onward, *names], min(len(onward) + 1, self.random.randint(1, 3)))
            targets = list(dict.fromkeys([onward[0], *some]))
            if goes[name] == "command":
                added[name] = self._function(name, targets)
            else:
                added[name] = self._node(name, depth)
                adding += self._onward(name, goes[name], targets)
        self._build(variable, added, [f"g.add_edge(START, {names[0]!r})", *adding])

    def _build(self, variable: str, added: dict[str, str], edges: list[str]) -> None:
        """Writes the statements that make the graph: in a script, a function or a class."""
        nodes = [f"g.add_node({name!r}, {value})" for name, value in added.items()]
        if self._flip(0.3):
            table = ", ".join(f"{name!r}: {value}" for name, value in added.items())
            nodes = [f"for name, step in {{{table}}}.items():", "    g.add_node(name, step)"]
        elif self._flip(0.3):
            pairs = ", ".join(f"({name!r}, {value})" for name, value in added.items())
            nodes = [f"for one in [{pairs}]:", "    g.add_node(*one)"]
        lines = [*nodes, *edges]
        style = self.random.choice(["script", "function", "class", "chain"])
        if style == "class":
            own = "\n".join(lines).replace("g.", "self.graph.").splitlines()
            self.lines += [
                f"class Of_{variable}:", "    def __init__(self, model=llm):", "        self.model = model",
                "        self.graph = StateGraph(State)", "        self._add()",
                "        self.app = self.graph.compile()", "", "    def _add(self):",
                *(f"        {line}" for line in own), "", f"{variable} = Of_{variable}().app", "",
            ]  # fmt: skip
        elif style == "function":
            self.lines += [
                f"def make_{variable}(state=State):", "    g = StateGraph(state)", *(f"    {line}" for line in lines),
                "    return g.compile()", "", f"{variable} = make_{variable}()", "",
            ]  # fmt: skip
        elif style == "chain" and nodes[0].startswith("g.") and all(edge.startswith("g.") for edge in edges):
            self.lines += [f"{variable} = (", "    StateGraph(State)", *(f"    {line[1:]}" for line in lines)]
            self.lines += ["    .compile()", ")", ""]
        else:
            self.lines += ["g = StateGraph(State)", *lines, f"{variable} = g.compile()", ""]

    def _onward(self, name: str, way: str, targets: list[str]) -> list[str]:
        """The statements that lead on from a node."""
        if way == "edge":
            return [f"g.add_edge({name!r}, {quoted(targets[0])})"]
        route, several = self._name("route"), self.random.choice(["", ", " + listed(targets)])
        if way == "mapped":
            keys = [f"to_{at}" for at, _ in enumerate(targets)]
            table = ", ".join(f"{key!r}: {quoted(target)}" for key, target in zip(keys, targets, strict=True))
            self._router(route, [repr(key) for key in keys], "str")
            return [f"g.add_conditional_edges({name!r}, {route}, {{{table}}})"]
        if way == "send":
            sent = ", ".join(f"Send({target!r}, s)" for target in targets if target != "END") or "END"
            self.lines += [f"def {route}(s):", f"    return [{sent}] if s['n'] % 2 else {quoted(targets[-1])}", ""]
            return [f"g.add_conditional_edges({name!r}, {route}, {listed(targets)})"]
        annotated = f"Literal[{', '.join(map(repr, targets))}]".replace("'END'", "'__end__'")
        self._router(route, [quoted(target) for target in targets], self.random.choice(["", "str", annotated]))
        return [f"g.add_conditional_edges({name!r}, {route}{several})"]

    def _router(self, route: str, results: list[str], annotation: str) -> None:
        """A function that returns one of some results, in one of several ways."""
        self.lines.append(f"def {route}(s: State){f' -> {annotation}' if annotation else ''}:")
        self.lines += [f"    {line}" for line in [*self._chosen(results), "return t", ""]]

    def _chosen(self, results: list[str]) -> list[str]:
        """Statements that set `t` to one of some results."""
        first, last, inside = results[0], results[-1], ", ".join(results)
        return self.random.choice([
            [f"t = random.choice([{inside}])"],
            [f"t = [{inside}][s['n'] % {len(results)}]"],
            [f"t = {first} if s['n'] % 2 else {last}"],
            [f"t = {first}", "if s['n'] > 2:", f"    t = {last}"],
            [f"t = dict(enumerate([{inside}])).get(s['n'], {first})"],
            ["try:", f"    t = {{1: {first}, 2: {last}}}[s['n']]", "except KeyError:", f"    t = {last}"],
            ["match s['n'] % 3:", "    case 0:", f"        t = {first}", "    case _:", f"        t = {last}"],
            ["pick = lambda k: " + first + " if k else " + last, "t = pick(s['n'] % 2)"],
            [f"for t in ({inside},):", "    if random.random() < 0.5:", "        break"],
        ])  # fmt: skip

    def _function(self, name: str, targets: list[str]) -> str:
        """A step that leads on by a command."""
        annotated = f"Literal[{', '.join(map(repr, targets))}]".replace("'END'", "'__end__'")
        annotation = self.random.choice(["", " -> Command", f" -> Command[{annotated}]"])
        lines = [*self._calls(), *self._chosen([quoted(target) for target in targets])]
        lines.append("return Command(goto=t, update={'n': 1})")
        self.lines += [f"def f_{name}(s){annotation}:", *(f"    {line}" for line in lines), ""]
        return f"f_{name}"

    def _node(self, name: str, depth: int) -> str:
        """The expression of a step that does not choose the next one."""
        choice = self.random.choice(TOOLS)
        kind = self.random.choice(["calls"] * 5 + ["desk", "method", "partial", "agent", "loop", "graph", "inner"])
        if kind in {"graph", "inner"} and depth:
            self._graph(f"sub_{name}", depth - 1)
            if kind == "graph":
                return f"sub_{name}"
            self.lines += [f"def f_{name}(s):", f"    sub_{name}.invoke({{'n': s['n'], 'messages': []}})"]
            self.lines += ["    return {'n': 1}", ""]
            return f"f_{name}"
        if kind == "agent":
            made = self.random.choice(["create_react_agent(llm, {})", "create_agent(llm, tools={})"])
            return made.format(
                self.random.choice([f"[{choice}]", "TOOLS", f"[*TOOLS, {choice}]", "list(BY_NAME.values())"])
            )
        if kind == "loop":
            self._tool_loop(f"loop_{name}", f"[{', '.join(self.random.sample(TOOLS, 2))}]")
            return f"loop_{name}"
        ready = {
            "desk": f"Desk({choice})",
            "method": f"Desk({choice}).step",
            "partial": f"partial(bound, own={choice})",
        }
        if kind in ready:
            return ready[kind]
        lines = [*self._calls(), "return {'n': 1}"]
        self.lines += [f"def f_{name}(s: State):", *(f"    {line}" for line in lines), ""]
        return f"f_{name}"

    def _tool_loop(self, variable: str, tools: str) -> None:
        """A model and its tools, as in the framework's first tutorial."""
        self.lines += textwrap.dedent(f"""
            def {variable}_model(s):
                return {{"messages": [llm.bind_tools({tools}).invoke(s["messages"])]}}
            g = StateGraph(State)
            g.add_node("agent", {variable}_model)
            g.add_node("tools", ToolNode({tools}))
            g.add_edge(START, "agent")
            g.add_conditional_edges("agent", tools_condition)
            g.add_edge("tools", "agent")
            {variable} = g.compile()
            """).splitlines()

    def _calls(self) -> list[str]:
        """Statements that call tools, or none."""
        tool, other = self.random.sample(TOOLS, 2)
        return self.random.choice([
            [], [f"{tool}.invoke({{}})"], [f"BY_NAME[{tool!r}].invoke({{}})"], [f"use({tool})"],
            [f"try_all([{tool}, {other}])"], ["for one in TOOLS:", "    one.invoke({})"],
            [f"if s['n'] % 2:", f"    {tool}.invoke({{}})"],  # noqa: F541 - as the others
            [f"({tool} if s['n'] % 2 else {other}).invoke({{}})"], [f"Desk({tool})(s)"],
            [f"use(one={other}, times=s['n'] % 3)"],
            [f"chosen = [one for one in BY_NAME.values() if one.name == {tool!r}]", "chosen[0].invoke({})"],
            [f"getattr({tool}, 'invoke')({{}})"], [f"list(map(lambda x: x.invoke({{}}), [{tool}]))"],
            [f"act = {tool}.invoke", "act({})"], [f"{tool}.func()"], [f"{tool}.run({{}})"],
            ["def later(x):", "    return x.invoke({})", f"later({tool})"],
            [f"BY_NAME.get(s['word'], {tool}).invoke({{}})"],
        ])  # fmt: skip


def quoted(target: str) -> str:
    return target if target == "END" else repr(target)


def listed(targets: list[str]) -> str:
    return f"[{', '.join(map(quoted, targets))}]"
