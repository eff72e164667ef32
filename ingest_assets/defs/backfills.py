"""Dagster backfills from the outside: asking for one, and what unfinished ones still cover.

What does not belong here: the runs that a backfill is cut into, which Dagster makes.
"""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus, PartitionBackfill

from ingest_assets.defs.assets import DOCUMENTS_PER_RUN
from ingest_assets.defs.keys import LANE_TAG, VERSION_TAG
from ingest_assets.defs.partitions import document_version, document_versions, split_document_version
from ingest_assets.defs.requests import ASSETS, OP_NAMES, PRIORITY, Kind
from ingest_assets.records import Lane

UNFINISHED = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]
DAEMONS = ("SENSOR", "BACKFILL")
HEARTBEAT_SECONDS = 90.0  # a daemon shows every 30 seconds that it lives


@dataclass(frozen=True, slots=True)
class RequestedBackfill:
    """A backfill that the daemon will carry out."""

    backfill_id: str
    documents: int
    runs: int


def daemon_is_alive(instance: dg.DagsterInstance) -> bool:
    """Tell whether a daemon of this instance would carry out a backfill."""
    heartbeats = instance.get_daemon_heartbeats()
    oldest = time.time() - HEARTBEAT_SECONDS
    return all(kind in heartbeats and heartbeats[kind].timestamp >= oldest for kind in DAEMONS)


def unfinished_backfills(instance: dg.DagsterInstance) -> list[PartitionBackfill]:
    """Return backfills that may still ask for partitions, or whose runs are being ended."""
    return list(instance.get_backfills(filters=BulkActionsFilter(statuses=UNFINISHED)))


def keys_in_backfills(backfills: Iterable[PartitionBackfill], kind: Kind, version: str = "") -> set[str]:
    """Return documents that backfills will still do (at a version): neither materialized by them nor failed.

    One that is being cancelled asks for nothing more.
    """
    found: set[str] = set()
    for backfill in backfills:
        if backfill.status == BulkActionStatus.REQUESTED:
            found |= {document for document, of in _waiting(backfill, kind) if of == version}
    return found


def request_backfill(
    instance: dg.DagsterInstance, version: str, keys: Sequence[str], lane: Lane, approved_units: int | None
) -> RequestedBackfill:
    """Ask the daemon for documents at a version, in as few runs as there can be."""
    known = instance.get_dynamic_partitions("documents")
    documents = fewest_runs(keys, known, DOCUMENTS_PER_RUN)
    subset = document_versions.subset_with_partition_keys([document_version(key, version) for key in documents])
    config = {} if approved_units is None else {"approved_units": approved_units}
    backfill_id = uuid.uuid4().hex[:8]
    instance.add_backfill(
        PartitionBackfill.from_asset_graph_subset(
            backfill_id=backfill_id,
            backfill_timestamp=time.time(),
            tags={LANE_TAG: lane, VERSION_TAG: version, "dagster/priority": PRIORITY[lane]},
            dynamic_partitions_store=instance,
            asset_graph_subset=AssetGraphSubset(  # type: ignore[call-arg]  # both have defaults
                partitions_subsets_by_asset_key={dg.AssetKey(name): subset for name in ASSETS["embed"]},
                non_partitioned_asset_keys=set(),
            ),
            title=f"{version}: {len(keys)} documents",
            description="Requested by ingest-assets backfill.",
            run_config={"ops": {OP_NAMES["embed"]: {"config": config}}} if config else None,
        )
    )
    return RequestedBackfill(backfill_id, len(keys), count_runs(documents, known, DOCUMENTS_PER_RUN))


def fewest_runs(keys: Iterable[str], documents: Sequence[str], size: int) -> list[str]:
    """Return the documents to ask for: those of `keys`, or with those between them where that makes fewer runs.

    Dagster cuts a backfill into ranges, and never joins two of them; a document that is covered costs nothing.
    """
    wanted = set(keys)
    places = [place for place, key in enumerate(documents) if key in wanted]
    if not places:
        return []
    between = list(documents[places[0] : places[-1] + 1])
    exact = [documents[place] for place in places]
    return between if count_runs(between, documents, size) < count_runs(exact, documents, size) else exact


def count_runs(keys: Iterable[str], documents: Sequence[str], size: int) -> int:
    """Return how many runs of at most `size` Dagster makes of some documents."""
    wanted = set(keys)
    runs = length = 0
    for key in documents:
        length = length + 1 if key in wanted else 0
        runs += length % size == 1 or (size == 1 and length > 0)
    return runs


def _waiting(backfill: PartitionBackfill, kind: Kind) -> Iterator[tuple[str, str]]:
    data = backfill.asset_backfill_data
    if data is None:
        return
    for name in ASSETS[kind]:
        asset = dg.AssetKey(name)
        wanted = data.target_subset.partitions_subsets_by_asset_key.get(asset)
        ended = [
            subset.partitions_subsets_by_asset_key.get(asset)
            for subset in (data.materialized_subset, data.failed_and_downstream_subset)
        ]
        done = {key for subset in ended if subset is not None for key in subset.get_partition_keys()}
        for key in () if wanted is None else wanted.get_partition_keys():
            if key not in done:
                yield (key, "") if kind == "ingest" else split_document_version(key)
