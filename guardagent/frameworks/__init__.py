"""One package per agent framework; each is loaded only when it is imported."""
