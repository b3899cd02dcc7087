"""Policies: rules over the steps of an agent (Agentproof, Section 6.2; Agent-C; solver-aided checking).

    file          strict YAML into strings that know their lines; every key is checked
    language      a rule's string into typed syntax, with a caret under what is wrong
    evaluation    terms and patterns over the calls of a conversation, in three-valued logic
    monitors      a compiled rule: monitors, which AND, OR and NOT combine
    solver        rules as SMT-LIB 2 constraints
    logic         data rules as first-order logic: what can still be complied with
    lint          what is wrong with rules themselves

`load_policies` gives `Policies`: immutable, and shared by all sessions.
"""
