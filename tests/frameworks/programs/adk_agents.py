"""Google ADK programs of agents that hold agents. CASES: name -> (what builds it, the graph expected)."""
# mypy: ignore-errors

from expected import cases
from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, FunctionTool, ToolContext, exit_loop

CASES, case = cases()


def fetch(url: str) -> str:
    """Fetches a page."""
    return url


def mail(to: str) -> str:
    """Sends mail."""
    return to


def agent(name, *tools, **more):
    return LlmAgent(name=name, model="gemini-2.5-flash", tools=list(tools), **more)


def row(name, *agents):
    return SequentialAgent(name=name, sub_agents=list(agents))


def loop(name, *agents, most=None):
    return LoopAgent(name=name, sub_agents=list(agents), max_iterations=most)


def fork(name, *agents):
    return ParallelAgent(name=name, sub_agents=list(agents))


@case("a", "__start__>a a>__end__")
def one_agent():
    return agent("a")


@case("a b:tool c", "__start__>a a>b b>c c>__end__", tools={"b": "fetch mail"})
def rows_in_a_row():
    return row("outer", agent("a"), row("inner", agent("b", fetch, mail), agent("c")))


@case("a", "__start__>a a>__end__")
def empty_groups():
    return row("outer", row("nothing"), loop("none", agent("never"), most=0), agent("a"), fork("no"))


@case("", "__start__>__end__")
def nothing_at_all():
    return row("nothing")


@case("a b c d", "__start__*a __start__*b b>c a>d c>d d>__end__")
def fork_and_join():
    return row("all", fork("both", agent("a"), row("two", agent("b"), agent("c"))), agent("d"))


@case("a b c", "__start__>a a*b a*c b>__end__ c>__end__")
def fork_at_the_end():
    return row("all", agent("a"), fork("both", agent("b"), agent("c")))


@case("a b", "__start__>a a>b b>__end__")
def fork_of_one():
    return row("all", fork("single", agent("a")), agent("b"))


@case(
    "write review:tool",
    "__start__>write write>review review@write review?__end__",
    tools={"review": "exit_loop"},
    conditions={("review", "__end__"): "escalate or after 3 iterations", ("review", "write"): "no escalation"},
)
def loop_with_a_way_out():
    return loop("refine", agent("write"), agent("review", exit_loop), most=3)


@case(
    "write review:tool",
    "__start__>write write>review review@write review?__end__",
    tools={"review": "exit_loop"},
    conditions={("review", "__end__"): "escalate", ("review", "write"): "no escalation"},
)
def loop_without_a_limit():
    return loop("refine", agent("write"), agent("review", exit_loop))


@case("a b", "__start__>a a>b b@a b?__end__", conditions={("b", "__end__"): "after 2 iterations"})
def loop_that_only_counts():
    return loop("twice", agent("a"), agent("b"), most=2)


@case("a b", "__start__>a a>b b?__end__", conditions={("b", "__end__"): "after 1 iteration"})
def loop_that_runs_once():
    return loop("once", agent("a"), agent("b"), most=1)


@case("a b", "__start__>a a>b b@a")
def loop_without_an_end():
    return loop("for_ever", agent("a"), agent("b"))


@case(
    "check:tool fix end",
    "__start__>check check?fix fix@check check?end fix?end end>__end__",
    tools={"check": "exit_loop"},
)
def loop_left_in_the_middle():
    return row("all", loop("mend", agent("check", exit_loop), agent("fix"), most=3), agent("end"))


@case("a b:tool c", "__start__>a a>b b@a c@a b?__end__ c?__end__", tools={"b": "exit_loop"})
def escalation_ends_all_loops_around():
    return loop("outer", loop("inner", agent("a"), agent("b", exit_loop)), agent("c"), most=2)


@case("a b c", "__start__>a a>b b@a b?c c@a c?__end__")
def loops_that_count_in_each_other():
    return loop("outer", loop("inner", agent("a"), agent("b"), most=2), agent("c"), most=3)


@case("a:tool b c", "__start__>a a>b b?c c@a b?__end__ c?__end__", tools={"a": "exit_loop"})
def escalation_in_a_row_is_felt_after_it():
    return loop("outer", row("two", agent("a", exit_loop), agent("b")), agent("c"), most=2)


@case(
    "a:tool b c d",
    "__start__*a __start__*b b>c a?d c?d d@a d@b a?__end__ b?__end__ c?__end__ d?__end__",
    tools={"a": "exit_loop"},
)
def escalation_in_a_branch_ends_the_others():
    return loop("outer", fork("both", agent("a", exit_loop), row("two", agent("b"), agent("c"))), agent("d"), most=2)


def stop(tool_context: ToolContext) -> None:
    """Ends the loop."""
    leave(tool_context)


