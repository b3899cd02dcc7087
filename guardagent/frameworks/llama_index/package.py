"""The facts about LlamaIndex."""

FRAMEWORK = "llama-index"
EXTRA = "llama-index"
DISTRIBUTIONS = {"llama-index-core": "0.14.25", "llama-index-workflows": "2.26"}
OBJECTS = ("workflows", "llama_index")
PACKAGES = OBJECTS
