"""LangGraph programs whose nodes do different work. CASES: name -> (what builds the graph, the graph expected)."""
# mypy: ignore-errors

import json
from enum import Enum
from itertools import pairwise
from typing import Literal, TypedDict

from expected import cases
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

CASES, case = cases()


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


llm = Model(messages=iter(()))


class State(TypedDict, total=False):
    text: str
    documents: list
    tries: int


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return word


@case(
    "retrieve:passthrough grade rewrite generate",
    "__start__>retrieve retrieve>grade grade?rewrite grade?generate rewrite>retrieve generate>__end__",
)
def retrieval_with_grades():
    def retrieve(state):
        return {"documents": sorted(state["text"].split())}

    def grade(state):
        score = llm.invoke(f"Grade {state['documents']}")
        return {"text": score.content.strip()}

    def rewrite(state):
        chain = ChatPromptTemplate.from_template("Rewrite {text}") | llm | StrOutputParser()
        return {"text": chain.invoke({"text": state["text"]}), "tries": state.get("tries", 0) + 1}

    async def generate(state):
        answer = await llm.ainvoke([("human", state["text"])])
        return {"text": answer.content}

    def after_grade(state):
        if state["text"] == "no" and state["tries"] < 3:
            return "again"
        return "enough"

    g = StateGraph(State)
    g.add_node("retrieve", retrieve)
    g.add_node("grade", grade)
    g.add_node("rewrite", rewrite)
    g.add_node("generate", generate)
    g.set_entry_point("retrieve")
    g.add_edge("retrieve", "grade")
    g.add_conditional_edges("grade", after_grade, {"again": "rewrite", "enough": "generate"})
    g.add_edge("rewrite", "retrieve")
    g.set_finish_point("generate")
    return g.compile()


@case(
    "count:passthrough report:passthrough",
    "__start__>count count?count count?report report>__end__",
)
def steps_that_only_compute():
    def count(state):
        return {"tries": state["tries"] + 1}

    def report(state):
        print(json.dumps(state))
        return {"text": f"{len(state['text'])} letters"}

    def done(state) -> Literal["count", "report"]:
        return "report" if state["tries"] > 3 else "count"

    g = StateGraph(State)
    g.add_node(count)
    g.add_node(report)
    g.add_edge(START, "count")
    g.add_conditional_edges("count", done)
    g.add_edge("report", END)
    return g.compile()


@case(
    "boss:router writer critic",
    "__start__>boss boss?writer boss?critic boss?__end__ writer?boss critic?boss",
)
def supervisor_with_a_model():
    class Choice(TypedDict):
        next: Literal["writer", "critic", "FINISH"]

    def boss(state) -> Command[Literal["writer", "critic", "__end__"]]:
        goto = llm.with_structured_output(Choice).invoke(state["messages"])["next"]
        if goto == "FINISH":
            goto = END
        return Command(goto=goto, update={"next": goto})

    def writer(state) -> Command[Literal["boss"]]:
        return Command(goto="boss", update={"messages": [llm.invoke(state["messages"])]})

    def critic(state) -> Command[Literal["boss"]]:
        return Command(goto="boss", update={"messages": [llm.invoke(state["messages"])]})

    return StateGraph(MessagesState).add_node(boss).add_node(writer).add_node(critic).add_edge(START, "boss").compile()


@case(
    "alice bob",
    "__start__>alice alice?bob alice?__end__ bob?alice bob?__end__",
)
def agents_that_hand_over():
    def agent(name, other):
        def run(state) -> Command:
            answer = llm.invoke(state["messages"])
            goto = other if "hand over" in answer.content else END
            return Command(goto=goto, update={"messages": [answer]})

        run.__name__ = name
        return run

    g = StateGraph(MessagesState)
    g.add_node("alice", agent("alice", "bob"))
    g.add_node("bob", agent("bob", "alice"))
    g.add_edge(START, "alice")
    return g.compile()


@case(
    "triage:router refund:human reply",
    "__start__>triage triage?refund triage?reply refund>reply reply>__end__",
)
def rules_choose_and_a_person_decides():
    def triage(state) -> Command[Literal["refund", "reply"]]:
        words = state["text"].lower().split()
        return Command(goto="refund" if "refund" in words else "reply")

    def refund(state):
        decision = interrupt({"question": "refund?", "text": state["text"]})
        return {"text": decision.upper()}

    def reply(state):
        return {"text": llm.invoke(state["text"]).content}

    g = StateGraph(State)
    for one in (triage, refund, reply):
        g.add_node(one.__name__, one)
    g.add_edge(START, "triage")
    g.add_edge("refund", "reply")
    g.add_edge("reply", END)
    return g.compile()


