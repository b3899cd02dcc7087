"""The paper's baseline for evaluations (Section 5.2, Appendix I): a model judges the run directly, without code.

It is not a guard: a hostile text can influence the model's verdict directly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from guardagent.errors import GuardError, ProgramError
from guardagent.models.chat import Flow
from guardagent.models.prompts import ModelCall
from guardagent.programs.answers import read_judgement
from guardagent.programs.generation import CHECKED_BY, GenerationSetup
from guardagent.programs.memory.agents import Demonstration, retrieve
from guardagent.programs.memory.retrieval import file_order
from guardagent.programs.program import claimed_verdict, copy_value, program_check
from guardagent.types import Context, Event, Step, thaw, unchecked_verdict


@dataclass(frozen=True)
class ModelBaseline:
    """A model that judges from the instructions, the demonstrations (without code) and the run.

    Attributes:
        setup: the configuration; only the code of demonstrations uses the toolbox and the sandbox.
        free_form: omit the instruction on how to judge (the paper's Appendix L, where many answers are code).
    """

    setup: GenerationSetup
    free_form: bool = False

    def flow(self, event: Event, context: Context) -> Flow:
        """Returns the flow that computes the model's verdict."""
        setup, facts = self.setup, thaw(context.facts)
        found = retrieve(
            setup.demonstrations,
            event.args["input"],
            event.output,
            setup.shots,
            least_similar=setup.least_similar,
            max_distance=setup.max_distance,
        )
        data = {
            "agent_input": event.args["input"],
            "agent_output": event.output,
            "facts": json.dumps(facts, ensure_ascii=False, default=str) if facts else "",
        }
        shared = {"demonstrations": [self._shot(shown) for shown in file_order(found, setup.demonstrations)]}
        template = "judge_freely" if self.free_form else "judge"
        prompt = setup.prompts.render(template, data, shared, request=setup.request, specification=setup.specification)
        step = Step("judge", prompt=prompt.messages)
        try:
            answer = yield ModelCall(prompt)
            step = replace(step, text=answer.text)
            verdict = claimed_verdict(copy_value(read_judgement(answer.text)), CHECKED_BY)
        except GuardError as error:
            step = replace(step, error=str(error))
            verdict = unchecked_verdict(str(error), checked_by=CHECKED_BY)
        return replace(verdict, story=(step,))

    def _shot(self, shown: Demonstration) -> dict[str, str]:
        """Returns the prompt data of a demonstration: its reasoning, and the judgement of its code."""
        texts = {"agent_input": shown.agent_input, "agent_output": shown.agent_output}
        if self.free_form:
            return {**texts, "plan": "", "judgement": ""}
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(shown.plan[:-1], start=1))
        return {**texts, "plan": steps, "judgement": json.dumps(self._judgement(shown), ensure_ascii=False)}

    def _judgement(self, shown: Demonstration) -> Mapping[str, Any]:
        check = program_check(shown.code, self.setup.engine("auto"), self.setup.toolbox)
        verdict = check(Event("agent_run", args={"input": shown.agent_input}, output=shown.agent_output), Context())
        if verdict.errors:
            raise ProgramError(
                f"the code of a demonstration does not run, so its judgement is unknown: {verdict.errors[0]}"
            )
        judged = verdict.to_dict()
        return {name: judged[name] for name in ("label", "reasons", "details", "answer")}
