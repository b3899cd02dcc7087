"""Workflow graphs, proved safe before they are deployed (Agentproof).

    model           the graph, its JSON, and how a command line names one
    python_source   Python read without running it
    extraction      what all extractors use
    analysis        structural checks, rules on every path, shortest witnesses, the proofs that a session may rely on
    reports, drawing    one file per format

`verify(target, policies)` does all of it. The frameworks' own extractors lie in `guardagent.frameworks`.
"""