def leave(context):
    context.actions.escalate = True


def after_tool(tool, args, tool_context, tool_response):
    tool_context.actions.escalate = True


@case("a:tool b:tool c", "__start__>a a?b b?c c@a a?__end__ b?__end__", tools={"a": "stop", "b": "fetch"})
def escalation_in_a_helper_and_in_a_callback():
    return loop("l", agent("a", stop), agent("b", fetch, after_tool_callback=after_tool), agent("c"))


ALL_WAYS = "root?a root?b a?root b?root a?b b?a"


@case(
    "root a:tool b",
    f"__start__>root {ALL_WAYS} root?__end__ a?__end__ b?__end__",
    tools={"a": "mail"},
    conditions={
        ("root", "a"): "transfer_to_agent",
        ("root", "b"): "transfer_to_agent",
        ("a", "root"): "transfer_to_agent",
        ("b", "root"): "transfer_to_agent",
        ("a", "b"): "transfer_to_agent",
        ("b", "a"): "transfer_to_agent",
        ("root", "__end__"): "final response",
        ("a", "__end__"): "final response",
        ("b", "__end__"): "final response",
    },
)
def transfers_to_all():
    return agent("root", sub_agents=[agent("a", mail), agent("b")])


@case("root a b c", "__start__>root root?a root?b root?c a?root b?a b?c root?__end__ a?__end__ b?__end__ c>__end__")
def transfers_that_are_disallowed():
    return agent("root", sub_agents=[
        agent("a", disallow_transfer_to_peers=True),
        agent("b", disallow_transfer_to_parent=True),
        agent("c", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True),
    ])  # fmt: skip


@case("root x y p q end", "__start__>root root?x root?p x?root x?y x?p y?x p>q root?end x?end y?end q>end end>__end__")
def transfers_inside_a_row():
    return row(
        "all",
        agent("root", sub_agents=[agent("x", sub_agents=[agent("y")]), row("pipe", agent("p"), agent("q"))]),
        agent("end"),
    )


@case("a b c", "__start__>a a>b b?c c?b b?__end__ c?__end__")
def a_row_takes_no_transfers():
    return row("all", agent("a"), agent("b", sub_agents=[agent("c")]))


@case(
    "root:tool ask:tool once chat",
    "__start__>root root?ask root?once root?chat ask?root once?root ask?chat once?chat chat?root "
    "root?__end__ ask?__end__ chat?__end__",
    tools={"root": "ask once", "ask": "fetch"},
    conditions={("root", "ask"): "calls ask", ("root", "once"): "calls once", ("ask", "__end__"): "asks the user"},
)
def agents_that_are_called():
    return agent(
        "root", sub_agents=[agent("ask", fetch, mode="task"), agent("once", mode="single_turn"), agent("chat")]
    )


@case("boss:tool", "__start__>boss boss>__end__", tools={"boss": "helper mail"})
def agent_as_a_tool():
    return agent("boss", AgentTool(agent("helper")), mail)


@case(
    "boss:tool helper:tool",
    "__start__>boss boss?helper helper>boss boss?__end__",
    tools={"boss": "helper", "helper": "fetch"},
    conditions={("boss", "helper"): "calls helper"},
)
def agent_with_tools_as_a_tool():
    return agent("boss", AgentTool(agent("helper", fetch)))


@case(
    "boss:tool p q:tool",
    "__start__>boss boss?p p>q q>boss boss?__end__",
    tools={"boss": "pipe", "q": "mail"},
    gated={"q": "mail"},
)
def row_as_a_tool():
    gated = FunctionTool(mail, require_confirmation=True)
    return agent("boss", AgentTool(row("pipe", agent("p"), agent("q", gated))))


@case("a:tool b:tool", "__start__>a a?b b?a a?__end__", tools={"a": "b", "b": "a"})
def agents_as_tools_of_each_other():
    a, b = agent("a"), agent("b")
    a.tools, b.tools = [AgentTool(b)], [AgentTool(a)]
    return a


@case("a", "__start__>a a>__end__")
def an_app():
    return App(name="app", root_agent=agent("a"))


@case("a b", "__start__>a a>b b>__end__")
def a_runner():
    return InMemoryRunner(agent=row("two", agent("a"), agent("b")))


@case("a x/a y/a", "__start__>a a>x/a x/a>y/a y/a>__end__")
def agents_of_one_name():
    return row("all", agent("a"), row("x", agent("a")), row("y", agent("a")))


NAMED = LlmAgent(name="the_only_one_of_this_name", model="gemini-2.5-flash")


@case("the_only_one_of_this_name", "__start__>the_only_one_of_this_name the_only_one_of_this_name>__end__")
def agent_that_is_written_out():
    return NAMED
