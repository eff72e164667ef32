"""A listing in pieces: it stops anywhere, goes on behind the last page that was kept, and loses no key.

What does not belong here: the shrink guard (test_discovery.py), and the listings of one source (test_source.py).
"""

import hashlib
import multiprocessing
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingest_assets.database import Database
from ingest_assets.discovery import Discovery, continue_discovery, deletable_documents, discover
from ingest_assets.errors import SourceUnavailable
from ingest_assets.settings import SourceSettings
from ingest_assets.source import Source, open_source
from ingest_assets_tests.places import BucketPlace, SmallPages

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with ten files, two of them in folders that sort between the others."""
    made = tmp_path / "source"
    for name in ("a.txt", "b.txt", "c/1.txt", "c.txt", "d.txt", "e/é 1.txt", "f.txt", "g.txt", "h.txt", "i.txt"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(f"This is {name}.")
    return made


def settings_of(folder: Path) -> SourceSettings:
    """Return settings that name a folder."""
    return SourceSettings(url=f"file://{folder}", listing_interval_seconds=0)


def step(database: Database, source: Source, folder: Path) -> Discovery | None:
    """List one page, as a tick whose time is over does."""
    return continue_discovery(database, source, settings_of(folder), seconds=0)


def finish(database: Database, source: Source, folder: Path) -> Discovery:
    """List on to the end."""
    while (found := step(database, source, folder)) is None:
        pass
    return found


def known(database: Database) -> set[str]:
    """Return keys of documents that are neither missing nor deleted."""
    with database.connection() as connection:
        found = connection.execute(
            "SELECT source_key FROM ingest.documents WHERE missing_since IS NULL AND status <> 'deleted'"
        ).fetchall()
    return {row["source_key"] for row in found}


def files(folder: Path) -> set[str]:
    """Return the keys of what is there."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_every_tick_lists_on_and_documents_come_with_their_page(database: Database, folder: Path) -> None:
    """Four ticks of three keys; nobody waits for the last one to have the first ones ingested."""
    source = SmallPages(open_source(settings_of(folder)))
    seen = []
    while (found := step(database, source, folder)) is None:
        seen.append(len(known(database)))
    assert seen == [3, 6, 9, 10]
    assert (found.objects, found.added, found.changed, found.missing) == (10, 10, 0, 0)
    assert known(database) == files(folder)


def test_nothing_is_called_missing_before_the_end(database: Database, folder: Path) -> None:
    """Half a listing says of no document that it is gone."""
    finish(database, SmallPages(open_source(settings_of(folder))), folder)
    (folder / "a.txt").unlink()
    (folder / "i.txt").unlink()
    source = SmallPages(open_source(settings_of(folder)))
    assert step(database, source, folder) is None
    assert known(database) == files(folder) | {"a.txt", "i.txt"}
    assert finish(database, source, folder).missing == 2
    assert known(database) == files(folder)


def test_keys_that_come_and_go_between_two_ticks_are_right_in_the_end(database: Database, folder: Path) -> None:
    """Before and behind the place where the listing stopped, edits and the last key itself included."""
    rng = random.Random(7)
    names = [f"{letter}{number}.txt" for letter in "abcdefghi" for number in range(3)]

    def happen(_: int) -> None:
        for name in rng.sample(names, 4):
            if (folder / name).exists() and rng.random() < 0.5:
                (folder / name).unlink()
            else:
                (folder / name).write_text(f"{name} {rng.random()}")

    for _ in range(6):
        finish(database, SmallPages(open_source(settings_of(folder)), before=happen), folder)
        discover(database, open_source(settings_of(folder)), settings_of(folder))
        assert known(database) == files(folder)
        with database.connection() as connection:
            found = connection.execute(
                "SELECT source_key, seen_size_bytes FROM ingest.documents WHERE missing_since IS NULL"
            ).fetchall()
        assert {row["source_key"]: row["seen_size_bytes"] for row in found} == {
            name: (folder / name).stat().st_size for name in files(folder)
        }


def test_a_listing_that_fails_goes_on_where_it_was(database: Database, folder: Path) -> None:
    """A network that comes back does not begin a million keys anew."""

    def fail(number: int) -> None:
        if number == 2:
            raise SourceUnavailable("the network went away")

    with pytest.raises(SourceUnavailable):
        finish(database, SmallPages(open_source(settings_of(folder)), before=fail), folder)
    again = SmallPages(open_source(settings_of(folder)))
    assert finish(database, again, folder).objects == 10
    assert again.pages == 2


