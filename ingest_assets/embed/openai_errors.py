"""Which failure an OpenAI-compatible server means when it answers with another status than success.

Here: the shapes of error bodies, the meaning of statuses, codes and words, and which text an error names. Not here:
sending (`openai.py`), answers of success (`openai_answer.py`), and what follows from a failure (`engine.py`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import jiter

from ingest_assets.embed.failures import BatchRejected, RateLimited, Unanswered, provider_words
from ingest_assets.embed.pacing import parse_retry_after
from ingest_assets.errors import EmbeddingFatal, IngestError, Reason

_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "budget_exceeded"}
_OUR_PARAMETERS = {"model", "dimensions", "encoding_format"}
_ABOUT_TEXT = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
_ABOUT_KEY = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
# A failed dependency is how text-embeddings-inference reports that its backend failed.
_ABOUT_NOW = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.FAILED_DEPENDENCY,
    HTTPStatus.TOO_EARLY,
}
_LENGTH_WORDS = re.compile(
    r"context.?length|too (long|many tokens)|less than \d+ tokens|max\w*.{0,20}tokens|token limit|too large to process"
)
# How a parameter of an error names one text: `input[3]`, `input.3`, `$.input[3]`, `inputs[3]`, `input.list[str].3`.
_NAMED_PARAMETER = re.compile(r"(?:\$\.)?inputs?(?:\.list\[\w+\])?(?:\[(\d{1,6})\]|\.(\d{1,6}))(?![\w])")
# How a sentence does: the same as code, the dotted form in quotes only, or in words.
_NAMED_IN_WORDS = re.compile(
    r"(?<![\w.\]])(?:\$\.)?inputs?\[(\d{1,6})\]"
    r"|['\"`](?:\$\.)?inputs?\.(\d{1,6})['\"`]"
    r"|\binputs?(?: text| item)? at (?:index|position) (\d{1,6})\b(?![.,]\d)"
)


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """What an error's body says, empty where servers leave it out."""

    message: str = ""
    code: str = ""
    kind: str = ""  # `type`, or `error_type`
    param: str = ""


def failure(status: int, headers: Mapping[str, str], body: bytes, texts: Sequence[str], *, advice: str) -> IngestError:
    """Return the error of ours for an answer that is not a success.

    `headers` find their values in any case; `advice` says which settings to look at.
    """
    words = read_words(body)
    quoted = provider_words(words.message, texts)
    said = f"The embedding server answered {status}" + (f": {quoted}" if quoted else ".")
    if _is_about_quota(status, words):
        return EmbeddingFatal(Reason.QUOTA_EXHAUSTED, f"{said} Raise the account's limit, then run again.")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimited(said, _retry_after(headers))
    if status in _ABOUT_KEY:
        # The server's words are left out: they may quote the key.
        return EmbeddingFatal(
            Reason.UNAUTHENTICATED,
            f"The embedding server answered {status}; check OPENAI_API_KEY and the account's rights.",
        )
    if _is_about_text(status, words):
        # Not the cut words: an index at their end could be the beginning of another.
        item = named_item(words.param, words.message if quoted else "", texts)
        return BatchRejected(_reason(status, words), said, item)
    if status in _ABOUT_NOW or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unanswered(said, _retry_after(headers))
    return EmbeddingFatal(Reason.INVALID_REQUEST, f"{said} {advice}")


def read_words(body: bytes) -> ErrorWords:
    """Read an error's body in any of its shapes: an object below `error`, at the top, a sentence, or a page."""
    try:
        content = jiter.from_json(body)
    except ValueError:
        return ErrorWords(message=body.decode(errors="replace"))
    if not isinstance(content, Mapping):
        return ErrorWords(message=str(content))
    inner = content.get("error")
    if isinstance(inner, Mapping):
        content = inner
    elif inner:
        content = {**content, "message": inner}
    if content.get("detail"):
        return _from_detail(content["detail"])
    return ErrorWords(
        message=_text(content.get("message")),
        code=_text(content.get("code")),
        kind=_text(content.get("type") or content.get("error_type")),
        param=_text(content.get("param")),
    )


def named_item(param: str, message: str, texts: Sequence[str]) -> int | None:
    """Return the position of the one text that an error names, None where it names none, several, or one too far.

    A number is taken only where it can be nothing but an index, and never where the text itself says so.
    """
    found = _indexes(_NAMED_PARAMETER.match(param)) if param else set()
    if not found:
        matches = list(_NAMED_IN_WORDS.finditer(message))
        if not any(_is_quoted(match.group(), texts) for match in matches):
            found = set().union(*(_indexes(match) for match in matches))
    item = found.pop() if len(found) == 1 else None
    return item if item is not None and item < len(texts) else None


def _is_about_quota(status: int, words: ErrorWords) -> bool:
    is_volume = status == HTTPStatus.FORBIDDEN and "quota" in words.message.lower()  # Azure's "out of call volume"
    return status == HTTPStatus.PAYMENT_REQUIRED or is_volume or bool(_QUOTA_CODES & {words.code, words.kind})


def _is_about_text(status: int, words: ErrorWords) -> bool:
    # Some servers fail with 500 on a text that is too long, and would do so for ever.
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _is_about_length(words)
    return status in _ABOUT_TEXT and words.param not in _OUR_PARAMETERS


def _is_about_length(words: ErrorWords) -> bool:
    return _LENGTH_WORDS.search(f"{words.code} {words.message}".lower()) is not None


def _reason(status: int, words: ErrorWords) -> Reason:
    """Return why a text is refused, should it turn out to be refused alone."""
    is_length = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _is_about_length(words)
    return Reason.OVER_LENGTH if is_length else Reason.CONTENT_REJECTED


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = parse_retry_after(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return parse_retry_after(headers.get("retry-after"))


def _from_detail(detail: object) -> ErrorWords:
    """Read the `detail` of servers built on FastAPI: a sentence, or complaints with the place of each."""
    complaints = [item for item in (detail if isinstance(detail, list) else [detail]) if isinstance(item, Mapping)]
    if not complaints:
        return ErrorWords(message=_text(detail))
    messages = [_text(complaint.get("msg") or complaint.get("message")) for complaint in complaints]
    places = {_place(complaint.get("loc")) for complaint in complaints}
    return ErrorWords(message="; ".join(messages), param=places.pop() if len(places) == 1 else "")


def _place(location: object) -> str:
    parts = location if isinstance(location, list) else []
    return ".".join(str(part) for part in parts if part != "body")


def _indexes(match: re.Match[str] | None) -> set[int]:
    return {int(group) for group in match.groups() if group is not None} if match else set()


def _is_quoted(words: str, texts: Sequence[str]) -> bool:
    return any(words in text for text in texts)


def _text(value: object) -> str:
    return "" if value is None else str(value)
