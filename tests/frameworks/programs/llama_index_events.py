"""LlamaIndex workflows of steps. CASES: name -> (what builds the workflow, the graph expected)."""
# mypy: ignore-errors

from typing import Annotated, Optional, Union

from expected import expected
from workflows import Context, Workflow, step
from workflows.decorators import catch_error
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StepFailedEvent, StopEvent
from workflows.resource import Resource

CASES = {}


def case(nodes, edges, **more):
    """Registers the class under it with the graph expected of it."""

    def register(kind):
        CASES[kind.__name__] = (lambda: kind(disable_validation=True), expected(nodes, edges, **more))
        return kind

    return register


def case_of(nodes, edges, **more):
    """Registers the function under it, which makes a workflow, with the graph expected of that."""

    def register(build):
        CASES[build.__name__] = (build, expected(nodes, edges, **more))
        return build

    return register


class A(Event):
    pass


class B(Event):
    pass


class C(Event):
    pass


class Done(Event):
    pass


class Ask(InputRequiredEvent):
    pass


class Told(HumanResponseEvent):
    pass


class Refused(HumanResponseEvent):
    pass


@case("one:passthrough", "__start__>one one>__end__")
class OneStep(Workflow):
    @step
    async def one(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=1)


@case("one:passthrough two:passthrough", "__start__>one one>two two>__end__")
class TwoSteps(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A()

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent(result=1)


@case(
    "one:router two:passthrough three:passthrough",
    "__start__>one one?two one?three one?__end__ two>__end__ three>one",
    conditions={("one", "two"): "A", ("one", "three"): "B", ("one", "__end__"): "StopEvent", ("three", "one"): None},
)
class Choices(Workflow):
    @step
    async def one(self, ev: StartEvent | C) -> A | B | StopEvent:
        return A() if ev else B()

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def three(self, ev: B) -> C:
        return C()


@case(
    "one:router two:passthrough",
    "__start__>one one?two one?__end__ two>__end__",
)
class OldUnions(Workflow):
    @step
    async def one(self, ev: StartEvent) -> Union[A, StopEvent, None]:  # noqa: UP007 - as many programs have it
        return A()

    @step
    async def two(self, ev: A) -> Optional[StopEvent]:  # noqa: UP045 - likewise
        return StopEvent()


@case(
    "one:passthrough work:passthrough gather:passthrough",
    "__start__>one one*work work>gather gather>__end__",
)
class SendAndCollect(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A | None:
        for _ in range(3):
            ctx.send_event(A())
        return None

    @step(num_workers=2)
    async def work(self, ev: A) -> Done:
        return Done()

    @step
    async def gather(self, ctx: Context, ev: Done) -> StopEvent | None:
        if ctx.collect_events(ev, [Done] * 3) is None:
            return None
        return StopEvent()


@case(
    "one:passthrough left:passthrough right:passthrough gather:passthrough",
    "__start__>one one*left one*right left>gather right>gather gather>__end__",
)
class SendDifferentEvents(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A | B:
        ctx.send_event(A())
        ctx.send_event(message=B())

    @step
    async def left(self, ev: A) -> C:
        return C()

    @step
    async def right(self, ev: B) -> Done:
        return Done()

    @step
    async def gather(self, ctx: Context, ev: C | Done) -> StopEvent | None:
        found = ctx.collect_events(ev, [C, Done])
        return StopEvent() if found else None


@case(
    "one:passthrough left:passthrough right:passthrough",
    "__start__>one one*left one*right left>__end__ right>__end__",
)
class EventThatTwoTake(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A()

    @step
    async def left(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def right(self, ev: A) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough left:passthrough right:passthrough slow:passthrough",
    "__start__>one one*left one*right left>__end__ right>slow right?__end__ slow>__end__",
    conditions={("right", "__end__"): "another branch ended the run"},
)
class BranchThatEndsTheRun(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A()

    @step
    async def left(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def right(self, ev: A) -> B:
        return B()

    @step
    async def slow(self, ev: B) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough two:passthrough other:router",
    "__start__>one one>other other?__end__ other?two two>__end__",
)
class SendToOneStep(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A | None:
        ctx.send_event(A(), step="other")

    @step
    async def two(self, ev: A | B) -> StopEvent:
        return StopEvent()

    @step
    async def other(self, ev: A) -> B | StopEvent:
        return B()


@case(
    "one:router two:passthrough three:passthrough",
    "__start__>one one?one one?two one?three one?__end__ two>__end__ three>__end__",
    widened="one",
)
class EventThatIsNotKnown(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A | None:
        ctx.send_event(await ctx.store.get("next"))

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def three(self, ev: B) -> StopEvent:
        return StopEvent()


@case(
    "one:router two:passthrough three:passthrough",
    "__start__>one one?one one?two one?three one?__end__ two>__end__ three>__end__",
    widened="one",
)
class AnyEventReturned(Workflow):
    @step
    async def one(self, ev: StartEvent) -> Event:
        return ev.following

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def three(self, ev: B) -> StopEvent:
        return StopEvent()


@case(
    "one:router two:passthrough three:passthrough",
    "__start__>one one?two one?three two>__end__ three>__end__",
)
class AnyEventDeclaredTwoReturned(Workflow):
    @step
    async def one(self, ev: StartEvent) -> Event:
        return A() if ev else B()

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def three(self, ev: B) -> StopEvent:
        return StopEvent()


@case(
    "one:router two:passthrough three:passthrough",
    "__start__>one one?two one?three two>__end__ three>__end__",
)
class MoreReturnedThanDeclared(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        if ev:
            return B()
        return A()

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def three(self, ev: B) -> StopEvent:
        return StopEvent()


def emit(ctx: Context, event: B):
    ctx.send_event(event)


@case(
    "one:passthrough two:passthrough",
    "__start__>one one*two two>__end__",
)
class SendInAHelper(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> B | None:
        emit(ctx, B())

    @step
    async def two(self, ev: B) -> StopEvent:
        return StopEvent()


@case(
    "one:router two:passthrough three:passthrough",
    "__start__>one one?two one?three two>__end__ three>__end__",
    conditions={("one", "three"): "B"},
)
class SendOneOfTwo(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A | B | None:
        following = A() if ev else B()
        ctx.send_event(following)
        return None

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @step
    async def three(self, ev: B) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough Ask:human two:passthrough",
    "__start__>one one>Ask Ask>two two>__end__",
)
class PersonBetweenSteps(Workflow):
    @step
    async def one(self, ev: StartEvent) -> Ask:
        return Ask(prefix="?")

    @step
    async def two(self, ev: Told) -> StopEvent:
        return StopEvent()


@case(
    "one:router InputRequiredEvent:human yes:passthrough no:passthrough",
    "__start__>one one?InputRequiredEvent one?__end__ InputRequiredEvent?yes InputRequiredEvent?no yes>__end__ no>one",
    conditions={("InputRequiredEvent", "yes"): "Told", ("InputRequiredEvent", "no"): "Refused"},
)
class PersonWhoDecides(Workflow):
    @step
    async def one(self, ev: StartEvent | A) -> InputRequiredEvent | StopEvent:
        return InputRequiredEvent() if ev else StopEvent()

    @step
    async def yes(self, ev: Told) -> StopEvent:
        return StopEvent()

    @step
    async def no(self, ev: Refused) -> A:
        return A()


@case("one:human", "__start__>one one>__end__")
class WaitForAPerson(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> StopEvent:
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="?"))
        return StopEvent(result=answer)


@case("one:human two:passthrough", "__start__>one one>two two>__end__")
class StreamAndWaitForAPerson(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A:
        ctx.write_event_to_stream(InputRequiredEvent(prefix="?"))
        await ctx.wait_for_event(Told)
        return A()

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough Ask:human two:passthrough",
    "__start__>one one>Ask Ask>two two>__end__",
)
class StreamToAPerson(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> None:
        ctx.write_event_to_stream(Ask())

    @step
    async def two(self, ev: Told) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough Told:human two:passthrough",
    "__start__>one one?Told Told>two two>__end__",
)
class AnswerThatNobodyAskedFor(Workflow):
    @step
    async def one(self, ev: StartEvent) -> None:
        pass

    @step
    async def two(self, ev: Told) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough two:passthrough wait:passthrough",
    "__start__*one __start__*wait one>two two>wait wait>__end__",
)
class WaitForAnotherStep(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A()

    @step
    async def two(self, ev: A) -> Done:
        return Done()

    @step
    async def wait(self, ctx: Context, ev: StartEvent) -> StopEvent:
        await ctx.wait_for_event(Done)
        return StopEvent()


@case("one:human two:human", "__start__>one one>two two>__end__")
class InputInSteps(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A(text=input("?"))

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent(result=self.ask() if ev else "")

    def ask(self):
        return input("?")


@case("human_review:passthrough", "__start__>human_review human_review>__end__")
class NameAloneMakesNoPerson(Workflow):
    @step
    async def human_review(self, ev: StartEvent) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough two:passthrough failed:passthrough",
    "__start__>one one>two two>__end__ one?failed two?failed failed>__end__",
    conditions={("one", "failed"): "error"},
)
class StepsThatFail(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A()

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @catch_error
    async def failed(self, ev: StepFailedEvent) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough two:passthrough failed:passthrough",
    "__start__>one one>two two>__end__ one?failed failed>two",
)
class OneStepThatFails(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A()

    @step
    async def two(self, ev: A) -> StopEvent:
        return StopEvent()

    @catch_error(for_steps=["one"])
    async def failed(self, ev: StepFailedEvent) -> A:
        return A()


@case(
    "one:passthrough work:passthrough gather:passthrough",
    "__start__>one one*work one?gather work>gather work?gather gather>__end__",
    conditions={("one", "gather"): "an empty list"},
)
class ListOfEvents(Workflow):
    @step
    async def one(self, ev: StartEvent) -> list[A]:
        return [A() for _ in range(3)]

    @step
    async def work(self, ev: A) -> Done | None:
        return Done() if ev else None

    @step
    async def gather(self, evs: list[Done]) -> StopEvent:
        return StopEvent()


@case(
    "one:passthrough left:passthrough right:passthrough gather:passthrough",
    "__start__>one one*left one*right left>gather right>gather gather>__end__",
)
class StepThatTakesTwoEvents(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A | B | None:
        ctx.send_event(A())
        ctx.send_event(B())
        return None

    @step
    async def left(self, ev: A) -> C:
        return C()

    @step
    async def right(self, ev: B) -> Done:
        return Done()

    @step
    async def gather(self, first: C, second: Done) -> StopEvent:
        return StopEvent()


class Base(Event):
    pass


class Derived(Base):
    pass


@case(
    "one:passthrough exact:passthrough broad:passthrough",
    "__start__>one one>broad broad>__end__ exact>__end__",
)
class Subclasses(Workflow):
    @step
    async def one(self, ev: StartEvent) -> Derived:
        return Derived()

    @step
    async def exact(self, ev: Base) -> StopEvent:
        return StopEvent()

    @step(accept_event_subclasses=True)
    async def broad(self, ev: Base) -> StopEvent:
        return StopEvent()


@case("one:passthrough two:passthrough", "__start__>one two>__end__")
class StepThatLeadsNowhere(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A:
        return A()

    @step
    async def two(self, ev: B) -> StopEvent:
        return StopEvent()


class Free(Workflow):
    pass


@step(workflow=Free)
async def first(ev: StartEvent) -> A:
    return A()


@step(workflow=Free)
async def second(ev: A) -> StopEvent:
    return StopEvent()


CASES["FreeFunctions"] = (
    Free,
    expected("first:passthrough second:passthrough", "__start__>first first>second second>__end__"),
)


@case_of("one:passthrough two:passthrough", "__start__>one one>two two>__end__")
def class_of_workflows():
    return TwoSteps


class Inner(Workflow):
    @step
    async def begin(self, ev: StartEvent) -> A:
        return A()

    @step
    async def end(self, ev: A) -> StopEvent:
        return StopEvent(result=input("?"))


@case(
    "one:subgraph begin:passthrough end:human two:passthrough",
    "__start__>one one?begin begin>end end@one one?two two>__end__",
)
class WorkflowInAStep(Workflow):
    @step
    async def one(self, ev: StartEvent) -> B:
        return B(result=await Inner(timeout=5).run())

    @step
    async def two(self, ev: B) -> StopEvent:
        return StopEvent()


class Keeps(Workflow):
    def __init__(self, inner, **more):
        super().__init__(**more)
        self.inner = inner

    @step
    async def one(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await self.inner.run())


@case_of(
    "one:subgraph begin:passthrough end:human",
    "__start__>one one?begin begin>end end@one one?__end__",
)
def workflow_of_an_instance():
    return Keeps(Inner())


def make_inner() -> Inner:
    return Inner()


@case(
    "one:subgraph begin:passthrough end:human",
    "__start__>one one?begin begin>end end@one one?__end__",
)
class WorkflowOfAResource(Workflow):
    @step
    async def one(self, ev: StartEvent, inner: Annotated[Inner, Resource(make_inner)]) -> StopEvent:
        return StopEvent(result=await inner.run())
