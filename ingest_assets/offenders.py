"""Documents that a check found wrong and that no later look has found right.

What does not belong here: judging them (`checks.py`).
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from ingest_assets.database import Connection, Database, ids, rows, run

LOOKED_AT_AGAIN = 1000  # documents, by each check that looks at some documents only


def known_offenders(database: Database, check: str) -> tuple[list[UUID], int]:
    """Return documents to look at again, and how many more there are."""
    with database.connection() as connection:
        found = rows(connection, "known_offenders", check_name=check, limit=LOOKED_AT_AGAIN)
    return [item["document_id"] for item in found], (found[0]["known"] if found else 0) - len(found)


def remember_offenders(database: Database, check: str, looked_at: Sequence[UUID] | None, wrong: Iterable[UUID]) -> None:
    """Keep those that are wrong, and forget the others that were looked at; None looked at all of them."""
    found = ids(list(wrong))

    def work(connection: Connection) -> None:
        document_ids = None if looked_at is None else list(looked_at)
        run(connection, "forget_offenders", check_name=check, found=found, document_ids=document_ids)
        if found:
            run(connection, "remember_offenders", check_name=check, found=found)

    database.transact(work)
