"""The facts about the Model Context Protocol."""

FRAMEWORK = "mcp"
EXTRA = "mcp"
DISTRIBUTIONS = {"fastmcp": "4.1", "mcp": "2.3"}
TRIED = {"fastmcp": ("4.1", "4.2"), "mcp": ("2.3", "2.3")}  # the oldest and the newest version tried
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
