"""Workflow graphs, proved safe before they are deployed (Agentproof).

    model           the graph, its JSON, and how a command line names one
    python_source   Python read without running it
    extraction      the parts that all extractors share
    analysis        structural checks, rules on every path, shortest witnesses, proofs for sessions
    reports, drawing    one file per format

`verify(target, policies)` does all of it. The extractor of each framework is in `guardagent.frameworks`.
"""
