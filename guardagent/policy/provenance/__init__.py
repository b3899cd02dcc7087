"""The sources of values: the labels of recorded outputs, messages and facts, and a lookup of values in them.

    labels          the sources of each label, as the policy file declares them
    normalization   one spelling for the many of a text
    tokens          the identifying tokens of a text: addresses, numbers, paths
    leaves          the strings and numbers of a value
    index           the seen strings of one session, bounded by bytes
    messages        the host's messages, each read once
    recorder        records outputs, messages and facts, and looks values up

The terms `sources(x)` and `seen(label)` read them; `flow(label -> call)` is a rule about them.
"""
