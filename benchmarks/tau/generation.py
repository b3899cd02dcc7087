"""The cases of a tau domain as turns of a local model: `python -m benchmarks.tau.generation CASES --policies FILE`.

Each case is replayed up to its proposed call, and then a model writes the next call, guarded and without a guard:

- `scripted` writes the proposed call of the case;
- `random` has random weights, made here, and writes any call of the tools of the cases;
- the model in the folder of `--model`, if there is one, reads the history as chat messages.

The table has the share of calls that comply: of *scripted* calls by the labels of the cases, of others by a fresh
session with the same rules, which is not an independent judge. Then it has the share of the forbidden proposals that
left the model (harm), and of the allowed ones (utility). A cell that a model cannot have is empty.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.conformance.local_model import tiny_model
from guardagent import load_policies
from guardagent.batch.cases import session_of
from guardagent.batch.records import Case, read_case
from guardagent.generation.local import TurnRequest, guarded_generate, guarded_generate_batch
from guardagent.policy.policies import Policies
from guardagent.types import thaw

_LONGEST, _OTHERS, _SLOTS = 900, 3, 16
Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """A case with the calls that a model wrote for it.

    Attributes:
        case: the case.
        calls: the calls that left the model.
        is_violation: for each of them, whether it breaks a rule.
    """

    case: Case
    calls: tuple[Call, ...]
    is_violation: tuple[bool, ...]


class DomainTools:
    """The tools of a domain, with the values of its cases as the values of their arguments.

    Args:
        cases: the cases.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        self._values: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
        for case in cases:
            for event in (*case.history, case.proposed):
                for name, value in event.args.items():
                    self._values[event.tool][name][json.dumps(thaw(value), sort_keys=True)] = thaw(value)

    def of(self, case: Case, chance: random.Random) -> list[dict[str, Any]]:
        """The tools of one case: its own values, and some of others, so that a model without knowledge finds both."""
        return [self._tool(name, arguments, case, chance) for name, arguments in sorted(self._values.items())]

    def _tool(
        self, name: str, arguments: Mapping[str, Mapping[str, Any]], case: Case, chance: random.Random
    ) -> dict[str, Any]:
        own = {name: thaw(value) for event in (*case.history, case.proposed) for name, value in event.args.items()}
        properties = {}
        for argument, values in arguments.items():
            some = chance.sample(sorted(values), min(_OTHERS, len(values)))
            enum = [*([own[argument]] if argument in own else []), *(values[key] for key in some)]
            if name == case.proposed.tool and argument in case.proposed.args:
                enum.append(thaw(case.proposed.args[argument]))
            properties[argument] = {"enum": [json.loads(dump) for dump in dict.fromkeys(map(json.dumps, enum))]}
        required = sorted(case.proposed.args) if name == case.proposed.tool else sorted(properties)
        schema = {"type": "object", "properties": properties, "required": required}
        return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


class Scripted:
    """An engine that writes a text, whatever the probabilities."""

    defaults = None

    def __init__(self, tokens: Sequence[int], end: int, size: int) -> None:
        self._script, self._size = [*tokens, end], size
        self._place = 0

    def start(self, prompt: Sequence[int]) -> None:
        self._prompt = len(prompt)

    def logits(self) -> Any:
        import torch

        logits = torch.zeros(self._size)
        logits[self._script[min(self._place, len(self._script) - 1)]] = 1.0
        return logits

    def step(self, token: int) -> None:  # noqa: ARG002 - the script does not depend on it
        self._place += 1

    def cut(self, length: int) -> None:
        self._place = length - self._prompt


def scripted(cases: Sequence[Case], policies: Policies, tools: DomainTools, *, guarded: bool) -> list[WrittenTurn]:
    """Turns that propose the calls of the cases, judged by the labels."""
    _, tokenizer = tiny_model()
    scripted, chance = [], random.Random(0)  # noqa: S311
    for case in cases:
        call = json.dumps({"name": case.proposed.tool, "arguments": thaw(case.proposed.args)}, ensure_ascii=False)
        tokens = tokenizer(f"<tool_call>\n{call}\n</tool_call>")["input_ids"]
        turn = guarded_generate(
            Scripted(tokens, tokenizer.eos_token_id, len(tokenizer)), tokenizer, [65], tools.of(case, chance),
            session_of(policies, case) if guarded else None, tool_format="hermes", do_sample=False,
            max_new_tokens=4 * _LONGEST,
        )  # fmt: skip
        calls = tuple((call.tool, call.args) for call in turn.calls)
        scripted.append(WrittenTurn(case, calls, (bool(case.label),) * len(calls)))
    return scripted


