"""The facts about CrewAI."""

FRAMEWORK = "crewai"
EXTRA = "crewai"
DISTRIBUTIONS = {"crewai": "1.15"}
TRIED = {"crewai": ("1.15", "1.15")}  # the oldest and the newest version tried; others warn
OBJECTS = ("crewai",)
PACKAGES = ("crewai", "crewai_tools")
