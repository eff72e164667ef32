"""Which runs are due, as plain values: sensors turn them into run requests, `run` executes them in its own process.

What does not belong here: Dagster's daemon and the command line.
A run names its documents in its config, so any set of them fits into one run.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import dagster as dg

from ingest_assets.defs.keys import PROMISED_TAG
from ingest_assets.defs.partitions import DOCUMENT, VERSION
from ingest_assets.defs.report import LANE_TAG
from ingest_assets.embedding import Lane

Kind = Literal["ingest", "embed", "delete"]

VERSION_TAG = "embedding_model_version"
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


def resting_keys(failed: Sequence[dg.RunRecord], kind: Kind, version: str, now: float) -> set[str]:
    """Return documents that unsuccessful runs named lately: each failure doubles the time until the next attempt.

    `failed` are records of failed runs of the last day, in any order; `now` is in seconds of the epoch.
    """
    ended: dict[str, list[float]] = defaultdict(list)
    for record in failed:
        config = _op_config(record.dagster_run, kind)
        if config.get("version", "") == version:
            for key in config.get("keys", ()):
                ended[key].append(record.end_time or record.update_timestamp.timestamp())
    return {key for key, times in ended.items() if now < max(times) + rest_seconds(len(times))}


def rest_seconds(failures: int) -> float:
    """Return how long a document rests after so many failed runs: 30 s, doubling, at most an hour."""
    return min(FIRST_REST_SECONDS * 2.0 ** (failures - 1), LONGEST_REST_SECONDS)


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


def keys_in_flight(runs: Sequence[dg.DagsterRun], kind: Kind, version: str = "") -> set[str]:
    """Return documents that unfinished runs of a kind (and version) name, in their config or by partition."""
    found: set[str] = set()
    for run in runs:
        config = _op_config(run, kind)
        if config.get("version", "") == version:
            found.update(config.get("keys", ()))
        if kind == "ingest" and "dagster/partition" in run.tags and run.asset_selection:
            names = {key.to_user_string() for key in run.asset_selection}
            if names & set(ASSETS["ingest"]):
                found.add(run.tags["dagster/partition"])
    return found
