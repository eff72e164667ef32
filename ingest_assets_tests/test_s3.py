"""The main job on a bucket, over HTTP."""

from pathlib import Path
from typing import Any

from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

CORPUS = Path(__file__).parents[1] / "examples" / "corpus"


def test_a_bucket_becomes_an_index_and_stays_true_to_it(
    deployment: Deployment, moto_server: str, s3: Any, bucket: str, aws_environment: None
) -> None:
    """Upload, edit, delete: the index follows, and the bucket is only read."""
    deployment.configure(f'[source]\nurl = "s3://{bucket}/inbound/"\nendpoint_url = "{moto_server}"\n')
    keys = ["inbound/pumps.md", "inbound/odd + key, 50%|é.txt"]
    s3.put_object(
        Bucket=bucket,
        Key=keys[0],
        Body=b"# Pumps\n\nThree spare pumps are kept in Halden.\n\n" + paragraphs(1, 6).encode(),
    )
    s3.put_object(Bucket=bucket, Key=keys[1], Body=("The tariff is 412 crowns a year. " + paragraphs(2, 6)).encode())
    s3.put_object(Bucket=bucket, Key="inbound/", Body=b"")
    s3.put_object(Bucket=bucket, Key="elsewhere/secret.md", Body=b"Not part of the source at all, whatever it says.")
    before = s3.list_objects_v2(Bucket=bucket)["Contents"]
    deployment.command("run")
    status = deployment.json("status")
    assert status["documents"]["complete"] == status["documents"]["total"] == status["source"]["objects"] == 2
    assert deployment.json("search", "three spare pumps are kept in Halden", "-k", "1")[0]["document"] == "pumps.md"
    shown = deployment.json("show", "odd + key, 50%|é.txt")
    assert "412 crowns" in shown["text"]
    assert deployment.json("status", f"s3://{bucket}/{keys[1]}")["status"] == "complete"
    assert s3.list_objects_v2(Bucket=bucket)["Contents"] == before

    s3.put_object(
        Bucket=bucket,
        Key=keys[0],
        Body=b"# Pumps\n\nNine spare pumps are kept in Moss.\n\n" + paragraphs(1, 6).encode(),
    )
    s3.delete_object(Bucket=bucket, Key=keys[1])
    result = deployment.json("run")
    assert result["deleted"] == 1
    assert "Nine spare pumps" in deployment.json("search", "nine spare pumps are kept in Moss", "-k", "1")[0]["text"]
    assert deployment.json("status")["documents"]["total"] == 1


def test_a_bucket_that_does_not_exist_is_said_with_what_to_do(
    deployment: Deployment, moto_server: str, aws_environment: None
) -> None:
    """Exit code 2, one sentence, nothing written."""
    deployment.configure(f'[source]\nurl = "s3://no-such-bucket/in/"\nendpoint_url = "{moto_server}"\n')
    assert "no-such-bucket" in deployment.json("run", code=2)["error"]
    assert deployment.query("SELECT 1 FROM ingest.source_listings") == []


def test_the_example_corpus_gives_the_same_index_from_a_bucket_as_from_a_folder(
    deployment: Deployment, moto_server: str, s3: Any, bucket: str, aws_environment: None
) -> None:
    """Five formats, through HTTP and from disk: the same texts, chunks and vectors."""
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    for path in files:
        s3.put_object(Bucket=bucket, Key=f"docs/{path.relative_to(CORPUS).as_posix()}", Body=path.read_bytes())
    deployment.configure(f'[source]\nurl = "s3://{bucket}/docs/"\nendpoint_url = "{moto_server}"\n')
    deployment.command("run")
    assert deployment.json("status")["documents"]["complete"] == len(files)
    content = (
        "SELECT d.source_key, c.chunk_index, c.text, c.page_start, c.heading, v.embedding::text FROM ingest.documents d"
        " JOIN ingest.chunks c USING (document_id, generation) JOIN ingest.chunk_vectors v USING (chunk_id)"
        " ORDER BY 1, 2"
    )
    from_bucket = deployment.query(content)
    deployment.configure(f'[source]\nurl = "{CORPUS}"\n')
    moved = deployment.json("run", "--approve-deletions")
    assert (moved["embedded"], moved["deleted"]) == (0, len(files))
    assert deployment.query(content) == from_bucket
    [best] = deployment.json("search", "How much is the yearly standing charge for a 25 mm water meter?", "-k", "1")
    assert (best["document"], "96.50" in best["text"]) == ("web/tariffs.html", True)
