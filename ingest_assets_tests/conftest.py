"""Fixtures every test may ask for: a list of the modules that hold them."""

pytest_plugins = [
    "ingest_assets_tests.fixtures_database",
    "ingest_assets_tests.fixtures_deployment",
    "ingest_assets_tests.fixtures_embedding",
    "ingest_assets_tests.fixtures_kept",
    "ingest_assets_tests.fixtures_s3",
]
