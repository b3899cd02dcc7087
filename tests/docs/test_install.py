"""Effects of importing and installing the package."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import guardagent

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


def loaded(code: str) -> set[str]:
    """Returns the modules that some code loads; it may print other lines before."""
    program = f"import sys\nbefore = set(sys.modules)\n{code}\nprint()\nprint(*(set(sys.modules) - before))"
    return set(subprocess.check_output([sys.executable, "-c", program], text=True).splitlines()[-1].split())


def test_import_is_light() -> None:
    """`import guardagent` loads two of its files, and no other expensive module."""
    modules = loaded("import guardagent")
    assert {name for name in modules if name.startswith("guardagent")} == {"guardagent", "guardagent._version"}
    assert modules.isdisjoint([*HEAVY, "asyncio", "typing", "re", "json"])


def test_every_public_name_is_there() -> None:
    """`dir`, a star import and type checkers see it; `guard` stays a function after its module is loaded."""
    names = set(guardagent.__all__)
    assert names <= set(dir(guardagent))
    assert names == {name for name in names if getattr(guardagent, name) is not None}
    for_checkers = ast.parse(Path(guardagent.__file__).read_text(encoding="utf-8"))
    typed = {name.asname for node in ast.walk(for_checkers) if isinstance(node, ast.ImportFrom) for name in node.names}
    assert typed - {None, "__version__"} == names
    assert callable(guardagent.guard)
    assert "guardagent.guard" in sys.modules


def test_a_command_loads_only_the_modules_that_it_needs(tmp_path: Path) -> None:
    """`--help` and `check` load no other command and no expensive module; a hook would load it at each call."""
    run = "from guardagent.cli.main import main\ntry: main({})\nexcept SystemExit: pass"
    heavy = {*HEAVY, "rich", "pydantic", "asyncio", "ssl", "multiprocessing", "logging"} - {"typer"}
    assert loaded(run.format(["--help"])).isdisjoint({*heavy, "guardagent.cli.guard", "yaml"})
    (tmp_path / "p.yaml").write_text("version: 1\npolicies: [{id: a, temporal: 'G(tool:pay -> O tool:login)'}]")
    (tmp_path / "c.jsonl").write_text('{"id": 1, "history": [], "proposed": {"tool": "login", "args": {}}}')
    check = ["check", str(tmp_path / "c.jsonl"), "-p", str(tmp_path / "p.yaml"), "--json"]
    assert loaded(run.format(check)).isdisjoint(heavy - {"yaml"})


def test_every_extra_is_on_its_page() -> None:
    """docs/install.md has every extra of pyproject.toml."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert [name for name in extras if f"`{name}`" not in page] == []


PAGES = [
    path
    for folder in ("docs", "guardagent", "benchmarks", "deploy")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".md", ".py", ".yaml", ".yml")
] + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "Dockerfile", "action.yml")]
BY_NAME = re.compile(
    r"""\b(?:install|pipx|uvx|add)\b[^\n]{0,40}?['"\x60 ]guardagent(?:\[[^\]\n]*\]|==|['"\x60]? *$)""", re.MULTILINE
)


def test_nothing_says_that_an_index_has_the_package() -> None:
    """One page says how to install, from a checkout or a wheel; a package of this name elsewhere is not ours."""
    assert [str(path.relative_to(ROOT)) for path in PAGES if BY_NAME.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install guardagent",
        "pip install 'guardagent[solver]'",
        "uv add guardagent==1.2",
        '`pip install -U "guardagent[a,b]"`',
    ],
)
def test_such_a_command_is_recognised(text: str) -> None:
    assert BY_NAME.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install .",
        "pip install '.[solver]'",
        "pip install 'dist/guardagent-0.1.0-py3-none-any.whl[a]'",
        "guardagent hook install",
    ],
)
def test_installing_from_a_checkout_is_no_such_command(text: str) -> None:
    assert not BY_NAME.search(text)


def test_make_has_a_target_for_the_wheel() -> None:
    plan = subprocess.run(["make", "-n", "wheel"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    assert "pip wheel" in plan
    assert "--wheel-dir dist ." in plan


STEPS = {
    step["name"]: step for step in yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
}


def run_step(name: str, folder: Path, **values: str) -> list[list[str]]:
    """Runs a step of the action; its programs only note how they are called."""
    for program in ("python", "guardagent"):
        fake = folder / "bin" / program
        fake.parent.mkdir(exist_ok=True)
        fake.write_text(f'#!{sys.executable}\nimport json, sys\nprint(json.dumps(["{program}", *sys.argv[1:]]))\n')
        fake.chmod(0o700)
    step = STEPS[name]
    assert step["env"].keys() >= values.keys()
    environment = {
        **dict.fromkeys(step["env"], ""),
        **values,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]  # as GitHub runs it
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("checkout", ["/action", "/a folder/guardagent"])
def test_the_action_installs_its_own_checkout(tmp_path: Path, checkout: str) -> None:
    assert run_step("Install", tmp_path, CHECKOUT=checkout, EXTRAS="solver,sql") == [
        ["python", "-m", "pip", "install", "--quiet", f"{checkout}[solver,sql]"]
    ]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({}, []),
        ({"AGAINST": "origin/main"}, ["--against", "origin/main"]),
        ({"FAIL_ON": "warning", "SARIF": "a b.sarif"}, ["--fail-on", "warning", "--sarif", "a b.sarif"]),
        ({"JUNIT": "$(touch x);`id`"}, ["--junit", "$(touch x);`id`"]),
    ],
)
def test_the_action_runs_one_command(tmp_path: Path, values: dict[str, str], options: list[str]) -> None:
    """Inputs are data: nothing of them is run. The hook for pre-commit runs the same."""
    assert run_step("Check", tmp_path, **values) == [["guardagent", "ci", "--format", "github", *options]]
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["entry"], hook["language"], hook["pass_filenames"]) == ("guardagent ci", "python", False)


def test_every_option_of_the_action_is_one_of_the_command() -> None:
    """The inputs are those that the steps use."""
    page = (ROOT / "docs" / "commands" / "ci.md").read_text(encoding="utf-8")
    for option in re.findall(r"--[\w-]+", STEPS["Check"]["run"]):
        assert f"`{option} " in page
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", action)) == yaml.safe_load(action)["inputs"].keys()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheel, built from this checkout."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.mark.slow
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
    """The environment is new, and cannot reach the checkout."""
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
    assert (ran.stdout.count(" ALLOW\n"), ran.stdout.count(" DENY\n")) == (6, 6)
    bench = [str(bin_folder / "guardagent"), "bench", "eicu-ac"]  # fails before it needs other arguments
    missing = subprocess.run(bench, cwd=elsewhere, env=alone, capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "run this in a checkout" in missing.stderr