def free(
    cases: Sequence[Case], policies: Policies, tools: DomainTools, *, guarded: bool, folder: Path | None = None
) -> list[WrittenTurn]:
    """Turns of a model that writes what it likes; a fresh session with the same rules judges the calls."""
    model, tokenizer = tiny_model() if folder is None else _loaded(folder)
    chance = random.Random(0)  # noqa: S311
    requests = [
        TurnRequest(
            f"{case.id}\n" if folder is None else _messages(case), tools.of(case, chance),
            session_of(policies, case) if guarded else None, do_sample=True, seed=at, max_new_tokens=_LONGEST,
            tool_format="hermes" if folder is None else "auto", tool_choice="required",
        )
        for at, case in enumerate(cases)
    ]  # fmt: skip
    turns = guarded_generate_batch(model, tokenizer, requests, slots=_SLOTS)
    free = []
    for case, turn in zip(cases, turns, strict=True):
        judge = session_of(policies, case)
        calls = tuple((call.tool, thaw(call.args)) for call in turn.calls)
        free.append(WrittenTurn(case, calls, tuple(bool(judge.check(*call).label) for call in calls)))
    return free


def scores(turns: Sequence[WrittenTurn], *, is_scripted: bool) -> dict[str, Any]:
    """The row of a table: counts, and shares in per cent."""
    violations = [is_violated for turn in turns for is_violated in turn.is_violation]
    row: dict[str, Any] = {"turns": len(turns), "calls": len(violations)}
    row["conformance"] = _share(violations.count(False), len(violations))
    for name, label in (("harm", 1), ("utility", 0)):
        proposed = [turn for turn in turns if turn.case.label == label] if is_scripted else []
        row[name] = _share(sum(bool(turn.calls) for turn in proposed), len(proposed))
    return row


def _share(count: int, of: int) -> float | None:
    return round(100 * count / of, 1) if of else None


def _messages(case: Case) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Please go on with my request."}]
    for at, event in enumerate(case.history):
        function = {"name": event.tool, "arguments": thaw(event.args)}
        messages.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "id": f"call{at:05}", "function": function}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"call{at:05}", "content": str(event.output)})
    return messages


def _loaded(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True).eval()
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def read_cases(lines: Iterable[str], path: Path, policies: Policies) -> list[Case]:
    """Reads cases. A call that is recorded has a time, so a case without one happens at the beginning of 1970."""
    cases = (read_case(line, path, at, policies.failed_output) for at, line in enumerate(lines, 1))
    return [replace(case, now=0.0) if case.now is None else case for case in cases]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tau.generation", description=__doc__)
    parser.add_argument("cases", type=Path, help="cases with labels, one in a line")
    parser.add_argument("--policies", type=Path, required=True, help="the rules of the domain")
    parser.add_argument("--model", type=Path, help="the folder of a model of transformers")
    options = parser.parse_args(arguments)
    lines = options.cases.read_text(encoding="utf-8").splitlines()
    policies = load_policies(options.policies)
    cases = read_cases(lines, options.cases, policies)
    tools, broken = DomainTools(cases), 0
    print("| model | guard | turns | calls | conformance % | harm % | utility % |\n|---|---|---|---|---|---|---|")
    agents: dict[str, Any] = {"scripted": scripted, "random": free}
    for name, agent in (agents | ({options.model.name: free} if options.model else {})).items():
        for guarded in (False, True):
            more = {"folder": options.model} if name not in agents else {}
            turns = agent(cases, policies, tools, guarded=guarded, **more)
            row = scores(turns, is_scripted=agent is scripted)
            cells = ["" if value is None else f"{value:,}" for value in row.values()]
            print(f"| {name} | {'yes' if guarded else 'no'} | {' | '.join(cells)} |", flush=True)
            broken += guarded * sum(map(sum, (turn.is_violation for turn in turns)))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
