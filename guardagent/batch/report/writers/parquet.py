"""The table of rules and weeks as a Parquet file. Its metadata says whether the audit is complete."""

from __future__ import annotations

from dataclasses import asdict

from guardagent.batch.report.figures import AuditReport

SUFFIX = ".parquet"
VERSION = 1


def render(report: AuditReport) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("week", pa.string()),
            ("rule", pa.string()),
            ("judged", pa.int64()),
            *((name, pa.int64()) for name in ("traces", "violations", "pending", "near_misses", "unlisted")),
            ("share", pa.float64()),
        ],
        metadata={"guardagent.report": str(VERSION), "complete": str(report.complete).lower()},
    )
    rows = [
        {"week": one.week, "rule": one.rule, "judged": one.judged, **asdict(one.counts), "share": one.share}
        for one in report.weeks
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    return bytes(sink.getvalue())
