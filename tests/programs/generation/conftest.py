"""A model behind a scripted server."""

from tests.models.conftest import serve

__all__ = ["serve"]
