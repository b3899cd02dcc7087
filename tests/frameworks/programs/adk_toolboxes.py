"""Google ADK programs with tools of all kinds, and gates. CASES: name -> (what builds it, the graph expected)."""
# mypy: ignore-errors

import functools

from expected import expected
from google.adk.agents import LlmAgent
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.planners import PlanReActPlanner
from google.adk.tools import (
    BaseTool,
    FunctionTool,
    LongRunningFunctionTool,
    ToolContext,
    get_user_choice,
    google_search,
)
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.openapi_tool import OpenAPIToolset

CASES = {}


def case(tools, gated="", **more):
    """Registers the function under it: one agent, with its tools and those that are gated."""

    def register(build):
        lists = {"tools": {"a": tools}, **({"gated": {"a": gated}} if gated else {})}
        CASES[build.__name__] = (build, expected("a:tool", "__start__>a a>__end__", **lists, **more))
        return build

    return register


def agent(*tools, **more):
    return LlmAgent(name="a", model="gemini-2.5-flash", tools=list(tools), **more)


def mail(to: str) -> str:
    """Sends mail."""
    return to


def is_large(to: str, amount: int) -> bool:
    return amount > 100


@case("mail", "mail")
def confirmation_by_a_flag():
    return agent(FunctionTool(mail, require_confirmation=True))


@case("mail", "mail")
def confirmation_by_a_function():
    return agent(FunctionTool(mail, require_confirmation=is_large))


@case("mail")
def confirmation_that_is_never_needed():
    return agent(FunctionTool(mail, require_confirmation=lambda to: False))


def pay(amount: int, tool_context: ToolContext):
    """Pays."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint="sure?")
        return {"status": "waiting"}
    return {"paid": amount} if confirmation.confirmed else {}


@case("pay", "pay")
def confirmation_asked_by_the_tool():
    return agent(pay)


def pay_much(amount: int, tool_context: ToolContext):
    """Pays."""
    if amount > 100 and not tool_context.tool_confirmation:
        tool_context.request_confirmation(hint="sure?")
        return {"status": "waiting"}
    return {"paid": amount}


@case("pay_much")
def confirmation_asked_under_a_condition():
    return agent(pay_much)


def at_the_terminal(to: str) -> str:
    """Asks."""
    return input("sure?")


@case("at_the_terminal", "at_the_terminal")
def question_at_the_terminal():
    return agent(at_the_terminal)


def approval(what: str) -> dict:
    """Asks for an approval."""
    return {"status": "pending", "what": what}


@case("approval mail", "approval")
def long_running_tool_that_only_waits():
    return agent(LongRunningFunctionTool(approval), mail)


def order(what: str) -> dict:
    """Orders."""
    send_order(what)
    return {"status": "pending"}


def send_order(what):
    raise NotImplementedError


@case("order")
def long_running_tool_that_acts():
    return agent(LongRunningFunctionTool(order))


@case("get_user_choice", "get_user_choice")
def tool_of_the_framework_that_asks():
    return agent(get_user_choice)


class Speaker:
    def __call__(self, text: str) -> str:
        """Speaks."""
        return text


@case("mail Speaker google_search <lambda>")
def names_of_tools():
    return agent(functools.partial(mail, to="x"), Speaker(), google_search, lambda x: x)


class Asking(BaseTool):
    def __init__(self, name):
        super().__init__(name=name, description="asks")

    async def check_require_confirmation(self, args, tool_context):
        return True

    async def run_async(self, *, args, tool_context):
        return args


class Weighing(Asking):
    async def check_require_confirmation(self, args, tool_context):
        return args["amount"] > 100


class Confirming(BaseTool):
    def __init__(self, name):
        super().__init__(name=name, description="asks in its body")

    async def run_async(self, *, args, tool_context):
        if not tool_context.tool_confirmation:
            return tool_context.request_confirmation(hint="sure?")
        return args


@case("one two three", "one two three")
def classes_of_tools():
    return agent(Asking("one"), Weighing("two"), Confirming("three"))


@case("mail")
def two_tools_of_one_name():
    return agent(FunctionTool(mail, require_confirmation=True), mail)


class Set(BaseToolset):
    def __init__(self, **more):
        super().__init__(**more)
        self.held = [FunctionTool(mail, require_confirmation=True)]

    async def get_tools(self, readonly_context=None):
        return self.held


@case("box_mail box_Set.*", "box_mail", widened="a")
def set_of_tools():
    return agent(Set(tool_name_prefix="box"))


@case("mail other", "mail")
def set_with_a_list():
    return agent(Set(tool_filter=["mail", "other"]))


SPEC = {
    "openapi": "3.0.0",
    "info": {"title": "pets", "version": "1"},
    "servers": [{"url": "https://pets.example"}],
    "paths": {
        "/pets": {
            verb: {"operationId": name, "responses": {"200": {"description": "ok"}}}
            for verb, name in (("get", "listPets"), ("post", "addPet"))
        }
    },
}


@case("list_pets add_pet")
def tools_of_a_specification():
    return agent(OpenAPIToolset(spec_dict=SPEC))


@case("code_executor")
def code_and_a_planner():
    return agent(code_executor=BuiltInCodeExecutor(), planner=PlanReActPlanner())
