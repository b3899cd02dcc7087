"""placeholder until merged"""

from guardagent.batch.audit import judge_trace


def judge_traces(policies, traces):
    return [judge_trace(policies, t) for t in traces]
