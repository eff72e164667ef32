"""How the corpus is sliced: by document, and by document and embedding model version.

What does not belong here: what a key means in the source; `documents.partition_key` is the way back to it.
One partition per document keeps failures and metadata with their document; Dagster advises at most 100,000 an asset.
"""

from collections.abc import Iterable

import dagster as dg

from ingest_assets.models import ModelVersion

DOCUMENT = "document"
VERSION = "embedding_model_version"

documents = dg.DynamicPartitionsDefinition(name="documents")
embedding_model_versions = dg.DynamicPartitionsDefinition(name="embedding_model_versions")
document_versions = dg.MultiPartitionsDefinition({DOCUMENT: documents, VERSION: embedding_model_versions})


def document_version(document: str, version: str) -> dg.MultiPartitionKey:
    """Return the partition key of a document at a version."""
    return dg.MultiPartitionKey({DOCUMENT: document, VERSION: version})


def split_document_version(key: str) -> tuple[str, str]:
    """Return document and version of a key; a label holds no bar, so the last one separates."""
    document, _, version = key.rpartition("|")
    return document, version


def add_documents(instance: dg.DagsterInstance, keys: Iterable[str]) -> None:
    """Add document partitions, in one statement; known ones stay as they are."""
    known = set(instance.get_dynamic_partitions("documents"))
    new = [key for key in keys if key not in known]
    if new:
        instance.add_dynamic_partitions("documents", new)


def synchronise_versions(instance: dg.DagsterInstance, models: Iterable[ModelVersion]) -> None:
    """Add a partition for every version that is not retired."""
    known = set(instance.get_dynamic_partitions("embedding_model_versions"))
    new = [model.version for model in models if model.version not in known]
    if new:
        instance.add_dynamic_partitions("embedding_model_versions", new)
