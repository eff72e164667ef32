"""Another embedding model version: readers are switched when nothing is missing, and there is a way back."""

import threading
from collections.abc import Callable, Iterator

import dagster as dg
import psycopg
import pytest

from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.resources import PlatformResource, close_process_platform, process_platform
from ingest_assets.defs.sensors import embedding_sensor
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.fixtures_kept import Kept
from ingest_assets_tests.texts import paragraphs

MODELS = [
    f'[[models]]\nversion = "v{size}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {size}\n'
    for size in (256, 64)
]
DOCUMENTS = {f"{number}.md": f"# Note {number}\n\n" + paragraphs(number, 3) for number in range(3)}
SOURCE = '[source]\nurl = "inbox"\ndeletion_grace_seconds = 2\n'


@pytest.fixture(scope="module")
def kept(keeper: Callable[[dict[str, str]], Kept]) -> Kept:
    """Run a deployment once with one version, and once with two: most tests begin where one of these ended."""
    kept = keeper(DOCUMENTS)
    kept.make("one", SOURCE + MODELS[0])
    kept.make("both", SOURCE + "".join(MODELS))
    return kept


@pytest.fixture
def one(kept: Kept) -> Iterator[Deployment]:
    """A deployment that serves one version, and has declared another that nothing is embedded at."""
    with kept.deployment("one", SOURCE + "".join(MODELS)) as deployment:
        yield deployment


@pytest.fixture
def two(kept: Kept) -> Iterator[Deployment]:
    """A deployment that serves one version, and has embedded everything at another as well."""
    with kept.deployment("both", SOURCE + "".join(MODELS)) as deployment:
        yield deployment


def active(deployment: Deployment) -> list[str]:
    """Return the versions that serve readers, as readers see them."""
    return [item["version"] for item in deployment.query("SELECT version FROM serving.active_model")]


def served_text(deployment: Deployment, key: str) -> str:
    """Return what readers who name no version are served of a document."""
    [model] = deployment.query("SELECT number FROM serving.active_model")
    rows = deployment.query(
        f"SELECT text FROM serving.index_{model['number']} WHERE source_key = %(key)s ORDER BY chunk_index",
        {"key": key},
    )
    return "\n".join(row["text"] for row in rows)


def test_a_version_that_is_not_complete_is_refused_with_all_that_is_missing(one: Deployment) -> None:
    """Each line has a number and the command that mends it; readers notice nothing."""
    found = one.json("models", "activate", "v64", code=1)
    assert found["switched"] is False
    missing = {item["what"]: item for item in found["missing"]}
    assert missing["documents"]["count"] == 3
    assert {"documents", "publications", "canary"} <= missing.keys()
    assert missing["documents"]["command"] == "ingest-assets backfill --model v64"
    assert active(one) == ["v256"]
    assert "unknown" in one.json("models", "activate", "v1", code=1)["error"]
    assert "no version to return to" in one.json("models", "rollback", code=1)["error"]


def test_readers_are_switched_and_an_edit_after_it_is_served_after_the_rollback(two: Deployment) -> None:
    """Both versions are kept fed between activation and retirement."""
    assert two.json("models", "activate", "v64", "--check")["missing"] == []
    assert active(two) == ["v256"]
    assert two.json("models", "activate", "v64")["previous"] == "v256"
    assert active(two) == ["v64"]
    two.write("1.md", "# Note 1\n\nThe impeller was replaced by one of bronze after the flood of spring.\n")
    two.json("run")
    assert "bronze" in served_text(two, "1.md")
    returned = two.json("models", "rollback")
    assert (returned["version"], returned["previous"], returned["behind"]) == ("v256", "v64", 0)
    assert active(two) == ["v256"]
    assert "bronze" in served_text(two, "1.md")
    assert two.json("models", "rollback")["version"] == "v64"


def test_a_version_whose_served_rows_were_changed_by_hand_is_refused(two: Deployment) -> None:
    """The checks that gate the switch look at this version in full."""
    [model] = two.query("SELECT number FROM ingest.embedding_models WHERE version = 'v64'")
    two.query(f"UPDATE serving.index_{model['number']} SET text = 'forged' WHERE source_key = '2.md'")
    [missing] = two.json("models", "activate", "v64", code=1)["missing"]
    assert (missing["what"], missing["count"]) == ("hash_freshness", 1)
    assert active(two) == ["v256"]


def test_the_active_version_is_never_retired_and_another_goes_with_everything(two: Deployment) -> None:
    """Its tables are gone, the other serves, and a label that is still declared is ignored."""
    two.json("models", "activate", "v64")
    assert "serves readers" in two.json("models", "retire", "v64", code=1)["error"]
    done = two.json("models", "retire", "v256")
    assert (done["publications"], done["declared"]) == (3, True)
    assert two.query("SELECT to_regclass('serving.index_1') AS t, to_regclass('ingest.chunk_vectors_1') AS v") == [
        {"t": None, "v": None}
    ]
    assert "no version to return to" in two.json("models", "rollback", code=1)["error"]
    two.write("new.md", "# New\n\n" + paragraphs(9, 2))
    two.json("run")
    assert set(two.json("status")["vectors"]) == {"v64"}
    assert served_text(two, "new.md") != ""
    assert two.json("models", "retire", "v256")["publications"] == 0


