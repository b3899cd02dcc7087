"""The workflow graph: its types, its JSON, and how a command line names one."""
