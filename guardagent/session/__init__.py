"""One conversation under a policy.

`Session.check` judges a proposed call in one atomic step and, if allowed, records it as in flight with a permit;
`Session.record` settles it with its output; `Session.finish` reports pending obligations. A session can be saved as a
snapshot and continued by another process, several calls can be judged together, and a denied step can go back to the
agent a bounded number of times.
"""
