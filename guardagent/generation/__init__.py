"""Calls judged while a model writes them: guarded decoding with a local model, guarded chat with a remote one."""
