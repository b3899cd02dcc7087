"""Calls out of a program: the effects of libraries, the tools that calls run, calls of models, and opaque calls.

The table of libraries is the same for every framework. The longest matching entry counts, and a package that is not in
the table can run anything.

    harmless   it calls no tool and no model of an agent
    model      it calls a model, or prepares or parses its texts
    tools      its objects are tools; one that is called is named `package.Class`
    agents     it runs agents; their tools are those that the code gives them

A tool is named by its declared name, else `package.Class` or `package.function`. The declared name of a tool from a
module that cannot be read is unknown, so the call is also reported as unseen.

Whether a function calls a model, runs tools or is a placeholder decides only the kind of a node, and no proof: where an
object is unknown, its name in the source decides.

A call is opaque, and can run any tool, if its function or the object of its method is unknown, if it runs code from a
string, or if it calls a missing import that is not from a known library. A model runs nothing by itself.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Literal

from guardagent.workflow.model.graph import Unseen
from guardagent.workflow.python_source.builtins import BINDS
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.values import (
    NOTHING,
    Attribute,
    CallResult,
    Class,
    Function,
    FunctionTree,
    ImportedName,
    Instance,
    NameScope,
    Stub,
    Values,
    path_of,
    plain_string,
)

Effect = Literal["harmless", "model", "tools", "agents"]

_TABLE: dict[Effect, str] = {
    "harmless": """
        builtins pydantic pydantic_settings typing_extensions attrs attr dotenv yaml toml tomli orjson ujson jinja2
        numpy pandas polars scipy sklearn matplotlib seaborn plotly PIL networkx tiktoken nltk tqdm rich loguru
        structlog click typer colorama tabulate tenacity backoff requests httpx aiohttp aiofiles urllib3 bs4 lxml
        markdown markdownify pypdf PyPDF2 docx openpyxl dateutil pytz streamlit gradio fastapi flask starlette uvicorn
        langsmith langfuse opentelemetry sqlalchemy redis pymongo psycopg psycopg2 chromadb faiss qdrant_client
        anyio aiosqlite asyncpg
    """,
    "model": """
        langchain langchain_core langchain_openai langchain_anthropic langchain_google_genai langchain_google_vertexai
        langchain_groq langchain_ollama langchain_mistralai langchain_cohere langchain_aws langchain_deepseek
        langchain_fireworks langchain_huggingface langchain_nvidia_ai_endpoints langchain_together langchain_xai
        langchain_text_splitters langchain_chroma langchain_classic langchain_community langchain_pinecone
        openai anthropic litellm groq ollama cohere mistralai together google.genai google.generativeai
        transformers sentence_transformers instructor
    """,
    "tools": """
        langchain_community.tools langchain_community.utilities langchain_community.agent_toolkits langchain_tavily
        langchain_google_community langchain_exa langchain_experimental.tools langchain_experimental.utilities
        crewai_tools tavily exa_py serpapi duckduckgo_search ddgs firecrawl wikipedia arxiv e2b_code_interpreter
    """,
    "agents": """
        agents autogen_agentchat autogen_core autogen_ext crewai fastmcp google.adk langgraph llama_index mcp
        pydantic_ai pydantic_graph smolagents langchain.agents langchain_classic.agents langchain.tools
        langchain_core.tools langchain_mcp_adapters langchain_experimental.agents
    """,
}
_EFFECTS: dict[str, Effect] = {name: effect for effect, names in _TABLE.items() for name in names.split()}


@cache
def effect_of(path: str) -> Effect | None:
    """Returns what a call of a class or function can do, by its dotted path; None if that is unknown."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        if effect := _EFFECTS.get(".".join(parts[:length])):
            return effect
    return "harmless" if parts[0] in sys.stdlib_module_names else None


# --- the tools that a call runs

AGENT_TOOLS = {
    "create_react_agent": 1, "create_agent": 1, "create_tool_calling_agent": 1, "create_openai_tools_agent": 1,
    "create_structured_chat_agent": 1, "initialize_agent": 0, "AgentExecutor": 1, "ToolNode": 0, "Agent": None,
    "Task": None, "LlmAgent": None, "AssistantAgent": None, "FunctionAgent": None, "ReActAgent": None,
    "CodeAgent": 0, "ToolCallingAgent": 0,
}  # fmt: skip
"""The makers of agents, each with the position of its tools; None: by keyword only."""
_PARTS = ("agent", "agents", "tasks")
_MOST_DEPTH = 5