def test_a_run_lists_from_the_beginning_whatever_was_listed_before(database: Database, folder: Path) -> None:
    """Who types a command now means the source as it is now."""
    step(database, SmallPages(open_source(settings_of(folder))), folder)
    (folder / "a.txt").unlink()
    found = discover(database, open_source(settings_of(folder)), settings_of(folder))
    assert (found.objects, found.missing) == (9, 1)
    assert known(database) == files(folder)


def test_one_process_lists_at_a_time(database: Database, folder: Path) -> None:
    """A tick that meets another listing leaves it alone, and one listing never counts another's pages."""
    met: list[Discovery | None] = []

    def meet(number: int) -> None:
        if number == 1:
            met.append(step(database, open_source(settings_of(folder)), folder))

    found = discover(database, SmallPages(open_source(settings_of(folder)), before=meet), settings_of(folder))
    assert met == [None]
    assert found.objects == 10


def test_another_source_begins_its_own_listing(database: Database, folder: Path, tmp_path: Path) -> None:
    """What was listed of the old one says nothing about the new one."""
    step(database, SmallPages(open_source(settings_of(folder))), folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("text")
    found = finish(database, open_source(settings_of(other)), other)
    assert (found.objects, found.added) == (1, 1)


def test_the_interval_keeps_listings_apart_until_something_is_gone(database: Database, folder: Path) -> None:
    """With events, listing all the time is not needed; what an event calls gone is judged at once."""
    settings = SourceSettings(url=f"file://{folder}", listing_interval_seconds=3600)
    source = open_source(settings)
    assert continue_discovery(database, source, settings, 60) is not None
    (folder / "new.txt").write_text("new")
    assert continue_discovery(database, source, settings, 60) is None
    assert "new.txt" not in known(database)
    with database.connection() as connection:
        connection.execute("UPDATE ingest.documents SET missing_since = now() WHERE source_key = 'a.txt'")
    assert continue_discovery(database, source, settings, 60) is not None
    assert known(database) == files(folder)


def _list_until_killed(url: str, folder: Path, page: int) -> None:
    def die(number: int) -> None:
        if number == page:
            os.kill(os.getpid(), signal.SIGKILL)

    with Database.connect(url) as database:
        finish(database, SmallPages(open_source(settings_of(folder)), before=die), folder)


@pytest.mark.parametrize("page", [0, 1, 3])
def test_killed_between_two_pages_the_next_tick_lists_on(database: Database, folder: Path, page: int) -> None:
    """The lock went with the process, and no key with it."""
    process = multiprocessing.get_context("spawn").Process(target=_list_until_killed, args=(database.url, folder, page))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    source = SmallPages(open_source(settings_of(folder)))
    assert finish(database, source, folder).objects == 10
    assert source.pages == 4 - page
    assert known(database) == files(folder)
    assert deletable_documents(database) == []


def test_a_bucket_of_two_pages_in_ticks_of_one(database: Database, s3: "S3Client", bucket: str) -> None:
    """The place where a listing stopped is a key, in the order in which the store lists; none is lost or twice."""
    place = BucketPlace(s3, bucket, "in/")
    keys = {f"{hashlib.sha256(str(number).encode()).hexdigest()[:6]} +%é{number}.txt" for number in range(1100)}
    for key in keys:
        place.put(key, b"")
    settings = SourceSettings(url=f"s3://{bucket}/in/", listing_interval_seconds=0)
    source = place.open()
    ticks = 1
    while (found := continue_discovery(database, source, settings, 0)) is None:
        ticks += 1
    assert (found.objects, found.added, ticks) == (1100, 1100, 3)
    assert known(database) == keys
    assert continue_discovery(database, source, settings, 60) == Discovery(1100, 0, 0, 0, 0)


def test_keys_with_a_zero_byte_are_documents_like_others(database: Database, s3: "S3Client", bucket: str) -> None:
    """Postgres holds no such text, so the uri escapes it, and the escape's own letter too."""
    place = BucketPlace(s3, bucket, "")
    keys = ["a\0b.txt", "a\uffff0b.txt", "a\uffffb.txt"]
    for key in keys:
        place.put(key, key.encode())
    source = place.open()
    found = discover(database, source, SourceSettings(url=f"s3://{bucket}/"))
    assert found.added == len(keys)
    for key in keys:
        place.remove(key)
    assert discover(database, source, SourceSettings(url=f"s3://{bucket}/")).missing == len(keys)
