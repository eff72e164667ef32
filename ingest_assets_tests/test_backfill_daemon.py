"""A backfill of a new version through the real daemon, while documents come, go and fail, and processes are killed."""

from typing import Any

import pytest

from ingest_assets.checks import CHECKS as CHECKED
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.running_dev import Dev, running_dev, wait_for

DOCUMENTS = 300
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(100)
LOCAL = '[[models]]\nversion = "v1"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = 64\n'
METERED = (
    '[[models]]\nversion = "v2"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\nbase_url = "{}"\n'
    "max_batch_items = 8\nmax_concurrency = 1\n"
)
EMBEDDED = ("chunk_vectors", "dead_letters", "retrieval_index")
NOT_EMBEDDED = (
    "SELECT source_key FROM ingest.documents JOIN ingest.chunks c USING (document_id) WHERE NOT EXISTS (SELECT FROM"
    " ingest.chunk_vectors v WHERE v.chunk_id = c.chunk_id AND v.embedding_model_version = 'v2') ORDER BY source_key"
)
COUNT_OF = (
    "SELECT count(*) AS n FROM ingest.chunks JOIN ingest.documents USING (document_id) WHERE source_key = %(key)s"
)
LAUNCH = """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
CANCEL = "mutation($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename } }"
AGAIN = """mutation($id: String!) { reexecutePartitionBackfill(reexecutionParams: {
    parentRunId: $id, strategy: ALL_STEPS}) { __typename ... on LaunchBackfillSuccess { backfillId } } }"""
STATUS = "query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
PARTITIONS = """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
    assetPartitionStatuses { ... on MultiPartitionStatuses { primaryDimensionName ranges {
        primaryDimStartKey primaryDimEndKey secondaryDim { ... on DefaultPartitionStatuses {
            materializedPartitions failedPartitions } } } } } } } }"""
CHECKS = """query($key: AssetKeyInput!, $name: String!) { assetCheckExecutions(
    assetKey: $key, checkName: $name, limit: 10) { status evaluation { success description } } }"""


def body(number: int) -> str:
    """Return the one chunk of a document."""
    return f"Note {number}. The pump of station {number} was inspected, and its seal was replaced on day {number}."


def partitions(dev: Dev, asset: str, version: str) -> dict[str, set[str]]:
    """Return the documents that the UI shows green and red at a version."""
    [documents] = dev.graphql(
        'query { assetNodeOrError(assetKey: {path: ["documents"]}) { ... on AssetNode { partitionKeys } } }'
    ).values()
    keys: list[str] = documents["partitionKeys"]
    found: dict[str, set[str]] = {"green": set(), "red": set()}
    statuses = dev.graphql(PARTITIONS, key={"path": [asset]})["assetNodeOrError"]["assetPartitionStatuses"]
    for item in statuses["ranges"]:
        ends = (item["primaryDimStartKey"], item["primaryDimEndKey"])
        assert statuses["primaryDimensionName"] == "document"
        within = keys[keys.index(ends[0]) : keys.index(ends[1]) + 1]
        inner = item["secondaryDim"]
        found["green"].update(within if version in inner["materializedPartitions"] else ())
        found["red"].update(within if version in inner["failedPartitions"] else ())
    return found


def failing_checks(dev: Dev) -> dict[str, str]:
    """Return the checks whose newest result in the UI is a failure, with what it says."""
    found = {}
    for check in CHECKED:
        executions = dev.graphql(CHECKS, key={"path": [check.asset]}, name=check.name)["assetCheckExecutions"]
        newest = next(item["evaluation"] for item in executions if item["evaluation"])
        if not newest["success"]:
            found[check.name] = newest["description"]
    return found


def launch(dev: Dev) -> str:
    """Launch a backfill of every document at the new version, as the UI's partition picker does."""
    params: dict[str, Any] = {
        "assetSelection": [{"path": [name]} for name in EMBEDDED],
        "partitionNames": [f"{number:03}.md|v2" for number in range(DOCUMENTS)],
    }
    launched = dev.graphql(LAUNCH, params=params)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    return str(launched["backfillId"])


