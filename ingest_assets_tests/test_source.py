"""The source, folder and bucket alike: what is there is what is listed, and a read is of one state."""

import hashlib
import os
import tempfile
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest_assets.errors import (
    DocumentRejected,
    DocumentUnreadable,
    EnvironmentProblem,
    Reason,
    SettingsError,
    SourceUnavailable,
)
from ingest_assets.settings import SourceSettings
from ingest_assets.source import Source, open_source
from ingest_assets.source.patterns import KeyPatterns
from ingest_assets_tests.fixtures_s3 import FailingStore, Reply, make_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NOBODY = 65534
BULK_KEYS = [f"bulk/{number:05d}.txt" for number in range(1050)]
# The keys of scenario B07, then a few more of the kind.
ODD_KEYS = [
    "ok.txt", "ctrl\x01key.txt", "cr\rkey.txt", "amp&lt<key>.txt", "n\u00e9.txt", "ne\u0301.txt", "k" * 1020 + ".txt",
    "./dot/../x.txt", "//double//slash.txt", " lead and trail .txt ",
    "plus+sign.txt", "100%25 done.md", "plus%2Bliteral.txt", "日本語 😀.txt", "a|b,c[1].txt", "tab\there",
]  # fmt: skip
# The same for a file system, with a folder beside files that sort around its slash and a name that is not UTF-8.
ODD_FILES = [
    "ok.txt", "ctrl\x01key.txt", "cr\rkey.txt", "amp&lt<key>.txt", "n\u00e9.txt", "ne\u0301.txt", "k" * 251 + ".txt",
    " lead and trail .txt ", "line\nbreak.txt", "100%25 done.md", "日本語 😀.txt", "\udce9t\udce9.txt",
    "a/x", "a-b", "a.b", "a0", "a/b/c", "a/b-c",
]  # fmt: skip


def by_bytes(keys: list[str]) -> list[str]:
    """Return keys in the order of S3."""
    return sorted(keys, key=lambda key: key.encode("utf-8", "surrogateescape"))


def keys_of(source: Source, start_after: str | None = None) -> list[str]:
    """Return the keys of a complete listing, as listed."""
    return [found.key for page in source.list(start_after) for found in page]


def fill(client: "S3Client", bucket: str, keys: list[str]) -> None:
    """Put one small object at every key."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=key.encode()), keys))


def write(folder: Path, key: str, data: bytes = b"text") -> Path:
    """Write one file, and the folders it needs."""
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def open_folder(folder: Path, **more: Any) -> Source:
    """Open a folder as the settings would."""
    return open_source(SourceSettings(url=f"file://{folder}", **more))


def open_bucket(client: "S3Client", bucket: str, prefix: str = "", **more: Any) -> Source:
    """Open a prefix of a bucket as the settings would."""
    return open_source(SourceSettings(url=f"s3://{bucket}/{prefix}", **more), s3_client=client)


def open_failing(store: FailingStore, *replies: Reply, max_attempts: int = 1) -> Source:
    """Open a bucket of the failing store, which will answer with these replies."""
    store.replies.extend(replies)
    return open_bucket(make_client(store.endpoint_url, max_attempts=max_attempts), "docs")


def unreadable_reason(source: Source, key: str, max_bytes: int = 1000) -> Reason:
    """Return why a document cannot be read now."""
    with pytest.raises(DocumentUnreadable) as caught:
        source.read(key, max_bytes)
    return caught.value.reason


@pytest.fixture(scope="module")
def full_bucket(s3: "S3Client") -> str:
    """Give the bucket of B07: more than one page, with odd keys."""
    name = f"full-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    fill(s3, name, ODD_KEYS + BULK_KEYS)
    return name


@pytest.fixture(scope="module")
def full_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with more than one page of files and odd names."""
    folder = tmp_path_factory.mktemp("full")
    for key in ODD_FILES + BULK_KEYS:
        write(folder, key, key.encode("utf-8", "surrogateescape"))
    return folder


