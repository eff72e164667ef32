"""A bucket, at AWS or in any store that speaks S3, as a source.

What does not belong here: building the client (`client.py`), and what a changed or missing object means.
A key is the rest after the url's prefix, as the bucket spells it; the ETag is an identity, never a content hash.
Left out: folder markers (key ends in "/", no bytes) and an object named exactly like a prefix that ends in "/".
"""

from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ParamValidationError,
)
from botocore.exceptions import ConnectionError as Unreachable
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from ingest_assets.errors import DocumentRejected, DocumentUnreadable, Reason, SourceUnavailable
from ingest_assets.identity import object_uri
from ingest_assets.records import SourceContent, SourceObject
from ingest_assets.source import PAGE_SIZE, ListingPage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        GetObjectOutputTypeDef,
        ListObjectsV2OutputTypeDef,
        ListObjectsV2RequestPaginateTypeDef,
    )

READ_ATTEMPTS = 3
_STORE_ERRORS = (ClientError, BotoCoreError, ResponseParserError)
_BROKEN_BODY = (IncompleteReadError, FlexibleChecksumError, HTTPClientError, HTTPError)
_BUCKET_ADVICE = {
    "NoSuchBucket": "it does not exist; create it or correct source.url",
    "InvalidBucketName": "that is no bucket name; correct source.url",
    "PermanentRedirect": "it is in another region; set source.region",
    "AuthorizationHeaderMalformed": "it is in another region; set source.region",
}
_CREDENTIAL_CODES = frozenset(
    {
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)


class S3Source:
    """Every object of one bucket whose key begins with a prefix."""

    def __init__(self, bucket: str, prefix: str, client: "S3Client") -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._client = client
        self.url = f"s3://{bucket}/{prefix}"

    def list(self, start_after: str | None = None) -> Iterator[ListingPage]:
        """Yield the bucket's pages; botocore has keys sent url-encoded, so that odd ones survive the XML."""
        paginator = self._client.get_paginator("list_objects_v2")
        request: ListObjectsV2RequestPaginateTypeDef = {"Bucket": self._bucket, "Prefix": self._prefix}
        request["PaginationConfig"] = {"PageSize": PAGE_SIZE}
        if start_after:
            request["StartAfter"] = self._prefix + start_after
        try:
            for page in paginator.paginate(**request):
                if page.get("Contents"):
                    yield self._page(page)
        except _STORE_ERRORS as error:
            raise self._unavailable(error) from error

    def head(self, key: str) -> SourceObject | None:
        """Return the object's current state; None when it is missing, deleted or left out of listings."""
        if not key:
            return None
        try:
            response = self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
        except ClientError as error:
            self._require_missing(error)
            return None
        except _STORE_ERRORS as error:
            raise self._unreadable(error) from error
        size = response["ContentLength"]
        return None if _is_marker(key, size) else self._describe(key, response["ETag"], size, response["LastModified"])

    def read(self, key: str, max_bytes: int) -> SourceContent:
        """Return bytes, identity, version and user metadata of one GET; a body that breaks off is fetched again."""
        for _ in range(READ_ATTEMPTS):
            try:
                return self._content(key, self._get(key), max_bytes)
            except _BROKEN_BODY as error:
                broken = error
        detail = f"the body broke off in each of {READ_ATTEMPTS} attempts to read it"
        raise DocumentUnreadable(Reason.TIMEOUT, detail) from broken

    def _page(self, page: "ListObjectsV2OutputTypeDef") -> ListingPage:
        found = [
            self._describe(self._key(entry["Key"]), entry["ETag"], entry["Size"], entry["LastModified"])
            for entry in page["Contents"]
            if not _is_marker(entry["Key"], entry["Size"]) and not self._is_own_folder(entry["Key"])
        ]
        return ListingPage(found, self._key(page["Contents"][-1]["Key"]))

    def _key(self, full_key: str) -> str:
        return full_key[len(self._prefix) :]

    def _is_own_folder(self, full_key: str) -> bool:
        if full_key != self._prefix:
            return False
        if not full_key.endswith("/"):
            message = f"{self.url} is an object; end source.url with / for the folder, or name the folder it is in."
            raise SourceUnavailable(message)
        return True

    def _get(self, key: str) -> "GetObjectOutputTypeDef":
        if not key:
            raise DocumentUnreadable(Reason.NOT_FOUND, "an empty key names no object")
        try:
            return self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
        except _STORE_ERRORS as error:
            raise self._unreadable(error) from error

    def _content(self, key: str, response: "GetObjectOutputTypeDef", max_bytes: int) -> SourceContent:
        size = response.get("ContentLength", -1)
        body = response["Body"]
        try:
            if _is_marker(key, size):
                raise DocumentUnreadable(Reason.NOT_FOUND, "the object is a folder marker")
            if size > max_bytes:
                raise DocumentRejected(Reason.TOO_LARGE, f"{size} bytes, and at most {max_bytes} are read")
            data = body.read()
        finally:
            body.close()
        if len(data) != size:
            raise IncompleteReadError(actual_bytes=len(data), expected_bytes=size)
        found = self._describe(key, response["ETag"], size, response["LastModified"])
        return SourceContent(found, data, response.get("VersionId"), dict(response.get("Metadata", {})))

    def _describe(self, key: str, etag: str, size: int, modified: datetime) -> SourceObject:
        # Some stores list milliseconds and answer a HEAD in seconds; one object must not look like two states.
        return SourceObject(key, object_uri(self.url, key), etag.strip('"'), size, modified.replace(microsecond=0))

    def _require_missing(self, error: ClientError) -> None:
        """Raise unless a failed HEAD means a missing object: without a body, a missing bucket looks the same."""
        try:
            self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        except _STORE_ERRORS as listing_error:
            raise self._unavailable(listing_error) from listing_error
        if _status_code(error) not in (404, 405):  # 405 is said of delete markers
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DocumentUnreadable | SourceUnavailable:
        """Return our error for a refused GET or HEAD: the object's own, or everybody's."""
        if isinstance(error, ClientError):
            code = str(error.response["Error"].get("Code", ""))
            if code in _BUCKET_ADVICE or code in _CREDENTIAL_CODES:
                return self._unavailable(error)
            said = f"{code} {error.response['Error'].get('Message', '')}"
            return _object_failure(code, _status_code(error), is_about_key="kms" in said.lower())
        if isinstance(error, HTTPClientError):
            return DocumentUnreadable(Reason.TIMEOUT, "the store accepted the request and did not answer it")
        return self._unavailable(error)

    def _unavailable(self, error: Exception) -> SourceUnavailable:
        return SourceUnavailable(f"The bucket {self._bucket} cannot be read: {_advice(error)}.")


def _is_marker(key: str, size_bytes: int) -> bool:
    return size_bytes == 0 and key.endswith("/")


def _status_code(error: ClientError) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def _object_failure(code: str, status: int, *, is_about_key: bool) -> DocumentUnreadable:
    if status in (404, 405):
        return DocumentUnreadable(Reason.NOT_FOUND, "the object is not in the bucket any more")
    if code == "InvalidObjectState":
        return DocumentUnreadable(Reason.ARCHIVED, "the object is archived; restore it")
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return DocumentUnreadable(Reason.TIMEOUT, f"the store failed on this object ({code or status})")
    # 403, a disabled KMS key (400), an object under a customer's own key (400): permission, in one way or another.
    what = "decrypting it with its KMS key" if is_about_key else "reading it"
    detail = f"the store refuses the object ({code or status}); allow {what}"
    return DocumentUnreadable(Reason.ACCESS_DENIED, detail)


def _advice(error: Exception) -> str:
    """Return what is wrong and what to do, for a store that answers nobody."""
    if not isinstance(error, ClientError):
        return _client_advice(error)
    code = str(error.response["Error"].get("Code", ""))
    if code in _BUCKET_ADVICE:
        return _BUCKET_ADVICE[code]
    if code in _CREDENTIAL_CODES or _status_code(error) in (401, 403):
        return f"{code}; check the credentials and that they allow s3:ListBucket and s3:GetObject"
    return f"{code or _status_code(error)}; run again later"


def _client_advice(error: Exception) -> str:
    if isinstance(error, ParamValidationError):
        return _BUCKET_ADVICE["InvalidBucketName"]
    what = str(error).rstrip(".")
    if isinstance(error, Unreachable | HTTPClientError | ResponseParserError):
        return f"{what}; check source.endpoint_url and the network"
    return f"{what}; check source.profile and the AWS credentials of this process"
