"""A sample of the runs is judged again by the other side; no verdict changes, and disagreements become examples."""

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from guardagent import GuardAgent, InputError, Verdict, guard
from guardagent.errors import ContentError, ModelError
from guardagent.models import Message
from guardagent.programs.compile import read_examples
from guardagent.programs.memory.review import MAX_ERRORS, MAX_LATE, Disagreement, pending_disagreements, run_id, sampled
from guardagent.testing import ScriptedModel
from tests.conftest import Cli, Write
from tests.models.conftest import Serve, serve  # noqa: F401 - a fixture
from tests.models.server import Reply, text
from tests.programs.generation.answers import CODE, PLAN, PROGRAM, block
from tests.runs import ehr_input, ehr_log

STRICT = block(PROGRAM.replace('"lab": ["patientunitstayid", "labresult"]', '"lab": []'))
MAY, MAY_NOT = ehr_log(), ehr_log("diagnosis", "diagnosisname", "flu")


def writing(code: str) -> ScriptedModel:
    """A model that always writes this program."""
    return ScriptedModel(lambda messages: PLAN if "four numbered steps" in messages[0].content else code)


def judge(memory: Path, model: ScriptedModel, log: str = MAY, **options: Any) -> Verdict:
    with GuardAgent(agent="ehragent", memory=memory, model=model, **{"shadow": 1.0} | options) as guarding:
        return guarding.guard(ehr_input("nursing"), log)


def disagreements(memory: Path) -> list[Disagreement]:
    return pending_disagreements(memory / "ehragent")


@pytest.mark.parametrize("mode", ["auto", "program"])
def test_a_model_judges_again_what_the_program_decided(memory: Path, mode: str) -> None:
    """The verdict is the program's, free of any model call; the disagreement waits, for its owner's eyes alone."""
    verdict = judge(memory, writing(STRICT), mode=mode)
    assert (verdict.label, verdict.model_calls, verdict.checked_by) == (0, 0, "program")
    (disagreement,) = disagreements(memory)
    assert (disagreement.agent_input, disagreement.agent_output) == (ehr_input("nursing"), MAY)
    assert disagreement.enforced_side == "program"
    assert (disagreement.sides["program"].label, disagreement.sides["generated"].label) == (0, 1)
    path = memory / "ehragent" / "disagreements" / f"{disagreement.id}.json"
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_the_program_judges_again_what_a_model_wrote(memory: Path) -> None:
    """The verdict is the generated one, and so is its account."""
    model = writing(STRICT)
    verdict = judge(memory, model, mode="generate", remember="review")
    assert (verdict.label, verdict.model_calls, len(model.requests)) == (1, 2, 2)
    (disagreement,) = disagreements(memory)
    assert (disagreement.enforced_side, disagreement.sides["program"].label) == ("generated", 0)


def test_agreement_leaves_nothing(memory: Path) -> None:
    """Whether both allow or both deny; and what is judged again is not remembered."""
    judge(memory, writing(CODE), remember="review")
    judge(memory, writing(CODE), MAY_NOT)
    assert disagreements(memory) == []
    assert not (memory / "ehragent" / "pending").exists()


@pytest.mark.slow
def test_an_error_of_the_other_side_is_kept_and_changes_nothing(memory: Path) -> None:
    """A model that does not answer; at most a hundred, so that an outage leaves room for disagreements."""
    verdict = judge(memory, ScriptedModel(lambda _: ModelError("unreachable")))
    assert (verdict.label, verdict.errors) == (0, ())
    (disagreement,) = disagreements(memory)
    assert "unreachable" in disagreement.sides["generated"].errors[0]
    model = ScriptedModel(lambda _: ModelError("unreachable"))
    with GuardAgent(agent="ehragent", memory=memory, model=model, shadow=1.0) as guarding:
        for number in range(MAX_ERRORS + 3):
            guarding.guard(ehr_input("nursing"), ehr_log(answer=str(number)))
            guarding.close()
    assert len(disagreements(memory)) == 1 + MAX_ERRORS


