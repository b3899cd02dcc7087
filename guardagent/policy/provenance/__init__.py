"""The sources of values: the labels of recorded outputs, messages and facts, and how to look values up in them.

    tokens     one spelling for the many of a text, and its identifying tokens: addresses, numbers, paths
    readers    the labels of a policy file, the strings and numbers of a value, and the host's messages
    recorder   records outputs, messages and facts, and looks values up; bounded by bytes

The terms `sources(x)` and `seen(label)` read them; `flow(label -> call)` is a rule about them.
"""
