"""The Dagster instance of this deployment, for processes that are not started by Dagster.

What does not belong here: its storage (`storage.py`) and runs (`runs.py`).
"""

import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from ingest_assets.errors import EnvironmentProblem
from ingest_assets.settings import Settings

FILE = "dagster.yaml"
PACKAGE = Path(__file__).parents[1]


def instance_file() -> Path:
    """Return dagster.yaml: beside the package in a checkout, in the installation's share folder otherwise."""
    candidates = (PACKAGE.parent / FILE, Path(sysconfig.get_path("data")) / "share" / "ingest_assets" / FILE)
    return next(path for path in candidates if path.is_file())


def prepare_home(settings: Settings) -> Path:
    """Make the instance's home in `data_dir`, with today's dagster.yaml; `DAGSTER_HOME` wins where it is set."""
    if os.environ.get("DAGSTER_HOME"):
        return Path(os.environ["DAGSTER_HOME"])
    home = settings.data_dir / "dagster"
    try:
        home.mkdir(parents=True, exist_ok=True)
        text = instance_file().read_text(encoding="utf-8")
        target = home / FILE
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentProblem(
            f"Dagster's files cannot be kept in {home}: {error.strerror or error}; free space or set database.data_dir."
        ) from error
    return home


@contextmanager
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Open the instance that the UI and the daemon of this deployment use too."""
    home = prepare_home(settings)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance
