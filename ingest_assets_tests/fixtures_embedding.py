"""An embedding server of its own for each test that asks for one."""

from collections.abc import Iterator

import pytest

from ingest_assets_tests.bedrock_server import BedrockServer
from ingest_assets_tests.embedding_server import EmbeddingServer


@pytest.fixture
def embedding_server() -> Iterator[EmbeddingServer]:
    """Start a server on a free port; starting takes about a millisecond."""
    with EmbeddingServer() as server:
        yield server


@pytest.fixture
def bedrock_server(aws_environment: None) -> Iterator[BedrockServer]:
    """Start an endpoint on a free port, in an environment whose AWS credentials open nothing real."""
    with BedrockServer() as server:
        yield server