class Route(Enum):
    CODE = "code"
    PROSE = "prose"


@case(
    "classify code prose",
    "__start__>classify classify?code classify?prose code>__end__ prose>__end__",
)
def condition_with_an_enumeration():
    def classify(state):
        return {"text": llm.invoke(state["text"]).content}

    def code(state):
        return {"text": llm.invoke("code").content}

    def prose(state):
        return {"text": llm.invoke("prose").content}

    def choose(state) -> Route:
        return Route.CODE if "def " in state["text"] else Route.PROSE

    g = StateGraph(State)
    g.add_node(classify)
    g.add_node(code)
    g.add_node(prose)
    g.add_edge(START, "classify")
    g.add_conditional_edges("classify", choose, {Route.CODE: "code", Route.PROSE: "prose"})
    g.add_edge("code", END)
    g.add_edge("prose", END)
    return g.compile()


@case(
    "split:passthrough summarize join:passthrough",
    "__start__>split split*summarize summarize>join join>__end__",
)
def map_and_reduce():
    def split(state):
        return {"documents": state["text"].split("\n")}

    def summarize(state):
        return {"documents": [llm.invoke(state["text"]).content]}

    def join(state):
        return {"text": "\n".join(state["documents"])}

    def each(state):
        return [Send("summarize", {"text": one}) for one in state["documents"]]

    g = StateGraph(State)
    g.add_node("split", split)
    g.add_node("summarize", summarize)
    g.add_node("join", join)
    g.add_edge(START, "split")
    g.add_conditional_edges("split", each, ["summarize"])
    g.add_edge("summarize", "join")
    g.add_edge("join", END)
    return g.compile()


class Assistant:
    def __init__(self, tools):
        self.llm = llm.bind_tools(tools)
        self.workflow = StateGraph(MessagesState)
        self.workflow.add_node("agent", self.call_model)
        self.workflow.add_node("tools", ToolNode(tools))
        self.workflow.add_node("format", self.format)
        self.workflow.set_entry_point("agent")
        self.workflow.add_conditional_edges("agent", self.should_continue, {"continue": "tools", "end": "format"})
        self.workflow.add_edge("tools", "agent")
        self.workflow.add_edge("format", END)
        self.graph = self.workflow.compile()

    def call_model(self, state):
        return {"messages": [self.llm.invoke(state["messages"])]}

    def should_continue(self, state):
        return "continue" if state["messages"][-1].tool_calls else "end"

    def format(self, state):
        return {"messages": [str(state["messages"][-1].content).strip()]}


@case(
    "agent tools:tool format:passthrough",
    "__start__>agent agent?tools agent?format tools>agent format>__end__",
    tools={"tools": ["look_up"]},
)
def assistant_as_a_class():
    return Assistant([look_up]).graph


@case(
    "load:passthrough think save:passthrough",
    "__start__>load load>think think>save save>__end__",
)
def nodes_from_a_list():
    def load(state):
        return {"text": state["text"].strip()}

    def think(state):
        return {"text": llm.invoke(state["text"]).content}

    def save(state):
        return {"text": json.dumps({"text": state["text"]})}

    stages = [("load", load), ("think", think), ("save", save)]
    g = StateGraph(State)
    for place in range(len(stages)):
        name, function = stages[place]
        g.add_node(name, function)
        if place > 0:
            g.add_edge(stages[place - 1][0], name)
    g.add_edge(START, stages[0][0])
    g.add_edge(stages[-1][0], END)
    return g.compile()


@case(
    "a:passthrough b:passthrough c",
    "__start__>a a>b b>c c>__end__",
)
def pairs_of_names():
    def shout(state):
        return {"text": state["text"].upper()}

    def answer(state):
        return {"text": llm.invoke(state["text"]).content}

    g = StateGraph(State)
    for name, function in {"a": shout, "b": shout, "c": answer}.items():
        g.add_node(name, function)
    for first, second in pairwise([START, "a", "b", "c", END]):
        g.add_edge(first, second)
    return g.compile()


@case(
    "start_node chat_node",
    "__start__>start_node start_node>chat_node chat_node?__end__",
)
def command_along_an_edge():
    def start_node(state) -> Command[Literal["chat_node"]]:
        return Command(goto="chat_node", update={"text": state["text"]})

    def chat_node(state) -> Command[Literal["__end__"]]:
        answer = llm.invoke(state["text"])
        return Command(goto=END, update={"text": answer.content})

    g = StateGraph(State)
    g.add_node("start_node", start_node)
    g.add_node("chat_node", chat_node)
    g.set_entry_point("start_node")
    g.add_edge("start_node", "chat_node")
    return g.compile()
