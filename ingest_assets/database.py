"""Connections: the pool, transactions that are tried again, and errors of the server told apart.

What does not belong here: statements (`sql/`), and where the server is (`embedded.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar
from uuid import UUID

import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout
from tenacity import (
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from ingest_assets.errors import DatabaseUnavailable
from ingest_assets.queries import statement
from ingest_assets.schema import Migration, migrate

Connection = psycopg.Connection[DictRow]
T = TypeVar("T")
POOL_SIZE = 6
CONNECT_SECONDS = 10.0
IDLE_TRANSACTION_SECONDS = 30.0  # no transaction of ours waits for anything outside; half of a run's lease

# Deadlock, serialization failure and lock timeout: the same transaction may succeed when it runs again.
TRY_AGAIN = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable)
ATTEMPTS = 6
STOPPED_ADVICE = "This process was stopped in the middle of a transaction, which was undone; run again."
MORE_CONNECTIONS = (
    f"It has no connection left, and a process takes up to {POOL_SIZE}; raise max_connections or the role's limit, "
    "then run again."
)

# The server's trouble, which no statement of ours causes; psycopg has them outside of OperationalError.
NOT_ALLOWED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
STOPPED = (psycopg.errors.IdleInTransactionSessionTimeout,)
# What the server says when it is there and cannot: what to do about it. The first kind that fits counts.
ADVICE: tuple[tuple[tuple[type[psycopg.Error], ...], str], ...] = (
    (TRY_AGAIN, "It gave way to other writers six times; run again."),
    (
        (psycopg.errors.DiskFull,),
        "Its disk or shared memory is full, and nothing was half-written; free space and run again.",
    ),
    (
        (psycopg.errors.QueryCanceled,),
        "It cancelled a statement; raise statement_timeout for this user, then run again.",
    ),
    (
        (psycopg.errors.TooManyConnections,),
        MORE_CONNECTIONS,
    ),
    (
        (psycopg.errors.OutOfMemory, psycopg.errors.ConfigurationLimitExceeded, psycopg.errors.InsufficientResources),
        "It has no memory left, or not enough of a limit; raise the limit, then run again.",
    ),
    (STOPPED, STOPPED_ADVICE),
    (NOT_ALLOWED, "This user may not write there, or the server is a read-only standby; grant it, or use the primary."),
)
# A connection that is refused carries no SQLSTATE, only words.
_NO_CONNECTION_WORDS = ("too many", "connection slots")
_STOPPED_WORDS = "idle-in-transaction timeout"


class Database:
    """The platform's database, as one process uses it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            min_size=1,
            max_size=POOL_SIZE,
            open=False,
            configure=_configure,
            check=ConnectionPool.check_connection,
            kwargs={"row_factory": dict_row, "autocommit": True, "application_name": "ingest-assets"},
        )

    @classmethod
    @contextmanager
    def connect(cls, url: str) -> Iterator[Self]:
        """Migrate the database, then give it; the pool closes at the end.

        Raises:
            DatabaseUnavailable: the server does not answer, or cannot hold the schema.
        """
        migrate_database(url)
        database = cls(url)
        database._pool.open()
        try:
            yield database
        finally:
            database.close()

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode."""
        try:
            with self._pool.connection(timeout=CONNECT_SECONDS) as connection:
                yield connection
        except TRY_AGAIN:
            raise  # kinds of OperationalError too, and the server is well
        except (PoolTimeout, psycopg.OperationalError, *NOT_ALLOWED, *STOPPED) as error:
            raise _unavailable(error) from error

    def transact(self, work: Callable[[Connection], T], *, is_derived: bool = False) -> T:
        """Run `work` in one transaction, and again when the server asks for it; `work` must be repeatable.

        With `is_derived` the commit does not wait for the disk: a crash of the server may lose the last ones whole,
        which is right for what the next run derives again for nothing, and never for what was paid for.

        Raises:
            DatabaseUnavailable: the server does not answer, refuses, or asked for another attempt too often.
        """
        attempts = Retrying(
            retry=retry_if_exception_type(TRY_AGAIN),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(0.05, 2),
            reraise=True,
        )
        try:
            done: T = attempts(self._transact_once, work, is_derived=is_derived)
        except TRY_AGAIN as error:
            raise _unavailable(error) from error
        return done

    def _transact_once(self, work: Callable[[Connection], T], *, is_derived: bool) -> T:
        with self.connection() as connection, connection.transaction():
            if is_derived:
                run(connection, "relax_commit")
            return work(connection)


def rows(
    connection: Connection, name: str, identifiers: Mapping[str, sql.Composable] | None = None, **parameters: Any
) -> list[DictRow]:
    """Run a named statement and return its rows."""
    return connection.execute(statement(name, **(identifiers or {})), parameters).fetchall()


def row(connection: Connection, name: str, **parameters: Any) -> DictRow | None:
    """Run a named statement and return its first row, or None."""
    return connection.execute(statement(name), parameters).fetchone()


def one(connection: Connection, name: str, **parameters: Any) -> DictRow:
    """Run a named statement that always gives a row, and return it."""
    found = row(connection, name, **parameters)
    if found is None:
        raise LookupError(name)
    return found


def run(
    connection: Connection, name: str, identifiers: Mapping[str, sql.Composable] | None = None, **parameters: Any
) -> int:
    """Run a named statement and return how many rows it touched."""
    return connection.execute(statement(name, **(identifiers or {})), parameters).rowcount


def copy(connection: Connection, name: str, types: Sequence[str] | None, records: Iterator[Sequence[Any]]) -> int:
    """Write records with a named COPY statement; `types` are given for the binary format. Returns their number."""
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement(name)) as writer:
        if types is not None:
            writer.set_types(types)
        for record in records:
            writer.write_row(record)
            count += 1
    return count


def migrate_database(url: str) -> list[Migration]:
    """Apply missing migrations and restamp rows of a restored database; returns the migrations.

    Raises:
        DatabaseUnavailable: the server does not answer, or cannot hold the schema.
    """
    try:
        with _connect(url) as connection:
            applied = migrate(connection)
            restamp(connection)
            return applied
    except psycopg.OperationalError as error:
        raise _unavailable(error) from error


def _connect(url: str) -> Connection:
    """Open a connection; a server whose connections are all taken is asked again for as long as the pool would."""
    attempts = Retrying(
        retry=retry_if_exception(_is_out_of_connections),
        stop=stop_after_delay(CONNECT_SECONDS),
        wait=wait_random_exponential(0.1, 2),
        reraise=True,
    )
    opened: Connection = attempts(_connect_once, url)
    return opened


def _is_out_of_connections(error: BaseException) -> bool:
    return isinstance(error, psycopg.OperationalError) and any(words in str(error) for words in _NO_CONNECTION_WORDS)


def _connect_once(url: str) -> Connection:
    try:
        return psycopg.connect(url, row_factory=dict_row, autocommit=True, connect_timeout=int(CONNECT_SECONDS))
    except psycopg.ProgrammingError:
        # libpq quotes the url in its message, password included.
        raise DatabaseUnavailable(
            "INGEST_DATABASE__URL is no url of a database; write postgresql://user:password@host/database, "
            "with special characters of the password percent-encoded."
        ) from None


def restamp(connection: Connection) -> int:
    """Bring chunks of a restored database under the present transaction horizon; returns how many.

    A dump carries transaction ids of the old server, which lie in the future of the new one: no watermark would
    ever see them. A server knows itself by its system identifier, so this looks at the chunks only once after a move.
    """
    with connection.transaction():
        if run(connection, "recognise_server") == 0:
            return 0
        return run(connection, "restamp_chunks")


def ids(document_ids: Sequence[UUID]) -> list[UUID]:
    """Return document ids in the order in which everybody locks them."""
    return sorted(document_ids)


def _configure(connection: Connection) -> None:
    register_vector(connection)
    row(connection, "bound_idle_transactions", milliseconds=int(IDLE_TRANSACTION_SECONDS * 1000))


def _unavailable(error: Exception) -> DatabaseUnavailable:
    reason = " ".join(str(error).split())
    for kinds, advice in ADVICE:
        if isinstance(error, kinds):
            return DatabaseUnavailable(f"The database server says: {reason}. {advice}")
    if _STOPPED_WORDS in reason:
        return DatabaseUnavailable(f"The database server says: {reason}. {STOPPED_ADVICE}")
    if any(words in reason for words in _NO_CONNECTION_WORDS):
        return DatabaseUnavailable(f"The database server says: {reason}. {MORE_CONNECTIONS}")
    return DatabaseUnavailable(
        f"The database does not answer: {reason}. Start the server or correct INGEST_DATABASE__URL, then run again."
    )
