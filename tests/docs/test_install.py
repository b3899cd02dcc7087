"""What importing and installing the package does, and does not do."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = [
    "openai",
    "litellm",
    "chromadb",
    "torch",
    "z3",
    "numpy",
    "pydantic_monty",
    "yaml",
    "rapidfuzz",
    "typer",
    "sqlglot",
    "jinja2",
    "re2",
    "RestrictedPython",
]


def test_import_is_light() -> None:
    """`import guardagent` loads nothing heavy."""
    code = f"import sys, json, guardagent; print(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_content_and_one_top_level_name(wheel: Path) -> None:
    """Toolbox and memory are packed inside the package; benchmarks and tests stay in the checkout."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"guardagent"}
    for folder in ("toolbox", "memory", "prompts"):
        packed = {name.removeprefix("guardagent/_content/") for name in names if f"_content/{folder}/" in name}
        there = {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.suffix in {".py", ".md", ".jsonl", ".j2"}
        }
        assert packed == there
    assert "guardagent/py.typed" in names
    assert "guardagent/cli/_starter/memory/refunds/program.py" in names


@pytest.mark.slow
def test_the_wheel_alone_runs_the_demo_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    """In a fresh environment, with nothing of the checkout in reach."""
    venv.create(tmp_path / "env", with_pip=True)
    bin_folder = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    install = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    alone = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    ran = subprocess.run(
        [str(bin_folder / "guardagent"), "demo"], cwd=elsewhere, env=alone, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("ALLOWED") == ran.stdout.count("DENIED") == 3
    bench = [str(bin_folder / "guardagent"), "bench", "eicu-ac"]  # at once, before it wants to know more
    missing = subprocess.run(bench, cwd=elsewhere, env=alone, capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "comes with a checkout" in missing.stderr
