"""Each check told a lie about the data underneath: it must see it, count it and name the offender."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from ingest_assets.checks import CHECKS
from ingest_assets.database import Database, rows
from ingest_assets.settings import SourceSettings
from ingest_assets.source import Source, open_source
from ingest_assets.verdicts import CheckContext, Verdict
from ingest_assets_tests.corpus import IngestedCorpus, ingest_corpus
from ingest_assets_tests.texts import paragraphs

Ask = Callable[..., Verdict]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, postgres: Callable[[str], str], template: str) -> IngestedCorpus:
    """Three documents, ingested once; each test gets a copy of the database."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\n" + paragraphs(number, 8))
    name = f"corpus_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    ingest_corpus(postgres(name), folder)
    return IngestedCorpus(folder, name)


@pytest.fixture
def broken(corpus: IngestedCorpus, postgres: Callable[[str], str]) -> Iterator[Database]:
    """A copy of the ingested corpus to break."""
    name = f"broken_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {corpus.database}".encode())
        with Database.connect(postgres(name)) as database:
            yield database
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def source(corpus: IngestedCorpus) -> Source:
    """The folder the corpus came from."""
    return open_source(SourceSettings(url=f"file://{corpus.folder}"))


@pytest.fixture
def ask(broken: Database, source: Source) -> Ask:
    """Run one check by name."""

    def run(name: str, *, lists_source: bool = True, run_id: str | None = None) -> Verdict:
        context = CheckContext(broken, source, deletion_grace_seconds=0, lists_source=lists_source, run_id=run_id)
        return next(check for check in CHECKS if check.name == name).run(context)

    return run


def change(database: Database, statement: str) -> None:
    """Change rows behind the platform's back."""
    with database.connection() as connection:
        assert connection.execute(statement.encode()).rowcount > 0


@pytest.mark.parametrize("check", [check.name for check in CHECKS])
def test_every_check_passes_on_an_undisturbed_index(ask: Ask, check: str) -> None:
    """A check that fails on good data would be switched off."""
    verdict = ask(check)
    assert verdict.passed, verdict.offenders
    assert verdict.counts["offenders"] == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ingest.chunk_vectors WHERE chunk_id = (SELECT chunk_id FROM ingest.chunks LIMIT 1)",
        "UPDATE ingest.embedding_runs SET embedded = embedded - 1",
        "DELETE FROM serving.publications WHERE document_id = (SELECT document_id FROM ingest.documents LIMIT 1)",
        (
            "INSERT INTO ingest.dead_letters (document_id, chunk_id, embedding_model_version, stage, reason, detail,"
            " run_id) SELECT document_id, chunk_id, 'wordllama-256-v1', 'embed', 'over_length', '', 'x'"
            " FROM ingest.chunks LIMIT 1"
        ),
    ],
    ids=["a vector is lost", "a run lies about its counts", "a publication is lost", "a vector and a letter at once"],
)
def test_count_reconciliation_sees_that_something_does_not_add_up(ask: Ask, broken: Database, statement: str) -> None:
    """Counts reconcile over the run and over the corpus."""
    change(broken, statement)
    verdict = ask("count_reconciliation")
    assert not verdict.passed
    assert verdict.counts["offenders"] == 1


