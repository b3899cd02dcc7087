"""The facts about the Microsoft Agent Framework."""

FRAMEWORK = "agent-framework"
EXTRA = "agent-framework"
DISTRIBUTIONS = {"agent-framework-core": "1.23"}
TRIED = {"agent-framework-core": ("1.23", "1.23")}  # the oldest and the newest version tried; others warn
OBJECTS = ()
PACKAGES = ()