@pytest.fixture
def open_folder_of_nobody() -> Iterator[Path]:
    """Give a folder while this process has the rights of nobody, for root may read everything."""
    with tempfile.TemporaryDirectory() as name:
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(name, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        yield Path(name)
        if is_root:
            os.seteuid(0)


# Listing


def test_a_bucket_is_listed_completely_and_in_order(s3: "S3Client", full_bucket: str) -> None:
    """Every key once, exactly as spelled, beyond the first page of 1,000."""
    pages = list(open_bucket(s3, full_bucket).list())
    assert [found.key for page in pages for found in page] == by_bytes(ODD_KEYS + BULK_KEYS)
    assert [len(page) for page in pages] == [1000, len(ODD_KEYS) + 50]


def test_a_folder_is_listed_completely_and_in_order(full_folder: Path) -> None:
    """A folder pages and sorts as a bucket does, so that a listing resumes the same way."""
    pages = list(open_folder(full_folder).list())
    assert [found.key for page in pages for found in page] == by_bytes(ODD_FILES + BULK_KEYS)
    assert [len(page) for page in pages] == [1000, len(ODD_FILES) + 50]


@pytest.mark.parametrize("position", [0, 3, 7, 900, -2, -1])
def test_a_bucket_listing_resumes_after_any_key(s3: "S3Client", full_bucket: str, position: int) -> None:
    """What a tick left over is what the next one gets."""
    keys = by_bytes(ODD_KEYS + BULK_KEYS)
    assert keys_of(open_bucket(s3, full_bucket), keys[position]) == keys[keys.index(keys[position]) + 1 :]


@pytest.mark.parametrize("position", [0, 3, 7, 900, -2, -1])
def test_a_folder_listing_resumes_after_any_key(full_folder: Path, position: int) -> None:
    """What a tick left over is what the next one gets."""
    keys = by_bytes(ODD_FILES + BULK_KEYS)
    assert keys_of(open_folder(full_folder), keys[position]) == keys[keys.index(keys[position]) + 1 :]


@settings(max_examples=60, deadline=None)
@given(st.sets(st.text("ab-/0", min_size=1, max_size=6)), st.text("ab-/0", max_size=6))
def test_a_folder_sorts_whole_keys_and_resumes_after_keys_that_do_not_exist(keys: set[str], after: str) -> None:
    """Order by folder is not order by key: "a-b" comes before "a/x"."""
    with tempfile.TemporaryDirectory() as name:
        written: list[str] = []
        for key in sorted(keys):
            path = os.path.normpath(key).strip("/")
            parents = [path[:end] for end, letter in enumerate(path) if letter == "/"]
            if path and path != "." and not os.path.lexists(f"{name}/{path}") and not set(parents) & set(written):
                write(Path(name), path)
                written.append(path)
        source = open_folder(Path(name))
        assert keys_of(source) == by_bytes(written)
        assert keys_of(source, after) == [key for key in by_bytes(written) if key > after]


def test_only_empty_keys_with_a_final_slash_are_folder_markers(s3: "S3Client", bucket: str) -> None:
    """B04: a marker is no document; everything else is listed, whatever comes of it."""
    sizes = {"docs/": 0, "docs/report": 0, "docs/notes/": 77, "docs/.keep": 0}
    for key, size in sizes.items():
        s3.put_object(Bucket=bucket, Key=key, Body=b"x" * size)
    source = open_bucket(s3, bucket)
    assert keys_of(source) == ["docs/.keep", "docs/notes/", "docs/report"]
    assert source.head("docs/") is None
    assert unreadable_reason(source, "docs/") is Reason.NOT_FOUND
    assert source.head("docs/notes/") is not None


def test_a_listing_is_decoded_as_amazon_encodes_it(failing_store: FailingStore) -> None:
    """A blank comes as a plus, a line break (which moto's router refuses) encoded; both are read back exactly."""
    names = ["a+b%2Bc.txt", "cr%0Dlf%0A.txt", "x%252B%26amp%3B.txt"]
    state = "<Size>5</Size><ETag>&quot;0123&quot;</ETag><LastModified>2024-05-03T10:00:00Z</LastModified>"
    rows = "".join(f"<Contents><Key>{name}</Key>{state}</Contents>" for name in names)
    xml = f"<ListBucketResult><EncodingType>url</EncodingType>{rows}</ListBucketResult>"
    failing_store.listing = Reply(body=xml.encode())
    source = open_failing(failing_store, Reply(body=b"alpha"))
    assert keys_of(source) == ["a b+c.txt", "cr\rlf\n.txt", "x%2B&amp;.txt"]
    assert source.read("cr\rlf\n.txt", 1000).data == b"alpha"
    assert failing_store.object_requests == ["GET /docs/cr%0Dlf%0A.txt"]


def test_keys_are_relative_to_the_prefix_and_uris_are_not(s3: "S3Client", bucket: str) -> None:
    """A document keeps its id when the source is opened at another prefix."""
    fill(s3, bucket, ["in/a b.txt", "in/sub/c.txt", "in-old/x.txt", "other.txt"])
    listed = [found for page in open_bucket(s3, bucket, "in/").list() for found in page]
    assert [found.key for found in listed] == ["a b.txt", "sub/c.txt"]
    assert [found.uri for found in listed] == [f"s3://{bucket}/in/a b.txt", f"s3://{bucket}/in/sub/c.txt"]
    assert keys_of(open_bucket(s3, bucket, "in/"), "a b.txt") == ["sub/c.txt"]
    assert keys_of(open_bucket(s3, bucket, "in")) == ["-old/x.txt", "/a b.txt", "/sub/c.txt"]


def test_a_prefix_that_is_an_object_is_refused(s3: "S3Client", bucket: str) -> None:
    """It would have an empty key; to leave it out in silence would lose a document."""
    fill(s3, bucket, ["report.txt"])
    with pytest.raises(SourceUnavailable, match="is an object"):
        keys_of(open_bucket(s3, bucket, "report.txt"))


def test_file_uris_are_absolute_and_encoded(tmp_path: Path) -> None:
    """Equal paths give equal ids, and any name makes a valid URI."""
    write(tmp_path, "a b/é#%.txt")
    (found,) = next(open_folder(tmp_path).list())
    assert found.uri == (tmp_path / "a b/é#%.txt").as_uri()
    assert found.uri.startswith(open_folder(tmp_path).url)


def test_hidden_files_and_lock_files_are_no_documents(tmp_path: Path) -> None:
    """They come and go with the programs that write them."""
    for key in (".hidden", ".git/config", "~$plan.docx", "sub/Thumbs.db", "sub/.DS_Store", "plan.docx", "a~b.txt"):
        write(tmp_path, key)
    source = open_folder(tmp_path)
    assert keys_of(source) == ["a~b.txt", "plan.docx"]
    assert source.head(".git/config") is None


def test_links_neither_leave_the_folder_nor_loop(tmp_path: Path) -> None:
    """A link to a file inside is a file; links that lead out, round in circles or nowhere are nothing."""
    folder = tmp_path / "inbox"
    write(tmp_path, "secret.txt")
    write(folder, "sub/a.txt")
    for name, target in {
        "loop": folder, "sub/up": "..", "self": "self", "out": tmp_path, "secret": tmp_path / "secret.txt",
        "broken": "nothing", "inside.txt": "sub/a.txt",
    }.items():  # fmt: skip
        (folder / name).symlink_to(str(target))
    source = open_folder(folder)
    assert keys_of(source) == ["inside.txt", "sub/a.txt"]
    for key in (
        "loop/sub/a.txt",
        "out/secret.txt",
        "secret",
        "self",
        "../secret.txt",
        "sub/../sub/a.txt",
        "sub//a.txt",
    ):
        assert source.head(key) is None
        assert unreadable_reason(source, key) is Reason.NOT_FOUND


def test_a_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    """Operators point a fixed name at a mounted disk."""
    write(tmp_path / "disk", "a.txt", b"alpha")
    (tmp_path / "inbox").symlink_to("disk")
    source = open_folder(tmp_path / "inbox")
    assert keys_of(source) == ["a.txt"]
    assert source.read("a.txt", 1000).data == b"alpha"


def test_only_regular_files_are_documents(tmp_path: Path) -> None:
    """A pipe would hold the reader up for ever."""
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path, "a.txt")
    source = open_folder(tmp_path)
    assert keys_of(source) == ["a.txt"]
    assert unreadable_reason(source, "pipe") is Reason.NOT_FOUND


