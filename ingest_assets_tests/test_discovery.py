"""The shrink guard and what it decides: nothing is deleted because a source looked smaller for a moment."""

from pathlib import Path

import psycopg
import pytest

from ingest_assets.database import Database
from ingest_assets.discovery import deletable_documents, discover, is_shrink_suspicious
from ingest_assets.errors import DatabaseUnavailable
from ingest_assets.settings import SourceSettings
from ingest_assets.source import open_source


class Folder:
    """A source folder and what discovery says of it."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        folder.mkdir()

    def add(self, *names: str) -> None:
        """Put files in."""
        for name in names:
            (self.folder / name).write_text(f"This is document {name}.")

    def remove(self, *names: str) -> None:
        """Take files out."""
        for name in names:
            (self.folder / name).unlink()

    def discover(self, *, approved: bool = False) -> int:
        """List the folder; returns how many deletions are withheld."""
        settings = SourceSettings(url=f"file://{self.folder}")
        found = discover(self.database, open_source(settings), settings, are_deletions_approved=approved)
        return found.deletions_withheld

    def deletable(self) -> int:
        """Return how many documents may be deleted now."""
        return len(deletable_documents(self.database))


@pytest.fixture
def folder(tmp_path: Path, database: Database) -> Folder:
    """A hundred documents that discovery knows."""
    made = Folder(tmp_path / "source", database)
    made.add(*(f"{number}.txt" for number in range(100)))
    made.discover()
    return made


@pytest.mark.parametrize(
    ("documents", "vanished", "added", "is_suspicious"),
    [
        (100, 21, 0, True),
        (100, 20, 0, False),
        (20, 10, 0, False),
        (20, 11, 0, True),
        (200, 200, 200, False),
        (0, 0, 0, False),
    ],
)
def test_the_guard_counts_what_vanished_minus_what_came(
    documents: int, vanished: int, added: int, is_suspicious: bool
) -> None:
    """More than a fifth and more than ten; a rename is one of each."""
    assert is_shrink_suspicious(documents=documents, vanished=vanished, added=added, fraction=0.2) is is_suspicious


def test_withheld_deletions_stay_withheld_while_new_documents_come(folder: Folder) -> None:
    """Ordinary additions do not pay for an accident of yesterday."""
    folder.remove(*(f"{number}.txt" for number in range(30)))
    assert (folder.discover(), folder.deletable()) == (30, 0)
    folder.add(*(f"new {number}.txt" for number in range(40)))
    assert (folder.discover(), folder.deletable()) == (30, 0)


def test_an_approval_outlives_the_next_listing(folder: Folder) -> None:
    """A sensor that lists again before the deletions are carried out does not take the approval back."""
    folder.remove(*(f"{number}.txt" for number in range(30)))
    folder.discover()
    assert (folder.discover(approved=True), folder.deletable()) == (0, 30)
    assert (folder.discover(), folder.deletable()) == (0, 30)


def test_few_deletions_are_allowed_beside_withheld_ones(folder: Folder) -> None:
    """An accident does not stop the work of the day."""
    folder.remove(*(f"{number}.txt" for number in range(30)))
    folder.discover()
    folder.remove("50.txt")
    assert (folder.discover(), folder.deletable()) == (30, 1)


def test_a_rename_there_and_back_is_no_shrink(folder: Folder) -> None:
    """Fifty files moved away and back again are fifty renames each time."""
    names = [f"{number}.txt" for number in range(50)]
    for name in names:
        (folder.folder / name).rename(folder.folder / f"moved {name}")
    assert (folder.discover(), folder.deletable()) == (0, 50)
    for name in names:
        (folder.folder / f"moved {name}").rename(folder.folder / name)
    assert (folder.discover(), folder.deletable()) == (0, 50)


def test_what_another_source_brings_does_not_excuse_what_is_gone(folder: Folder, tmp_path: Path) -> None:
    """A wrong url in the settings does not delete a corpus that was paid for."""
    other = Folder(tmp_path / "other", folder.database)
    other.add(*(f"{number}.md" for number in range(150)))
    assert (other.discover(), other.deletable()) == (100, 0)


def test_a_listing_that_fails_midway_leaves_nothing_behind(folder: Folder) -> None:
    """The next one on the same connection is complete and exact."""
    (folder.folder / "sub").mkdir()
    settings = SourceSettings(url=f"file://{folder.folder}")

    class Broken:
        url = open_source(settings).url

        def list(self, start_after: str | None = None) -> object:
            yield next(iter(open_source(settings).list(start_after)))
            raise DatabaseUnavailable("the network went away")

    folder.remove("7.txt")
    with pytest.raises(DatabaseUnavailable):
        discover(folder.database, Broken(), settings)  # type: ignore[arg-type]
    assert folder.deletable() == 0
    folder.add("7.txt")
    assert (folder.discover(), folder.deletable()) == (0, 0)
    with folder.database.connection() as connection:
        listed = connection.execute("SELECT objects FROM ingest.source_listings ORDER BY listing_id").fetchall()
    assert listed[-1]["objects"] == 100


def test_a_deadlock_is_tried_again(database: Database) -> None:
    """The server chose this transaction as the victim; nothing is wrong with it."""
    attempts = []

    def work(connection: object) -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise psycopg.errors.DeadlockDetected
        return "done"

    assert database.transact(work) == "done"
    assert len(attempts) == 3
