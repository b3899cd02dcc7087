"""One file or package per agent framework. Nothing here is loaded unless its users import it."""
