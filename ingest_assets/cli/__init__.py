"""The command line `ingest-assets`.

What does not belong here: work; a command opens the platform, calls a plain function and prints.
Exit codes: 0 all well; 1 dead letters are open or a check fails (`run`, `status`, `verify`), or a refusal; 2 a usage or
environment error.
"""

from ingest_assets.cli.app import main

__all__ = ["main"]