# Include and exclude


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("*.pdf", ["a.pdf", "x/y/a.pdf", "/a.pdf", "l\nf.pdf"], ["a.PDF", "a.pdf.txt", "apdf"]),
        ("reports/**", ["reports/a", "reports/x/y"], ["reports", "old/reports/a", "reports2/a"]),
        ("reports/", ["reports/a", "reports/x/y"], ["reports", "old/reports/a"]),
        ("reports/*", ["reports/a"], ["reports/x/y"]),
        ("/top.txt", ["top.txt"], ["sub/top.txt"]),
        ("**/drafts/*.md", ["drafts/a.md", "x/y/drafts/b.md"], ["drafts/x/a.md", "mydrafts/a.md"]),
        ("a/**/z.txt", ["a/z.txt", "a/b/c/z.txt"], ["az.txt", "b/a/z.txt"]),
        ("page?.txt", ["page1.txt", "x/page2.txt"], ["page.txt", "page10.txt"]),
        ("[a-c]?.txt", ["a1.txt"], ["d1.txt", "-1.txt"]),
        ("[!a-c].txt", ["d.txt"], ["a.txt", "a/.txt"]),
        ("x[]^[]y", ["x]y", "x[y", "x^y"], ["xay"]),
        ("a[1.txt", ["a[1.txt"], ["a1.txt"]),
        ("a+(b).txt", ["a+(b).txt"], ["aab.txt"]),
        ("**", ["a", "x/y"], []),
    ],
)  # fmt: skip
def test_patterns_mean_what_people_expect(pattern: str, taken: list[str], left: list[str]) -> None:
    """A name anywhere, or a path from the top; case matters."""
    patterns = KeyPatterns([pattern])
    assert [key for key in taken + left if patterns.takes(key)] == taken


