"""The S3 client of processes that Dagster hands none: the only step module that may import dagster.

What does not belong here: any request. Building through `S3Resource` keeps one set of rules for profiles, roles,
endpoints and retries, whether a run or the command line asks.
"""

from typing import TYPE_CHECKING

from ingest_assets.errors import SourceUnavailable
from ingest_assets.settings import SourceSettings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_ATTEMPTS = 5  # of one request, the first included; botocore backs off between them, up to 20 s


def build_s3_client(settings: SourceSettings) -> "S3Client":
    """Return a client for the bucket of these settings; safe to share between threads.

    Raises:
        SourceUnavailable: the profile does not exist, or the endpoint is not a url.
    """
    from botocore.exceptions import BotoCoreError
    from dagster_aws.s3 import S3Resource

    resource = S3Resource(
        endpoint_url=settings.endpoint_url,
        region_name=settings.region,
        profile_name=settings.profile,
        max_attempts=MAX_ATTEMPTS,
    )
    try:
        client: S3Client = resource.get_client()
    except (BotoCoreError, ValueError) as error:
        message = f"No S3 client can be made: {error}. Correct source.profile, source.region or source.endpoint_url."
        raise SourceUnavailable(message) from error
    return client
