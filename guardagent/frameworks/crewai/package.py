"""The facts about CrewAI."""

FRAMEWORK = "crewai"
EXTRA = "crewai"
DISTRIBUTIONS = {"crewai": "1.15"}
OBJECTS = ("crewai",)
PACKAGES = ("crewai", "crewai_tools")