@pytest.mark.parametrize("pattern", ["", "[z-a].txt"])
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    """Otherwise a slip of the pen would be an empty index."""
    with pytest.raises(SettingsError, match="pattern"):
        KeyPatterns([pattern])


def test_exclude_wins_over_include(s3: "S3Client", bucket: str) -> None:
    """In listings, and also for a hint or a read: what is left out does not exist."""
    fill(s3, bucket, ["a.pdf", "drafts/b.pdf", "c.txt"])
    source = open_bucket(s3, bucket, include=("*.pdf",), exclude=("drafts/**",))
    assert keys_of(source) == ["a.pdf"]
    assert source.head("a.pdf") is not None
    assert source.head("drafts/b.pdf") is None
    assert unreadable_reason(source, "c.txt") is Reason.NOT_FOUND


def test_a_listing_resumes_where_everything_was_left_out(full_folder: Path) -> None:
    """A page without a wanted object still says how far the listing has come."""
    source = open_folder(full_folder, include=("ok.txt",))
    pages = list(source.list())
    assert [[found.key for found in page] for page in pages] == [[], ["ok.txt"]]
    assert keys_of(source, pages[0].last_key) == ["ok.txt"]


# Reading


@pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: key.encode("unicode_escape").decode()[:20])
def test_every_listed_object_can_be_read_and_headed(s3: "S3Client", full_bucket: str, key: str) -> None:
    """The key of a listing is the key of the object, however odd."""
    source = open_bucket(s3, full_bucket)
    assert source.read(key, 2000).data == key.encode()
    assert source.head(key) == source.read(key, 2000).object


