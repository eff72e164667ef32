"""`ingest-assets models`: the embedding model versions.

What does not belong here: declaring them, which the settings do.
"""

import typer

from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import print_json, print_table
from ingest_assets.models import all_models

app = typer.Typer(help="Embedding model versions.", no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def models() -> None:
    """Embedding model versions."""


@app.command("list", epilog="Example: `ingest-assets models list --json`")
def list_models(as_json: JSON = False) -> None:
    """List recorded versions, oldest first, and whether the settings declare them."""
    with platform_or_leave(as_json=as_json) as platform:
        declared = {item.version for item in platform.settings.models}
        found = [
            {
                "version": model.version,
                "status": model.status,
                "dimensions": model.dimensions,
                "declared": model.version in declared,
                "fingerprint": model.fingerprint,
            }
            for model in all_models(platform.database)
        ]
    if as_json:
        print_json(found)
    else:
        names = ("version", "status", "dimensions", "declared")
        print_table("Models", names, [tuple(item[name] for name in names) for item in found])
