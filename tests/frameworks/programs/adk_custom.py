"""Google ADK programs with agents of their own code. CASES: name -> (what builds it, the graph expected)."""
# mypy: ignore-errors
# ruff: noqa: B007, S102

import asyncio
import contextlib

from expected import cases
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, SequentialAgent
from google.adk.events import Event, EventActions

CASES, case = cases()


def mail(to: str) -> str:
    """Sends mail."""
    return to


def agent(name, *tools, **more):
    return LlmAgent(name=name, model="gemini-2.5-flash", tools=list(tools), **more)


def some(names):
    return [agent(name) for name in names]


class Checker(BaseAgent):
    async def _run_async_impl(self, ctx):
        verdict = ctx.session.state.get("verdict")
        yield Event(author=self.name, actions=EventActions(escalate=verdict == "good"))


@case(
    "write check:router",
    "__start__>write write>check check?write check?__end__",
    conditions={("check", "__end__"): "escalate or after 5 iterations", ("check", "write"): "no escalation"},
)
def checker_in_a_loop():
    return LoopAgent(name="l", sub_agents=[agent("write"), Checker(name="check")], max_iterations=5)


class Stopper(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name, actions=EventActions(escalate=True))


@case("a stop:passthrough b", "__start__>a a>stop stop?__end__ b@a")
def loop_that_is_always_left():
    return LoopAgent(name="l", sub_agents=[agent("a"), Stopper(name="stop"), agent("b")])


class Quiet(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name)


@case("q:passthrough a", "__start__>q q>a a>__end__")
def code_without_agents():
    return SequentialAgent(name="s", sub_agents=[Quiet(name="q"), agent("a")])


class Asker(BaseAgent):
    async def _run_async_impl(self, ctx):
        if input("good? ") != "y":
            yield Event(author=self.name, actions=EventActions(escalate=True))


@case("a ask:human", "__start__>a a>ask ask@a ask?__end__")
def code_that_asks():
    return LoopAgent(name="l", sub_agents=[agent("a"), Asker(name="ask")], max_iterations=2)


class Story(BaseAgent):
    writer: LlmAgent
    refine: LoopAgent
    finish: SequentialAgent

    async def _run_async_impl(self, ctx):
        async for event in self.writer.run_async(ctx):
            yield event
        if "story" not in ctx.session.state:
            return
        async for event in self.refine.run_async(ctx):
            yield event
        async for event in self.finish.run_async(ctx):
            if event.is_final_response():
                yield event
        if ctx.session.state.get("tone") == "negative":
            async for event in self.writer.run_async(ctx):
                yield event


@case(
    "story:passthrough w c r g t",
    "__start__>story story>w w?__end__ w?c c>r r@c r?g g>t t?w t?__end__ w>__end__",
    conditions={
        ("w", "c"): "not ('story' not in ctx.session.state)",
        ("t", "w"): "ctx.session.state.get('tone') == 'negative'",
    },
)
def story():
    parts = {
        "writer": agent("w"),
        "refine": LoopAgent(name="l", sub_agents=some("cr"), max_iterations=2),
        "finish": SequentialAgent(name="s", sub_agents=some("gt")),
    }
    return Story(name="story", sub_agents=list(parts.values()), **parts)


class Each(BaseAgent):
    async def _run_async_impl(self, ctx):
        for place, part in enumerate(self.sub_agents):
            async for event in part.run_async(ctx):
                yield event
                if event.actions.escalate:
                    return


@case("each:passthrough a b c", "__start__>each each>a a?b b?c c?__end__ a?__end__ b?__end__")
def each_in_order():
    return Each(name="each", sub_agents=some("abc"))


class Backwards(BaseAgent):
    async def _run_async_impl(self, ctx):
        for part in reversed(self.sub_agents[1:]):
            async for event in part.run_async(ctx):
                yield event


@case("back:passthrough b c", "__start__>back back>c c>b b>__end__")
def some_of_them_backwards():
    return Backwards(name="back", sub_agents=some("abc"))


class Until(BaseAgent):
    async def _run_async_impl(self, ctx):
        while not ctx.session.state.get("done"):
            async for event in self.sub_agents[0].run_async(ctx):
                yield event
            async for event in self.find_sub_agent("b").run_async(ctx):
                yield event


@case("until:router a b", "__start__>until until?a a>b b@a b?__end__ until?__end__")
def while_something_holds():
    return Until(name="until", sub_agents=some("ab"))


class Rounds(BaseAgent):
    rounds: int = 3

    async def _run_async_impl(self, ctx):
        for _ in range(self.rounds):
            async for event in self.sub_agents[0].run_async(ctx):
                yield event
            if ctx.session.state.get("done"):
                break
        async for event in self.sub_agents[-1].run_async(ctx):
            yield event


@case("rounds:passthrough a b", "__start__>rounds rounds>a a@a a?b b>__end__")
def a_number_of_rounds():
    return Rounds(name="rounds", sub_agents=some("ab"))


class Endless(BaseAgent):
    async def _run_async_impl(self, ctx):
        while True:
            async for event in self.sub_agents[0].run_async(ctx):
                yield event
            if ctx.session.state.get("skip"):
                continue
            async for event in self.sub_agents[1].run_async(ctx):
                yield event
            if ctx.session.state.get("done"):
                break


