"""`ingest-assets dev`: the real daemon, webserver and sensors, from a dropped file to an answer."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.fixtures_s3 import TestQueue, notification
from ingest_assets_tests.places import BucketPlace
from ingest_assets_tests.running_dev import running_dev, wait_for
from ingest_assets_tests.texts import paragraphs

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SEARCHABLE_SECONDS = 60


@pytest.mark.daemon
def test_a_dropped_file_is_searchable_changes_and_disappears_while_dev_runs(deployment: Deployment) -> None:
    """The whole platform as a person uses it, ended by Ctrl-C without a process left behind."""
    with running_dev(deployment) as dev:

        def found(text: str) -> bool:
            hits = deployment.json("search", "spare pumps on the shelf", "-k", "1")
            return bool(hits) and text in hits[0]["text"]

        deployment.write("pumps.md", "# Pumps\n\nThree spare pumps stand on the shelf.\n\n" + paragraphs(1, 6))
        wait_for(lambda: found("Three spare pumps"), SEARCHABLE_SECONDS, "the dropped document in search")
        deployment.write("pumps.md", "# Pumps\n\nSeven spare pumps stand on the shelf.\n\n" + paragraphs(1, 6))
        wait_for(lambda: found("Seven spare pumps"), SEARCHABLE_SECONDS, "the changed document in search")
        (deployment.inbox / "pumps.md").unlink()
        wait_for(
            lambda: deployment.json("search", "spare pumps on the shelf") == [], SEARCHABLE_SECONDS, "the deletion"
        )
        group = psutil.Process(dev.process.pid).children(recursive=True)
        assert group
    assert dev.process.returncode == 0
    _, alive = psutil.wait_procs(group, timeout=10)
    assert alive == []


@pytest.mark.daemon
def test_events_alone_make_an_upload_searchable_and_a_deletion_felt(
    deployment: Deployment, s3: "S3Client", moto_server: str, bucket: str, queue: TestQueue
) -> None:
    """The next listing would be tomorrow's; what no event tells of waits for it."""
    deployment.configure(
        f'[source]\nurl = "s3://{bucket}/"\nendpoint_url = "{moto_server}"\nqueue_url = "{queue.url}"\n'
        "listing_interval_seconds = 86400\ndeletion_grace_seconds = 2\n"
    )
    place = BucketPlace(s3, bucket, "")
    place.put("first.md", b"The first document is there before anything begins.")
    deployment.command("run")

    def found() -> set[str]:
        return {hit["document"] for hit in deployment.json("search", "spare pumps on the shelf", "-k", "9")}

    with running_dev(deployment):
        place.put("untold.md", b"No event tells of this one.")
        place.put("spare pumps.md", b"Three spare pumps stand on the shelf.")
        queue.send(notification("spare+pumps.md", bucket=bucket))
        wait_for(lambda: "spare pumps.md" in found(), SEARCHABLE_SECONDS, "the upload in search")
        assert found() == {"first.md", "spare pumps.md"}
        place.remove("spare pumps.md")
        queue.send(notification("spare+pumps.md", bucket=bucket, name="ObjectRemoved:Delete"))
        # A deletion brings the next listing forward, which finds the other document too.
        wait_for(lambda: found() == {"first.md", "untold.md"}, SEARCHABLE_SECONDS, "the deletion in search")
    assert queue.waiting() == 0


@pytest.mark.daemon
def test_two_daemons_at_once_do_no_harm(deployment: Deployment, embedding_server: EmbeddingServer) -> None:
    """Both notice the documents; each text is paid for once, and each document is served once."""
    deployment.configure(
        '[source]\nurl = "inbox"\n[[models]]\nversion = "v1"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\n'
        f'base_url = "{embedding_server.url}"\n'
    )
    deployment.extra_environment["OPENAI_API_KEY"] = "a-key"
    with running_dev(deployment), running_dev(deployment):
        for number in range(20):
            deployment.write(f"{number}.md", f"Note {number}. The pump of station {number} was inspected.")
        wait_for(lambda: deployment.json("status", code=None)["documents"]["complete"] == 20, 180, "all documents")
        wait_for(lambda: not deployment.query("SELECT FROM ingest.run_leases"), 60, "the end of all runs")
    notes = [text for text in embedding_server.texts if text.startswith("Note ")]
    assert sorted(notes) == sorted(set(notes))
    served = deployment.query("SELECT document_id FROM serving.index_1")
    assert len(served) == len({row["document_id"] for row in served}) == 20
    assert all(item["passed"] for item in deployment.json("verify"))


def test_a_taken_port_is_said_before_anything_starts(deployment: Deployment) -> None:
    """Exit code 2 and the option that helps."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = deployment.start("dev", "--port", str(taken.getsockname()[1]))
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--port" in errors


def test_dagsters_own_commands_load_the_workspace_on_the_instance_of_the_settings(deployment: Deployment) -> None:
    """`dagster dev -w workspace.yaml` in a checkout finds the same definitions and the same database as `dev`."""
    project = Path(__file__).parents[1]
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    ran = subprocess.run(
        command, cwd=project, env=deployment.environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    code = (
        "import sys; from dagster import DagsterInstance; from dagster._core.instance import InstanceRef\n"
        "instance = DagsterInstance.from_ref(InstanceRef.from_dir(sys.argv[1], config_dir='.'))\n"
        "print(type(instance.event_log_storage).__name__, instance.run_storage.postgres_url)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(deployment.folder)],
        cwd=project,
        env=deployment.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.stdout.split() == ["BatchingEventLogStorage", deployment.dagster_url], ran.stderr