def test_every_listed_file_can_be_read_and_headed(full_folder: Path) -> None:
    """The key of a listing is the key of the file, however odd."""
    source = open_folder(full_folder)
    for page in source.list():
        for found in page:
            assert source.read(found.key, 2000).data == found.key.encode("utf-8", "surrogateescape")
            assert source.head(found.key) == found


def test_a_read_gives_identity_version_and_metadata_of_one_state(s3: "S3Client", bucket: str) -> None:
    """What was listed before may be old; what is recorded is what was read."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    source = open_bucket(s3, bucket)
    s3.put_object(Bucket=bucket, Key="a.txt", Body=b"old")
    (listed,) = next(source.list())
    put = s3.put_object(Bucket=bucket, Key="a.txt", Body=b"newer", Metadata={"owner": "ann"})
    content = source.read("a.txt", 1000)
    assert (content.data, content.version, content.metadata) == (b"newer", put["VersionId"], {"owner": "ann"})
    assert content.object.etag == put["ETag"].strip('"') != listed.etag
    assert content.object == source.head("a.txt")
    assert content.object.last_modified.tzinfo is not None


def test_a_multipart_etag_is_taken_as_it_is(s3: "S3Client", bucket: str) -> None:
    """It is no hash of the content, and nothing may depend on its form."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key="big.txt")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="big.txt", UploadId=upload, PartNumber=1, Body=b"alpha")
    parts: Any = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    done = s3.complete_multipart_upload(Bucket=bucket, Key="big.txt", UploadId=upload, MultipartUpload=parts)
    content = open_bucket(s3, bucket).read("big.txt", 1000)
    assert content.data == b"alpha"
    assert content.object.etag == done["ETag"].strip('"')
    assert content.object.etag.endswith("-1")


def test_the_identity_of_a_file_changes_whenever_its_bytes_may_have(tmp_path: Path) -> None:
    """Also at the same size, at once, in place, with the old modification time put back, or by a rename."""
    path = write(tmp_path, "a.txt", b"v0")
    source = open_folder(tmp_path)
    seen = [source.read("a.txt", 1000).object.etag]
    modified = path.stat().st_mtime_ns
    for data in (b"v1", b"v2", b"v3"):
        path.write_bytes(data)
        os.utime(path, ns=(modified, modified))
        seen.append(source.read("a.txt", 1000).object.etag)
    write(tmp_path, "b.txt", b"v4").rename(path)
    seen.append(source.read("a.txt", 1000).object.etag)
    assert len(set(seen)) == 5


def test_a_file_that_changes_while_it_is_read_is_read_as_one_state(tmp_path: Path) -> None:
    """A writer that never rests may make a document unreadable for now, and never a mixture."""
    path = write(tmp_path, "a.txt", b"a" * 400_000)
    source = open_folder(tmp_path)
    is_over = threading.Event()

    def rewrite() -> None:
        for number in range(1_000_000):
            if is_over.is_set():
                return
            path.write_bytes(b"ab"[number % 2 : number % 2 + 1] * (400_000 + number % 2))

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        with pytest.raises(DocumentUnreadable, match="timeout"):
            for _ in range(1000):
                assert len(set(source.read("a.txt", 1_000_000).data)) <= 1
    finally:
        is_over.set()
        writer.join()
    assert source.head("a.txt") == source.read("a.txt", 1_000_000).object


def test_what_does_not_exist_is_not_found(s3: "S3Client", bucket: str, tmp_path: Path) -> None:
    """An object that vanished between listing and read is a deletion, not a failure."""
    for source in (open_bucket(s3, bucket), open_folder(tmp_path)):
        for key in ("gone.txt", "gone/gone.txt", "", "nul\0", "k" * 1000):
            assert source.head(key) is None
            assert unreadable_reason(source, key) is Reason.NOT_FOUND


