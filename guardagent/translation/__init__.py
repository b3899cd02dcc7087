"""From a policy document to a policy.

reference            the language page for a model
reference_examples   its examples, each with a call that it allows and one that it denies
"""
