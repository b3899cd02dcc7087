"""The facts about Acme Flows."""

FRAMEWORK = "acme-flows"  # its name in reports
EXTRA = "acme-flows"  # what `pip install 'guardagent[…]'` is to name; empty where nothing is needed
DISTRIBUTIONS = {"acme-flows": "1.0"}  # what is to be installed, each with the oldest version that was tried
OBJECTS = ("acme_flows",)  # the modules that define the classes of its objects; empty where there is no extractor
PACKAGES = ("acme_flows",)  # the top packages that programs import; empty where there is no source reader
