#!/bin/sh
# Version: crewai 1.15.30
# Source: the prompt of CrewAI's agents: the model writes one action with its input, as text, and reads what comes of it
#   before the next. Its history shows one action and one error.
# Behaviour: where the tool raises, it is run again before the model hears of it: six times for one action, with the same
#   input. A payment whose answer comes too late is paid six times. What a tool returns is taken at once.
# Output seen:
#   returns: ran 1, requests of the model 2
#   raises: ran 6, requests of the model 2
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile crewai==1.15.30
cat > "$folder/program.py" <<'PYTHON'
import contextlib
import io

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

ran = []


class Script(BaseLLM):
    def __init__(self, name):
        super().__init__(model="script")
        self.turns = [f'Thought: pay\nAction: {name}\nAction Input: {{"amount": 5}}', "Thought: done\nFinal Answer: done"]
        self.requests = 0

    def call(self, messages, *args, **kwargs):
        self.requests += 1
        return self.turns.pop(0)

    def supports_function_calling(self):
        return False


@tool
def returns(amount: int) -> str:
    """Pays."""
    ran.append(amount)
    return "paid"


@tool
def raises(amount: int) -> str:
    """Pays."""
    ran.append(amount)
    raise TimeoutError("no answer in time")


for name, expected in (("returns", 1), ("raises", 6)):
    ran.clear()
    model = Script(name)
    agent = Agent(role="clerk", goal="pay", backstory="a clerk", llm=model, tools=[returns, raises])
    task = Task(description="pay", expected_output="done", agent=agent)
    with contextlib.redirect_stdout(io.StringIO()):
        Crew(agents=[agent], tasks=[task]).kickoff()
    print(f"{name}: ran {len(ran)}, requests of the model {model.requests}")
    assert (len(ran), model.requests) == (expected, 2)
PYTHON
export CREWAI_DISABLE_TELEMETRY=true CREWAI_TRACING_ENABLED=false OTEL_SDK_DISABLED=true CREWAI_STORAGE_DIR="$folder/storage"
HOME="$folder" "$folder/venv/bin/python" "$folder/program.py" 2>/dev/null
