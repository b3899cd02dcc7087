"""The facts about LangChain and LangGraph."""

FRAMEWORK = "langgraph"
EXTRA = "langgraph"
DISTRIBUTIONS = {"langchain": "1.4", "langgraph": "1.2"}
OBJECTS = ("langgraph", "langchain_core")
PACKAGES = ("langgraph", "langchain", "langchain_core", "langgraph_supervisor", "langgraph_swarm")
