"""The table of libraries: what a call into a package can do, the same for every framework.

The longest matching entry counts. A package that is not in the table can run anything.

    harmless   it calls no tool and no model of an agent
    model      it calls a model, or prepares or parses its texts
    tools      its objects are tools; one that is called is named `package.Class`
    agents     it runs agents; their tools are those that the code gives them
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Literal

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
