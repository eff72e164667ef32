"""Which partitions a run is about: named in its config, or by a partition key or range.

What does not belong here: choosing them (`requests.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import dagster as dg
import pydantic

from ingest_assets.defs.partitions import split_document_version

PROMISED_TAG = "documents"  # how many documents the run was asked for
LANE_TAG = "lane"
VERSION_TAG = "embedding_model_version"


class DocumentsConfig(dg.Config):
    """Documents of this run; empty when it has a partition key or range."""

    keys: list[str] = []


class DeletionConfig(dg.Config):
    """Documents of a deletion run, and whether somebody approves deletions that were withheld."""

    keys: list[str] = pydantic.Field(
        default=[],
        description="Partition keys. Empty with `approve_withheld`: every document that is missing from the source.",
    )
    approve_withheld: bool = pydantic.Field(
        default=False,
        description="Delete although the source shrank suspiciously. Each object is still asked for before: what is "
        "there stays.",
    )


class EmbeddingConfig(dg.Config):
    """Documents and version of this run; empty when it has a partition key or range."""

    keys: list[str] = []
    version: str = ""
    approved_units: int = -1  # the most texts that somebody approved to send; -1 when nobody did


def document_keys(context: dg.AssetExecutionContext, config: DocumentsConfig) -> list[str]:
    """Return the documents of this run.

    Raises:
        Failure: there are none, or another number than was promised.
    """
    keys = list(config.keys) or _partition_keys(context)
    _refuse_difference(context, keys)
    return keys


def document_keys_by_version(context: dg.AssetExecutionContext, config: EmbeddingConfig) -> Mapping[str, Sequence[str]]:
    """Return the documents of this run for each of its versions.

    Raises:
        Failure: there are none, or another number than was promised.
    """
    if config.keys:
        _refuse_difference(context, config.keys)
        return {config.version: list(config.keys)}
    by_version: dict[str, list[str]] = defaultdict(list)
    for key in _partition_keys(context):
        document, version = split_document_version(key)
        by_version[version].append(document)
    return by_version


def is_asked_by_somebody(run: dg.DagsterRun) -> bool:
    """Tell whether a person wants this run now: partitions chosen, or a failed run started again by hand.

    Runs that sensors and `run` ask for name their documents, and a retry of the daemon says which attempt it is.
    """
    is_started_again = "dagster/parent_run_id" in run.tags and "dagster/retry_number" not in run.tags
    return is_started_again or any(
        tag in run.tags for tag in ("dagster/partition", "dagster/asset_partition_range_start")
    )


def is_named_in_config(config: DocumentsConfig | EmbeddingConfig) -> bool:
    """Tell whether the run names its documents itself, so that Dagster has not noted them as planned."""
    return bool(config.keys)


def _partition_keys(context: dg.AssetExecutionContext) -> list[str]:
    keys = (
        [str(key) for key in context.partition_keys]
        if context.has_partition_key or context.has_partition_key_range
        else []
    )
    if not keys:
        raise dg.Failure(
            "This run names no document: choose partitions, or give `keys` in the config. A range whose documents "
            "were deleted meanwhile is empty too.",
            allow_retries=False,
        )
    return keys


def _refuse_difference(context: dg.AssetExecutionContext, keys: Sequence[str]) -> None:
    promised = context.run.tags.get(PROMISED_TAG)
    if promised is not None and int(promised) != len(keys):
        raise dg.Failure(
            f"This run was asked for {promised} documents and found {len(keys)}; request it again.", allow_retries=False
        )
