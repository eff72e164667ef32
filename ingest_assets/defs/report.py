"""Runs the two bodies' plain functions and reports them: good partitions, check results, then the failure.

What does not belong here: the work itself. The order is fixed: materializations of the good documents, the results of
the checks, and only then the failure that names the others, so that neighbours stay green and checks are stored
whatever happens.
"""

import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

import dagster as dg
import psycopg

from ingest_assets.checks import run_checks
from ingest_assets.database import rows
from ingest_assets.defs.bookkeeping import PartitionRecord, record_checks, record_materialized, record_planned
from ingest_assets.defs.keys import (
    LANE_TAG,
    DocumentsConfig,
    EmbeddingConfig,
    document_keys,
    document_keys_by_version,
    is_named_in_config,
)
from ingest_assets.defs.partition_metadata import document_metadata, version_metadata
from ingest_assets.defs.partitions import document_version
from ingest_assets.defs.run_metadata import logged_progress, publish_outcome, publish_plan
from ingest_assets.deletion import delete_documents
from ingest_assets.embedding import EmbeddingOutcome, embed_documents, uncovered_documents
from ingest_assets.errors import EnvironmentProblem, IngestError, Refused
from ingest_assets.ingest import ingest_documents
from ingest_assets.leases import Lease, lease
from ingest_assets.letters import document_letters
from ingest_assets.models import ModelVersion, declare_models, ensure_ann_index, lane_of, live_models
from ingest_assets.platform import Platform
from ingest_assets.progress import Progress, report
from ingest_assets.recording import DocumentOutcome
from ingest_assets.records import Lane
from ingest_assets.settings import ModelSettings
from ingest_assets.verdicts import CheckContext

CAUSE = "cause"  # metadata of a failure that is not about single documents
DOCUMENTS_PER_RECORD = 100  # what a killed run has done stays marked as done, but for the last so many
SHOWN = 10  # documents named in a failure; the rest is counted


def run_ingest(
    context: dg.AssetExecutionContext, config: DocumentsConfig, platform: Platform, code_version: str
) -> None:
    """Ingest the run's documents and report each.

    Raises:
        Failure: this run rejected documents, or could not decide on any more of them.
    """
    keys = document_keys(context, config)
    outcomes: list[DocumentOutcome] = []
    recorded = 0
    with _reported(context, platform, keys):
        if is_named_in_config(config):
            record_planned(context, context.selected_asset_keys, keys)
        try:
            for outcome in ingest_documents(
                platform.database, platform.source, platform.settings, keys, context.run.run_id
            ):
                outcomes.append(outcome)
                report(Progress("ingest", len(outcomes), len(keys), failed=_failed(outcomes)))
                if len(outcomes) - recorded >= DOCUMENTS_PER_RECORD:
                    _record_documents(context, outcomes[recorded:], code_version)
                    recorded = len(outcomes)
        finally:
            _record_documents(context, outcomes[recorded:], code_version)
    _fail_for_documents(outcomes)


def _record_documents(
    context: dg.AssetExecutionContext, outcomes: Sequence[DocumentOutcome], code_version: str
) -> None:
    records = [PartitionRecord(item.partition_key, document_metadata(item)) for item in outcomes if item.is_good]
    for asset in context.selected_asset_keys:
        record_materialized(context, asset, records, code_version)


