"""Calls checked while a model generates them.

    local   guarded decoding: a local model never emits a denied call (Agent-C)
    chat    guarded chat: a remote model's turn is judged as a whole, and requested again until it complies

Both check against the same session, and release nothing that it denies.
"""
