"""From a policy document to a policy.

document             its numbered sentences
tools, samples       schemas of the agent's tools, and calls of its traces
reference            the language page for a model
reference_examples   its examples, each with a call that it allows and one that it denies
"""
