"""smolagents: what guarded agents really do, with a model that follows a script."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("smolagents")

from smolagents import FinalAnswerTool, LocalPythonExecutor, Tool, ToolCallingAgent, tool
from smolagents.memory import ToolCall
from smolagents.models import ChatMessage

from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.smolagents import AgentHalted, conversation, guarded
from guardagent.testing.conformance.host import NoSecrets
from tests.frameworks.guarded_runs import Ran, guarded_run_test, refund
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, HALTED, LIMIT, MISSPELT, Shop, guard_of
from tests.frameworks.smolagents.agents import Kind, ScriptedModel, agent_of

KINDS: tuple[Kind, ...] = ("calls", "code")
both = pytest.mark.parametrize("kind", KINDS)


def tools_of(shop: Shop) -> list[Tool]:
    """Returns the shop's tools."""

    @tool
    def refund(order_id: str, amount: int = 500) -> str:
        """Pays an order back.

        Args:
            order_id: the order.
            amount: the amount.
        """
        return shop.refund(order_id, amount)

    @tool
    def wire(amount: int) -> str:
        """Sends money away.

        Args:
            amount: the amount.
        """
        return shop.wire(amount)

    @tool
    def authenticate(email: str, code: str = "1234") -> str:
        """Logs a customer in.

        Args:
            email: the address.
            code: the code.
        """
        return shop.authenticate(email, code)

    return [refund, wire, authenticate]


