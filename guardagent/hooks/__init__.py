"""Hooks of coding agents: their hosts ask a program before each tool call, and this package answers.

hosts/           one file per host: its events, its answers, its settings
client.py        the program that a hook runs; it passes the event on to the daemon
daemon/          one process per user, which decides
hook_lock.py     the policy of an installed hook, and its hash
call_arguments   arguments of tool calls as rules judge them
protection.py    what no agent may change: the policy, the state, the hooks themselves
unchecked_calls  calls that the host ran although no verdict allowed them
session_retention  for how long the history of a session is kept
installation.py  `guardagent hook install`, `status` and `uninstall`
"""