@pytest.mark.slow
def test_the_sample_follows_from_the_runs_alone(memory: Path) -> None:
    """The same runs every time, about as many as were asked for, and none at rate 0."""
    names = [run_id("asked", f"log {number}", {}) for number in range(2000)]
    share = [sum(sampled(name, rate) for name in names) for rate in (0.0, 0.1, 1.0)]
    assert share[0] == 0
    assert 140 < share[1] < 260
    assert share[2] == 2000
    assert run_id("a", "b", None) == run_id("a", "b", {}) != run_id("a", "b", {"role": "nurse"})
    model = writing(STRICT)
    logs = [ehr_log(answer=str(number)) for number in range(8)]
    for _ in range(2):
        with GuardAgent(agent="ehragent", memory=memory, model=model, shadow=0.5) as guarding:
            for log in logs:
                guarding.guard(ehr_input("nursing"), log)
                guarding.close()
    wanted = {name for name in (run_id(ehr_input("nursing"), log, {}) for log in logs) if sampled(name, 0.5)}
    assert {disagreement.id for disagreement in disagreements(memory)} == wanted
    assert 0 < len(wanted) < 8


def test_nobody_waits_and_what_waits_is_bounded(memory: Path) -> None:
    """A model that does not answer holds up no verdict; runs beyond the bound are not judged again."""
    answering = threading.Event()

    def slow(messages: Sequence[Message]) -> str:
        assert answering.wait(30)
        return PLAN if "four numbered steps" in messages[0].content else STRICT

    with GuardAgent(agent="ehragent", memory=memory, model=ScriptedModel(slow), shadow=1.0) as guarding:
        for number in range(MAX_LATE + 10):
            assert guarding.guard(ehr_input("nursing"), ehr_log(answer=str(number))).label == 0
        assert disagreements(memory) == []
        answering.set()
    assert MAX_LATE <= len(disagreements(memory)) <= MAX_LATE + 1


