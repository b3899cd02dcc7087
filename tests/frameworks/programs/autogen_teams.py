"""AutoGen teams. CASES: name -> (what builds the team, the graph expected). No model is called."""
# mypy: ignore-errors

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, SocietyOfMindAgent, UserProxyAgent
from autogen_agentchat.base import Handoff, Response
from autogen_agentchat.conditions import (
    ExternalTermination,
    FunctionalTermination,
    HandoffTermination,
    MaxMessageTermination,
    SourceMatchTermination,
    TextMentionTermination,
)
from autogen_agentchat.messages import HandoffMessage, TextMessage
from autogen_agentchat.teams import MagenticOneGroupChat, RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_ext.models.replay import ReplayChatCompletionClient
from expected import cases

CASES, case = cases()
INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


def model():
    return ReplayChatCompletionClient(["ok"], model_info=INFO)


def agent(name, **more):
    return AssistantAgent(name, model_client=model(), **more)


def mail(to: str) -> str:
    """Sends."""
    return ""


def search(query: str) -> str:
    """Searches."""
    return ""


# Round robin.


@case("a b", "__start__>a a>b b@a")
def round_without_an_end():
    return RoundRobinGroupChat([agent("a"), agent("b")])


@case("a b", "__start__>a a>b b@a a?__end__ b?__end__")
def round_with_a_limit_of_turns():
    return RoundRobinGroupChat([agent("a"), agent("b")], max_turns=4)


@case("a", "__start__>a a@a a?__end__")
def round_of_one():
    return RoundRobinGroupChat([agent("a")], termination_condition=ExternalTermination())


@case("a b:human", "__start__>a a>b b@a a?__end__ b?__end__")
def round_with_two_conditions():
    stop = MaxMessageTermination(9) & SourceMatchTermination(["b"]) | FunctionalTermination(lambda messages: False)
    return RoundRobinGroupChat([agent("a"), UserProxyAgent("b")], termination_condition=stop)


@case("lazy user:human", "__start__>lazy lazy@lazy lazy?user lazy?__end__ user>__end__")
def round_that_hands_off_to_a_person():
    lazy = agent("lazy", handoffs=[Handoff(target="user", message="Transfer to user.")])
    return RoundRobinGroupChat(
        [lazy], termination_condition=HandoffTermination("user") | TextMentionTermination("DONE")
    )


@case("a b", "__start__>a a>b b@a a?__end__ b?__end__")
def round_where_handing_off_means_nothing():
    return RoundRobinGroupChat([agent("a", handoffs=["b", "user"]), agent("b")], max_turns=2)


# Selector.


@case("a b c:human", "__start__?a __start__?b __start__?c a?b a?c b?a b?c c?a c?b a?__end__ b?__end__ c?__end__")
def selector():
    return SelectorGroupChat(
        [agent("a"), agent("b"), UserProxyAgent("c")],
        model_client=model(),
        termination_condition=TextMentionTermination("DONE"),
    )


@case("a b:tool", "__start__?a __start__?b a?a a?b b?a b?b", tools={"b": "mail search"})
def selector_that_allows_repeating():
    return SelectorGroupChat(
        [agent("a"), agent("b", tools=[mail, search])], model_client=model(), allow_repeated_speaker=True
    )


@case("writer critic", "__start__?writer writer?critic critic?writer writer?__end__ critic?__end__")
def selector_by_a_function_in_turn():
    def pick(messages):
        return "critic" if messages[-1].source == "writer" else "writer"

    return SelectorGroupChat([agent("writer"), agent("critic")], model_client=model(), selector_func=pick, max_turns=5)


@case(
    "planner a b",
    "__start__?planner planner?a planner?b planner?planner a?planner b?planner planner?__end__ a?__end__ b?__end__",
)
def selector_back_to_the_planner():
    planner = agent("planner")

    def pick(messages):
        if messages[-1].source != planner.name:
            return planner.name
        return None

    return SelectorGroupChat([planner, agent("a"), agent("b")], model_client=model(), selector_func=pick, max_turns=9)


NEXT = {"a": "b", "b": "c"}


