"""Calls judged while a model writes them.

    local   guarded decoding: a denied call never leaves a local model (Agent-C)
    chat    a remote model's turn, judged as a whole and asked for again until it complies

Both ask the same session, and hand on nothing that it denies.
"""
