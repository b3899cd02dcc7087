"""Pydantic AI and its graphs."""
