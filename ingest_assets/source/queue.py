"""A queue of change events, at SQS or at anything that speaks it.

What does not belong here: what messages say (`events.py`), and when they may be deleted. Visibility is the queue's:
a message that is not deleted in time comes again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from ingest_assets.errors import SourceUnavailable
from ingest_assets.settings import SourceSettings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

BATCH_SIZE = 10  # messages in one request, of SQS
_REGION = re.compile(r"(?:^|\.)sqs\.([a-z0-9-]+)\.|^([a-z0-9-]+)\.queue\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """One message as it was received this time."""

    message_id: str
    receipt: str
    body: str


class EventQueue:
    """One queue."""

    def __init__(self, queue_url: str, client: "SQSClient") -> None:
        self.url = queue_url
        self._client = client

    def receive(self, wait_seconds: int) -> list[QueueMessage]:
        """Return up to ten messages; where there is none, wait for one up to `wait_seconds` (0 to 20).

        Raises:
            SourceUnavailable: the queue does not answer, does not exist, or refuses.
        """
        try:
            found = self._client.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=BATCH_SIZE, WaitTimeSeconds=wait_seconds
            )
        except (ClientError, BotoCoreError) as error:
            raise self._unavailable(error) from error
        return [
            QueueMessage(item["MessageId"], item["ReceiptHandle"], item["Body"]) for item in found.get("Messages", [])
        ]

    def delete(self, messages: Sequence[QueueMessage]) -> None:
        """Delete messages of one batch; one that cannot be deleted comes again, and says nothing new.

        Raises:
            SourceUnavailable: the queue does not answer, or refuses.
        """
        entries = [{"Id": str(number), "ReceiptHandle": item.receipt} for number, item in enumerate(messages)]
        try:
            self._client.delete_message_batch(QueueUrl=self.url, Entries=entries)  # type: ignore[arg-type]
        except (ClientError, BotoCoreError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> SourceUnavailable:
        advice = "check source.queue_url and the network"
        if isinstance(error, ClientError):
            code = str(error.response["Error"].get("Code", ""))
            advice = (
                "it does not exist; correct source.queue_url, or create it"
                if "NonExistentQueue" in code or "QueueDoesNotExist" in code
                else "check the credentials and that they allow sqs:ReceiveMessage and sqs:DeleteMessage"
            )
        return SourceUnavailable(f"The queue {self.url} cannot be read: {str(error).rstrip('.')}; {advice}.")


def open_queue(settings: SourceSettings) -> EventQueue | None:
    """Return the queue the settings name, None where they name none; nothing is contacted yet.

    Raises:
        SourceUnavailable: no client can be built, for example because the profile does not exist.
    """
    if settings.queue_url is None:
        return None
    import boto3

    # The url says where the queue is: the endpoint of the bucket need not be that of the queue.
    parts = urlsplit(settings.queue_url)
    found = _REGION.search(parts.netloc)
    region = next(filter(None, found.groups()), None) if found else settings.region
    try:
        session = boto3.session.Session(profile_name=settings.profile, region_name=region)
        client = session.client("sqs", endpoint_url=f"{parts.scheme}://{parts.netloc}")
    except (BotoCoreError, ValueError) as error:
        message = f"No SQS client can be made: {error}. Correct source.profile, source.region or source.queue_url."
        raise SourceUnavailable(message) from error
    return EventQueue(settings.queue_url, client)