def ran(guard: ToolGuard, shop: Shop, kind: Kind, *turns: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    """Runs a guarded agent. Returns its answer and its model."""
    model, named = ScriptedModel(kind, turns), options.pop("named", "c1")
    agent = guarded(agent_of(kind, options.pop("tools", tools_of(shop)), model, **options), guard)
    with conversation(named):
        return agent.run("please"), model


def code(*lines: str) -> str:
    """Returns a model's message with code."""
    return "\n".join(["<code>", *lines, "</code>"])


def run(
    guard: ToolGuard, shop: Shop, *turns: Any, named: str | None = "c1", awaited: bool = False, kind: Kind = "calls"
) -> Ran:
    """Runs a guarded agent; the host has no asynchronous tools."""
    model = ScriptedModel(kind, turns)
    agent = guarded(agent_of(kind, tools_of(shop), model), guard)
    with conversation(named) if named is not None else contextlib.nullcontext():
        answer = agent.run("please")
    return Ran(answer, model.read)


test_guarded_run = guarded_run_test({kind: functools.partial(run, kind=kind) for kind in KINDS}, AgentHalted)


# --- denials


@both
def test_a_halt_ends_the_run(kind: Kind, tmp_path: Path) -> None:
    """Code cannot catch it, and nothing runs afterwards."""
    shop, guard = Shop(), guard_of(tmp_path, HALTED)
    wire = [("wire", {"amount": 5})]
    with pytest.raises(AgentHalted, match="No money leaves the bank"):
        ran(guard, shop, kind, wire if kind == "calls" else [*wire, *refund(50)], refund(50), "paid")
    _, model = ran(guard, shop, kind, refund(50), "paid")
    assert "halted" in model.read[1]
    assert (shop.wired, shop.refunds) == ([], [])


def test_code_that_catches_a_halt_gives_no_answer(tmp_path: Path) -> None:
    """The answer is in the same code, which the halt did not end."""
    lines = code("try:", "    wire(5)", "except:", "    pass", "final_answer('all is well')")
    with pytest.raises(AgentHalted):
        ran(guard_of(tmp_path, HALTED), Shop(), "code", lines)


def test_outputs_beside_a_denial_are_kept(tmp_path: Path) -> None:
    """Of several calls in a message, the model gets the outputs of those that ran, and the denial."""
    shop = Shop()
    _, model = ran(guard_of(tmp_path, LIMIT), shop, "calls", [*refund(50), *refund(500, "W2")], "paid")
    assert "refunded 50 of W1" in model.read[1]
    assert "at most 100" in model.read[1]


def test_the_conversation_of_the_attachment(tmp_path: Path) -> None:
    """`conversation=` names it, as text or as a function."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)
    for named in ("a", lambda: "b", "a"):
        guarded(agent_of("calls", tools_of(shop), ScriptedModel("calls", [refund(5)])), guard, conversation=named).run(
            ""
        )
    assert len(shop.refunds) == 2


# --- generated code


@pytest.mark.parametrize(
    "line",
    [
        "refund.forward('W1', 500)",
        "refund._tool.forward('W1', 500)",
        "refund.guardagent_guard = None",
        "getattr(refund, 'forward')('W1', 500)",
        "[refund('W1', n) for n in (500, 600)]",
        "(lambda f: f('W1', 500))(refund)",
        "pay = refund\npay('W1', 500)",
        "refund({'order_id': 'W1', 'amount': 500})",
        "refund('W1', amount='500')",
        "refund('W1', amount=50, **{'Amount': 500})",
        "refund('W1', amount=[500])",
        "class Sum(int):\n    def __le__(self, other):\n        return True\nrefund('W1', Sum(500))",
        "helper.tools['refund'].forward('W1', 500)",
        "helper.python_executor.static_tools['refund']('W1', 500)",
        "stock('W1', 500)",
        "def pay():\n    try:\n        refund('W1', 500)\n    except Exception:\n        refund('W1')\npay()",
    ],
)
def test_no_code_gets_past_the_guard(line: str, tmp_path: Path) -> None:
    """Whatever it calls, the shop pays at most 100; and it does pay 50."""
    shop = Shop()

    def stock(order_id: str, amount: int) -> str:
        return shop.refund(order_id, amount)

    helper = agent_of("code", tools_of(shop), ScriptedModel("code", []), name="helper", description="helps")
    executor = LocalPythonExecutor([], additional_functions={"stock": stock})
    extra = "  - id: stocked\n    temporal: forall(stock(amount=a), a <= 100)\n"
    guard = guard_of(tmp_path, LIMIT + extra)
    ran(guard, shop, "code", code(line), code("refund('W2', 50)"), "paid", managed_agents=[helper], executor=executor)
    assert shop.refunds == [("W2", 50)]


def test_code_that_outlives_its_step_stays_in_its_conversation(tmp_path: Path) -> None:
    """Code that was given up runs on in a thread; what it calls counts where it began."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)
    executor = LocalPythonExecutor(["time"], timeout_seconds=1)
    slow = code("import time", "time.sleep(1.3)", "refund('W1', 5)")
    ran(guard, shop, "code", slow, "late", executor=executor)
    ran(guard, shop, "code", refund(6), "paid", named="c2")
    time.sleep(0.8)
    assert sorted(shop.refunds) == [("W1", 5), ("W1", 6)]
    assert [len(guard.session(name).history) for name in ("c1", "c2")] == [1, 1]


def test_code_that_runs_elsewhere_is_refused(tmp_path: Path) -> None:
    """A remote executor gets copies of the tools, which no guard sees; so does a function among the variables."""
    agent = agent_of("code", [], ScriptedModel("code", []))
    agent.python_executor = object()
    with pytest.raises(InputError, match="executor_type='local'"):
        guarded(agent, guard_of(tmp_path, LIMIT))
    agent = guarded(agent_of("code", [], ScriptedModel("code", [])), guard_of(tmp_path, LIMIT))
    with conversation("c1"), pytest.raises(InputError, match="pass it as a tool"):
        agent.run("please", additional_args={"pay": Shop().refund})


# --- the final answer


@both
def test_the_answer_after_the_last_step_is_judged(kind: Kind, tmp_path: Path) -> None:
    """A model that has used up its steps writes an answer that no check of the host sees."""

    class LastWords(ScriptedModel):
        def generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatMessage:
            message = super().generate(messages)
            return message if len(self.read) == 1 else ChatMessage(role="assistant", content="The PIN is 47x11.")

    model = LastWords(kind, [refund(5)])
    agent = agent_of(kind, tools_of(Shop()), model, max_steps=1)
    with conversation("c1"):
        answer = guarded(agent, guard_of(tmp_path, LIMIT, answers=NoSecrets())).run("please")
    assert "withheld" in answer
    assert "47x11" not in answer + str(agent.memory.steps[-1].action_output)


@both
def test_a_denied_answer_is_in_no_step(kind: Kind, tmp_path: Path) -> None:
    """After three denied answers the reason is the answer, and the steps of the run do not have them."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    answer, _ = ran(guard, Shop(), kind, *["The PIN is 47x11."] * 5, return_full_result=True)
    assert "withheld" in answer.output
    assert "47x11" not in str(answer.steps)


@pytest.mark.parametrize("answer", ["Odd('none')", "[Odd('none')]"])
def test_an_answer_of_a_class_of_the_code_is_denied(answer: str, tmp_path: Path) -> None:
    """Such an object may show the user another text than it showed the rules."""
    tells = [
        "class Odd(str):",
        *(f"    def {method}(self):\n        return '47x11'" for method in ("__str__", "__repr__")),
    ]
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    assert ran(guard, Shop(), "code", code(*tells, f"final_answer({answer})"), "fine")[0] == "fine"


# --- attaching


@both
def test_tools_that_are_added_later_are_guarded(kind: Kind, tmp_path: Path) -> None:
    """Also between the steps of a run."""
    shop = Shop()

    class Adds(ScriptedModel):
        def generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatMessage:
            agent.tools["refund"] = tools_of(shop)[0]
            if kind == "code":
                agent.python_executor.send_tools(agent.tools)
            return super().generate(messages)

    agent = guarded(agent_of(kind, [], Adds(kind, [refund(500), refund(50), "paid"])), guard_of(tmp_path, LIMIT))
    with conversation("c1"):
        agent.run("please")
    assert shop.refunds == [("W1", 50)]


def test_an_executor_that_is_replaced_within_a_step_is_guarded(tmp_path: Path) -> None:
    """As the program may do that reads the stream, before the code runs."""
    shop = Shop()
    model = ScriptedModel("code", [refund(500), refund(50), "paid"])
    agent = guarded(agent_of("code", [], model), guard_of(tmp_path, LIMIT))
    with conversation("c1"):
        events = agent.run("please", stream=True)
    for event in events:
        if isinstance(event, ToolCall):
            agent.python_executor = LocalPythonExecutor([])
            agent.python_executor.send_tools({"refund": tools_of(shop)[0], "final_answer": FinalAnswerTool()})
    assert shop.refunds == [("W1", 50)]


@both
def test_a_tool_is_called_by_the_name_by_which_it_is_judged(kind: Kind, tmp_path: Path) -> None:
    """A tool that is renamed after the guard was attached would be judged by its old name."""
    shop = Shop()
    tool = tools_of(shop)[0]
    tool.name = "look_up"
    agent = guarded(agent_of(kind, [tool], ScriptedModel(kind, [refund(500)])), guard_of(tmp_path, LIMIT))
    agent.tools["refund"] = agent.tools.pop("look_up")
    with conversation("c1"), pytest.raises(InputError, match="expected one name"):
        agent.run("please")
    assert shop.refunds == []


@pytest.mark.parametrize("kind", [list, dict])
def test_no_variable_holds_a_function(kind: type, tmp_path: Path) -> None:
    """Code would call it, and no guard would see it."""
    shop = Shop()
    agent = guarded(agent_of("code", [], ScriptedModel("code", [code("pay[0]('W1', 500)")])), guard_of(tmp_path, LIMIT))
    with conversation("c1"), pytest.raises(InputError, match="has a function"):
        agent.run("please", additional_args={"pay": kind([(0, shop.refund)])})
    assert shop.refunds == []


def test_what_cannot_be_guarded_is_refused(tmp_path: Path) -> None:
    """A misspelt rule, a second guard, a tool with a call of its own, a missing part of the host."""

    class Odd(Tool):
        name, description, output_type = "odd", "is odd", "string"
        inputs: ClassVar[dict[str, Any]] = {}

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

        def forward(self) -> str:
            return "odd"

    class Older(ToolCallingAgent):
        provide_final_answer = property()

    def attached(tools: Iterable[Tool], text: str = LIMIT) -> Any:
        return guarded(agent_of("calls", tools, ScriptedModel("calls", [])), guard_of(tmp_path, text))

    with pytest.raises(InputError, match="did you mean 'refund'"):
        attached(tools_of(Shop()), MISSPELT)
    agent = attached(tools_of(Shop()))
    with pytest.raises(InputError, match="another guard"):
        guarded(agent, guard_of(tmp_path, LIMIT))
    with pytest.raises(InputError, match="another guard"):
        attached(agent.tools.values())
    with pytest.raises(InputError, match="of its own"):
        attached([Odd()])
    with pytest.raises(InputError, match="has no 'provide_final_answer' in this version"):
        guarded(Older(tools=[], model=ScriptedModel("calls", [])), guard_of(tmp_path, LIMIT))


def test_unjudged_arguments_are_passed_on(tmp_path: Path) -> None:
    """An object that no rule can read is refused, unless the operator names it; the original tool is unchanged."""
    received: list[Any] = []

    @tool
    def refund(order_id: str, amount: Any) -> str:
        """Pays.

        Args:
            order_id: the order.
            amount: an object.
        """
        received.append(amount)
        return "done"

    till = object()
    for unjudged in ({}, {"refund": ["amount"]}):
        agent = agent_of("code", [refund], ScriptedModel("code", [code("refund('W1', till)"), "done"]))
        guarded(agent, guard_of(tmp_path, AT_MOST_ONE), conversation="c1", unjudged=unjudged)
        agent.run("please", additional_args={"till": till})
    assert received == [till]
    assert refund.forward("W1", till) == "done"


def test_a_missing_approver_is_reported(tmp_path: Path, caplog: Any) -> None:
    """An agent is attached to a guard whose rules may escalate."""
    guarded(agent_of("calls", tools_of(Shop()), ScriptedModel("calls", ())), guard_of(tmp_path, APPROVED))
    assert "attached: each call that a rule escalates is denied: this host has no approvals of its own" in caplog.text
