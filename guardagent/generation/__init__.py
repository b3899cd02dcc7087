"""Calls checked while a model generates them.

    local   guarded decoding: a local model never emits a denied call (Agent-C)
    chat    guarded chat: a remote model's turn is judged as a whole, and requested again until it complies

Both check against the same session, and release nothing that it denies.

Guarded chat: checks the calls that a remote model proposes before it returns any of them.

guarded_chat     requests a turn from a model with tools until its calls comply
aguarded_chat    the same, for an event loop
"""
