"""Hooks of coding agents: their hosts ask a program before each tool call, and this package answers.

hosts          one file per host: its events, its answers, its settings
client         the program that a hook runs; it passes the event on to the daemon
hook_daemon    one process per user, which decides
hook_event     the events and answers that all hosts share
hook_judge     the decisions of one installed hook
protection     what no agent may change unasked: the policy, the state, the hooks
hook_state     the copy of its policy, calls that wait, calls without a verdict, the age of histories
calls          arguments as rules judge them, calls of earlier sessions, settings with hooks
installation   `guardagent hook install`, `status`, `enforce`, `update`, ...; the setup of a project
"""