def test_a_label_that_is_retired_and_still_declared_is_named_once_and_ignored(
    two: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every command that speaks of versions, and by the sensor, which warns when it first sees it."""
    two.json("models", "retire", "v64")
    assert two.json("status")["models"]["ignored"] == ["v64"]
    plan = two.json("plan")
    assert (plan["ignored"], [item["model"] for item in plan["versions"]]) == (["v64"], ["v256"])
    assert two.json("run")["totals"]["models"]["ignored"] == ["v64"]
    assert "retired" in two.json("plan", "--model", "v64", code=1)["error"]
    assert "never comes back" in two.json("models", "activate", "v64", code=1)["error"]
    listed = [(item["version"], item["status"], item["documents"]) for item in two.json("models", "list")]
    assert listed == [("v256", "active", 3), ("v64", "retired", 0)]
    output, said = two.start("plan").communicate()
    assert "v256" in output
    assert said.count("Declared, but retired, and ignored: v64.") == 1
    for name, value in two.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    with open_instance(process_platform().settings) as instance:
        resources = {"platform": PlatformResource()}
        with dg.build_sensor_context(instance=instance, resources=resources) as context:
            first = embedding_sensor.evaluate_tick(context)
    close_process_platform()
    assert first.run_requests == []
    assert "ignored: v64" in str(first.skip_message)
    assert "ignored: v64" in str(first.cursor)


@pytest.mark.parametrize("step", ["closed", "detaching", "detached", "dropped"])
def test_a_retirement_that_was_broken_off_is_finished_by_the_next(two: Deployment, step: str) -> None:
    """Whatever a kill left behind: a label without rows, a partition half detached, or a table on its own."""
    two.query("UPDATE ingest.embedding_models SET status = 'retired', retired_at = now() WHERE version = 'v64'")
    if step == "detaching":
        # A reader that began before keeps the second half waiting until its server process is told to stop.
        with psycopg.connect(two.database_url) as reader, psycopg.connect(two.database_url, autocommit=True) as other:
            reader.execute("SELECT count(*) FROM ingest.chunk_vectors")
            other.execute("SET lock_timeout = '300ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("ALTER TABLE ingest.chunk_vectors DETACH PARTITION ingest.chunk_vectors_2 CONCURRENTLY")
        assert two.query("SELECT 1 AS found FROM pg_inherits WHERE inhdetachpending") == [{"found": 1}]
    elif step != "closed":
        two.query("ALTER TABLE ingest.chunk_vectors DETACH PARTITION ingest.chunk_vectors_2 CONCURRENTLY")
    if step == "dropped":
        two.query("DROP TABLE ingest.chunk_vectors_2")
    two.json("models", "retire", "v64")
    found = two.query("SELECT to_regclass('serving.index_2') AS t, to_regclass('ingest.chunk_vectors_2') AS v")
    assert found == [{"t": None, "v": None}]
    assert all(item["passed"] for item in two.json("verify"))


def test_a_writer_of_another_version_goes_on_while_a_long_reader_holds_up_a_retirement(two: Deployment) -> None:
    """The reader began before; the retirement gives its locks back, and ends after the reader."""
    with psycopg.connect(two.database_url) as reader, psycopg.connect(two.database_url, autocommit=True) as writer:
        reader.execute("SELECT count(*) FROM ingest.chunk_vectors")
        retiring = threading.Thread(target=two.start("models", "retire", "v64").wait)
        retiring.start()
        writer.execute("SET statement_timeout = '5s'")
        while not writer.execute("SELECT 1 FROM ingest.embedding_models WHERE status = 'retired'").fetchall():
            pass
        for _ in range(200):
            writer.execute("UPDATE ingest.chunk_vectors SET run_id = 'written' WHERE embedding_model_version = 'v256'")
        assert retiring.is_alive()
        reader.rollback()
        retiring.join()
    assert two.query("SELECT to_regclass('serving.index_2') AS t") == [{"t": None}]


def test_a_rebuilt_index_serves_what_was_served_and_sends_nothing(two: Deployment) -> None:
    """Rows that were forged are mended, a document whose newer text is unreadable keeps its old one, leftovers go."""
    before = served_text(two, "1.md")
    two.write("1.md", b"\x00\x01\x02")
    two.json("run", code=1)
    two.query("UPDATE serving.index_1 SET text = 'forged' WHERE source_key = '2.md'")
    two.query("CREATE TABLE serving.index_1_rebuilt (left_by_a_kill integer)")
    spent = two.query("SELECT count(*) AS n FROM ingest.embedding_runs")
    done = two.json("rebuild-index")
    assert (done["version"], done["documents"]) == ("v256", 3)
    assert served_text(two, "1.md") == before
    assert "forged" not in served_text(two, "2.md")
    assert two.query("SELECT count(*) AS n FROM ingest.embedding_runs") == spent
    assert two.query("SELECT to_regclass('serving.index_1_rebuilt') AS t") == [{"t": None}]
    assert two.json("search", "note", "-k", "1", code=0)
    assert {item["check"]: item["passed"] for item in two.json("verify", code=1)}["hash_freshness"]


def test_readers_go_on_while_an_index_is_rebuilt_again_and_again(two: Deployment) -> None:
    """No answer is empty or fails, and no row is lost by a swap."""
    count = two.query("SELECT count(*) AS n FROM serving.index_1")[0]["n"]
    is_over, answers, failures = threading.Event(), [], []

    def read() -> None:
        try:
            while not is_over.is_set():
                answers.append(two.query("SELECT count(*) AS n FROM serving.index_1")[0]["n"])
        except psycopg.Error as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(3):
            two.json("rebuild-index")
    finally:
        is_over.set()
        reader.join()
    assert failures == []
    assert set(answers) == {count}
