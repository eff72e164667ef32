"""Row-level security: whose passages a reader of the serving tables sees.

What does not belong here: the policy itself, which the migrations hold, and who belongs to which tenant, which the
database's owner writes into `serving.tenant_readers`.
"""

from ingest_assets.database import Connection, Database, row, rows, run
from ingest_assets.errors import SettingsError


def tenant_key(database: Database) -> str | None:
    """Return the metadata key that separates tenants; None without row-level security."""
    with database.connection() as connection:
        found = row(connection, "select_tenant_key")
    return found["metadata_key"] if found else None


def protect_tenants(database: Database, wanted: str | None) -> None:
    """Put row-level security in force when the settings ask for it and it is not; never take it away.

    A process that lacks the setting must not open what another has closed: `set_tenant_key` does that on purpose. A
    table that was made by other hands and lies open is closed too.

    Raises:
        SettingsError: another key is in force.
    """
    with database.connection() as connection:
        found = row(connection, "select_tenant_key")
    in_force = found["metadata_key"] if found else None
    if wanted is not None and in_force is not None and wanted != in_force:
        raise SettingsError(
            f"readers.tenant_key is {wanted}, but tenants are separated by {in_force}; run `ingest-assets db migrate` "
            "to change it, or correct the setting."
        )
    if (found and found["is_open"]) or (in_force is None and wanted is not None):
        _apply(database, in_force or wanted)


def set_tenant_key(database: Database, wanted: str | None) -> bool:
    """Put a key in force on every serving table in one transaction, or none; True when that was a change.

    Waits two seconds at a time for readers of these tables, and tries again.
    """
    if tenant_key(database) == wanted:
        return False
    _apply(database, wanted)
    return True


def _apply(database: Database, key: str | None) -> None:
    def change(connection: Connection) -> None:
        run(connection, "bound_lock_wait")
        rows(connection, "set_tenant_key", tenant_key=key)

    database.transact(change)
