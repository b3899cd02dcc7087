"""Everything that a server does, without HTTP: see `GuardService`."""