@dataclass
class LibraryTools:
    """The tools that a call runs.

    Attributes:
        names: the tools.
        unseen: why there can be others.
        model_chooses: an agent chooses among them.
        known: the object that is called is known, so that there are no others.
    """

    names: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    model_chooses: bool = False
    known: bool = False


def tools_run_by(
    call: ast.Call, evaluator: Evaluator, scope: NameScope, runs: frozenset[str], own: tuple[str, ...] = ()
) -> LibraryTools:
    """Returns the tools that a call of a method runs.

    Args:
        call: the call.
        evaluator: evaluates the code around it.
        scope: the names there.
        runs: the methods that run tools and agents.
        own: the packages whose agents the extractor reads itself.
    """
    library_tools = LibraryTools()
    if not isinstance(call.func, ast.Attribute):
        return library_tools
    owner = evaluator.value(call.func.value, scope)
    if call.func.attr == "call_tool" and call.args:
        _called_by_name(evaluator.value(call.args[0], scope), library_tools)
        return library_tools
    for value in owner.known:
        path = _path(value)
        if is_readable(value) and path.partition(".")[0] in own:
            library_tools.known = True
        elif call.func.attr in runs or effect_of(path) == "tools":
            _run(value, path, library_tools, evaluator, 0)
    library_tools.known = library_tools.known and owner.complete and all(_is_read(value) for value in owner.known)
    return library_tools


def _called_by_name(names: Values, library_tools: LibraryTools) -> None:
    """Records the tools of a server, which a call names."""
    library_tools.names += [plain_string(name) for name in names.known if isinstance(name, str)]
    library_tools.known = bool(library_tools.names) and names.strings is not None


def _path(value: object) -> str:
    return path_of(value.callee if isinstance(value, CallResult) else value)


def _is_read(value: object) -> bool:
    return isinstance(value, CallResult | ImportedName)


def _run(value: object, path: str, library_tools: LibraryTools, evaluator: Evaluator, depth: int) -> None:
    """Records what running an object calls."""
    if isinstance(value, CallResult) and effect_of(path) == "agents" and is_readable(value):
        library_tools.known, library_tools.model_chooses = True, not path.endswith(".ToolNode")
        _agent(value, library_tools, evaluator, depth)
    elif effect_of(path) == "tools":
        library_tools.known = True
        library_tools.names.append(library_name(path))
    elif isinstance(value, ImportedName) and effect_of(path) is None:
        library_tools.names.append(library_name(path))
        library_tools.unseen.append(f"the declared name of {path!r}, which is defined elsewhere")


def is_readable(value: object) -> bool:
    """Whether an object is an agent whose tools its construction shows."""
    maker = _path(value).rpartition(".")[2]
    return isinstance(value, CallResult) and (maker in AGENT_TOOLS or maker == "Crew")


def library_name(path: str) -> str:
    """Returns the name of a library's tool: its package and its name there."""
    return f"{path.partition('.')[0]}.{path.rpartition('.')[2]}"


def _agent(made: CallResult, library_tools: LibraryTools, evaluator: Evaluator, depth: int) -> None:
    """Records the tools that the code gives an agent, and those of the agents in it."""
    maker = _path(made).rpartition(".")[2]
    tools = made.arguments.get("tools", AGENT_TOOLS.get(maker))
    _elements(tools, library_tools, evaluator, depth, "tools")
    parts = [part for part in _PARTS if made.arguments.get(part) is not None]
    for part in parts:
        _elements(made.arguments.get(part), library_tools, evaluator, depth, part)
    if maker == "Crew" and not any(evaluator.elements(made.arguments.get(part) or NOTHING).known for part in parts):
        library_tools.unseen.append("no agent of its crew is known")


def _elements(values: Values | None, library_tools: LibraryTools, evaluator: Evaluator, depth: int, what: str) -> None:
    if values is None or values.known == (None,):
        return
    elements = values if what == "agent" else evaluator.elements(values)
    if not elements.complete:
        library_tools.unseen.append(f"not all its {what} are known")
    for element in elements.known:
        _element(element, library_tools, evaluator, depth, what)


def _element(element: object, library_tools: LibraryTools, evaluator: Evaluator, depth: int, what: str) -> None:
    if what != "tools":
        if isinstance(element, CallResult) and effect_of(_path(element)) == "agents" and depth < _MOST_DEPTH:
            _agent(element, library_tools, evaluator, depth + 1)
        elif not isinstance(element, Stub):
            library_tools.unseen.append(f"not all its {what} are known")
        return
    names = list(_names_of(element))
    library_tools.names += names
    if not names or (effect_of(_path(element)) is None and isinstance(element, ImportedName | CallResult)):
        known = isinstance(element, Stub)  # its extractor names it
        library_tools.unseen += (
            [] if known else [f"the declared name of {_path(element) or 'a tool'!r}, which is defined elsewhere"]
        )