@case("a b c", "__start__?a a?b b?c c?a")
def selector_by_a_table():
    def pick(messages):
        last = messages[-1]
        speaker = last.source
        return NEXT.get(speaker, "a")

    return SelectorGroupChat([agent("a"), agent("b"), agent("c")], model_client=model(), selector_func=pick)


def _after(speaker):
    match speaker:
        case "a" | "b":
            return "c"
        case "c":
            return "a"
        case _:
            return None


@case("a b c", "__start__?a __start__?b __start__?c a?c b?c c?a")
def selector_by_a_helper():
    async def pick(messages):
        return _after(messages[-1].source)

    return SelectorGroupChat([agent("a"), agent("b"), agent("c")], model_client=model(), selector_func=pick)


@case("a b", "__start__?a __start__?b a?a a?b b?a b?b", widened="a b")
def selector_that_cannot_be_known():
    turns = iter("abab")
    return SelectorGroupChat([agent("a"), agent("b")], model_client=model(), selector_func=lambda messages: next(turns))


@case("a b c", "__start__?a a?b a?c b?a b?c c?a")
def selector_with_candidates_by_the_last_speaker():
    def candidates(messages):
        last = messages[-1].source
        if last == "user":
            return ["a"]
        if last == "a":
            return ["b", "c"]
        return ["a", "c"] if last == "b" else ["a"]

    return SelectorGroupChat([agent("a"), agent("b"), agent("c")], model_client=model(), candidate_func=candidates)


@case("a b c", "__start__?a __start__?b __start__?c a?a a?b a?c b?a b?c c?a c?b c?c")
def selector_that_looks_further_back():
    def pick(messages):
        for message in reversed(messages):
            if message.source == "b":
                return "c"
        return "a" if len(messages) > 4 else None

    return SelectorGroupChat([agent("a"), agent("b"), agent("c")], model_client=model(), selector_func=pick)


@case("a b c", "__start__?a a?b b?c c?a")
def selector_with_one_candidate():
    def candidates(messages):
        if messages[-1].source == "user":
            return ["a"]
        return {"a": ["b"], "b": ["c"], "c": ["a"]}[messages[-1].source]

    return SelectorGroupChat([agent("a"), agent("b"), agent("c")], model_client=model(), candidate_func=candidates)


@case("a b c", "__start__?a __start__?b __start__?c a?a a?b a?c b?a b?b b?c c?a c?b", widened="a b")
def selector_with_too_few_candidates():
    """AutoGen takes the name of c from the model, though it is no candidate."""
    return SelectorGroupChat(
        [agent("a"), agent("b"), agent("c")], model_client=model(), candidate_func=lambda messages: ["a", "b"]
    )


# Swarm.


@case("a b", "__start__>a a?b a@a b?a b@b a?__end__ b?__end__")
def swarm():
    return Swarm([agent("a", handoffs=[Handoff(target="b")]), agent("b", handoffs=["a"])], max_turns=9)


@case(
    "a b:tool user:human",
    "__start__>a a?b a?user a@a b?user b?a b@b user>__end__ a?__end__ b?__end__",
    tools={"b": "mail"},
)
def swarm_with_a_person_outside():
    return Swarm(
        [agent("a", handoffs=["b", "user"]), agent("b", handoffs=["a", "user"], tools=[mail])],
        termination_condition=HandoffTermination("user"),
    )


@case("a boss:human b", "__start__>a a?boss a@a boss?a b?a b@b a?__end__ b?__end__ boss?__end__")
def swarm_with_a_person_inside():
    """A person who receives a hand-off hands back to the sender; nobody hands off to b."""
    return Swarm(
        [agent("a", handoffs=["boss"]), UserProxyAgent("boss"), agent("b", handoffs=["a"])],
        termination_condition=MaxMessageTermination(9),
    )


@case("a customer:human", "__start__>a a?customer a@a a?__end__ customer>__end__")
def swarm_that_waits_for_somebody():
    return Swarm([agent("a", handoffs=["customer"])], termination_condition=HandoffTermination("customer"))


