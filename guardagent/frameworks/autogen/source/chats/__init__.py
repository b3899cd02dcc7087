"""Reads programs in the style of AutoGen 0.2 and AG2 before 1.0: agents that chat in pairs, queues and groups.

A chat is a call there, not an object, so only a source reader can find it: `initiate_chat` and the like make a
`ChatSequence`, whose agents are stubs. Tools belong to the agent that executes them, as in a run.
"""
