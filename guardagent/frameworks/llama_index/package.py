"""The facts about LlamaIndex."""

FRAMEWORK = "llama-index"
EXTRA = "llama-index"
DISTRIBUTIONS = {"llama-index-core": "0.14.25", "llama-index-workflows": "2.26"}
TRIED = {  # the oldest and the newest version tried with the adapter; others warn
    "llama-index-core": ("0.14.25", "0.14"),
    "llama-index-workflows": ("2.26", "2.26"),
}
OBJECTS = ("workflows", "llama_index")
PACKAGES = OBJECTS
