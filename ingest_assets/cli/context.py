"""What commands open, and how they leave when it cannot be opened.

What does not belong here: any command.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ingest_assets.cli.output import errors, leave
from ingest_assets.errors import IngestError
from ingest_assets.models import ignored_notice, ignored_versions
from ingest_assets.platform import Platform, open_platform
from ingest_assets.settings import Settings, load_settings

JSON = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]


def settings_or_leave(*, as_json: bool) -> Settings:
    """Return the settings, or end with exit code 2."""
    try:
        return load_settings()
    except IngestError as error:
        leave(error, as_json=as_json)


@contextmanager
def platform_or_leave(*, as_json: bool) -> Iterator[Platform]:
    """Open the platform; errors of ours end the command with a sentence and the right exit code."""
    try:
        with open_platform() as platform:
            yield platform
    except IngestError as error:
        leave(error, as_json=as_json)


def ignored_or_said(platform: Platform, *, as_json: bool) -> list[str]:
    """Return declared labels that are ignored, and tell people so on stderr."""
    ignored = ignored_versions(platform.database, platform.settings.models)
    if ignored and not as_json:
        errors.print(ignored_notice(ignored), style="yellow", markup=False, highlight=False)
    return ignored
