"""A run killed anywhere resumes after the last complete row, and only on unchanged input."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent.batch.pipeline import Job, judge_file
from guardagent.batch.results import Result, ResultLog, ResumableLog, VerdictMetrics
from guardagent.errors import ContentError, InputError
from tests.shop import case, job, write_lines, write_policies

Results = Generator[Result]

BAD = {3, 4, 32, 33, 40, 69}
CASES = ["{" if at in BAD else case(f"c{at}", amount=at * 2, more={"label": at % 2}) for at in range(70)]


@pytest.fixture
def work(tmp_path: Path) -> Job:
    """Seventy lines: three chunks."""
    return job(write_lines(tmp_path / "cases.jsonl", *CASES), write_policies(tmp_path))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def start(
    work: Job, out: Path, *, resume: bool = False, setup: str = "s", workers: int = 1
) -> tuple[VerdictMetrics, Results]:  # fmt
    policies = work.load()
    log = ResumableLog(out, setup, VerdictMetrics.for_rules(policies.ids), resume=resume)
    return log.metrics, judge_file(work, policies, log.metrics, log, workers=workers)


def finish(work: Job, out: Path, **options: Any) -> tuple[dict[str, Any], list[Any]]:
    """(the metrics of all lines, the rows of all lines without their times) once a run has come to its end."""
    metrics, results = start(work, out, **options)
    list(results)
    return metrics.to_dict(), [{**json.loads(line), "elapsed_ms": 0} for line in out.read_bytes().splitlines()]


def halfway(work: Job, out: Path) -> None:
    """A run that has ended within its second chunk."""
    _, results = start(work, out)
    for _ in range(40):
        next(results)
    results.close()


def beside(out: Path) -> Path:
    return out.with_name("out.jsonl.progress")


def moments(work: Job, out: Path) -> Iterator[tuple[bytes, bytes]]:
    """(rows, progress) as they are after each result of a run; it ends at each of them, in a way."""
    _, results = start(work, out)
    for _ in results:
        yield out.read_bytes(), beside(out).read_bytes()


@pytest.mark.slow
def test_a_run_killed_anywhere_resumes(work: Job, out: Path) -> None:
    """Between rows, within one, and before the first of a chunk: nothing is lost, repeated, or judged again."""
    kills = list(moments(work, out))
    expected = finish(work, out, resume=True)
    assert len(expected[1]) == len(CASES) - len(BAD)
    for rows, progress in kills[1::2]:
        last = max(rows[:-1].rfind(b"\n") + 1, json.loads(progress)["written"])  # where the last row of a chunk begins
        for cut in (0, 1, 10**6):
            left = rows[: max(last, len(rows) - cut)]
            out.write_bytes(left)
            beside(out).write_bytes(progress)
            assert finish(work, out, resume=True) == expected
            assert out.read_bytes().startswith(left[: left.rfind(b"\n") + 1])


def test_reported_results_are_not_repeated(work: Job, out: Path) -> None:
    """Neither verdicts nor unreadable lines before the last row are reported again."""
    _, results = start(work, out)
    first = [next(results).line for _ in range(50)]
    results.close()
    _, rest = start(work, out, resume=True)
    assert first + [result.line for result in rest] == list(range(1, 71))


def test_a_completed_run_resumes_on_a_longer_input(work: Job, out: Path) -> None:
    """Only new lines are judged; without new lines, the metrics cover all lines."""
    expected = finish(work, out)
    assert finish(work, out, resume=True) == expected
    with Path(work.path).open("a") as file:
        file.write(json.dumps(case("new")) + "\n")
    _, results = start(work, out, resume=True)
    assert [result.line for result in results] == [71]


def test_several_workers_resume_too(work: Job, out: Path) -> None:
    """They continue the results of a single worker."""
    halfway(work, out)
    assert finish(work, out, resume=True, workers=2) == finish(work, out.with_name("other.jsonl"))


def test_results_are_never_written_over(work: Job, out: Path) -> None:
    """Without --resume a file that holds anything is refused, and stays as it is."""
    out.write_text("mine\n")
    with pytest.raises(InputError, match="already holds results; use '--resume' to continue, or another '--out'"):
        start(work, out)
    assert out.read_text() == "mine\n"


def test_a_run_does_not_resume_under_another_policy(work: Job, out: Path) -> None:
    """The policies are part of the setup of a run."""
    halfway(work, out)
    with pytest.raises(InputError, match="was written under other policies or by another version"):
        start(work, out, resume=True, setup="other")


@pytest.mark.parametrize("line", [0, 31, 32, 50])
def test_a_run_does_not_resume_on_another_input(work: Job, out: Path, line: int) -> None:
    """Whatever line was changed, up to the end of the chunk that was begun; the rows stay as they are."""
    halfway(work, out)
    before = out.read_bytes()
    lines = Path(work.path).read_text().split("\n")
    lines[line] += " "
    Path(work.path).write_text("\n".join(lines))
    _, results = start(work, out, resume=True)
    with pytest.raises(InputError, match=r"have changed since it was written|the input changed before line 65"):
        list(results)
    assert out.read_bytes() == before


@pytest.mark.parametrize("lines", [10, 35])
def test_a_run_does_not_resume_on_a_shorter_input(work: Job, out: Path, lines: int) -> None:
    """One that ends before what was judged."""
    halfway(work, out)
    write_lines(Path(work.path), *CASES[:lines])
    _, results = start(work, out, resume=True)
    with pytest.raises(InputError, match=r"have changed since it was written|the input changed before line 65"):
        list(results)


def test_a_run_does_not_resume_on_changed_rows(work: Job, out: Path) -> None:
    """Rows that are missing, too many, or no verdicts."""
    halfway(work, out)
    rows, progress = out.read_bytes(), beside(out).read_bytes()
    for changed, says in (
        (rows[:100], "has fewer rows than were written"),
        (rows + b"{}\n", "the last rows are not verdicts"),
        (rows + b"\xff\n", "not JSON"),
        (rows + rows.splitlines(keepends=True)[0] * 40, "more results than records"),
    ):
        out.write_bytes(changed)
        beside(out).write_bytes(progress)
        with pytest.raises(InputError, match=says):
            finish(work, out, resume=True)


def test_rows_after_the_end_are_refused(work: Job, out: Path) -> None:
    """A completed run accepts no further rows."""
    finish(work, out)
    out.write_bytes(out.read_bytes() + out.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(InputError, match="has more rows than were written"):
        finish(work, out, resume=True)


def test_a_lost_or_broken_progress_is_named(work: Job, out: Path) -> None:
    """Without it, the rows cannot be matched to the input."""
    halfway(work, out)
    beside(out).write_text("{}")
    with pytest.raises(ContentError, match=r"out\.jsonl\.progress: is not a progress file"):
        start(work, out, resume=True)
    beside(out).unlink()
    with pytest.raises(InputError, match=r"out\.jsonl\.progress is missing; expected both, or neither"):
        start(work, out, resume=True)


def test_one_run_writes_at_a_time(work: Job, out: Path) -> None:
    """A second one is refused while the first is there."""
    _, results = start(work, out)
    next(results)
    with pytest.raises(InputError, match="another run is writing to it"):
        start(work, out, resume=True)


def test_a_file_that_cannot_be_written_is_named(work: Job, tmp_path: Path) -> None:
    """A folder, and a place that is not there."""
    for path in (tmp_path, tmp_path / "none" / "out.jsonl"):
        with pytest.raises(InputError, match="cannot be read or written"):
            start(work, path)


# --- rows are appended by one run at a time, and read back whole


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_a_torn_row_is_dropped(path: Path) -> None:
    """It is ignored, and removed before the next row."""
    path.write_bytes('{"a": 1}\n{"b": "caf\u00e9'.encode()[:-1])
    with ResultLog(path) as log:
        assert log.rows() == ['{"a": 1}']
        assert log.size > 9
        log.drop_torn_row()
        log.append('{"c": 3}')
        assert (log.rows(), log.rows(9)) == (['{"a": 1}', '{"c": 3}'], ['{"c": 3}'])


def test_a_second_writer_is_refused(path: Path) -> None:
    """A second writer is refused until the first one ends; the rows remain."""
    with ResultLog(path) as log:
        log.append("{}")
        with pytest.raises(InputError, match="another run is writing to it; wait until that run ends"):
            ResultLog(path)
    with ResultLog(path) as log:
        assert log.rows() == ["{}"]


def test_replaced_rows_are_the_last(path: Path) -> None:
    """They lie in a new file, which the next run writes to, and nothing else is left."""
    with ResultLog(path) as log:
        log.append("1")
        log.replace(["2", "3"])
    with ResultLog(path) as log:
        log.append("4")
    assert path.read_text() == "2\n3\n4\n"
    assert list(path.parent.iterdir()) == [path]
