"""The bodies of functions: what they call, and how they can end."""
