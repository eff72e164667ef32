"""What a message of a queue says: which objects of which bucket may have changed.

What does not belong here: receiving (`queue.py`), and what a hint leads to. The shapes are those of the S3 user guide:
event notifications ("Event message structure"), the same wrapped by SNS with and without raw delivery, and
EventBridge ("EventBridge event message structure"). In notifications keys are encoded as in a form, once; EventBridge
has them as they are. MinIO and Ceph write the notifications of S3.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_plus

MAX_KEY_BYTES = 1024  # of a key in S3
_TEST_EVENT = "s3:TestEvent"  # sent once when a notification is configured


class MessageFault(StrEnum):
    """Why a message was set aside."""

    NOT_JSON = "not_json"
    UNKNOWN_SHAPE = "unknown_shape"
    BAD_KEY = "bad_key"


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """Something happened to this key: whether it is there now, only the bucket knows."""

    bucket: str
    key: str


@dataclass(slots=True)
class MessageContent:
    """What could be read from one message; faults do not make its events untrue."""

    events: list[ObjectEvent] = field(default_factory=list)
    fault: MessageFault | None = None  # the first one
    detail: str = ""


class _Unreadable(Exception):
    def __init__(self, fault: MessageFault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


def read_message(body: str) -> MessageContent:
    """Return the events of one message, in any of the shapes; nothing that a message holds raises.

    A test event has neither events nor a fault.
    """
    content = MessageContent()
    try:
        for item in _items(_parsed(body), is_wrapped=False):
            try:
                content.events.append(_event(item))
            except _Unreadable as error:
                _note(content, error)
    except _Unreadable as error:
        _note(content, error)
    return content


def _note(content: MessageContent, error: _Unreadable) -> None:
    if content.fault is None:
        content.fault, content.detail = error.fault, error.detail


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unreadable(MessageFault.NOT_JSON, f"it is no JSON: {error}") from error


def _items(message: Any, *, is_wrapped: bool) -> Iterator[Any]:
    """Yield the records of a notification, or the one event of EventBridge; unwraps SNS."""
    if not isinstance(message, dict):
        raise _Unreadable(MessageFault.UNKNOWN_SHAPE, f"it is a {type(message).__name__}, not an object")
    if message.get("Event") == _TEST_EVENT:
        return
    if isinstance(message.get("Records"), list) and message["Records"]:
        yield from message["Records"]
    elif "detail" in message and "detail-type" in message:
        yield message
    elif not is_wrapped and message.get("Type") == "Notification" and isinstance(message.get("Message"), str):
        yield from _items(_parsed(message["Message"]), is_wrapped=True)
    else:
        names = ", ".join(sorted(map(str, message))[:8]) or "nothing"
        raise _Unreadable(MessageFault.UNKNOWN_SHAPE, f"neither S3, SNS nor EventBridge sends an object with {names}")


def _event(item: Any) -> ObjectEvent:
    is_bridged = isinstance(item, dict) and "detail-type" in item
    place = item.get("detail" if is_bridged else "s3") if isinstance(item, dict) else None
    try:
        bucket, key = place["bucket"]["name"], place["object"]["key"]  # type: ignore[index]
    except (TypeError, KeyError, IndexError):
        raise _Unreadable(MessageFault.UNKNOWN_SHAPE, "an event of it names no bucket and key") from None
    if not isinstance(bucket, str) or not isinstance(key, str):
        raise _Unreadable(MessageFault.UNKNOWN_SHAPE, "the bucket or key of an event is no text")
    return ObjectEvent(bucket, _checked(key if is_bridged else _decoded(key)))


def _decoded(key: str) -> str:
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError as error:
        raise _Unreadable(MessageFault.BAD_KEY, f"the key {key[:200]!r} does not decode to UTF-8") from error


def _checked(key: str) -> str:
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        raise _Unreadable(MessageFault.BAD_KEY, f"the key {key[:200]!r} is no Unicode text") from None
    if not 0 < length <= MAX_KEY_BYTES:
        raise _Unreadable(MessageFault.BAD_KEY, f"a key of {length} bytes; those of S3 have 1 to {MAX_KEY_BYTES}")
    return key