def test_a_failing_shadow_fails_no_verdict(memory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A read-only folder and an invalid examples file are logged."""
    (memory / "ehragent" / "disagreements").write_text("a file in the way")
    with caplog.at_level(logging.WARNING):
        assert judge(memory, writing(STRICT)).label == 0
    assert "was not judged again" in caplog.text
    assert judge(memory, writing(STRICT), "").errors, "no run at all, and nothing to judge again"


def test_files_hold_what_a_model_may_see(memory: Path) -> None:
    """Values that are redacted for the model are redacted in the file, in the reasons too."""
    judge(memory, writing(STRICT), redact={"patient": r"\d{3}-\d{5}"})
    (path,) = (memory / "ehragent" / "disagreements").glob("*.json")
    assert "010-00001" in MAY
    assert "010-00001" not in path.read_text()
    assert "[patient 1 " in path.read_text()


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), True, "1"])
def test_a_rate_is_a_share(memory: Path, rate: Any) -> None:
    """Anything else is an error before anything runs."""
    with pytest.raises(InputError, match="a number from 0 to 1"):
        GuardAgent(agent="ehragent", memory=memory, model=writing(CODE), shadow=rate)


def test_both_sides_and_a_folder_of_one_s_own_must_be_there(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent, a shipped one, no model, no program, another request."""
    monkeypatch.delenv("GUARDAGENT_MODEL", raising=False)
    options: dict[str, Any] = {"model": writing(CODE), "shadow": 0.5}
    with pytest.raises(InputError, match="expected the name of an agent"):
        GuardAgent("Nothing secret.", **options)
    with pytest.raises(InputError, match=r"copy .* into a memory folder of your own"):
        GuardAgent(agent="ehragent", **options)
    with pytest.raises(InputError, match="no model is configured"):
        GuardAgent(agent="ehragent", memory=memory, shadow=0.5)
    with pytest.raises(InputError, match="written for another request"):
        GuardAgent("Nothing secret.", agent="ehragent", memory=memory, **options)
    (memory / "ehragent" / "program.py").unlink()
    with pytest.raises(InputError, match="has no program"):
        GuardAgent(agent="ehragent", memory=memory, **options)


def test_a_person_makes_examples_of_disagreements(memory: Path, cli: Cli) -> None:
    """By ids from a script; `compile` reads what comes of it, and a settled run does not come back."""
    folder = memory / "ehragent"
    for number in range(3):
        judge(memory, writing(STRICT), ehr_log(answer=str(number)))
    review = ("memory", "review", "--agent", "ehragent", "--memory", memory)
    first, second, third = (row["id"] for row in json.loads(cli(*review, "--json").out)["disagreements"])
    shown = cli(*review).out
    assert "program (enforced)" in shown
    assert f"{third}  " in shown
    done = cli(*review, "--right", f"{first}=program", "--right", f"{second}=generated", "--reject", third)
    assert (done.status, done.out) == (0, "2 accepted, 1 rejected, 0 waiting\n")
    assert {example.id: example.label for example in read_examples(folder / "examples.jsonl")} == {first: 0, second: 1}
    for number in range(2):
        judge(memory, writing(STRICT), ehr_log(answer=str(number)))
    assert disagreements(memory) == []


def test_the_terminal_review_prompts_for_each_entry(memory: Path) -> None:
    """Program right, other right, dropped, skipped; a skipped entry stays pending."""
    from io import StringIO

    from rich.console import Console

    from guardagent.programs.memory.review import ReviewQueue, prompt_each

    for number in range(4):
        judge(memory, writing(STRICT), ehr_log(answer=str(number)))
    ids = [disagreement.id for disagreement in disagreements(memory)]

    class Typing(Console):
        answers = iter("pgds")

        def input(self, *_: Any, **__: Any) -> str:
            return next(self.answers)

    choices = prompt_each(ReviewQueue.of(memory / "ehragent"), Typing(file=StringIO()))
    assert choices.right == {ids[0]: "program", ids[1]: "generated"}
    assert (choices.rejected, choices.accepted) == ([ids[2]], [])


def test_what_cannot_be_right_is_refused_and_nothing_changes(memory: Path, cli: Cli) -> None:
    """An unknown id or side, `neither` of two labels, an id for two things, an example that says otherwise."""
    judge(memory, writing(STRICT))
    (disagreement,) = disagreements(memory)
    review = ("memory", "review", "--agent", "ehragent", "--memory", memory)
    for options in (
        ("--right", "run-1=program"),
        ("--right", f"{disagreement.id}=both"),
        ("--right", f"{disagreement.id}=neither"),
        ("--right", f"{disagreement.id}=program", "--reject", disagreement.id),
        ("--right", f"{disagreement.id}=program", "--accept", "abc"),
    ):
        assert cli(*review, *options).status == 2
    row = {"id": "mine", "agent_input": disagreement.agent_input, "agent_output": disagreement.agent_output, "label": 1}
    (memory / "ehragent" / "examples.jsonl").write_text(json.dumps(row))
    ran = cli(*review, "--right", f"{disagreement.id}=program")
    assert (ran.status, "'mine' is the same run as" in ran.err) == (2, True)
    assert disagreements(memory) == [disagreement]
    assert cli(*review, "--right", f"{disagreement.id}=generated").status == 0
    assert (memory / "ehragent" / "examples.jsonl").read_text() == json.dumps(row)


def test_a_damaged_file_is_an_error_with_its_name(memory: Path) -> None:
    """It is not passed over."""
    (memory / "ehragent" / "disagreements").mkdir()
    (memory / "ehragent" / "disagreements" / "run-1.json").write_text('{"time": "x"}')
    with pytest.raises(ContentError, match=r"run-1\.json: is not a disagreement"):
        disagreements(memory)


def test_the_commands_over_http(
    memory: Path,
    serve: Serve,  # noqa: F811
    cli: Cli,
    write: Write,
) -> None:
    """`guard --shadow 1` prints the program's verdict; what the model made of it is there when the command ends."""

    def answer(request: dict[str, Any]) -> Reply:
        return text(PLAN if "four numbered steps" in request["messages"][0]["content"] else STRICT)

    server = serve(answer)
    files = ("--input", write("in.txt", ehr_input("nursing")), "--output-log", write("log.txt", MAY))
    command = ("guard", "--agent", "ehragent", "--memory", memory, *files, "--model", "openai/test", "--json")
    ran = cli(*command, "--shadow", 1)
    assert (ran.status, json.loads(ran.out)["model_calls"], len(server.requests)) == (0, 0, 2)
    assert len(disagreements(memory)) == 1
    assert cli(*command, "--shadow", 2).status == 2


def test_the_shared_guard_takes_it_as_an_option(memory: Path) -> None:
    """As all options of GuardAgent."""
    model = writing(CODE)
    verdict = guard(None, ehr_input("nursing"), MAY, agent="ehragent", memory=memory, model=model, shadow=1.0)
    assert (verdict.label, verdict.model_calls) == (0, 0)
