"""What bodies ask Dagster for: the platform, opened once a process.

What does not belong here: settings (`settings.py`), which every process reads for itself.
"""

import atexit
import threading
from contextlib import ExitStack
from functools import cache

import dagster as dg

from ingest_assets.platform import Platform, open_platform

_open = ExitStack()  # what this process holds until it ends
atexit.register(_open.close)
_opening = threading.Lock()  # the daemon runs sensors in threads of one process


@cache
def _platform() -> Platform:
    return _open.enter_context(open_platform())


def process_platform() -> Platform:
    """Return the platform of this process; it closes when the process ends, or with `close_process_platform`."""
    with _opening:
        return _platform()


def close_process_platform() -> None:
    """Close what this process holds, so that the next use reads the settings again."""
    with _opening:
        _platform.cache_clear()
        _open.close()


class PlatformResource(dg.ConfigurableResource["PlatformResource"]):
    """The settings, the database and the source of this deployment."""

    def get(self) -> Platform:
        """Return the open platform.

        Raises:
            EnvironmentProblem: something that must be there is not.
        """
        return process_platform()
