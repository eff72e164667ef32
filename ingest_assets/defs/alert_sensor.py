"""Looks for troubles and tells people what changed; inside the code location, and from a process of its own.

What does not belong here: what is a trouble (`troubles.py`), and how it is told (`alerts/`).
"""

import dagster as dg

from ingest_assets.alerts.delivery import addresses_of, send
from ingest_assets.alerts.outbox import deliver_messages, looking, record_troubles
from ingest_assets.alerts.transitions import Notice
from ingest_assets.defs.resources import PlatformResource
from ingest_assets.defs.troubles import all_troubles, unjudged
from ingest_assets.platform import Platform

INTERVAL_SECONDS = 30
DELIVERY_SECONDS = 20.0  # of one look; what is left waits for the next


@dg.sensor(
    name="alert_sensor",
    description="Tells people once what went wrong, reminds them while it lasts, and says when it is well again.",
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def alert_sensor(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SkipReason:
    """Look once."""
    changes, delivered = look(context.instance, platform.get())
    return dg.SkipReason(f"{len(changes)} changes, {delivered} messages delivered.")


def look(instance: dg.DagsterInstance, platform: Platform) -> tuple[tuple[Notice, ...], int]:
    """Compare what is wrong with what was, and deliver what is due; returns changes and messages that were taken."""
    settings = platform.settings.alerts
    addresses = addresses_of(settings.urls.get_secret_value()) if settings.urls else []
    changes: tuple[Notice, ...] = ()
    with looking(platform.database) as is_alone:
        if is_alone:
            changes = record_troubles(
                platform.database,
                all_troubles(instance, platform),
                addresses,
                settings.ui_url,
                settings.repeat_hours,
                unjudged=unjudged(instance),
            )
    return changes, deliver_messages(platform.database, addresses, send, seconds=DELIVERY_SECONDS)
