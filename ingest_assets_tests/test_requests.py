"""Which runs are requested, and when: pure rules under the sensors."""

from ingest_assets.defs.requests import Failures, due_again


def test_a_document_that_keeps_failing_rests_longer_each_time() -> None:
    """A provider that is down is not asked every ten seconds, and a first failure is tried again at once."""
    waits = []
    for count in range(1, 12):
        failures = Failures(count, last_at=1000.0)
        waits.append(next(seconds for seconds in range(0, 4000, 10) if not failures.is_resting(1000.0 + seconds)))
    assert waits[:4] == [0, 30, 60, 120]
    assert waits[-1] == 3600


def test_a_document_that_kills_its_run_ends_up_alone() -> None:
    """Its neighbours get through after a few failures, and documents that never failed do not wait for it."""
    failures = {f"{number}.md": Failures(1, 0.0) for number in range(100)}
    runs = due_again("ingest", ["new.md", *failures], 500, failures, now=1e9)
    assert runs[0].keys == ("new.md",)
    assert [len(run.keys) for run in runs[1:]] == [62, 38]
    failures = dict.fromkeys(failures, Failures(3, 0.0))
    assert {len(run.keys) for run in due_again("ingest", list(failures), 500, failures, now=1e9)} == {1}


def test_resting_documents_are_left_out() -> None:
    """They come back when their time is over."""
    failures = {"a.md": Failures(2, last_at=100.0)}
    assert due_again("embed", ["a.md"], 500, failures, now=110.0, version="v") == []
    [due] = due_again("embed", ["a.md"], 500, failures, now=131.0, version="v")
    assert due.keys == ("a.md",)