def test_an_object_under_a_delete_marker_does_not_exist(s3: "S3Client", bucket: str) -> None:
    """In a versioned bucket a deletion leaves the old versions behind."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    fill(s3, bucket, ["a.txt"])
    s3.delete_object(Bucket=bucket, Key="a.txt")
    source = open_bucket(s3, bucket)
    assert keys_of(source) == []
    assert source.head("a.txt") is None
    assert unreadable_reason(source, "a.txt") is Reason.NOT_FOUND


def test_a_document_over_the_limit_is_rejected(s3: "S3Client", bucket: str, tmp_path: Path) -> None:
    """One byte more than allowed is too much, and the limit itself is not."""
    s3.put_object(Bucket=bucket, Key="a.txt", Body=b"12345")
    write(tmp_path, "a.txt", b"12345")
    for source in (open_bucket(s3, bucket), open_folder(tmp_path)):
        assert source.read("a.txt", 5).data == b"12345"
        with pytest.raises(DocumentRejected, match="too_large"):
            source.read("a.txt", 4)


def test_the_body_of_a_too_large_object_is_not_read(failing_store: FailingStore) -> None:
    """The store here promises ten gigabytes and sends none: whoever asked for them would fail otherwise."""
    source = open_failing(failing_store, Reply(promised_bytes=10_000_000_000))
    with pytest.raises(DocumentRejected, match="too_large"):
        source.read("a.txt", 1000)


def test_a_too_large_file_is_not_read(tmp_path: Path) -> None:
    """A sparse file of a terabyte is rejected by its size."""
    os.truncate(write(tmp_path, "a.txt"), 2**40)
    with pytest.raises(DocumentRejected, match="too_large"):
        open_folder(tmp_path).read("a.txt", 1000)


def test_an_archived_object_is_listed_and_not_read(s3: "S3Client", bucket: str) -> None:
    """It exists, so nothing is deleted; it is read once somebody has restored it."""
    s3.put_object(Bucket=bucket, Key="a.txt", Body=b"cold", StorageClass="GLACIER")
    source = open_bucket(s3, bucket)
    assert keys_of(source) == ["a.txt"]
    assert unreadable_reason(source, "a.txt") is Reason.ARCHIVED
    s3.restore_object(Bucket=bucket, Key="a.txt", RestoreRequest={"Days": 1})
    assert source.read("a.txt", 1000).data == b"cold"


def test_a_file_without_permission_is_listed_and_not_read(open_folder_of_nobody: Path) -> None:
    """It exists, so nothing is deleted; it is read once somebody has allowed it."""
    path = write(open_folder_of_nobody, "a.txt")
    path.chmod(0)
    source = open_folder(open_folder_of_nobody)
    assert keys_of(source) == ["a.txt"]
    assert source.head("a.txt") is not None
    assert unreadable_reason(source, "a.txt") is Reason.ACCESS_DENIED
    path.chmod(0o600)
    assert source.read("a.txt", 1000).data == b"text"


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400])
def test_a_folder_without_permission_does_not_look_empty(open_folder_of_nobody: Path, mode: int) -> None:
    """Its documents would be taken for deleted."""
    write(open_folder_of_nobody, "a.txt")
    closed = write(open_folder_of_nobody, "closed/b.txt").parent
    closed.chmod(mode)
    try:
        with pytest.raises(SourceUnavailable, match="/closed may not be read"):
            keys_of(open_folder(open_folder_of_nobody))
    finally:
        closed.chmod(0o700)


# A store that fails (B08)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(404, code="NoSuchKey"), Reason.NOT_FOUND),
        (Reply(403, code="AccessDenied"), Reason.ACCESS_DENIED),
        (Reply(400, code="KMS.DisabledException"), Reason.ACCESS_DENIED),
        (Reply(403, code="InvalidObjectState"), Reason.ARCHIVED),
        (Reply(503, code="SlowDown"), Reason.TIMEOUT),
        (Reply(500, code="InternalError"), Reason.TIMEOUT),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_a_refused_read_has_a_reason(failing_store: FailingStore, reply: Reply, reason: Reason) -> None:
    """Permission, archive, absence and a busy store are different things to different people."""
    assert unreadable_reason(open_failing(failing_store, reply), "a.txt") is reason


@pytest.mark.parametrize("code", ["NoSuchBucket", "ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_a_read_that_fails_for_every_object_is_no_matter_of_one(failing_store: FailingStore, code: str) -> None:
    """No document may be called missing or denied because of the settings."""
    reply = Reply(404 if code == "NoSuchBucket" else 403, code=code)
    with pytest.raises(SourceUnavailable):
        open_failing(failing_store, reply).read("a.txt", 1000)


def test_a_busy_store_is_asked_again(failing_store: FailingStore) -> None:
    """The client backs off and tries again by itself."""
    source = open_failing(failing_store, Reply(503, code="SlowDown"), Reply(body=b"alpha"), max_attempts=2)
    assert source.read("a.txt", 1000).data == b"alpha"


def test_a_body_that_breaks_off_is_fetched_again(failing_store: FailingStore) -> None:
    """The part that came is never taken for the whole."""
    broken = Reply(body=b"alp", promised_bytes=5)
    source = open_failing(failing_store, broken, broken, Reply(body=b"alpha"))
    assert source.read("a.txt", 1000).data == b"alpha"
    assert failing_store.object_requests == ["GET /docs/a.txt"] * 3


def test_a_body_that_always_breaks_off_makes_the_document_unreadable(failing_store: FailingStore) -> None:
    """After three attempts it is left for later; the object is there, so it is not missing."""
    source = open_failing(failing_store, *[Reply(body=b"alp", promised_bytes=5)] * 3)
    assert unreadable_reason(source, "a.txt") is Reason.TIMEOUT


def test_a_damaged_body_is_fetched_again(failing_store: FailingStore) -> None:
    """A store that sends a checksum is held to it."""
    checksum = (("x-amz-checksum-crc32", "AAAAAA=="),)
    source = open_failing(failing_store, Reply(body=b"alpha", headers=checksum), Reply(body=b"alpha"))
    assert source.read("a.txt", 1000).data == b"alpha"


def test_a_denied_head_does_not_mean_missing(failing_store: FailingStore) -> None:
    """Otherwise a changed policy would delete documents."""
    with pytest.raises(DocumentUnreadable, match="access_denied"):
        open_failing(failing_store, Reply(403)).head("a.txt")


def test_a_missing_object_in_a_bucket_that_cannot_be_listed_is_not_called_missing(failing_store: FailingStore) -> None:
    """A HEAD answers 404 for a missing bucket too."""
    failing_store.listing = Reply(404, code="NoSuchBucket")
    with pytest.raises(SourceUnavailable, match="does not exist"):
        open_failing(failing_store, Reply(404)).head("a.txt")


# Sources that are not there


def test_a_missing_bucket_is_named_with_what_to_do(s3: "S3Client", aws_environment: None) -> None:
    """Listing, asking and reading all say so."""
    source = open_bucket(s3, "no-such-bucket-at-all")
    for ask in (lambda: keys_of(source), lambda: source.head("a.txt"), lambda: source.read("a.txt", 1000)):
        with pytest.raises(SourceUnavailable, match=r"no-such-bucket-at-all .* create it or correct source\.url"):
            ask()


def test_a_name_no_bucket_can_have_is_named(s3: "S3Client") -> None:
    """Botocore refuses it before asking anybody."""
    with pytest.raises(SourceUnavailable, match="no bucket name"):
        keys_of(open_bucket(s3, "not a bucket!"))


def test_an_endpoint_that_nobody_answers_is_named() -> None:
    """A store that is down is no reason to call documents missing or denied."""
    source = open_bucket(make_client("http://127.0.0.1:9", max_attempts=1), "docs")
    for ask in (lambda: keys_of(source), lambda: source.head("a.txt"), lambda: source.read("a.txt", 1000)):
        with pytest.raises(SourceUnavailable, match="endpoint_url"):
            ask()


def test_missing_credentials_are_named(moto_server: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing that goes wrong on a new machine."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    source = open_source(SourceSettings(url=f"s3://{bucket}/", endpoint_url=moto_server))
    for ask in (lambda: keys_of(source), lambda: source.head("a.txt"), lambda: source.read("a.txt", 1000)):
        with pytest.raises(SourceUnavailable, match="credentials"):
            ask()


def test_the_settings_alone_open_a_bucket(s3: "S3Client", moto_server: str, bucket: str) -> None:
    """Without a client of Dagster's, one is built by the same rules."""
    fill(s3, bucket, ["a.txt"])
    source = open_source(SourceSettings(url=f"s3://{bucket}", endpoint_url=moto_server, region="us-east-1"))
    assert source.url == f"s3://{bucket}/"
    assert keys_of(source) == ["a.txt"]


