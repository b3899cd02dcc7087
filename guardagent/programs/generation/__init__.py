"""A guard program written by a model for one run (GuardAgent, Sections 4.2 and 4.3).

Retrieve demonstrations, plan in four steps, write code, pass the gate, run, debug. All of it is one flow: a generator
that yields prompts and receives completions, driven with or without an event loop. Several plans can vote.
"""
