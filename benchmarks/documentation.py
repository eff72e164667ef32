"""Real documentation: web pages of Debian packages, or the examples where packages cannot be downloaded.

What does not belong here: measuring. Nothing stays on the machine.
"""

import random
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ingest_assets.errors import DocumentRejected
from ingest_assets.extract import extract
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

EXAMPLES = Path(__file__).parents[1] / "examples" / "corpus"
PACKAGES = (
    "postgresql-doc-15", "python3.11-doc", "git-doc", "debian-policy", "debian-reference-en", "rsyslog-doc",
    "sqlite3-doc", "linux-doc-6.1",
)  # fmt: skip
LEAST_CHARACTERS, MOST_CHARACTERS = 2_000, 200_000  # of a page: no mere lists of links, no whole books
SETTINGS = ExtractSettings(main_content=True)


@dataclass(frozen=True, slots=True)
class Manual:
    """One page of documentation."""

    key: str
    extracted: Extracted


def manuals(most: int, seed: int) -> list[Manual]:
    """Return at most so many pages, drawn from all packages by the seed, in the order of their keys."""
    with tempfile.TemporaryDirectory() as folder:
        root = _downloaded(Path(folder))
        paths = [path for path in sorted(root.rglob("*.*")) if path.is_file() and not path.is_symlink()]
        if root != EXAMPLES:  # packages hold the sources of their pages, too
            paths = [path for path in paths if path.suffix == ".html"]
        random.Random(seed).shuffle(paths)
        found: dict[str, Manual] = {}
        for path in paths:
            if len(found) == most:
                break
            try:
                extracted = extract(path.read_bytes(), path.name, SETTINGS)
            except DocumentRejected:
                continue
            if LEAST_CHARACTERS <= len(extracted.text) <= MOST_CHARACTERS or root == EXAMPLES:
                found.setdefault(extracted.text, Manual(str(path.relative_to(root)), extracted))
    return sorted(found.values(), key=lambda manual: manual.key)


def _downloaded(folder: Path) -> Path:
    for package in PACKAGES:
        done = subprocess.run(["apt-get", "download", "-q", package], cwd=folder, capture_output=True, check=False)
        if done.returncode:
            print(f"{package} cannot be downloaded; it is left out.", flush=True)
    (folder / "unpacked").mkdir()
    archives = list(folder.glob("*.deb"))
    for archive in archives:
        subprocess.run(["dpkg-deb", "-x", archive, folder / "unpacked" / archive.name.partition("_")[0]], check=True)
    if not archives:
        print("Measured on the examples, which are few.", flush=True)
    return folder / "unpacked" if archives else EXAMPLES
