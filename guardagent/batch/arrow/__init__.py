"""Judges traces in Arrow tables: rows of events in, one row with a verdict out for each trace.

    files -> splits -> rows -> (shuffled by trace) -> partitions -> verdicts, one file for each partition

An engine distributes this work: `local`, `duckdb`, `spark` or `ray`. All of them use the same reader and judge.
`run_work` gives a run to an engine, and resumes with the partitions that are missing.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from hashlib import sha256
from operator import add
from pathlib import Path
from typing import Any, cast

from guardagent._support.plugins import Plugins
from guardagent._support.requirements import install_hint
from guardagent._version import __version__
from guardagent.batch.arrow import engines
from guardagent.batch.arrow.rows import is_foreign, staged
from guardagent.batch.arrow.schema import VERSION
from guardagent.batch.arrow.source_files import SPLIT_BYTES, SourceFile, Split, splits_of
from guardagent.batch.arrow.work import AuditFolder, AuditJob, PartitionJudge, Summarized, Summary, Work
from guardagent.errors import InputError

ENGINES = Plugins("engine", engines.__name__, ("judge",))
_MOST_PARTITIONS = 4096


def run_work(
    files: Sequence[SourceFile],
    work: Work[Summarized],
    out: str,
    *,
    engine: str = "local",
    options: Mapping[str, str] | None = None,
    partitions: int | None = None,
    resume: bool = False,
    advance: Callable[[int, int], None] = lambda *_: None,
) -> Summarized:
    """Works on all traces of some files, and writes the results to a folder.

    Args:
        files: the result of `find_files`.
        work: what to do with the traces, such as `audit_work`.
        out: the folder, or a URL of one.
        engine: the name of the engine.
        options: the options of the engine.
        partitions: the number of partitions of the traces; by default one for about 32 MiB of rows.
        resume: continue a run that was interrupted.
        advance: a callback that gets the numbers of the partitions done and of all.

    Raises:
        InputError: a file cannot be read, the folder holds other results, or the engine is not installed.
        LimitError: a worker was killed.
    """
    judge, folder = engine_named(engine), AuditFolder(out)
    setup = _setup(files, work)
    count = _partitions(files, work.counters, partitions)
    done = dict[int, Summarized]()
    if (manifest := folder.manifest()) is not None:
        _refuse_other_run(folder, manifest, setup, resume=resume)
        count, done = manifest["partitions"], folder.finished(work.summary)
    elif folder.part_numbers():
        raise InputError(f"{out}: holds parts without their '_audit.json'; expected an empty folder as '--out'")
    else:
        folder.write_manifest(_manifest(setup, files, work, engine, count))
    missing = [number for number in range(count) if number not in done]
    advance(len(done), count)
    if missing:
        with tempfile.TemporaryDirectory(prefix="guardagent-rows-") as staging:
            job = AuditJob(tuple(_splits(files, Path(staging))), work, count, folder)
            for number, summary in judge(job, missing, options or {}):
                done[number] = cast(Summarized, summary)
                advance(len(done), count)
    _refuse_gaps(folder, done, count)
    _note_end(folder)
    return reduce(add, (done[number] for number in range(count)), work.summary())


def engine_named(name: str) -> PartitionJudge:
    """The function `judge` of an engine.

    Raises:
        UnknownNameError: there is no such engine.
        InputError: its package is not installed.
    """
    try:
        return cast(PartitionJudge, ENGINES.load(name).judge)
    except ImportError as error:
        raise InputError(f"the engine {name!r} needs {error.name!r}; {install_hint(name)}") from None


def _splits(files: Sequence[SourceFile], staging: Path) -> list[Split]:
    foreign = [file for file in files if is_foreign(file)]
    return [*splits_of(file for file in files if file not in foreign), *staged(foreign, staging)]


def _partitions(files: Sequence[SourceFile], counters: Sequence[str], wanted: int | None) -> int:
    if counters:
        if wanted not in (None, 1):
            raise InputError(
                f"the policy counts across conversations ({', '.join(counters)}), so all traces are "
                "replayed together; expected 1 partition"
            )
        return 1
    return wanted or min(_MOST_PARTITIONS, max(8, sum(file.size_of_rows for file in files) // SPLIT_BYTES))


def _setup(files: Sequence[SourceFile], work: Work[Summary]) -> dict[str, Any]:
    """Identifies the results: a run resumes only under the same setup."""
    listing = repr(sorted((file.path, file.format, file.size, file.version) for file in files))
    digest = sha256(listing.encode()).hexdigest()
    return {"work": work.name, "version": __version__, "policies": work.digest, "files": digest}


def _manifest(
    setup: Mapping[str, Any], files: Sequence[SourceFile], work: Work[Summary], engine: str, partitions: int
) -> dict[str, Any]:
    return {
        "setup": setup,
        "version": __version__,
        "schema": VERSION,
        "engine": engine,
        "partitions": partitions,
        "started": _now(),
        "sources": [asdict(file) for file in files[:1000]],
        "files": len(files),
        **work.about,
    }


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _note_end(folder: AuditFolder) -> None:
    manifest = folder.manifest() or {}
    if "ended" not in manifest:
        folder.write_manifest({**manifest, "ended": _now()})


def _refuse_other_run(
    folder: AuditFolder, manifest: Mapping[str, Any], setup: Mapping[str, Any], *, resume: bool
) -> None:
    if not resume:
        raise InputError(f"{folder.url}: already holds results; use '--resume' to continue, or another '--out'")
    others = {"work": "another command", "version": "another version", "policies": "other policies"}
    for key, what in {**others, "files": "other files"}.items():
        if manifest["setup"].get(key) != setup[key]:
            raise InputError(f"{folder.url}: was written for {what}; to start anew, use another '--out'")


def _refuse_gaps(folder: AuditFolder, done: Mapping[int, Summary], count: int) -> None:
    written = folder.part_numbers()
    for number in range(count):
        if number not in done:
            raise InputError(f"{folder.url}: the engine ended without partition {number}; run it again with '--resume'")
        if number not in written:
            raise InputError(
                f"{folder.url}: has no {folder.part_name(number)}, which a worker wrote; expected a folder that all "
                "workers share"
            )