def run_embedding(
    context: dg.AssetExecutionContext, config: EmbeddingConfig, platform: Platform, code_version: str
) -> None:
    """Embed the run's documents at each of its versions and report each document.

    Raises:
        Failure: this run wrote dead letters, or stopped before its end.
    """
    by_version = document_keys_by_version(context, config)
    failed: list[str] = []
    with _reported(context, platform, {key for keys in by_version.values() for key in keys}) as held:
        if is_named_in_config(config):
            partitions = [document_version(key, config.version) for key in config.keys]
            record_planned(context, context.selected_asset_keys, partitions)
        for version, keys in by_version.items():
            failed += _embed_version(context, config, platform, held, version, keys, code_version)
    if failed:
        raise dg.Failure(
            f"{len(failed)} documents have dead letters: {_named(failed)}. `ingest-assets dead-letters list` says why.",
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
    failed = {ids[item] for item in outcome.dead_lettered_documents}
    _record_version(context, platform, version, keys, ids, outcome, failed, code_version)
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
    failed: set[str],
    code_version: str,
) -> None:
    """Note every document as good but those this run dead-lettered and those that wait for another run."""
    publications = {ids[item.document_id]: item for item in outcome.publications}
    letters = document_letters(platform.database, list(ids))
    by_key = {key: letters.get(document_id, {}) for document_id, key in ids.items()}
    waiting = {key for key, item in publications.items() if not item.covered}
    good = [key for key in keys if key in by_key and key not in failed and key not in waiting]
    for asset in context.selected_asset_keys:
        records = [
            PartitionRecord(
                document_version(key, version),
                version_metadata(asset.to_user_string(), publications.get(key), by_key.get(key, {})),
            )
            for key in good
        ]
        record_materialized(context, asset, records, code_version)


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


@contextmanager
def _reported(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, platform: Platform, keys: Collection[str]
) -> Iterator[Lease]:
    """Hold the run's lease, store the results of the checks at the end in any case, and name our own errors."""
    try:
        with lease(platform.database, context.run.run_id) as held:
            try:
                yield held
            finally:
                record_checks(context, run_checks(check_context(platform, context.run.run_id, keys)))
    except IngestError as error:
        context.log.debug(traceback.format_exc())
        raise dg.Failure(str(error), metadata={CAUSE: _cause(error)}, allow_retries=False) from error


def run_deletion(context: dg.OpExecutionContext, keys: Sequence[str], platform: Platform) -> None:
    """Carry out deletions that are confirmed and report each in the run's log.

    Raises:
        Failure: the source does not say whether an object is there.
    """
    with _reported(context, platform, keys):
        outcomes = delete_documents(platform.database, platform.source, keys, context.run.run_id)
        for done, outcome in enumerate(outcomes, start=1):
            context.log.info("%s: %s, %d rows removed", outcome.partition_key, outcome.result, outcome.removed_rows)
            report(Progress("delete", done, len(keys)))


def report_housekeeping(context: dg.OpExecutionContext, done: Mapping[str, float]) -> None:
    """Show what housekeeping did, in the run's log and as metadata of its output."""
    context.log.info("; ".join(f"{name}: {count}" for name, count in done.items()))
    context.add_output_metadata(dict(done))


def _cause(error: IngestError) -> str:
    if isinstance(error, EnvironmentProblem):
        return "environment"
    return "refused" if isinstance(error, Refused) else "embedding"


def check_context(platform: Platform, run_id: str | None, keys: Collection[str] | None = None) -> CheckContext:
    """Return what checks look at after a run of some documents; without `keys` everything, listing the source anew."""
    documents: tuple[UUID, ...] | None = None
    if keys is not None:
        with platform.database.connection() as connection:
            found = rows(connection, "ids_of_partitions", partition_keys=list(keys))
        documents = tuple(item["document_id"] for item in found)
    return CheckContext(
        platform.database,
        platform.source,
        platform.settings.source.deletion_grace_seconds,
        run_id=run_id,
        lists_source=keys is None,
        documents=documents,
    )


def _fail_for_documents(outcomes: Sequence[DocumentOutcome]) -> None:
    rejected = [item for item in outcomes if item.result == "rejected"]
    if rejected:
        named = _named([f"{item.source_key} ({item.reason})" for item in rejected])
        raise dg.Failure(
            f"{len(rejected)} of {len(outcomes)} documents were rejected: {named}.",
            metadata={"rejected": len(rejected), "good": sum(item.is_good for item in outcomes)},
            allow_retries=False,
        )


def _failed(outcomes: Sequence[DocumentOutcome]) -> int:
    return sum(item.result == "rejected" for item in outcomes)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
