"""The sensor that takes change events out of the queue of `source.queue_url`.

What does not belong here: what a hint leads to; the source sensor looks at the hinted objects and requests runs.
"""

from functools import cache

import dagster as dg

from ingest_assets.defs.resources import PlatformResource
from ingest_assets.defs.sensors import INTERVAL_SECONDS
from ingest_assets.hints import Received, receive_hints
from ingest_assets.platform import Platform
from ingest_assets.source.queue import open_queue

WAIT_SECONDS = 5  # of one long poll: other sensors have threads of their own meanwhile
RECEIVE_SECONDS = 15.0
_open_once = cache(open_queue)  # making a client takes longer than asking it


@dg.sensor(
    name="queue_sensor",
    description="Takes change events out of the queue that source.queue_url names, and keeps the keys they speak of.",
    target=[],
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def queue_sensor(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SkipReason:
    """Keep hints."""
    received = receive_from_queue(platform.get())
    if received is None:
        return dg.SkipReason("source.queue_url is not set: every change is found by listing.")
    for message_id in received.set_aside:
        context.log.warning("Message %s was set aside; `ingest-assets messages list` says why.", message_id)
    return dg.SkipReason(describe(received))


def receive_from_queue(platform: Platform) -> Received | None:
    """Keep what waits in the queue; None where there is no queue."""
    queue = _open_once(platform.settings.source)
    if queue is None:
        return None
    return receive_hints(platform.database, platform.source, queue, wait_seconds=WAIT_SECONDS, seconds=RECEIVE_SECONDS)


def describe(received: Received) -> str:
    """Return what a tick received, in one sentence."""
    if not received.messages:
        return "The queue is empty."
    return (
        f"{received.messages} messages: {received.hints} keys may have changed, {received.elsewhere} are of other "
        f"buckets or folders, {len(received.set_aside)} messages were set aside."
    )