@case("endless:passthrough a b", "__start__>endless endless>a a@a a?b b@a b?__end__")
def for_ever_but_for_a_break():
    return Endless(name="endless", sub_agents=some("ab"))


class Careful(BaseAgent):
    async def _phase(self, part, ctx):
        async for event in part.run_async(ctx):
            yield event

    async def _run_async_impl(self, ctx):
        async with contextlib.aclosing(self.sub_agents[0].run_async(ctx)) as events:
            async for event in events:
                yield event
        try:
            async for event in self._phase(self.sub_agents[1], ctx):
                yield event
        except ValueError:
            async for event in self._phase(self.sub_agents[2], ctx):
                yield event
        finally:
            async for event in self._phase(self.sub_agents[3], ctx):
                yield event


@case("careful:passthrough a b c d", "__start__>careful careful>a a>b a?c b?c b>d c>d d>__end__")
def helpers_and_exceptions():
    return Careful(name="careful", sub_agents=some("abcd"))


class Choice(BaseAgent):
    async def _run_async_impl(self, ctx):
        part = self.sub_agents[0] if ctx.session.state.get("first") else self.sub_agents[1]
        async for event in part.run_async(ctx):
            yield event
        match ctx.session.state["next"]:
            case "c":
                async for event in self.sub_agents[2].run_async(ctx):
                    yield event
            case _:
                return


@case("choice:router a b c", "__start__>choice choice?a choice?b a?c b?c a?__end__ b?__end__ c>__end__")
def choice_of_an_agent():
    return Choice(name="choice", sub_agents=some("abc"))


class Collects(BaseAgent):
    async def _all(self, part, ctx):
        return [event async for event in part.run_async(ctx)]

    async def _run_async_impl(self, ctx):
        for event in await self._all(self.sub_agents[0], ctx):
            yield event
        for event in [event async for event in self.sub_agents[1].run_async(ctx)]:
            yield event


@case("collects:passthrough a b", "__start__>collects collects>a a>b b>__end__")
def events_that_are_collected():
    return Collects(name="collects", sub_agents=some("ab"))


ANY = "__start__>own own?a own?b a>own b>own own?__end__"


class ByName(BaseAgent):
    async def _run_async_impl(self, ctx):
        part = self.find_agent(ctx.session.state["next"])
        async for event in part.run_async(ctx):
            yield event


@case("own:router a b", "__start__>own own?own own?a own?b a>__end__ b>__end__")
def agent_that_is_not_known():
    return ByName(name="own", sub_agents=some("ab"))


class Together(BaseAgent):
    async def _run_async_impl(self, ctx):
        async def collect(part):
            return [event async for event in part.run_async(ctx)]

        for events in await asyncio.gather(*(collect(part) for part in self.sub_agents)):
            for event in events:
                yield event


@case("own:router a b", ANY, widened="own")
def agents_that_run_together():
    return Together(name="own", sub_agents=some("ab"))


class InEachOther(BaseAgent):
    async def _run_async_impl(self, ctx):
        async for event in self.sub_agents[0].run_async(ctx):
            async for inner in self.sub_agents[1].run_async(ctx):
                yield inner
            yield event


@case("own:router a b", ANY, widened="own")
def agents_that_run_in_each_other():
    return InEachOther(name="own", sub_agents=some("ab"))


class HandsOn(BaseAgent):
    async def _run_async_impl(self, ctx):
        run = ctx.session.state["how"]
        async for event in run(self.sub_agents, ctx):
            yield event


@case("own:router a b", ANY, widened="own")
def agents_that_are_handed_on():
    return HandsOn(name="own", sub_agents=some("ab"))


COMPILED = {}
exec(  # a class without source
    "from google.adk.agents import BaseAgent\n"
    "class NoSource(BaseAgent):\n"
    "    async def _run_async_impl(self, ctx):\n"
    "        async for event in self.sub_agents[0].run_async(ctx):\n"
    "            yield event\n",
    COMPILED,
)


@case("own:router a b", ANY, widened="own")
def code_without_source():
    return COMPILED["NoSource"](name="own", sub_agents=some("ab"))


class Twice(SequentialAgent):
    async def _run_async_impl(self, ctx):
        async for event in super()._run_async_impl(ctx):
            yield event
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


@case("twice:passthrough a b", "__start__>twice twice>a a>b b>a a>__end__")
def more_than_the_base_class():
    return Twice(name="twice", sub_agents=some("ab"))


class Wrapped(LlmAgent):
    async def _run_async_impl(self, ctx):
        async for event in super()._run_async_impl(ctx):
            yield event


@case("w:tool", "__start__>w w>__end__", tools={"w": "mail"})
def model_with_code_around_it():
    return Wrapped(name="w", model="gemini-2.5-flash", tools=[mail])


@case("w:tool a", "__start__>w w?a a?w w?__end__ a?__end__", tools={"w": "mail"}, widened="w")
def model_with_code_and_agents():
    return Wrapped(name="w", model="gemini-2.5-flash", tools=[mail], sub_agents=some("a"))
