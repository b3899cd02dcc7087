"""The facts about Strands Agents."""

FRAMEWORK = "strands"
EXTRA = "strands"
DISTRIBUTIONS = {"strands-agents": "1.62"}
TRIED = {"strands-agents": ("1.62", "1.62")}  # the oldest and the newest version tried; others warn
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