@case("a user:human billing:passthrough", "__start__>a a?user a?billing a@a a?__end__ user>__end__")
def swarm_that_fails_at_a_hand_off():
    return Swarm([agent("a", handoffs=["user", "billing"])], max_turns=3)


class Custom(BaseChatAgent):
    """An agent of the program itself, that hands off to whom it likes."""

    @property
    def produced_message_types(self):
        return (HandoffMessage, TextMessage)

    async def on_messages(self, messages, cancellation_token):
        return Response(chat_message=HandoffMessage(source=self.name, target="a", content=""))

    async def on_reset(self, cancellation_token):
        pass


@case("c:passthrough a", "__start__>c c?a c@c a@a a?__end__ c?__end__", widened="c")
def swarm_with_an_agent_of_its_own():
    return Swarm([Custom("c", "d"), agent("a")], max_turns=3)


# Magentic-One.


@case(
    "a b:tool MagenticOneOrchestrator",
    "__start__>MagenticOneOrchestrator MagenticOneOrchestrator?a MagenticOneOrchestrator?b a>MagenticOneOrchestrator "
    "b>MagenticOneOrchestrator MagenticOneOrchestrator?__end__",
    tools={"b": "search"},
)
def magentic():
    return MagenticOneGroupChat([agent("a"), agent("b", tools=[search])], model_client=model())


@case(
    "a MagenticOneOrchestrator",
    "__start__>MagenticOneOrchestrator MagenticOneOrchestrator?a a>MagenticOneOrchestrator "
    "MagenticOneOrchestrator?__end__ a?__end__",
)
def magentic_with_a_condition():
    return MagenticOneGroupChat(
        [agent("a")], model_client=model(), termination_condition=TextMentionTermination("DONE")
    )


# Teams in teams.


@case(
    "plan w c boss:human",
    "__start__>plan plan>w w>c c@w w?boss c?boss boss@plan plan?__end__ w?__end__ c?__end__ boss?__end__",
)
def a_round_in_a_round():
    """The inner one always makes whole rounds, and so begins with its first."""
    inner = RoundRobinGroupChat([agent("w"), agent("c")], name="inner", max_turns=2)
    return RoundRobinGroupChat([agent("plan"), inner, UserProxyAgent("boss")], max_turns=9)


@case(
    "plan boss:human w c",
    "__start__>plan plan>w plan?c plan>boss w>c c@w w?boss c?boss boss@plan",
)
def a_round_that_stops_anywhere():
    """It goes on where it stopped, or stops at once because of what it is given: the person is asked nevertheless."""
    inner = RoundRobinGroupChat(
        [agent("w"), agent("c")], name="inner", termination_condition=TextMentionTermination("OK")
    )
    return RoundRobinGroupChat([agent("plan"), inner, UserProxyAgent("boss")])


@case(
    "a x y",
    "__start__?a __start__?x a?x a?y a?a x>y y@x x?a y?a x?__end__ y?__end__ a?__end__",
)
def a_round_in_a_selector():
    inner = RoundRobinGroupChat(
        [agent("x"), agent("y")], name="inner", termination_condition=TextMentionTermination("OK")
    )
    return SelectorGroupChat([agent("a"), inner], model_client=model(), max_turns=9)


@case("x y som end", "__start__>x x>y y@x x?som y?som som>end end@x som?__end__ end?__end__")
def a_society_of_mind():
    """It begins its team anew each time."""
    inner = RoundRobinGroupChat([agent("x"), agent("y")], max_turns=2)
    return RoundRobinGroupChat([SocietyOfMindAgent("som", team=inner, model_client=model()), agent("end")], max_turns=4)


@case("a inner/a", "__start__>a a>inner/a inner/a@inner/a inner/a@a a?__end__ inner/a?__end__")
def the_same_name_twice():
    inner = RoundRobinGroupChat([agent("a")], name="inner", max_turns=1)
    return RoundRobinGroupChat([agent("a"), inner], max_turns=4)


class Own(RoundRobinGroupChat):
    """A team of a class of the program itself, that is a round robin all the same."""


@case("a b", "__start__>a a>b b@a a?__end__ b?__end__")
def a_class_of_its_own():
    return Own([agent("a"), agent("b")], max_turns=2)