@pytest.mark.parametrize("more", [{"profile": "nobody"}, {"endpoint_url": "not a url"}])
def test_a_client_that_cannot_be_made_is_named(aws_environment: None, more: dict[str, Any]) -> None:
    """A wrong profile or endpoint is found before anything is asked."""
    with pytest.raises(SourceUnavailable, match=r"source\.profile"):
        open_source(SourceSettings(url="s3://docs/", **more))


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "ftp://host/folder"])
def test_a_url_that_names_no_source_is_refused(url: str, aws_environment: None) -> None:
    """The settings are wrong, not the world."""
    with pytest.raises(SettingsError, match=r"source\.url"):
        open_source(SourceSettings(url=url))


def test_a_missing_folder_is_named_and_nothing_in_it_is_called_missing(tmp_path: Path) -> None:
    """A disk that is not mounted is no deletion."""
    source = open_folder(tmp_path / "gone")
    for ask in (lambda: keys_of(source), lambda: source.head("a.txt"), lambda: source.read("a.txt", 1000)):
        with pytest.raises(SourceUnavailable, match=r"/gone does not exist; create it or correct source\.url"):
            ask()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """The url of a single file is refused."""
    path = write(tmp_path, "a.txt")
    with pytest.raises(EnvironmentProblem, match="not a folder"):
        keys_of(open_folder(path))


