"""Agents of AutoGen. CASES: name -> (what builds it, the graph expected). No model is called."""
# mypy: ignore-errors

from autogen_agentchat.agents import ApprovalResponse, AssistantAgent, BaseChatAgent, CodeExecutorAgent, UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core.code_executor import CodeExecutor, CodeResult
from autogen_core.tools import BaseTool, FunctionTool, StaticWorkbench, ToolOverride, Workbench
from autogen_ext.models.replay import ReplayChatCompletionClient
from expected import expected
from pydantic import BaseModel

CASES = {}
INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}
ALONE = "__start__>a a>__end__"


def case(nodes, edges=ALONE, **more):
    def register(build):
        CASES[build.__name__] = (build, expected(nodes, edges, **more))
        return build

    return register


def model():
    return ReplayChatCompletionClient(["ok"], model_info=INFO)


def agent(name="a", **more):
    return AssistantAgent(name, model_client=model(), **more)


def mail(to: str) -> str:
    """Sends."""
    return ""


def search(query: str) -> str:
    """Searches."""
    return ""


def pay(amount: int) -> str:
    """Pays, if a person agrees."""
    if input(f"pay {amount}? ") != "y":
        return "no"
    return "paid"


def delete(path: str) -> str:
    """Deletes, and asks only for some."""
    if path.startswith("/") and input("sure? ") != "y":
        return "no"
    return "done"


class Executor(CodeExecutor):
    """Runs nothing."""

    component_config_schema = BaseModel

    async def execute_code_blocks(self, code_blocks, cancellation_token):
        return CodeResult(exit_code=0, output="")

    async def start(self):
        pass

    async def stop(self):
        pass

    async def restart(self):
        pass


class Remote(Workbench):
    """Tools that are known only when it is started."""

    async def list_tools(self):
        raise AssertionError

    call_tool = start = stop = reset = save_state = load_state = list_tools


@case("a")
def an_agent_alone():
    return agent()


@case("a:tool", tools={"a": "mail search"})
def functions_as_tools():
    return agent(tools=[mail, FunctionTool(search, description="s")], reflect_on_tool_use=True, max_tool_iterations=4)


@case("a:tool", tools={"a": "finder mail"})
def tools_of_a_workbench_under_other_names():
    tools = [FunctionTool(search, description="s"), FunctionTool(mail, description="m")]
    return agent(workbench=StaticWorkbench(tools, {"search": ToolOverride(name="finder")}))


@case("a:tool", tools={"a": "mail"}, widened="a")
def tools_that_are_known_only_later():
    return agent(workbench=[Remote(), StaticWorkbench([FunctionTool(mail, description="m")])])


@case("a:tool", widened="a")
def only_tools_that_are_known_later():
    return agent(workbench=Remote())


class Tool(BaseTool):
    def __init__(self):
        super().__init__(args_type=BaseModel, return_type=str, name="ring", description="d")

    async def run(self, args, cancellation_token):
        return input("who is there? ")


@case("a:tool", tools={"a": "pay delete ring"}, gated={"a": "pay ring"})
def tools_that_ask_a_person():
    return agent(tools=[pay, delete, Tool()])


@case("a:human")
def a_person():
    return UserProxyAgent("a", input_func=lambda prompt: "yes")


@case("a:tool", tools={"a": "code_executor"})
def code_that_nobody_approves():
    return CodeExecutorAgent("a", Executor())


@case("a:tool", tools={"a": "code_executor"}, gated={"a": "code_executor"})
def code_that_a_person_approves():
    def approve(request):
        print(request.code)
        return ApprovalResponse(approved=input("run it? ") == "y", reason="")

    return CodeExecutorAgent("a", Executor(), model_client=model(), approval_func=approve)


@case("a:tool", tools={"a": "code_executor"})
def code_that_a_person_approves_now_and_then():
    def approve(request):
        if "rm" in request.code:
            return ApprovalResponse(approved=input("run it? ") == "y", reason="")
        return ApprovalResponse(approved=True, reason="harmless")

    return CodeExecutorAgent("a", Executor(), approval_func=approve)


@case("a:tool", tools={"a": "code_executor"})
def code_that_a_model_approves():
    judge = model()

    async def approve(request):
        answer = await judge.create(request.context)
        return ApprovalResponse.model_validate_json(answer.content)

    return CodeExecutorAgent("a", Executor(), approval_func=approve)


@case("a:tool", tools={"a": "code_executor"})
def code_that_is_always_approved():
    return CodeExecutorAgent("a", Executor(), approval_func=lambda request: ApprovalResponse(approved=True, reason="-"))


def _post(code):
    raise NotImplementedError


@case("a:tool", tools={"a": "code_executor"}, gated={"a": "code_executor"})
def code_that_somebody_approves_somewhere():
    return CodeExecutorAgent("a", Executor(), approval_func=lambda request: _post(request.code))


@case("a:tool b:tool", "__start__>a a?b b>a a>__end__", tools={"a": "b search", "b": "mail"})
def an_agent_as_a_tool():
    return agent(tools=[AgentTool(agent("b", tools=[mail])), search])


@case("a:tool x y:human", "__start__>a a?x x>y y@x x?a y?a a?y a>__end__", tools={"a": "writers"})
def a_team_as_a_tool():
    """The team keeps its place from one call to the next."""
    team = RoundRobinGroupChat(
        [agent("x"), UserProxyAgent("y")], termination_condition=TextMentionTermination("OK"), name="inner"
    )
    return agent(tools=[TeamTool(team, name="writers", description="d")])


class Counter(BaseChatAgent):
    """An agent without a model."""

    @property
    def produced_message_types(self):
        return (TextMessage,)

    async def on_messages(self, messages, cancellation_token):
        return Response(chat_message=TextMessage(source=self.name, content=str(len(messages))))

    async def on_reset(self, cancellation_token):
        pass


class Asker(Counter):
    async def on_messages(self, messages, cancellation_token):
        return Response(chat_message=TextMessage(source=self.name, content=input("well? ")))


class Thinker(Counter):
    def __init__(self, name):
        super().__init__(name, "d")
        self.brain = model()


@case("a:passthrough")
def an_agent_of_its_own():
    return Counter("a", "d")


@case("a:human")
def an_agent_of_its_own_that_asks():
    return Asker("a", "d")


@case("a")
def an_agent_of_its_own_with_a_model():
    return Thinker("a")
