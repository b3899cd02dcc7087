"""The facts about AutoGen."""

FRAMEWORK = "autogen"
EXTRA = "autogen"
DISTRIBUTIONS = {"autogen-agentchat": "0.7.5", "autogen-ext": "0.7.5"}
OBJECTS = ("autogen_agentchat",)
PACKAGES = ("autogen_agentchat", "autogen_core", "autogen_ext", "autogen")
