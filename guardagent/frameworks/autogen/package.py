"""The facts about AutoGen."""

FRAMEWORK = "autogen"
EXTRA = "autogen"
DISTRIBUTIONS = {"autogen-agentchat": "0.7.5", "autogen-ext": "0.7.5"}
TRIED = {  # the oldest and the newest version tried with the adapter; others warn
    "autogen-agentchat": ("0.7.5", "0.7"),
    "autogen-core": ("0.7.5", "0.7"),
}
OBJECTS = ("autogen_agentchat",)
PACKAGES = ("autogen_agentchat", "autogen_core", "autogen_ext", "autogen")
