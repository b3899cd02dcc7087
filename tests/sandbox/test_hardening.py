"""The kernel's layers, each in a separate process: forbidden calls fail, needed ones work."""

import json
import subprocess
import sys

import pytest

from guardagent.sandbox import hardening
from tests.conftest import Cli

FORBIDDEN = {
    "landlock": ["open('/etc/passwd').read()", "open('/tmp/x', 'w')", "os.listdir('/')"],
    "seccomp": [
        "socket.socket()",
        "os.kill(os.getppid(), 0)",
        "os.execv('/bin/true', ['true'])",
        "os.setsid()",
        "os.stat('/')",
        "os.open('/dev/null', 0)",
    ],
}
TRY = """
import json, os, socket, sys
from guardagent.sandbox import hardening
hardening.apply({layers!r}, hardening.Profile({profile!r}))
tried = {{}}
for text in {texts!r}:
    try:
        eval(text)
        tried[text] = "worked"
    except OSError as error:
        tried[text] = type(error).__name__
os.write(1, json.dumps(tried).encode())
"""


def tried(layers: list[str], profile: str, texts: list[str]) -> dict[str, str]:
    script = TRY.format(layers=layers, profile=profile, texts=texts)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    tried: dict[str, str] = json.loads(ran.stdout)
    return tried


@pytest.mark.parametrize("layer", sorted(FORBIDDEN))
def test_a_layer_forbids_its_calls(layer: str) -> None:
    """The kernel refuses calls that the process could make before."""
    if problem := hardening.problems()[layer]:
        pytest.skip(problem)
    assert set(tried([], "guest", FORBIDDEN[layer][:2]).values()) & {"worked"}
    assert "worked" not in tried([layer], "guest", FORBIDDEN[layer]).values()


def test_a_guest_may_not_fork_and_its_zygote_may() -> None:
    """This call is the only difference between them."""
    if problem := hardening.problems()["seccomp"]:
        pytest.skip(problem)
    fork = "os.fork() or os._exit(0)"
    assert tried(["seccomp"], "zygote", [fork]) == {fork: "worked"}
    assert tried(["seccomp"], "guest", [fork]) == {fork: "PermissionError"}


def test_the_doctor_reports_every_component(cli: Cli) -> None:
    """The report has every layer and engine, with a fix for each that does not work."""
    ran = cli("doctor", "--json")
    report = json.loads(ran.out)
    assert set(report["layers"]) == set(hardening.LAYERS)
    assert set(report["engines"]) == {"monty", "restricted"}
    assert ran.status == (0 if report["hardened"] else 1)
    assert "works" in cli("doctor").out
