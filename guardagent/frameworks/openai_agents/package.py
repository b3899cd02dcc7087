"""The facts about the OpenAI Agents SDK."""

FRAMEWORK = "openai-agents"
EXTRA = "openai-agents"
DISTRIBUTIONS = {"openai-agents": "0.24"}
OBJECTS = ("agents",)
PACKAGES = ("agents",)
