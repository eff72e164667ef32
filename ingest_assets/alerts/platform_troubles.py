"""Troubles that the platform's own rows show: deletions that wait for somebody, and work that waits without failing.

What does not belong here: what only Dagster knows (`defs/troubles.py`).
"""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from ingest_assets.alerts.troubles import Trouble
from ingest_assets.database import Database, one, rows


def withheld_deletions(database: Database) -> Iterator[Trouble]:
    """Yield one trouble where deletions wait for an approval."""
    with database.connection() as connection:
        count = one(connection, "count_withheld")["documents"]
    if count:
        yield Trouble(
            key="deletions/withheld",
            severity="ERROR",
            what=f"Withheld deletions, for the source shrank suspiciously: {count}.",
            where="documents",
            count=count,
            since=None,
            path="/assets/documents?view=checks",
            command="if the documents are gone for good: ingest-assets run --approve-deletions",
        )


def stalled_work(database: Database, minutes: float, versions: Collection[str]) -> Iterator[Trouble]:
    """Yield a trouble for each kind of work that waits for longer than it may; the caller knows that nothing works."""
    before = datetime.now(tz=UTC) - timedelta(minutes=minutes)
    with database.connection() as connection:
        unread = one(connection, "stalled_documents", before=before)
        found = rows(connection, "stalled_embeddings", before=before, versions=list(versions))
    if unread["documents"]:
        yield Trouble(
            key="stalled/documents",
            severity="ERROR",
            what=f"Documents that wait to be read while no run works on them: {unread['documents']}.",
            where="documents",
            count=unread["documents"],
            since=unread["since"],
            path="/automation",
            command="ingest-assets run",
        )
    for item in found:
        yield Trouble(
            key=f"stalled/{item['version']}",
            severity="ERROR",
            what=f"Documents that wait to be embedded at {item['version']} while no run works on them: "
            f"{item['documents']}.",
            where=f"chunk_vectors at {item['version']}",
            count=item["documents"],
            since=item["since"],
            path="/automation",
            command=f"ingest-assets backfill --model {item['version']}",
        )
