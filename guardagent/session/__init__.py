"""One conversation under a policy.

`Session.check` judges a proposed call in one atomic step, and puts it in flight with a permit where it is allowed;
`Session.record` settles it with its output; `Session.finish` says which obligations are still pending. A session can
be kept as a snapshot and continued by another process, several calls can be judged as one, and a denied step can go
back to the agent a bounded number of times.
"""
