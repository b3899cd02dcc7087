"""The facts about Pydantic AI and its graphs."""

FRAMEWORK = "pydantic-graph"
EXTRA = "pydantic-graph"
DISTRIBUTIONS = {"pydantic-ai-slim": "1.107", "pydantic-graph": "1.107"}
OBJECTS = ("pydantic_graph", "pydantic_ai")
PACKAGES = OBJECTS
