"""Judges traces in Arrow tables: rows of events in, one row with a verdict out for each trace.

    files -> splits -> rows -> (shuffled by trace) -> partitions -> verdicts, one file for each partition

An engine distributes this work: `local`, `duckdb`, `spark` or `ray`. All of them use the same reader and judge.
"""
