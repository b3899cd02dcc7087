"""The facts about Acme Flows."""

FRAMEWORK = "acme-flows"  # the name in reports
EXTRA = "acme-flows"  # the extra in pyproject.toml; empty if none is needed
DISTRIBUTIONS = {"acme-flows": "1.0"}  # the required distributions, each with the oldest version tested
OBJECTS = ("acme_flows",)  # the modules that define its classes; empty without an extractor
PACKAGES = ("acme_flows",)  # the top-level packages that programs import; empty without a source reader
