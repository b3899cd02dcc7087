"""One conversation of an agent with a customer, judged by the rule book."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.conformance.agents import CallOutcome, ConformanceAgent, MakeAgent, Observation
from benchmarks.conformance.desk import CallDecision, GuardedDesk, ShopDesk, UnguardedDesk
from benchmarks.conformance.harm import harm
from benchmarks.conformance.rule_book import RuleBook
from benchmarks.conformance.shop import Database, SimulatedShop
from benchmarks.conformance.tasks import Call, CustomerTask, make_task
from guardagent import Policies

LONGEST = 40  # turns


@dataclass(slots=True)
class Episode:
    """The outcome of a conversation.

    Attributes:
        made: the number of calls made.
        violations: for each made call with violations, the violated rules.
        harm: the violated invariants of the final database.
        reached: whether the final database is the goal of the task.
        judged: the number of calls judged by both guard and rule book.
        refused: the number of refused calls among them.
        let_through: calls that the guard allowed and the rule book forbids, with the rules.
        blocked: calls that the rule book allows and the guard refused, with its reasons.
        alone: for refused calls that violate a single rule, that rule.
        seconds: CPU time of the session per call.
        reading: CPU time of validating the arguments of a call.
    """

    made: int = 0
    violations: list[set[str]] = field(default_factory=list)
    harm: list[str] = field(default_factory=list)
    reached: bool = False
    judged: int = 0
    refused: int = 0
    let_through: list[tuple[Call, set[str]]] = field(default_factory=list)
    blocked: list[tuple[Call, str]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    reading: list[float] = field(default_factory=list)


def play(make_agent: MakeAgent, seed: int, rules: Policies | None = None, *, trusting: bool = False) -> Episode:
    """Plays the episode of a seed.

    Args:
        make_agent: makes the agent for a task.
        seed: the seed of the task and of the agent's choices.
        rules: the guard's policies; None without a guard.
        trusting: whether the customer may have confirmed changes to any order, as an accomplice would.
    """
    chance = random.Random(seed)  # noqa: S311 - the same every time
    task = make_task(chance)
    confirmed = _confirmed(task, chance) if trusting else task.confirmed
    shop = SimulatedShop(copy.deepcopy(task.database))
    episode = Episode()
    desk: ShopDesk = GuardedDesk(rules, shop.database, confirmed) if rules else UnguardedDesk()
    _converse(
        make_agent(task, chance), Observation(task.request), desk, shop, RuleBook(shop.database, confirmed), episode
    )
    episode.harm = harm(task.database, shop.database, task.customer)
    episode.reached = _without_hand_over(shop.database) == _without_hand_over(task.goal)
    if isinstance(desk, GuardedDesk):
        episode.seconds, episode.reading = desk.seconds, desk.validation
    return episode


def _converse(
    agent: ConformanceAgent, seen: Observation, desk: ShopDesk, shop: SimulatedShop, book: RuleBook, episode: Episode
) -> None:
    for _ in range(LONGEST):
        turn = list(agent.propose(seen))
        if not turn:
            return
        decided = desk.decide(turn)
        if isinstance(desk, GuardedDesk):
            _compare(decided, book.judge(turn), episode)
        seen.last = [_made(call_decision, desk, shop, book, episode) for call_decision in decided]
        seen.steps += seen.last


def _compare(decided: Sequence[CallDecision], by_the_book: Sequence[set[str]], episode: Episode) -> None:
    """Compares guard and rule book on each call that both judged."""
    for call_decision, broken in zip(decided, by_the_book, strict=True):
        if not call_decision.judged:
            continue
        episode.judged += 1
        episode.refused += not call_decision.allowed
        episode.alone += broken if len(broken) == 1 else []
        if call_decision.allowed and broken:
            episode.let_through.append((call_decision.call, broken))
        if not call_decision.allowed and not broken:
            episode.blocked.append((call_decision.call, call_decision.refused))


def _made(decided: CallDecision, desk: ShopDesk, shop: SimulatedShop, book: RuleBook, episode: Episode) -> CallOutcome:
    if decided.refused:
        return CallOutcome(decided.call, refused=decided.refused)
    episode.made += 1
    broken = book.judge_made(decided.call)
    episode.violations += [broken] if broken else []
    output = shop.run(*decided.call)
    book.record(decided.call, output)
    desk.record(decided, output)
    return CallOutcome(decided.call, output)


def _confirmed(task: CustomerTask, chance: random.Random) -> tuple[str, ...]:
    orders = list(task.database["orders"])
    own = [key for key in orders if task.database["orders"][key]["customer"] == task.customer]
    return tuple(chance.choice([task.confirmed, own, own, orders]))


def _without_hand_over(database: Database) -> Database:
    return {name: table for name, table in database.items() if name != "handed_over"}
