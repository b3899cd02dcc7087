"""AutoGen graph flows. CASES: name -> (what builds the team, the graph expected). No model is called."""
# mypy: ignore-errors

from autogen_agentchat.agents import (
    AssistantAgent,
    MessageFilterAgent,
    MessageFilterConfig,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import DiGraph, DiGraphBuilder, DiGraphEdge, DiGraphNode, GraphFlow, RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient
from expected import cases

CASES, case = cases()
INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


def agent(name, **more):
    return AssistantAgent(name, model_client=ReplayChatCompletionClient(["ok"], model_info=INFO), **more)


def mail(to: str) -> str:
    """Sends."""
    return ""


def flow(*agents, begin=None, **edges):
    """A flow with edges such as a_b=condition, where "" is none."""
    builder = DiGraphBuilder()
    for one in agents:
        builder.add_node(one)
    for name, more in edges.items():
        source, target = name.split("_")
        more = more if isinstance(more, dict) else {"condition": more or None}
        builder.add_edge(source, target, **more)
    if begin:
        builder.set_entry_point(begin)
    return builder


def team(builder, **more):
    return GraphFlow(builder.get_participants(), graph=builder.build(), **more)


@case("a b c", "__start__>a a>b b>c c>__end__")
def in_a_line():
    return team(flow(*map(agent, "abc"), a_b="", b_c=""))


@case("a b c d", "__start__>a a*b a*c b>d c>d d>__end__", joins={"d": ["b", "c"]})
def fork_and_join():
    return team(flow(*map(agent, "abcd"), a_b="", a_c="", b_d="", c_d=""))


@case("a b c d", "__start__>a a*b a*c b>d c>d d>__end__")
def fork_and_whoever_is_first():
    first = {"activation_group": "g", "activation_condition": "any"}
    return team(flow(*map(agent, "abcd"), a_b="", a_c="", b_d=first, c_d=first))


@case("a b c:human", "__start__*a __start__*b a>c b>c c>__end__", joins={"c": ["a", "b"]})
def two_beginnings():
    return team(flow(agent("a"), agent("b"), UserProxyAgent("c"), a_c="", b_c=""))


@case("a b c", "__start__>a a?b a?c b>__end__ c>__end__")
def branches_by_texts():
    return team(flow(*map(agent, "abc"), a_b="yes", a_c="no"))


def is_long(message):
    return len(message.to_model_text()) > 9


@case("a b:tool c", "__start__>a a?b a?c b>__end__ c>__end__", tools={"b": "mail"})
def branches_by_functions():
    return team(flow(agent("a"), agent("b", tools=[mail]), agent("c"), a_b=is_long, a_c=lambda m: not is_long(m)))


@case("a b c", "__start__>a a>b b?a b?c c>__end__")
def a_loop():
    again = {"condition": lambda m: "ok" not in m.to_model_text(), "activation_group": "again"}
    builder = flow(*map(agent, "abc"), a_b="", b_c="ok", b_a=again, begin="a")
    return team(builder, termination_condition=MaxMessageTermination(9))


@case("a b c d e", "__start__>a a>b b*c b*d c?b c?e d?b d?e e>__end__", joins={"b": ["c", "d"]})
def a_loop_with_groups():
    """Two reviewers send back to b: it waits for both of them, though not for a then."""
    back = {"activation_group": "back", "condition": "redo"}
    on = {"activation_condition": "any", "activation_group": "on", "condition": "fine"}
    builder = flow(*map(agent, "abcde"), a_b="", b_c="", b_d="", c_b=back, d_b=back, c_e=on, d_e=on, begin="a")
    return team(builder, max_turns=20)


@case("a b c", "__start__>a a>b b>__end__")
def one_that_is_never_run():
    graph = DiGraph(nodes={"a": DiGraphNode(name="a", edges=[DiGraphEdge(target="b")]), "b": DiGraphNode(name="b")})
    return GraphFlow([agent("a"), agent("b"), agent("c")], graph=graph)


@case(
    "boss x y z w",
    "__start__>boss boss>x x?y x?z y>w z>w y@boss z@boss w@boss boss?__end__ y?__end__ z?__end__ w?__end__",
    joins={"w": ["y", "z"]},
)
def a_flow_that_waits_in_vain():
    """Only one of y and z speaks, and so w never does: the flow stops."""
    inner = flow(*map(agent, "xyzw"), x_y="yes", x_z=lambda m: "yes" not in m.to_model_text(), y_w="", z_w="")
    return RoundRobinGroupChat([agent("boss"), team(inner, name="inner")], max_turns=9)


@case("a b:tool", "__start__>a a>b b>__end__", tools={"b": "mail"})
def filtered():
    inner = agent("b", tools=[mail])
    return team(flow(agent("a"), MessageFilterAgent("b", inner, MessageFilterConfig(per_source=[])), a_b=""))


@case("a x som", "__start__>a a>x x@x x?som som>__end__")
def a_team_in_a_flow():
    inner = RoundRobinGroupChat([agent("x")], max_turns=2)
    som = SocietyOfMindAgent("som", team=inner, model_client=ReplayChatCompletionClient(["ok"], model_info=INFO))
    return team(flow(agent("a"), som, a_som=""))


@case("boss:human x y", "__start__>boss boss>x x?y x@boss y@boss boss?__end__ x?__end__ y?__end__")
def a_flow_in_a_team():
    """Inside another team, an early stop of a flow is a way out of it."""
    inner = team(flow(agent("x"), agent("y"), x_y="go"), name="inner")
    return RoundRobinGroupChat([UserProxyAgent("boss"), inner], max_turns=9)
