"""What bodies ask Dagster for: the platform, opened once a process.

What does not belong here: settings (`settings.py`), which every process reads for itself.
"""

import atexit
from contextlib import ExitStack
from functools import cache

import dagster as dg

from ingest_assets.defs.storage import process_urls
from ingest_assets.platform import Platform, open_platform


@cache
def process_platform() -> Platform:
    """Return the platform of this process; it closes when the process ends."""
    process_urls()  # Dagster's storage holds the embedded server open; share it
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(open_platform())


class PlatformResource(dg.ConfigurableResource["PlatformResource"]):
    """The settings, the database and the source of this deployment."""

    def get(self) -> Platform:
        """Return the open platform.

        Raises:
            EnvironmentProblem: something that must be there is not.
        """
        return process_platform()