def _names_of(value: object) -> Iterator[str]:
    """Yields the name of a tool in a list."""
    if isinstance(value, Function):
        yield getattr(value.tree, "name", "lambda")
    elif isinstance(value, FunctionType):
        yield value.__name__
    elif path := _path(value):
        yield library_name(path)


def unseen_of(library_tools: LibraryTools, line: int, file: str) -> list[Unseen]:
    """Returns what a call can run besides the named tools."""
    return [Unseen(reason, line, file) for reason in dict.fromkeys(library_tools.unseen)]


# --- calls of models, and placeholders

_METHODS = {
    *"complete acomplete chat achat stream_chat astream_chat stream_complete astream_complete predict apredict".split(),
    *"structured_predict astructured_predict chat_with_tools achat_with_tools model_request model_request_sync".split(),
    *"completion acompletion generate_content generate_content_async generate_text".split(),
}
_CALLS = ("completions.create", "completions.parse", "responses.create", "responses.parse", "messages.create")
_INVOKES = {"invoke", "ainvoke", "stream", "astream", "batch", "abatch", "astream_events"}
_TOOL_RUNS = {"invoke", "ainvoke", "run", "arun", "_run", "_arun", "func", "coroutine", "execute"}
_MODELS = frozenset(
    "llm llms lm model models gpt chatgpt openai claude anthropic gemini chat chain agent agents bind "
    "structured".split()
)
_TOOLS = frozenset({"tool", "tools"})
_NO_MODELS = _TOOLS | set("retriever retrievers search store vectorstore index db database session".split())
_VERBS = frozenset("call ask query invoke ainvoke prompt run arun complete generate agenerate predict respond".split())
_NOUNS = frozenset({"response", "completion", "reply"})
_PLAIN = (
    ast.stmt, ast.Constant, ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Name, ast.Attribute, ast.Subscript,
    ast.Starred, ast.IfExp, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.ListComp, ast.comprehension, ast.keyword,
    ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop, ast.arguments, ast.arg,
)  # fmt: skip


def calls_model(calls: Iterable[str], runs: Iterable[tuple[object, str]]) -> bool:
    """Returns whether a function calls a model or an agent.

    Args:
        calls: its callees, as in the source.
        runs: the objects and names of its method calls.
    """
    models = (isinstance(run, CallResult) and _is_model(run) for run, method in runs if method in _INVOKES)
    return any(map(_is_model_call, calls)) or any(models)


def runs_named_tools(calls: Iterable[str]) -> bool:
    """Returns whether a function runs something that its code calls a tool."""
    return any(map(_is_tool_call, calls))


def is_placeholder(tree: FunctionTree) -> bool:
    """Returns whether a function computes nothing: it only chooses among constants and parts of its arguments."""
    statements: Iterable[ast.AST] = [tree.body] if isinstance(tree, ast.Lambda) else tree.body
    nodes = (node for statement in statements for node in ast.walk(statement))
    return all(isinstance(node, _PLAIN) or (isinstance(node, ast.Call) and _is_plain(node)) for node in nodes)


def _is_plain(call: ast.Call) -> bool:
    """Whether a call reads a dictionary, or constructs an object: classes have capital names."""
    name = ast.unparse(call.func).rpartition(".")[2]
    return name == "get" or name[:1].isupper()


def _is_model(call_result: CallResult) -> bool:
    name = path_of(call_result.callee).rpartition(".")[2]
    return effect_of(path_of(call_result.callee)) == "model" and bool(_words(name) & _MODELS)


def _is_model_call(call: str) -> bool:
    owner, _, name = call.rpartition(".")
    if name in _METHODS or call.endswith(_CALLS):
        return True
    if not owner or owner == "self":
        return _names_a_model(name)
    words = _words(owner)
    if name in _INVOKES:
        return bool(words & _MODELS) or not words & _NO_MODELS
    return bool(words & _MODELS) and bool(_words(name) & _VERBS)


def _names_a_model(name: str) -> bool:
    """Whether the name of a function says that it calls a model: `call_llm`, `llm`."""
    words = _words(name)
    return not name[:1].isupper() and (
        (len(words) == 1 and words <= _MODELS) or bool(words & _MODELS and words & (_VERBS | _NOUNS))
    )


def _is_tool_call(call: str) -> bool:
    owner, _, name = call.rpartition(".")
    if call.endswith("]"):  # a tool from a table
        return bool(_words(call) & _TOOLS)
    return name == "call_tool" or (name in _TOOL_RUNS and bool(_words(owner) & _TOOLS) and not _words(owner) & _MODELS)


