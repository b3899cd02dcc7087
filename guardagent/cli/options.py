"""Options that several commands share, how to read them, and the output of commands as text or as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from guardagent.models import Model
    from guardagent.policy.policies import Policies
    from guardagent.policy.watch import PolicyWatch
    from guardagent.programs.memory.agents import Memory
    from guardagent.sandbox.toolbox import Toolbox
    from guardagent.types import Verdict


AgentName = Annotated[str | None, typer.Option("--agent", help="A known agent (a folder in the memory).")]
RequestFile = Annotated[str | None, typer.Option("--request", help="The guard request in natural language (a file).")]
SpecificationFile = Annotated[
    str | None, typer.Option("--specification", help="The specification of the agent (a file).")
]
FactsText = Annotated[
    str | None,
    typer.Option("--facts", help='Facts known to the host: a JSON object (a file, or inline: {"role": "sales"}).'),
]
ToolboxFolder = Annotated[
    list[str] | None, typer.Option("--toolbox", help="A folder with additional toolbox functions; repeatable.")
]
MemoryFolder = Annotated[str | None, typer.Option("--memory", help="The memory: a folder with one folder per agent.")]
PromptsFolder = Annotated[str | None, typer.Option("--prompts", help="A folder with your own prompt templates.")]
SandboxName = Annotated[str, typer.Option("--sandbox", help="The sandbox engine: auto, monty or restricted.")]
RequireHardening = Annotated[
    bool,
    typer.Option(
        "--require-hardening",
        envvar="GUARDAGENT_REQUIRE_HARDENING",
        help="Deny if a hardening layer is missing; see 'doctor'.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help="The model that writes code, such as openai/gpt-4.1. [env: GUARDAGENT_MODEL]"),
]
RequestModelName = Annotated[
    str | None,
    typer.Option("--model", envvar="GUARDAGENT_MODEL", help="The model for 'request:' policies without a program."),
]
Prices = Annotated[
    str | None, typer.Option("--prices", help="US dollars per million prompt and completion tokens, such as 2,8.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds for one answer of the model, including retries (default: 120)."),
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="The longest answer of the model, in tokens (default: 8192).")
]
MaxCost = Annotated[float | None, typer.Option("--max-cost", help="The most that a check may cost, in US dollars.")]
CacheFolder = Annotated[str | None, typer.Option("--cache", help="A folder that caches the model's answers.")]
Redact = Annotated[
    list[str] | None, typer.Option("--redact", help="A regular expression for text to hide from models; repeatable.")
]
Votes = Annotated[int, typer.Option("--votes", help="The number of plans that vote on the verdict.")]
DebugRounds = Annotated[int, typer.Option("--debug-rounds", help="How often the model may repair its code.")]
_POLICIES = typer.Option("-p", "--policies", help="A policy file; repeatable: the rules of all files hold.")
PolicyFiles = Annotated[list[str], _POLICIES]
OptionalPolicyFiles = Annotated[list[str] | None, _POLICIES]
Locked = Annotated[
    Path | None,
    typer.Option("--locked", help="A lock file; content that is missing from it or differs does not run. See 'lock'."),
]
RequireReview = Annotated[
    bool,
    typer.Option(
        "--require-review",
        help="Refuse a policy whose sentences and rules people have not confirmed as they stand, in its review file.",
    ),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch", help="Reload the policy when its files change: new conversations get it, running ones keep theirs."
    ),
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="The log's key (default: the variable GUARDAGENT_LOG_KEY).")
]
Alias = Annotated[
    list[str] | None, typer.Option("--alias", help="TOOL=NAME: the name of a tool in the rules; repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per line and nothing else.")]


def watching(policies: Policies, locked: Path | None) -> PolicyWatch:
    """The watch of `--watch`. It reports to the logger, which writes to standard error."""
    from guardagent.policy.watch import PolicyWatch

    return PolicyWatch(policies, extra=() if locked is None else (locked,))


def model_of(
    name: str | None, prices: str | None, timeout: float | None, max_tokens: int | None = None
) -> Model | str | None:
    """The model of `--model`, with prices, timeout and the longest answer applied.

    Raises:
        InputError: one of them is set, but no model is named.
    """
    options = {"prices": prices and tuple(prices.split(",")), "timeout": timeout, "max_tokens": max_tokens}
    wanted = {option: value for option, value in options.items() if value is not None}
    if not wanted:
        return name
    from guardagent.models import load_model

    chosen = name or os.environ.get("GUARDAGENT_MODEL")
    if not chosen:
        raise InputError(
            f"'--{next(iter(wanted)).replace('_', '-')}' needs a model; expected '--model' or the environment variable "
            "'GUARDAGENT_MODEL'"
        )
    return load_model(chosen, **wanted)


def read_facts(facts: str | None, option: str = "--facts") -> dict[str, Any]:
    """The facts of inline JSON, which begins with `{`, or of a file; empty without the option.

    Args:
        facts: the value of the option.
        option: its name; other options read arguments in the same way.

    Raises:
        InputError: the value is not a JSON object.
    """
    from guardagent._support.files import parse_json, read_text

    if facts is None:
        return {}
    is_inline = facts.lstrip().startswith("{")
    name = option if is_inline else facts
    value = parse_json(facts if is_inline else read_text(facts), name)
    if not isinstance(value, dict):
        raise InputError(f"{name}: is a {type(value).__name__}; expected a JSON object of {option.strip('-')}")
    return value


def aliases_of(pairs: list[str] | None) -> dict[str, str]:
    """The names of tools in the rules, from the values `TOOL=NAME` of `--alias`.

    Raises:
        InputError: a value is invalid, or a tool has two names.
    """
    aliases: dict[str, str] = {}
    for text in pairs or ():
        tool, _, name = text.partition("=")
        if not tool or not name:
            raise InputError(f"'--alias' is {text!r}; expected TOOL=NAME, such as 'orders_refund=refund'")
        if aliases.setdefault(tool, name) != name:
            raise InputError(
                f"'--alias' is {text!r}, but {tool!r} is already {aliases[tool]!r}; expected one name per tool"
            )
    return aliases


def memory_of(folder: str | None) -> Memory:
    """The memory of `--memory`, and the one that ships."""
    from guardagent.programs.memory.agents import Memory

    return Memory(*([folder] if folder else []))


def toolbox_of(folders: list[str] | None) -> Toolbox:
    """The functions of `--toolbox`, and those that ship."""
    from guardagent.sandbox.toolbox import Toolbox

    return Toolbox.load(*(folders or []))


def refuse_two_stdin(*paths: str | None) -> None:
    """Checks that at most one option reads standard input.

    Raises:
        InputError: two options do.
    """
    if paths.count("-") > 1:
        raise InputError("standard input ('-') appears twice; expected it at most once")


def print_line(text: str) -> None:
    """Prints a line on standard output; lone surrogates are escaped."""
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON."""
    print_line(json.dumps(value, ensure_ascii=False))


