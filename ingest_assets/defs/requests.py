"""Which runs are due, as plain values: sensors turn them into run requests, `run` executes them in its own process.

What does not belong here: Dagster's daemon and the command line.
A run names its documents in its config, so any set of them fits into one run.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import dagster as dg

from ingest_assets.defs.keys import LANE_TAG, PROMISED_TAG, VERSION_TAG
from ingest_assets.defs.partitions import DOCUMENT, VERSION, split_document_version
from ingest_assets.records import Lane

Kind = Literal["ingest", "embed", "delete"]

OP_NAMES: dict[Kind, str] = {"ingest": "ingest_documents", "embed": "embed_documents", "delete": "confirm_and_delete"}
ASSETS: dict[Kind, tuple[str, ...]] = {
    "ingest": ("documents", "chunks"),
    "embed": ("chunk_vectors", "dead_letters", "retrieval_index"),
    "delete": (),
}
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 30.0, 3600.0
PRIORITY: dict[Lane, str] = {"incremental": "5", "backfill": "-5"}


@dataclass(frozen=True, slots=True)
class DueRun:
    """One run that should happen."""

    kind: Kind
    keys: tuple[str, ...]  # partition keys of documents
    version: str = ""  # of an embed run
    lane: Lane = "incremental"
    approved_units: int | None = None  # of an embed run: the most texts that somebody approved to send

    @property
    def assets(self) -> list[dg.AssetKey]:
        """Assets that the run materializes; none for a deletion."""
        return [dg.AssetKey(name) for name in ASSETS[self.kind]]

    @property
    def tags(self) -> dict[str, str]:
        """Run tags that people filter by, and that the queue obeys."""
        tags = {PROMISED_TAG: str(len(self.keys)), LANE_TAG: self.lane, "dagster/priority": PRIORITY[self.lane]}
        return {**tags, VERSION_TAG: self.version, **_dimensions(self)} if self.version else tags

    @property
    def run_config(self) -> dict[str, Any]:
        """Run config that names the documents."""
        config: dict[str, Any] = {"keys": list(self.keys)}
        if self.kind == "embed":
            config["version"] = self.version
            if self.approved_units is not None:
                config["approved_units"] = self.approved_units
        return {"ops": {OP_NAMES[self.kind]: {"config": config}}}


@dataclass(frozen=True, slots=True)
class Failures:
    """Unsuccessful runs of the last day that named one document."""

    count: int
    last_at: float  # seconds of the epoch

    def is_resting(self, now: float) -> bool:
        """Tell whether the next attempt is still to wait: not after one failure, then 30 s, doubling, up to an hour."""
        rest = 0.0 if self.count == 1 else FIRST_REST_SECONDS * 2.0 ** (self.count - 2)
        return now < self.last_at + min(rest, LONGEST_REST_SECONDS)

    def run_size(self, size: int) -> int:
        """Return how many such documents share a run: an eighth each time, so that a poisonous one ends up alone."""
        return max(1, size >> (3 * self.count))


def failures_by_key(failed: Sequence[dg.RunRecord], kind: Kind, version: str = "") -> dict[str, Failures]:
    """Return the failures of each document that runs of a kind (and version) named.

    An ingest run whose body raised has decided on its documents or could decide on none: only a crash counts there.
    """
    ended: dict[str, list[float]] = defaultdict(list)
    for record in failed:
        is_crash = record.dagster_run.tags.get("dagster/failure_reason") != "STEP_FAILURE"
        config = _op_config(record.dagster_run, kind)
        if config.get("version", "") == version and (is_crash or kind == "embed"):
            for key in config.get("keys", ()):
                ended[key].append(record.end_time or record.update_timestamp.timestamp())
    return {key: Failures(len(times), max(times)) for key, times in ended.items()}


def due_again(
    kind: Kind,
    keys: Sequence[str],
    size: int,
    failures: Mapping[str, Failures],
    now: float,
    *,
    version: str = "",
    lane: Lane = "incremental",
) -> list[DueRun]:
    """Cut documents into runs: those without failures first, then the others by how often they failed, if rested."""
    groups: dict[int, list[str]] = defaultdict(list)
    for key in keys:
        failure = failures.get(key)
        if failure is None:
            groups[size].append(key)
        elif not failure.is_resting(now):
            groups[failure.run_size(size)].append(key)
    ordered = sorted(groups.items(), reverse=True)
    return [due for limit, group in ordered for due in due_runs(kind, group, limit, version=version, lane=lane)]


def _op_config(run: dg.DagsterRun, kind: Kind) -> dict[str, Any]:
    operations = cast(dict[str, Any], run.run_config).get("ops", {})
    return cast(dict[str, Any], operations.get(OP_NAMES[kind], {}).get("config", {}))


def _dimensions(due: DueRun) -> dict[str, str]:
    """Name one of the run's partitions by its dimensions.

    Before an asset step with a partitioned parent, Dagster reads the parent's data version for the run's partition and
    fails where there is none. These tags answer it without making this a run of that one partition.
    """
    return {f"dagster/partition/{DOCUMENT}": due.keys[0], f"dagster/partition/{VERSION}": due.version}


def due_runs(
    kind: Kind,
    keys: Iterable[str],
    size: int,
    *,
    version: str = "",
    lane: Lane = "incremental",
    approved_units: int | None = None,
) -> Iterator[DueRun]:
    """Cut a set of documents into runs of at most `size`."""
    ordered = list(keys)
    for start in range(0, len(ordered), size):
        yield DueRun(kind, tuple(ordered[start : start + size]), version, lane, approved_units)


def keys_in_flight(
    runs: Sequence[dg.DagsterRun], kind: Kind, version: str = "", documents: Sequence[str] = ()
) -> set[str]:
    """Return documents that unfinished runs of a kind (and version) name, in their config, by partition or by range.

    `documents` are the document partitions in Dagster's order, which ranges are of.
    """
    found: set[str] = set()
    for run in runs:
        config = _op_config(run, kind)
        if config.get("version", "") == version:
            found.update(config.get("keys", ()))
        names = {key.to_user_string() for key in run.asset_selection or ()}
        if names & set(ASSETS[kind]):
            found.update(_partitions(run.tags, version, documents))
    return found


def _partitions(tags: Mapping[str, str], version: str, documents: Sequence[str]) -> Iterable[str]:
    """Return the documents of a run that has a partition key or range at this version ("" before embedding)."""
    start = tags.get("dagster/asset_partition_range_start", tags.get("dagster/partition", ""))
    end = tags.get("dagster/asset_partition_range_end", start)
    if version:
        (start, of_start), (end, of_end) = split_document_version(start), split_document_version(end)
        if version not in (of_start, of_end):
            return ()
    if start == end:
        return (start,) if start else ()
    places = {key: place for place, key in enumerate(documents)}
    if start not in places or end not in places:
        return ()
    return documents[places[start] : places[end] + 1]