def test_a_folder_replaced_while_it_is_listed_does_not_look_shorter(tmp_path: Path) -> None:
    """An unmounted disk leaves an empty folder behind."""
    folder = tmp_path / "inbox"
    for key in BULK_KEYS:
        write(folder, key)
    pages = open_folder(folder).list()
    next(pages)
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    with pytest.raises(SourceUnavailable, match="replaced"):
        list(pages)


# Never written to


def test_a_folder_is_never_written_to(full_folder: Path) -> None:
    """Names, states and bytes of the whole tree are the same afterwards."""

    def snapshot() -> dict[str, tuple[Any, ...]]:
        files = {}
        for path in sorted(full_folder.rglob("*")):
            state = path.lstat()
            data = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b""
            files[str(path)] = (state.st_mode, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns, data)
        return files

    before = snapshot()
    use_everything(open_folder(full_folder, exclude=("*.tmp",)))
    assert snapshot() == before


def test_a_bucket_is_never_written_to(s3: "S3Client", bucket: str) -> None:
    """Versions, delete markers and unfinished uploads are the same afterwards."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    fill(s3, bucket, ["a.txt", "b/c.txt", "b/"])
    s3.delete_object(Bucket=bucket, Key="a.txt")

    def snapshot() -> tuple[Any, ...]:
        versions = s3.list_object_versions(Bucket=bucket)
        uploads = s3.list_multipart_uploads(Bucket=bucket)
        return versions.get("Versions"), versions.get("DeleteMarkers"), uploads.get("Uploads")

    before = snapshot()
    use_everything(open_bucket(s3, bucket, exclude=("*.tmp",)))
    assert snapshot() == before


def use_everything(source: Source) -> None:
    """Do all that a source can be asked."""
    for key in keys_of(source):
        source.head(key)
        source.read(key, 2000)
    source.head("missing")
    unreadable_reason(source, "missing")
