"""The one object that workspace.yaml loads.

What does not belong here: any definition; they live in `defs/`. Nothing is read from the environment at import.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from ingest_assets.defs.alert_sensor import alert_sensor
from ingest_assets.defs.asset_checks import asset_checks
from ingest_assets.defs.assets import embed_documents, ingest_documents
from ingest_assets.defs.jobs import (
    check_everything_job,
    check_everything_schedule,
    delete_documents_job,
    housekeeping_job,
    housekeeping_schedule,
)
from ingest_assets.defs.queue_sensor import queue_sensor
from ingest_assets.defs.resources import PlatformResource
from ingest_assets.defs.sensors import deletion_sensor, embedding_sensor, source_sensor


def build_definitions(resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """Return all definitions; `resources` replace those of the same name."""
    return dg.Definitions(
        assets=[ingest_documents, embed_documents],
        asset_checks=asset_checks,
        jobs=[delete_documents_job, check_everything_job, housekeeping_job],
        schedules=[check_everything_schedule, housekeeping_schedule],
        sensors=[source_sensor, queue_sensor, deletion_sensor, embedding_sensor, alert_sensor],
        resources={"platform": PlatformResource(), **(resources or {})},
        executor=dg.in_process_executor,
    )


defs = build_definitions()
