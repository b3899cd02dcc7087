"""The facts about the Model Context Protocol."""

FRAMEWORK = "mcp"
EXTRA = "mcp"
DISTRIBUTIONS = {"fastmcp": "4.1", "mcp": "2.3"}
OBJECTS: tuple[str, ...] = ()
PACKAGES: tuple[str, ...] = ()
