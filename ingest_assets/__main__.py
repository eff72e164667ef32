"""`python -m ingest_assets` is `ingest-assets`."""

from ingest_assets.cli import main

main()