def _words(text: str) -> set[str]:
    """The words in some code, in lower case: `ChatModel.call_llm` has chat, model, call, llm."""
    return {match.lower() for match in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)}


# --- opaque calls

RUN_METHODS = {
    "invoke", "ainvoke", "stream", "astream", "batch", "abatch", "stream_events", "astream_events",
    "run", "arun", "func", "coroutine", "_run", "_arun", "__call__", "run_sync", "run_async", "run_live", "run_stream",
    "run_streamed", "run_json", "on_messages", "on_messages_stream", "on_invoke_tool", "call_tool", "initiate_chat",
    "kickoff", "kickoff_async", "kickoff_for_each", "akickoff", "execute_task",
}  # fmt: skip
_AGENTS = (
    "agents", "autogen_agentchat", "autogen_core", "autogen_ext", "crewai", "crewai_tools", "fastmcp", "google.adk",
    "langgraph", "llama_index", "mcp", "pydantic_ai", "pydantic_graph", "smolagents",
)  # fmt: skip
_FROM_TEXT = {"builtins.exec", "builtins.eval", "builtins.__import__"}
_RUNS_TOOLS = (".agents", ".tools", ".mcp", "langgraph.", "langchain_mcp")


def is_opaque(call: ast.Call, callee: Values, evaluator: Evaluator, scope: NameScope, opens: frozenset[str]) -> bool:
    """Whether a call is opaque to an extractor that reads the results of the functions in `opens`."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in RUN_METHODS:
        return not _is_transparent(function.value, evaluator, scope, opens)
    if any(path_of(value) in _FROM_TEXT or _is_missing_import(value) for value in callee.known):
        return True
    named = isinstance(function, ast.Name | ast.Subscript | ast.Call)
    return named and not callee.known and not callee.cyclic


def _is_transparent(owner: ast.expr, evaluator: Evaluator, scope: NameScope, opens: frozenset[str]) -> bool:
    """Whether an object is known well enough to know what it runs."""
    match owner:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in BINDS:
            return _is_transparent(inner, evaluator, scope, opens)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_transparent(left, evaluator, scope, opens) and _is_transparent(right, evaluator, scope, opens)
    values = evaluator.value(owner, scope)
    seen = bool(values.known) and all(_is_identified(value, opens) for value in values.known)
    return seen and (values.complete or all(isinstance(value, CallResult) for value in values.known))


def _is_identified(value: object, opens: frozenset[str]) -> bool:
    if isinstance(value, CallResult):
        if isinstance(value.callee, Attribute):
            # A model returns a model or a string.
            return value.callee.owner is None or _is_identified(value.callee.owner, opens)
        path = path_of(value.callee)
        name = path.rpartition(".")[2]
        return isinstance(value.callee, Class) or name in BINDS | opens or _is_known(path)
    if isinstance(value, Instance):
        return isinstance(value.of, Class) or _runs_nothing(path_of(value.of))
    if isinstance(value, ImportedName):
        return _is_known(value.path)
    return not isinstance(value, Attribute | Function | FunctionType)  # a decorated function can be anything


def _is_known(path: str) -> bool:
    """Whether it runs nothing, or an extractor reads it."""
    return _runs_nothing(path) or (not path.startswith("langgraph") and _agents(path) is not None)


def _runs_nothing(path: str) -> bool:
    """Whether it is a model, a prompt or a parser of LangChain, or from the standard library."""
    root = path.partition(".")[0]
    if any(part in path for part in _RUNS_TOOLS):
        return False
    return root.startswith("langchain") or effect_of(path) in {"harmless", "model"}


def foreign(owner: object, own: tuple[str, ...]) -> str | None:
    """Returns the package of an object that runs agents or tools of a framework other than the extractor's own.

    If the extractor has no framework, every stub of the program counts as such an object.
    """
    if isinstance(owner, Stub) and not own:
        return "the program"
    kind = owner.callee if isinstance(owner, CallResult) else owner.of if isinstance(owner, Instance) else owner
    agents = _agents(path_of(kind) or type(kind).__module__)
    return None if agents is None or (own and agents.startswith(own)) else agents


def _agents(path: str) -> str | None:
    return next((agent for agent in _AGENTS if path == agent or path.startswith(f"{agent}.")), None)


def _is_missing_import(function: object) -> bool:
    """Whether a function is from a module that is neither readable nor in the table of libraries."""
    if not isinstance(function, ImportedName) or function.path.rpartition(".")[2][:1].isupper():
        return False
    return effect_of(function.path) is None
