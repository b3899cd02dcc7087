"""A user's program with every public name, for strict type checkers. It is checked, but never run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guardagent import (
    AuditLog,
    Check,
    ContentError,
    Context,
    Decision,
    Demonstration,
    Event,
    Graph,
    GuardAgent,
    GuardedTurn,
    GuardError,
    InputError,
    LimitError,
    Limits,
    Memory,
    ModelError,
    NotCompiledError,
    Permit,
    Policies,
    ProgramError,
    RemoteGuard,
    ReplanResult,
    Report,
    Sandbox,
    SandboxError,
    Session,
    Tool,
    Toolbox,
    ToolDenied,
    ToolGuard,
    UnknownNameError,
    Verdict,
    Violation,
    aenforce,
    aguard,
    aguarded_chat,
    enforce,
    guard,
    guarded_chat,
    load_policies,
    retrieve,
    verify,
)
from guardagent.batch.records import read_case
from guardagent.batch.survivors import surviving
from guardagent.bench import BenchExample, Evaluation, read_examples, run_evaluation
from guardagent.enforcement import HostCall, Outcome, SqliteLedger, arun, run, terminal_approver
from guardagent.enforcement import ToolGuard as HostGuard
from guardagent.enforcement.remote import wait_for_reviewers
from guardagent.enforcement.tool_guard import gave_up
from guardagent.frameworks.python import Answer, ToolTurn, conversation, guard_tools, guarded, run_agent, run_tool_calls
from guardagent.generation.local import (
    GeneratedTurn,
    GuardedLogits,
    TurnRequest,
    guarded_generate,
    guarded_generate_batch,
)
from guardagent.generation.local.vllm import GuardedRequest
from guardagent.log import AuditLog as Log
from guardagent.log import outcome_record, verdict_record, verify_log
from guardagent.log.stores import jsonl
from guardagent.models import Completion, Message, Model, load_model
from guardagent.policy.equivalence import ReviewerAnswer, choices, compare_rules, question, with_answer
from guardagent.policy.equivalence.draft import Different
from guardagent.policy.lint import LintFinding, lint
from guardagent.policy.load import compile_rules, read_policies
from guardagent.policy.logic.reasoner import OPEN, Open, Reasoner
from guardagent.policy.watch import PolicyWatch
from guardagent.policy.words import definitions_in_words, policies_in_words, policy_in_words
from guardagent.programs.meaning import nearest_topic
from guardagent.sandbox import load_sandbox
from guardagent.session.counters import open_counters
from guardagent.session.shadow import wait_for_shadows
from guardagent.testing import ChatAnswer, ChatCandidate, ScriptedChat, ScriptedModel, WrittenCall
from guardagent.testing.conformance import SCENARIOS, Desk, HandOff, Process, Reply, SubAgent, check
from guardagent.translation.pipeline import translate
from guardagent.workflow import graphs_of, verify_all
from guardagent.workflow.analysis.checks import CheckDescription
from guardagent.workflow.analysis.proofs import prove
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph_json import read_graph

TOOLS: Sequence[Mapping[str, Any]] = [{"type": "function", "function": {"name": "refund"}}]


def show(*values: object) -> None:
    """Stands for any use of the values."""


class MyModel:
    """A custom model."""

    def complete(self, messages: Sequence[Message]) -> Completion:
        return Completion(messages[-1].content)


def finished_runs(model: Model) -> None:
    judge = GuardAgent(
        "Deny refunds.", model=MyModel(), votes=3, on_error="escalate", sandbox=load_sandbox("auto", Limits())
    )
    verdicts: list[Verdict] = [
        judge.guard("in", "out", {"role": "nurse"}),
        guard("Deny refunds.", "in", "out", agent="ehragent", model=model, mode="program", votes=3),
        asyncio.run(aguard(None, "in", "out", agent="ehragent", on_error="deny")),
    ]
    for verdict in verdicts:
        violations: tuple[Violation, ...] = verdict.violations
        decision: Decision = verdict.decision
        show(
            decision is Decision.DENY,
            verdict.label + 1,
            [violation.policy.upper() for violation in violations],
            verdict.rules,
        )


def known_agents() -> list[Demonstration]:
    toolbox: Toolbox = Toolbox.load("tools")
    tools: list[Tool] = list(toolbox.values())
    sandbox: Sandbox = load_sandbox()
    show([tool.signature.strip() for tool in tools], sandbox)
    return retrieve(Memory("memory").agent("ehragent").demonstrations, "in", "out", 3)


def policies_of_all_kinds() -> Policies:
    findings: list[LintFinding] = lint("policies.yaml")
    show([finding.message for finding in findings], read_policies("policies.yaml").ids, compile_rules(["F tool:a"]))
    rules: Mapping[str, object] = {"version": 1, "policies": []}
    return load_policies(data=rules) if rules else load_policies(text="version: 1") or load_policies(Path("p.yaml"))


def calls(policies: Policies) -> Permit | None:
    session: Session = policies.session(state=lambda: {"orders": 5})
    verdict = session.check("refund", {"amount": 5})
    session.record("done", permit=verdict.permit)
    enforced: ReplanResult = enforce(lambda _: None, session)
    show(session.obligations, session.history[0].args["amount"], enforced.replans)
    permit: Permit | None = verdict.permit
    return permit


async def generated(session: Session) -> ReplanResult:
    scripted = ScriptedChat([ChatCandidate("", (WrittenCall("refund", "{}"),))])
    turn: GuardedTurn = guarded_chat(scripted, [{"role": "user", "content": "hi"}], TOOLS, session)
    later: GuardedTurn = await aguarded_chat("openai/gpt-4.1", [], TOOLS, session, candidates=2)
    local: GeneratedTurn = guarded_generate(object(), object(), [], TOOLS, session)
    show(turn.text + later.text, local, GuardedLogits(object(), TOOLS, session))
    many: list[GeneratedTurn] = guarded_generate_batch(object(), object(), [TurnRequest([], TOOLS, session)], slots=2)
    show(many, GuardedRequest(object(), TOOLS, session).extra_args)

    async def step(_: object) -> None:
        return None

    return await aenforce(step, session)


def tools_of_an_agent() -> Answer:
    store = open_counters("sqlite:counters.db")
    ledger, log = SqliteLedger("ledger.db"), AuditLog("audit.log")
    tool_guard = ToolGuard("policies.yaml", ledger=ledger, log=log, counters=store)
    show([reservation.amount for reservation in store.pending()])
    with PolicyWatch(load_policies(Path("policies.yaml")), interval=1.0):
        wait_for_shadows()

    @guarded(tool_guard)
    def refund(order_id: str, amount: float = 0) -> str:
        return f"{order_id}: {amount}"

    text: str = refund("W1", amount=5.0)
    (again,) = guard_tools([refund], tool_guard)
    with conversation("c1") as name:
        turn: ToolTurn = run_tool_calls([], {"refund": again}, tool_guard, conversation=name + text)
    call = HostCall("refund", {"order_id": "W1"}, "c1")
    output: object = run(tool_guard, call, lambda args: refund(**args), Outcome)
    show([gave_up(verdict) for verdict in turn.verdicts], turn.messages, output, terminal_approver)
    return run_agent(lambda _: {"role": "assistant", "content": "done"}, [], {"refund": refund}, tool_guard)


def tools_of_an_agent_with_a_server() -> Answer:
    with RemoteGuard(
        "https://guard.example", token_file=Path("token"), approver=wait_for_reviewers(60)
    ) as remote_guard:
        tools = guard_tools([print], remote_guard)
        return run_agent(lambda _: {"role": "assistant", "content": "done"}, [], tools, remote_guard)


async def asynchronous(tool_guard: HostGuard) -> object:
    @guarded(tool_guard)
    async def mail(to: str) -> int:
        return len(to)

    sent: int = await mail("ann")

    async def execute(args: Mapping[str, Any]) -> int:
        return sent + await mail(**args)

    return await arun(tool_guard, HostCall("mail", {"to": "ann"}, "c1"), execute)


def logged(verdict: Verdict) -> None:
    with Log("audit.log") as log:
        log.append(verdict_record(verdict, tool="refund", args={}, conversation="c1"))
        log.append(outcome_record(tool="refund", status="ok", conversation="c1"))
    show(verify_log("audit.log"))


def workflows(policies: Policies) -> Report:
    graph: Graph = read_graph("graph.json")
    report: Report = verify(graph, policies, require_human=True, sensitive_tools=["refund"])
    show([finding.check for finding in report.findings], report.passed, prove(graph, policies))
    show([workflow.line for workflow in graphs_of("app.py").workflows], verify_all("app.py", policies).passed)
    return report


def evaluation(path: Path) -> Evaluation:
    examples = read_examples(path, lambda record: BenchExample(record.string("id"), "in", "out", record.label()))
    show([example.id for example in examples])
    return Evaluation(
        agent="my-agent",
        load=lambda path: examples,
        explained=lambda verdict, example: verdict.details.get("rule") == example.truth["rule"],
        answered=lambda answer, example: answer == example.truth["answer"],
        run_answer=lambda example: example.agent_output,
        groups=lambda example: {"rule": example.truth["rule"]},
    )


def own_check(event: Event, context: Context) -> Verdict:
    return Verdict(Decision.ALLOW if event.tool in context.facts else Decision.DENY, reasons=("never",))


def reasons(error: GuardError) -> str:
    match error:
        case ToolDenied(verdict=verdict):
            return verdict.feedback()
        case NotCompiledError(report=report):
            return report.to_text().strip()
        case UnknownNameError() | ContentError() | InputError():
            return "wrong input"
        case LimitError() | ProgramError() | SandboxError() | ModelError():
            return "not checked"
        case _:
            return str(error)


CHECK: Check = own_check
SCRIPTED: Model = ScriptedModel(["allow"])
TOPIC: str = nearest_topic("rent a car", {"car": ["find a car to rent"]})
LOADED: Model = load_model("openai/gpt-4.1", timeout=5)
EVALUATED: dict[str, Any] = run_evaluation("eicu-ac", Path("data.jsonl"), Path("out"), mode="program")
ANSWER = ChatAnswer((ChatCandidate("Hello."),))
HOSTS = (SCENARIOS, Desk, HandOff, Process, Reply, SubAgent, check)
LOGIC = (OPEN, Open, Reasoner)
STORE: type[jsonl.Store] = jsonl.Store
STRUCTURE = (CheckDescription("Short", "Why.", "How."), GraphFinding("steps", None, "warning", "too long"))


def drafts(policies: Policies, line: str) -> list[str]:
    case = read_case(line, "cases.jsonl", 1)
    comparison = compare_rules("forall(pay(), False)", "G !tool:pay")
    if isinstance(comparison, Different):
        answer = ReviewerAnswer(comparison.witness, allowed=choices(comparison)[0].answer == "allowed")
        return [question(comparison.witness), *map(str, with_answer([], answer))]
    words = [policy_in_words(policies, policies.ids[0]), *policies_in_words(policies), *definitions_in_words(policies)]
    return [*map(str, words), str(surviving(policies, policies.ids[0], [case]))]


def translation(model: Model) -> int:
    result = translate("POLICY.md", "tools.json", model=model, out="policies.yaml", max_cost=5)
    return result.outcome
