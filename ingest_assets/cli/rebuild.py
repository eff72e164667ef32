"""`ingest-assets rebuild-index`: the retrieval index from the vectors, without a paid call.

What does not belong here: how it is rebuilt (`rebuilding.py`).
"""

from dataclasses import asdict
from typing import Annotated

import typer

from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import console, print_json
from ingest_assets.errors import Refused
from ingest_assets.models import live_models, served_model
from ingest_assets.rebuilding import rebuild_index

EXAMPLES = "Examples: `ingest-assets rebuild-index` · `ingest-assets rebuild-index --model v2 --json`"


def rebuild(
    model: Annotated[str | None, typer.Option(help="Embedding model version; default: the served one.")] = None,
    as_json: JSON = False,
) -> None:
    """Recreate a version's retrieval index from stored vectors, and swap it in; readers never see it empty."""
    with platform_or_leave(as_json=as_json) as platform:
        models = live_models(platform.database)
        served = served_model(models)
        wanted = model or (served.version if served else "")
        chosen = next((item for item in models if item.version == wanted), None)
        if chosen is None:
            known = ", ".join(item.version for item in models)
            raise Refused(f"The version {wanted} is unknown or retired; there are: {known}.")
        done = rebuild_index(platform.database, chosen)
    if as_json:
        print_json(asdict(done))
    else:
        console.print(f"{done.version} serves {done.documents} documents in {done.rows} rows anew.", highlight=False)
