"""Tests of ingest-assets, on real parts."""
