"""What nobody needs any more goes: partition keys of deleted documents and of versions that are none, old rows.

What does not belong here: deleting documents (`deletion.py`), and the statements on the event log (`retention.py`).
A key goes only while nothing unfinished covers it: a backfill whose key is gone fails as a whole. Its events go too, so
that a document that comes back under the same key does not start with the green of its former life.
"""

from collections.abc import Collection

import dagster as dg

from ingest_assets.database import rows, run
from ingest_assets.defs.backfills import unfinished_backfills
from ingest_assets.defs.partitions import document_version
from ingest_assets.defs.requests import ASSETS, keys_in_flight
from ingest_assets.defs.runs import unfinished_runs
from ingest_assets.models import all_models
from ingest_assets.platform import Platform
from ingest_assets.retention import bound_event_log, forget_partitions


def keep_house(instance: dg.DagsterInstance, platform: Platform) -> dict[str, float]:
    """Remove what nothing needs, and return how much of each; calling again after a death at any moment goes on."""
    with platform.database.connection() as connection:
        chunks = run(connection, "sweep_all_chunks")
        listings = run(connection, "forget_listings")
    return {
        "added partition keys": add_missing_keys(instance, platform),
        "removed partition keys": remove_document_keys(instance, platform),
        "removed versions": remove_version_keys(instance, platform),
        "superseded chunks": chunks,
        "old listings": listings,
        **bound_event_log(platform.urls.dagster, platform.settings.housekeeping.event_retention_days),
    }


def add_missing_keys(instance: dg.DagsterInstance, platform: Platform) -> int:
    """Add the partition of every document that has none."""
    missing = _live_keys(platform) - set(instance.get_dynamic_partitions("documents"))
    if missing:
        instance.add_dynamic_partitions("documents", sorted(missing))
    return len(missing)


def remove_document_keys(instance: dg.DagsterInstance, platform: Platform) -> int:
    """Remove partitions of documents that are gone, unless something unfinished covers them."""
    gone = set(instance.get_dynamic_partitions("documents")) - _live_keys(platform)
    gone -= _covered(instance, platform)
    if not gone or unfinished_backfills(instance):
        return 0
    for key in gone:
        instance.delete_dynamic_partition("documents", key)
    # Whoever came back between the two looks found its key and did not add it.
    back = gone & _live_keys(platform)
    if back:
        instance.add_dynamic_partitions("documents", sorted(back))
    removed = gone - back
    versions = [model.version for model in all_models(platform.database)]
    partitions = [*removed, *(str(document_version(key, version)) for key in removed for version in versions)]
    forget_partitions(platform.urls.dagster, _assets(), partitions)
    return len(removed)


def remove_version_keys(instance: dg.DagsterInstance, platform: Platform) -> int:
    """Remove partitions of retired versions, and of what never was one, unless something unfinished covers them."""
    known = set(instance.get_dynamic_partitions("embedding_model_versions"))
    dead = known - {model.version for model in all_models(platform.database) if model.status != "retired"}
    if not dead or unfinished_backfills(instance):
        return 0
    runs, documents = unfinished_runs(instance), instance.get_dynamic_partitions("documents")
    idle = [version for version in dead if not keys_in_flight(runs, "embed", version, documents)]
    for version in idle:
        instance.delete_dynamic_partition("embedding_model_versions", version)
    return len(idle)


def _live_keys(platform: Platform) -> set[str]:
    with platform.database.connection() as connection:
        return {item["partition_key"] for item in rows(connection, "live_partition_keys")}


def _covered(instance: dg.DagsterInstance, platform: Platform) -> set[str]:
    runs, documents = unfinished_runs(instance), instance.get_dynamic_partitions("documents")
    covered = keys_in_flight(runs, "ingest", documents=documents) | keys_in_flight(runs, "delete", documents=documents)
    for model in all_models(platform.database):
        covered |= keys_in_flight(runs, "embed", model.version, documents)
    return covered


def _assets() -> Collection[str]:
    return [dg.AssetKey(name).to_string() for names in ASSETS.values() for name in names]