@pytest.mark.parametrize(
    "statement",
    [
        (
            "UPDATE ingest.chunks SET text = text || '!' WHERE chunk_index = 0 AND document_id ="
            " (SELECT document_id FROM ingest.documents WHERE source_key = '1.md')"
        ),
        "UPDATE ingest.documents SET text = text || '!' WHERE source_key = '1.md'",
        "UPDATE serving.index_1 SET text = text || '!' WHERE source_key = '1.md' AND chunk_index = 0",
        "DELETE FROM serving.index_1 WHERE source_key = '1.md' AND chunk_index = 0",
        (
            "UPDATE ingest.chunk_vectors SET text_sha256 = 'other' WHERE chunk_id = (SELECT chunk_id"
            " FROM ingest.chunks JOIN ingest.documents USING (document_id) WHERE source_key = '1.md' LIMIT 1)"
        ),
    ],
    ids=["chunk text", "document text", "served text", "served row lost", "vector of another text"],
)
def test_hash_freshness_sees_a_text_that_is_not_the_one_that_was_embedded(
    ask: Ask, broken: Database, statement: str
) -> None:
    """Hashes are recomputed from the texts, so a changed text cannot hide behind its old hash."""
    change(broken, statement)
    verdict = ask("hash_freshness")
    assert not verdict.passed
    assert verdict.severity == "ERROR"
    assert all(item["document"] == "1.md" or len(str(item["document"])) == 36 for item in verdict.offenders)


def test_no_empty_success_sees_text_without_chunks(ask: Ask, broken: Database) -> None:
    """A document that says it is indexed and cannot be found is the worst kind."""
    change(broken, "DELETE FROM ingest.chunks WHERE document_id IN (SELECT document_id FROM ingest.documents LIMIT 1)")
    verdict = ask("no_empty_success")
    assert not verdict.passed
    assert verdict.offenders[0]["characters"] > 0


def test_source_reconciliation_sees_an_object_that_discovery_forgot(ask: Ask, broken: Database) -> None:
    """An object older than the last listing must have a document."""
    change(broken, "DELETE FROM ingest.documents WHERE source_key = '2.md'")
    verdict = ask("source_reconciliation")
    assert [item["document"] for item in verdict.offenders] == ["2.md"]


def test_source_reconciliation_sees_a_document_that_should_have_been_deleted(ask: Ask, broken: Database) -> None:
    """A deletion that was noticed must be carried out."""
    change(
        broken,
        "UPDATE ingest.documents SET deletion = 'allowed', missing_since = '2020-01-01' WHERE source_key = '2.md'",
    )
    assert [item["document"] for item in ask("source_reconciliation", lists_source=False).offenders] == ["2.md"]


def test_source_reconciliation_sees_withheld_deletions(ask: Ask, broken: Database) -> None:
    """Withheld deletions make noise until somebody decides."""
    change(broken, "UPDATE ingest.documents SET deletion = 'withheld', missing_since = now()")
    withheld = [item["document"] for item in ask("source_reconciliation").offenders]
    assert len(withheld) == len(set(withheld)) == 3


def test_unresolved_dead_letters_counts_letters_and_names_documents(ask: Ask, broken: Database) -> None:
    """The count is of letters, the table is of documents."""
    change(
        broken,
        "INSERT INTO ingest.dead_letters (document_id, stage, reason, detail, run_id)"
        " SELECT document_id, 'extract', 'encrypted', '', 'x' FROM ingest.documents",
    )
    verdict = ask("unresolved_dead_letters")
    assert (verdict.passed, verdict.severity, verdict.counts["letters"]) == (False, "WARN", 3)
    assert {item["document"] for item in verdict.offenders} == {"0.md", "1.md", "2.md"}


def test_offenders_are_counted_exactly_and_shown_capped(ask: Ask, broken: Database) -> None:
    """Ten thousand offenders are a number and a sample, not ten thousand rows of metadata."""
    change(
        broken,
        "INSERT INTO ingest.documents (document_id, source_uri, source_key, partition_key, status, text, generation)"
        " SELECT encode(substr(sha256(convert_to(x, 'UTF8')), 1, 16), 'hex')::uuid, x, x, x, 'accepted', 'text', 1"
        " FROM (SELECT 'x' || n AS x FROM generate_series(1, 500) n)",
    )
    verdict = ask("no_empty_success")
    assert (verdict.counts["offenders"], len(verdict.offenders)) == (500, 20)