def print_result(value: Any, text: str, *, as_json: bool) -> None:
    """Prints a result, with `--json` as one line of JSON."""
    print_json(value) if as_json else print_line(text)


def note(text: str) -> None:
    """Prints a line on standard error."""
    sys.stderr.write(f"{text}\n")


def print_error(kind: str, message: str, status: int, *, as_json: bool) -> None:
    """Prints an error on standard error, with `--json` as one JSON object."""
    error = {"kind": kind, "message": message, "status": status}
    note(json.dumps({"error": error}) if as_json else f"guardagent: {message}")


_MOST_KINDS = 100  # of errors that are kept
_ID = re.compile(r"[\w-]*\d[\w-]*")  # a number, or an id: it differs between errors that are alike


@contextmanager
def unreadable_lines(*, as_json: bool) -> Iterator[Callable[[str], None]]:
    """Gives a function that prints the error of an unreadable line; the other lines are still judged.

    Errors that differ only in numbers and ids are alike: the first is printed, and finally the number of the others.
    """
    shown: dict[str, str] = {}
    more: Counter[str] = Counter()

    def add(problem: str) -> None:
        alike = _ID.sub("0", problem)
        if alike in shown or len(shown) >= _MOST_KINDS:
            more[shown.get(alike, "errors of other kinds")] += 1
            return
        shown[alike] = problem
        print_error("content", problem, 2, as_json=as_json)

    try:
        yield add
    finally:
        for problem, count in more.items():
            print_error("content", f"{count:,} more like this: {problem}", 2, as_json=as_json)


def report(verdict: Verdict, *, as_json: bool, explain: bool = False) -> None:
    """Prints a verdict and ends the command with its exit status."""
    if as_json:
        typer.echo(verdict.to_json(explain=explain))
    else:
        from guardagent.cli.render import show_story, show_verdict

        if explain:
            show_story(verdict, screen())
        show_verdict(verdict, screen())
    raise typer.Exit(3 if verdict.errors else verdict.label)


def screen(*, stderr: bool = False) -> Console:
    """A Rich console."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - Rich would exit with 1, which means denied

    return Screen(stderr=stderr, soft_wrap=True)


@contextmanager
def progress_bar(unit: str, *, is_shown: bool = True) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on standard error, if that is a terminal; gives its function of the parts done and their total."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = (unit, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    # Rich would redirect standard output to the bar's console, even if it is a file.
    with Progress(*columns, console=screen(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def interrupt_message(text: Callable[[], str]) -> Iterator[None]:
    """Ends an interrupted command with a message that says more about the interruption."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"guardagent: interrupted{text()}")
        raise typer.Exit(130) from None
