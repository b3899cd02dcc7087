"""Policies: rules over the steps of an agent (Agentproof, Section 6.2; Agent-C; solver-aided checking).

    file          strict YAML into strings with lines; every key is checked
    language      rules into syntax trees; errors show a caret
    evaluation    terms and patterns over the calls of a conversation, in three-valued logic
    monitors      compiled rules: monitors, combined by AND, OR and NOT
    solver        rules as SMT-LIB 2 constraints
    logic         data rules as first-order logic: whether a call can still comply
    lint          finds defects in rules
    provenance    the sources of values
    functions     the functions of the language
    words         rules in plain English
    documents     policy documents as numbered sentences
    review        whether people confirmed a policy that was translated from a document
    equivalence   whether two drafts of a rule mean the same

`load_policies` returns `Policies`: immutable, and shared by all sessions.
"""