@pytest.mark.daemon
def test_a_backfill_survives_a_lost_machine_and_documents_that_change_go_come_back_or_fail(
    deployment: Deployment, embedding_server: EmbeddingServer
) -> None:
    """The version ends complete and paid for once, the UI shows what is red, and nothing of the deleted is left."""
    deployment.configure(f'[source]\nurl = "inbox"\ndeletion_grace_seconds = 2\n{LOCAL}')
    for number in range(DOCUMENTS):
        deployment.write(f"{number:03}.md", body(number))
    deployment.json("run")
    again = "000.md"
    (deployment.inbox / again).unlink()

    def is_deleted() -> bool:
        deployment.json("run")
        return not deployment.json("status", again, code=None)["chunks"]

    wait_for(is_deleted, 60, "a deletion before the backfill")
    embedding_server.seconds = 0.4
    deployment.extra_environment["OPENAI_API_KEY"] = "a-key"
    deployment.configure(
        f'[source]\nurl = "inbox"\ndeletion_grace_seconds = 2\n{LOCAL}{METERED.format(embedding_server.url)}'
    )

    def embedded() -> int:
        counted = deployment.query(
            "SELECT count(*) AS n FROM ingest.chunk_vectors WHERE embedding_model_version = 'v2'"
        )
        return int(counted[0]["n"])

    with running_dev(deployment) as dev:
        wait_for(lambda: "v2" in str(partition_versions(dev)), 60, "the new version as a partition, without a reload")
        launch(dev)
        wait_for(lambda: embedded() >= 60, 120, "a fifth of the backfill")
        dev.kill()
    paid = embedding_server.billed_items
    poisonous, edited, gone, rejected = (item["source_key"] for item in deployment.query(NOT_EMBEDDED)[:4])
    embedding_server.poison.add(body(int(poisonous.removesuffix(".md"))))
    deployment.write(edited, body(1001))
    (deployment.inbox / gone).unlink()
    (deployment.inbox / rejected).write_bytes(PICTURE)
    deployment.write(again, body(0))

    def is_done() -> bool:
        left = {item["source_key"] for item in deployment.query(NOT_EMBEDDED)}
        return left <= {poisonous, rejected} and deployment.json("status", code=None)["documents"]["pending"] == 0

    with running_dev(deployment) as dev:
        wait_for(is_done, 240, "every document but one at the new version")
        wait_for(lambda: not deployment.json("status", gone, code=None)["chunks"], 60, "the deletion")
        shown = wait_for(lambda: settled(dev, poisonous), 120, "green and red partitions")
        # Results are as old as the last run, which may have looked while a letter was being tried again: run once more.
        deployment.write("new.md", body(2002))
        wait_for(lambda: is_covered(deployment, "new.md"), 90, "a document that was added at the end")
        assert is_covered(deployment, again)
        failing = wait_for(lambda: failing_checks(dev), 60, "the results of the checks")
    rest = {f"{number:03}.md" for number in range(DOCUMENTS)} - {gone, poisonous, rejected}
    assert rest <= shown["green"]
    assert shown["red"] == {poisonous}
    assert set(failing) == {"unresolved_dead_letters"}, failing
    assert embedding_server.billed_items <= DOCUMENTS + 2 + 8  # the edit, the one at the end, and what was in flight
    assert paid < DOCUMENTS
    [found] = deployment.query(COUNT_OF, {"key": gone})
    assert found["n"] == 0


@pytest.mark.daemon
def test_a_backfill_that_is_cancelled_in_the_ui_keeps_what_was_paid_and_goes_on_when_executed_again(
    deployment: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Nothing is left out, and nothing sent twice but the request that was under way."""
    deployment.configure(f'[source]\nurl = "inbox"\n{LOCAL}')
    for number in range(DOCUMENTS):
        deployment.write(f"{number:03}.md", body(number))
    deployment.json("run")
    embedding_server.seconds = 0.4
    deployment.extra_environment["OPENAI_API_KEY"] = "a-key"
    deployment.configure(f'[source]\nurl = "inbox"\n{LOCAL}{METERED.format(embedding_server.url)}')

    def kept() -> int:
        return DOCUMENTS - len(deployment.query(NOT_EMBEDDED))

    with running_dev(deployment) as dev:

        def status(backfill_id: str) -> str:
            return str(dev.graphql(STATUS, id=backfill_id)["partitionBackfillOrError"]["status"])

        wait_for(lambda: "v2" in partition_versions(dev), 60, "the new version as a partition, without a reload")
        first = launch(dev)
        wait_for(lambda: kept() >= 60, 120, "a fifth of the backfill")
        assert dev.graphql(CANCEL, id=first)["cancelPartitionBackfill"]["__typename"] == "CancelBackfillSuccess"
        wait_for(lambda: status(first) == "CANCELED", 120, "the end of the cancelled backfill")
        assert kept() >= 60
        again = dev.graphql(AGAIN, id=first)["reexecutePartitionBackfill"]
        assert again["__typename"] == "LaunchBackfillSuccess", again
        assert again["backfillId"] != first
        wait_for(lambda: status(again["backfillId"]) == "COMPLETED_SUCCESS", 240, "the backfill executed again")
        shown = partitions(dev, "chunk_vectors", "v2")
    assert shown == {"green": {f"{number:03}.md" for number in range(DOCUMENTS)}, "red": set()}
    assert kept() == DOCUMENTS
    assert embedding_server.billed_items <= DOCUMENTS + 8


def partition_versions(dev: Dev) -> list[str]:
    """Return the versions that the partition picker offers."""
    found = dev.graphql(
        'query { assetNodeOrError(assetKey: {path: ["chunk_vectors"]}) { ... on AssetNode {'
        " partitionKeysByDimension { name partitionKeys } } } }"
    )
    return [
        key
        for dimension in found["assetNodeOrError"]["partitionKeysByDimension"]
        if dimension["name"] == "embedding_model_version"
        for key in dimension["partitionKeys"]
    ]


def is_covered(deployment: Deployment, key: str) -> bool:
    """Tell whether a document is embedded at both versions."""
    found = deployment.query(
        "SELECT count(*) AS n FROM ingest.embedding_coverage JOIN ingest.documents USING (document_id, generation)"
        " WHERE source_key = %(key)s",
        {"key": key},
    )
    return bool(found == [{"n": 2}])


def settled(dev: Dev, poisonous: str) -> dict[str, set[str]] | None:
    """Return the partitions at the new version once the poisonous one is red."""
    shown = partitions(dev, "chunk_vectors", "v2")
    return shown if shown["red"] == {poisonous} and len(shown["green"]) >= DOCUMENTS - 3 else None