def test_checks_do_not_write_into_the_source(ask: Ask, corpus: IngestedCorpus) -> None:
    """Looking changes nothing."""
    before = {path: path.stat().st_mtime_ns for path in Path(corpus.folder).iterdir()}
    ask("source_reconciliation")
    assert {path: path.stat().st_mtime_ns for path in Path(corpus.folder).iterdir()} == before


@pytest.fixture
def after_run(broken: Database, source: Source) -> Ask:
    """Run one check as a run of some documents does at its end."""

    def run(name: str, *source_keys: str) -> Verdict:
        with broken.connection() as connection:
            found = rows(connection, "ids_of_partitions", partition_keys=list(source_keys))
        documents = tuple(item["document_id"] for item in found)
        context = CheckContext(broken, source, deletion_grace_seconds=0, run_id="a run", documents=documents)
        return next(check for check in CHECKS if check.name == name).run(context)

    return run


OF_ONE = "(SELECT chunk_id FROM ingest.chunks JOIN ingest.documents USING (document_id) WHERE source_key = '1.md')"
SPOIL = f"UPDATE ingest.chunks SET text = '!' || text WHERE chunk_id IN {OF_ONE}"
BREAK = {
    "hash_freshness": SPOIL,
    "no_empty_success": f"DELETE FROM ingest.chunks WHERE chunk_id IN {OF_ONE}",
    "count_reconciliation": f"DELETE FROM ingest.chunk_vectors WHERE chunk_id IN {OF_ONE}",
}


def test_after_a_run_its_documents_are_looked_at_and_the_verdict_says_so(
    ask: Ask, after_run: Ask, broken: Database
) -> None:
    """A run of one document does not read the whole corpus, and nobody is told that it did."""
    change(broken, SPOIL)
    assert after_run("hash_freshness", "0.md").passed
    assert after_run("hash_freshness", "0.md").scope == "1 documents in full, the corpus by counters"
    assert not after_run("hash_freshness", "0.md", "1.md").passed
    assert ask("hash_freshness").scope == "everything"


@pytest.mark.parametrize("check", BREAK)
def test_a_run_of_other_documents_does_not_turn_a_check_green(
    ask: Ask, after_run: Ask, broken: Database, check: str
) -> None:
    """What was found wrong is looked at again after every run, until it is right."""
    change(broken, BREAK[check])
    assert not ask(check).passed
    assert after_run(check, "0.md").offenders[0]["document"] == "1.md"
    with broken.connection() as connection:
        [one] = connection.execute("SELECT document_id FROM ingest.documents WHERE source_key = '1.md'").fetchall()
    for table in ("ingest.documents", "serving.publications", "serving.index_1"):
        change(broken, f"DELETE FROM {table} WHERE document_id = '{one['document_id']}'")
    assert after_run(check, "0.md").passed


@pytest.mark.parametrize("table", ["ingest.chunk_vectors", "serving.index_1"])
def test_after_a_run_lost_rows_of_any_document_are_seen_by_counting(
    after_run: Ask, broken: Database, table: str
) -> None:
    """Rows that nobody looked at are counted."""
    change(broken, f"DELETE FROM {table} WHERE chunk_id = (SELECT chunk_id FROM {table} LIMIT 1)")
    [offender] = after_run("count_reconciliation").offenders
    assert offender["version"] == "wordllama-256-v1"
    assert "publications name" in offender["problem"]


def test_more_known_offenders_than_are_looked_at_again_keep_a_check_red(after_run: Ask, broken: Database) -> None:
    """A bound on the work after a run is no bound on the truth."""
    change(
        broken,
        "INSERT INTO ingest.check_offenders (check_name, document_id)"
        " SELECT 'hash_freshness', gen_random_uuid() FROM generate_series(1, 1500)",
    )
    verdict = after_run("hash_freshness", "0.md")
    assert (verdict.passed, verdict.counts["offenders"]) == (False, 500)
    assert "500 more were wrong before" in verdict.offenders[0]["problem"]
    assert after_run("hash_freshness", "0.md").passed
