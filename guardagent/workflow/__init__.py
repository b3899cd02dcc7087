"""Workflow graphs, proved safe before they are deployed (Agentproof).

    model           the graph, its JSON, and how a command line names one
    python_source   Python read without running it
    extraction      the parts that all extractors share
    analysis        structural checks, rules on every path, shortest witnesses, proofs for sessions
    reports, drawing    the formats of reports and of graphs

`verify(target, policies)` does all of it for one workflow, and `verify_all` for those of a file or a folder;
`graphs_of` returns their graphs. The extractor of each framework is in `guardagent.frameworks`.
"""

from guardagent._support.plugins import lazy_getattr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from guardagent.workflow.model.targets import graphs_of as graphs_of
    from guardagent.workflow.verify import verify_all as verify_all

__getattr__ = lazy_getattr(__name__, "verify", ("verify_all", "graphs_of"))
