"""Runs the first body and reports it: good documents as it goes, then the failure that names the others.

What does not belong here: the work itself (`ingest.py`), and what both bodies report (`report.py`).
"""

from collections.abc import Sequence

import dagster as dg

from ingest_assets.defs.bookkeeping import PartitionRecord, record_given_up, record_materialized, record_planned
from ingest_assets.defs.keys import (
    DocumentsConfig,
    document_keys,
    is_named_in_config,
)
from ingest_assets.defs.partition_metadata import document_metadata, gone_metadata, rejection_metadata
from ingest_assets.defs.report import named, reported, warn_of_gone
from ingest_assets.ingest import ingest_documents
from ingest_assets.outcomes import DocumentOutcome
from ingest_assets.platform import Platform
from ingest_assets.progress import Progress, report

DOCUMENTS_PER_RECORD = 100  # what a killed run has done stays marked as done, but for the last so many


def run_ingest(
    context: dg.AssetExecutionContext, config: DocumentsConfig, platform: Platform, code_version: str
) -> None:
    """Ingest the run's documents and report each.

    Raises:
        Failure: this run rejected documents, or could not decide on any more of them.
    """
    keys = document_keys(context, config)
    outcomes: list[DocumentOutcome] = []
    recorded, endpoint_url = 0, platform.settings.source.endpoint_url
    with reported(context, platform, keys):
        if is_named_in_config(config):
            record_planned(context, context.selected_asset_keys, keys)
        try:
            for outcome in ingest_documents(
                platform.database, platform.source, platform.settings, keys, context.run.run_id
            ):
                outcomes.append(outcome)
                report(Progress("ingest", len(outcomes), len(keys), failed=_failed(outcomes)))
                if len(outcomes) - recorded >= DOCUMENTS_PER_RECORD:
                    _record_documents(context, outcomes[recorded:], code_version, endpoint_url)
                    recorded = len(outcomes)
        finally:
            _record_documents(context, outcomes[recorded:], code_version, endpoint_url)
    _fail_for_documents(outcomes)


def _record_documents(
    context: dg.AssetExecutionContext,
    outcomes: Sequence[DocumentOutcome],
    code_version: str,
    endpoint_url: str | None,
) -> None:
    records = [
        PartitionRecord(
            item.partition_key, gone_metadata() if item.result == "unknown" else document_metadata(item, endpoint_url)
        )
        for item in outcomes
        if item.is_good or item.result == "unknown"
    ]
    given_up = [
        PartitionRecord(item.partition_key, rejection_metadata(item, endpoint_url))
        for item in outcomes
        if item.result == "rejected"
    ]
    record_given_up(context, context.selected_asset_keys, given_up)
    warn_of_gone(context, [item.partition_key for item in outcomes if item.result == "unknown"])
    _say_unread(context, outcomes)
    for asset in context.selected_asset_keys:
        record_materialized(context, asset, records, code_version)


def _say_unread(context: dg.AssetExecutionContext, outcomes: Sequence[DocumentOutcome]) -> None:
    """Say in the run's log which documents it could not decide on, and what becomes of them."""
    for item in outcomes:
        if item.result == "postponed":
            context.log.warning("%s: %s, %s; it is tried again later.", item.source_key, item.reason, item.detail)
        elif item.result == "missing":
            context.log.info("%s: its object is gone; it is deleted once a listing lacks it too.", item.source_key)


def _fail_for_documents(outcomes: Sequence[DocumentOutcome]) -> None:
    rejected = [item for item in outcomes if item.result == "rejected"]
    if rejected:
        reasons = named([f"{item.source_key} ({item.reason})" for item in rejected])
        raise dg.Failure(
            f"{len(rejected)} of {len(outcomes)} documents were rejected: {reasons}.",
            metadata={"rejected": len(rejected), "good": sum(item.is_good for item in outcomes)},
            allow_retries=False,
        )


def _failed(outcomes: Sequence[DocumentOutcome]) -> int:
    return sum(item.result == "rejected" for item in outcomes)
