"""The HTTP interface of a server, version 1. Each resource has a table of routes; see `route_table`."""
