"""Ids and partition keys: the same for ever, and never shared."""

import json
import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest_assets.identity import MAX_PARTITION_KEY_BYTES, chunk_ids, document_id, partition_key, text_sha256

SCENARIOS = Path(__file__).parent / "cases" / "scenarios"
# The keys of scenario E01, with the long one as long as S3 allows.
E01_KEYS = [
    "a b.txt", "a|b.txt", "x/y/z.txt", "/abs.txt", "../up.txt", "a,b.txt", "a[1].txt", "a...b.txt", "line\nbreak.txt",
    '{"k":1}', "*", " ", "日本.txt", "k" * 1020 + ".txt",
]  # fmt: skip
any_key = st.text(st.characters(exclude_categories=()), min_size=1) | st.text("ab./ %~|\udce9é", min_size=1, max_size=8)
DOCUMENT = document_id("s3://docs-in/a.txt")


def is_safe(key: str) -> bool:
    """Say whether Dagster takes the key everywhere: in code, in its UI and in its backfill picker."""
    is_plain = re.fullmatch(r"[A-Za-z0-9/._~% -]+", key) is not None
    return is_plain and ".." not in key and key == key.strip() and len(key) <= MAX_PARTITION_KEY_BYTES


def test_a_document_id_is_the_first_half_of_the_hash_of_its_uri() -> None:
    """Anybody can compute the id of a document from its URI alone."""
    assert document_id("s3://docs-in/é.txt") == UUID(sha256("s3://docs-in/é.txt".encode()).hexdigest()[:32])


def test_ids_never_change() -> None:
    """A changed rule would orphan every stored row."""
    assert str(DOCUMENT) == "c7096f95-cc80-dfe5-dc4c-0add5920dec2"
    assert str(chunk_ids(DOCUMENT, ["alpha"])[0][0]) == "0874b494-a99c-94bb-bca8-8934aa777f67"


def test_a_chunk_keeps_its_id_when_text_is_put_before_it() -> None:
    """Positions are no part of an id, or every edit would cost the rest of the document."""
    before = dict(zip("xyz", chunk_ids(DOCUMENT, ["x", "y", "z"]), strict=True))
    after = dict(zip("nxyz", chunk_ids(DOCUMENT, ["n", "x", "y", "z"]), strict=True))
    assert {name: after[name] for name in before} == before


def test_equal_texts_of_one_document_get_different_ids_and_one_hash() -> None:
    """Each place is a chunk of its own, while the text is paid for once."""
    (first_id, first_hash), (second_id, second_hash) = chunk_ids(DOCUMENT, ["same", "same"])
    assert first_id != second_id
    assert first_hash == second_hash == text_sha256("same")


def test_equal_texts_of_two_documents_get_different_ids() -> None:
    """A chunk belongs to one document, or deleting one would empty the other."""
    assert chunk_ids(DOCUMENT, ["same"]) != chunk_ids(document_id("s3://docs-in/b.txt"), ["same"])


@pytest.mark.parametrize("key", E01_KEYS, ids=lambda key: key.encode("unicode_escape").decode()[:20])
def test_odd_keys_become_safe_partition_keys(key: str) -> None:
    """The keys that were lost, refused or turned into paths in public reports."""
    assert is_safe(partition_key(key))


def test_odd_keys_do_not_share_partition_keys() -> None:
    """Every key of the scenario has a partition of its own."""
    assert len({partition_key(key) for key in E01_KEYS}) == len(E01_KEYS)


def test_every_key_of_the_scenario_files_is_safe_and_alone() -> None:
    """The listed keys of E01 and B07, read from the files."""
    keys = json.loads((SCENARIOS / "E01.json").read_text())["object_keys"]
    keys += json.loads((SCENARIOS / "B07.json").read_text())["keys"]
    assert all(is_safe(partition_key(key)) for key in keys)
    assert len({partition_key(key) for key in keys}) == len(set(keys))


def test_ordinary_keys_are_their_own_partition_keys() -> None:
    """What people see in the UI is what they named the file."""
    for key in ("reports/2024/Q1 summary_final-2.pdf", "a.b/c~d.txt", ".keep"):
        assert partition_key(key) == key


def test_partition_keys_stay_readable() -> None:
    """Only the characters that harm are encoded, and "%" itself, without which two keys could meet."""
    assert partition_key("a|b, 100%.txt") == "a%7Cb%2C 100%25.txt"
    assert partition_key("../up...txt") == ".%2E/up.%2E%2Etxt"
    assert partition_key("  a b ") == "%20%20a b%20"
    assert partition_key("\udce9t\udce9.txt") == "%E9t%E9.txt"  # a file name in Latin-1, as Python decodes it


def test_an_empty_key_is_refused() -> None:
    """Dagster would take it and fail later."""
    with pytest.raises(ValueError, match="empty"):
        partition_key("")


@given(any_key)
def test_every_partition_key_is_safe(key: str) -> None:
    """Whatever a bucket or a file system spells."""
    assert is_safe(partition_key(key))


@given(any_key, any_key)
@example("\udcc3\udca9", "é")
@example("\ud800", "\udced\udca0\udc80")
@example("\ud83d\ude00", "😀")
@example("a..b", "a.%2Eb")
@example(" a", "%20a")
def test_two_keys_never_share_a_partition_key(one: str, other: str) -> None:
    """Two documents in one partition would overwrite each other's history."""
    assert (partition_key(one) == partition_key(other)) == (one == other)


@given(st.text(min_size=1))
def test_a_short_partition_key_decodes_to_its_key(key: str) -> None:
    """One-to-one by construction, for keys that are valid Unicode."""
    encoded = partition_key(key)
    assert "%7E" in encoded or unquote(encoded) == key


@given(st.binary(min_size=1, max_size=60))
def test_the_bytes_of_any_file_name_can_be_read_off_its_partition_key(name: bytes) -> None:
    """A name that is not UTF-8 is encoded as its own bytes."""
    assert unquote_to_bytes(partition_key(name.decode("utf-8", "surrogateescape"))) == name


@given(st.text("ab%~日. ", min_size=1, max_size=4), st.text("ab%~日. ", min_size=1, max_size=4), st.integers(500, 1100))
def test_long_keys_that_differ_only_at_the_end_stay_apart(one: str, other: str, length: int) -> None:
    """The hash of a shortened key covers all of it."""
    first, second = partition_key("k" * length + one), partition_key("k" * length + other)
    assert (first == second) == (one == other)
    assert is_safe(first)


def test_no_key_can_be_spelled_like_a_shortened_one() -> None:
    """A shortened partition key given as a source key gets another partition key."""
    shortened = partition_key("k" * 600)
    assert partition_key(shortened) != shortened
    assert partition_key(unquote(shortened)) != shortened
