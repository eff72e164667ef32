"""Receipts: proof that a deleted document is gone at every embedding model version, by counting now.

What does not belong here: deleting (`deletion.py`), and printing (`cli/receipt.py`).
"""

from typing import Any

from psycopg.rows import DictRow

from ingest_assets.database import Connection, Database, one, row, rows, run
from ingest_assets.errors import Refused
from ingest_assets.models import indexed_models

EVERY_GENERATION = 2**62


def prove_deletion(database: Database, name: str) -> dict[str, Any]:
    """Return a document's receipts, and what is left of it now by table and version, counted in one transaction.

    Of a document that came back later, only generations up to the last deletion are counted.

    Raises:
        Refused: the document was never seen, or never deleted; the message says what to do.
    """

    def count(connection: Connection) -> dict[str, Any]:
        run(connection, "see_every_row")
        found = row(connection, "find_deleted_document", document=name)
        if found is None:
            raise Refused(
                f"No document {name} was ever seen here, so nothing of it was indexed. `ingest-assets status` lists "
                "what is; name a document by its key below source.url, its URI or its id."
            )
        if not found["has_receipt"]:
            raise Refused(_why_not_deleted(found))
        return _proof(connection, found)

    return database.transact(count)


def _proof(connection: Connection, found: DictRow) -> dict[str, Any]:
    receipts = rows(connection, "select_receipts", document_id=found["document_id"])
    is_deleted = found["status"] == "deleted"
    generation = EVERY_GENERATION if is_deleted else receipts[0]["generation"]
    bounds = {"document_id": found["document_id"], "generation": generation}
    counted = rows(connection, "count_remaining_rows", deleted_at=receipts[0]["deleted_at"], **bounds)
    remaining = {"/".join(filter(None, (item["kind"], item["version"]))): item["found"] for item in counted}
    for model in indexed_models(connection):
        [served] = rows(connection, "count_remaining_serving_rows", {"serving": model.serving}, **bounds)
        remaining[f"retrieval_index/{model.version}"] = served["found"]
    return {
        "document": found["source_key"],
        "document_id": str(found["document_id"]),
        "source_uri": found["source_uri"],
        "is_deleted": is_deleted,
        "came_back": not is_deleted,
        "is_zero": not any(remaining.values()),
        "remaining": remaining,
        "counted_at": one(connection, "current_time")["time"].isoformat(),
        "receipts": [{**item, "deleted_at": item["deleted_at"].isoformat()} for item in receipts],
    }


def _why_not_deleted(found: DictRow) -> str:
    name = found["source_key"]
    if found["missing_since"] is None:
        return (
            f"{name} is not deleted: its object was in the source when it was last listed. Delete the object, then "
            "`ingest-assets run`."
        )
    if found["deletion"] == "withheld":
        return (
            f"{name} is not deleted: its object is gone, and the deletion is withheld because the source shrank "
            "suspiciously. If that is right: `ingest-assets run --approve-deletions`."
        )
    return f"{name} is not deleted yet: its object is gone, and the next `ingest-assets run` confirms and deletes it."
