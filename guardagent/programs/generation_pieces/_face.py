"""A guard program written by a model for one run (GuardAgent, Sections 4.2 and 4.3).

The steps: retrieve demonstrations, plan in four steps, write code, pass the gate, run, debug. One generator implements
them: it yields prompts and receives completions, with or without an event loop. Several plans can vote.
"""
