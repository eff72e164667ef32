"""Fixtures every test may ask for."""

pytest_plugins = ["ingest_assets_tests.fixtures_s3"]
