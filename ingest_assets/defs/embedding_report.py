"""Runs the second body and reports it: plan, good documents, spend, then the failure that names the others.

What does not belong here: the work itself (`embedding.py`), and what both bodies report (`report.py`).
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

import dagster as dg
import psycopg

from ingest_assets.database import rows
from ingest_assets.defs.bookkeeping import PartitionRecord, record_given_up, record_materialized, record_planned
from ingest_assets.defs.keys import (
    LANE_TAG,
    EmbeddingConfig,
    document_keys_by_version,
    is_asked_by_somebody,
    is_named_in_config,
)
from ingest_assets.defs.partition_metadata import given_up_metadata, gone_metadata, version_metadata
from ingest_assets.defs.partitions import document_version
from ingest_assets.defs.report import named, reported, warn_of_gone
from ingest_assets.defs.run_metadata import logged_progress, publish_outcome, publish_plan
from ingest_assets.embedding import EmbeddingOutcome, embed_documents, uncovered_documents
from ingest_assets.errors import IngestError
from ingest_assets.leases import Lease
from ingest_assets.letters import document_letters, retry_documents
from ingest_assets.models import ModelVersion, declare_models, ensure_ann_index, lane_of, live_models
from ingest_assets.platform import Platform
from ingest_assets.records import Lane
from ingest_assets.settings import ModelSettings


def run_embedding(
    context: dg.AssetExecutionContext, config: EmbeddingConfig, platform: Platform, code_version: str
) -> None:
    """Embed the run's documents at each of its versions and report each document.

    Raises:
        Failure: this run wrote dead letters, or stopped before its end.
    """
    by_version = document_keys_by_version(context, config)
    failed: list[str] = []
    with reported(context, platform, {key for keys in by_version.values() for key in keys}) as held:
        if is_named_in_config(config):
            partitions = [document_version(key, config.version) for key in config.keys]
            record_planned(context, context.selected_asset_keys, partitions)
        for version, keys in by_version.items():
            failed += _embed_version(context, config, platform, held, version, keys, code_version)
    if failed:
        raise dg.Failure(
            f"{len(failed)} documents have dead letters: {named(failed)}. `ingest-assets dead-letters list` says why.",
            allow_retries=False,
        )


def _embed_version(
    context: dg.AssetExecutionContext,
    config: EmbeddingConfig,
    platform: Platform,
    held: Lease,
    version: str,
    keys: Sequence[str],
    code_version: str,
) -> list[str]:
    model, declared = _model(platform, version)
    with platform.database.connection() as connection:
        found = rows(connection, "select_documents", partition_keys=list(keys))
    ids = {item["document_id"]: item["partition_key"] for item in found if item["status"] != "deleted"}
    warn_of_gone(context, sorted(set(keys) - set(ids.values())))
    if is_asked_by_somebody(context.run):
        retry_documents(platform.database, list(ids), version)
    with logged_progress(context, version):
        outcome = embed_documents(
            platform.database,
            model,
            declared,
            platform.settings.limits,
            list(ids),
            held=held,
            lane=_lane(context, platform, version),
            approved_units=config.approved_units if config.approved_units >= 0 else None,
            is_first_declared=version == platform.settings.models[0].version,
            on_plan=lambda plan: publish_plan(context, plan),
        )
    publish_outcome(context, version, outcome)
    failed = _record_version(context, platform, version, keys, ids, outcome, code_version)
    _build_index(context, platform, model)
    if outcome.failure is not None:
        raise outcome.failure
    return sorted(failed)


def _lane(context: dg.AssetExecutionContext, platform: Platform, version: str) -> Lane:
    """Return the lane of a run: its tag, which the UI does not set; without it, by who waits for the version."""
    tagged = context.run.tags.get(LANE_TAG)
    if tagged is not None:
        return "backfill" if tagged == "backfill" else "incremental"
    return lane_of(version, declare_models(platform.database, platform.settings.models))


def _build_index(context: dg.AssetExecutionContext, platform: Platform, model: ModelVersion) -> None:
    """Build the index for fast search once nothing waits for this version; without it search is exact and slower."""
    if uncovered_documents(platform.database, model.version):
        return
    try:
        ensure_ann_index(platform.database, model)
    except (IngestError, psycopg.Error) as error:
        context.log.warning("The HNSW index of %s was not built: %s", model.version, error)


def _record_version(
    context: dg.AssetExecutionContext,
    platform: Platform,
    version: str,
    keys: Sequence[str],
    ids: Mapping[UUID, str],
    outcome: EmbeddingOutcome,
    code_version: str,
) -> set[str]:
    """Note documents as good but those with units given up and those that wait for another run; returns the former.

    Whichever run gave a unit up: a run that has nothing left to try must not turn its document green.
    """
    publications = {ids[item.document_id]: item for item in outcome.publications}
    letters = document_letters(platform.database, list(ids), version)
    by_key = {key: letters.get(document_id, []) for document_id, key in ids.items()}
    failed = {key for key, items in by_key.items() if any(item["stage"] == "embed" for item in items)}
    waiting = {key for key, item in publications.items() if not item.covered}
    good = [key for key in keys if key not in failed and key not in waiting]
    for asset in context.selected_asset_keys:
        records = [
            PartitionRecord(
                document_version(key, version),
                version_metadata(asset.to_user_string(), publications.get(key), by_key[key])
                if key in by_key
                else gone_metadata(),
            )
            for key in good
        ]
        record_materialized(context, asset, records, code_version)
    # A partition shows the run that planned it last: it is this one, whatever others that left it to us end with.
    given_up = [
        PartitionRecord(document_version(key, version), given_up_metadata(publications.get(key), by_key[key]))
        for key in sorted(failed)
    ]
    record_planned(context, context.selected_asset_keys, [record.partition for record in given_up])
    record_given_up(context, context.selected_asset_keys, given_up)
    return failed


def _model(platform: Platform, version: str) -> tuple[ModelVersion, ModelSettings]:
    model = next((item for item in live_models(platform.database) if item.version == version), None)
    declared = next((item for item in platform.settings.models if item.version == version), None)
    if model is None or declared is None:
        raise dg.Failure(
            f"The embedding model version {version!r} is {'retired or unknown' if model is None else 'not declared'}; "
            "declare it in ingest.toml, or choose one that `ingest-assets models list` shows.",
            allow_retries=False,
        )
    return model, declared
