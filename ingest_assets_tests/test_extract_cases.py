"""Every case file gives its expected outcome; the cases were drawn from public bug reports.

What does not belong here: rules about chunks, and inputs made in code (test_extract.py).
"""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest_assets.errors import DocumentRejected
from ingest_assets.extract import extract
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

CASES = Path(__file__).parent / "cases"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text())
BOMBS = sorted(name for name, case in EXPECTED.items() if "max_rss_mb" in case)

# A fresh process, so that the peak is this document's and nobody else's.
_MEASURE = """
import re, sys
from pathlib import Path
from ingest_assets.errors import DocumentRejected
from ingest_assets.extract import extract
from ingest_assets.settings import ExtractSettings
path = Path(sys.argv[1])
try:
    extract(path.read_bytes(), path.name, ExtractSettings())
except DocumentRejected:
    pass
# Not getrusage: its peak begins with that of the process that forked this one.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@cache
def outcome(name: str) -> Extracted | DocumentRejected:
    """Extract a case file once for all tests that look at it."""
    try:
        return extract((CASES / "files" / name).read_bytes(), name, ExtractSettings())
    except DocumentRejected as rejected:
        return rejected


def problems(case: dict[str, Any], extracted: Extracted) -> list[str]:
    """Return what is wrong with an accepted text, as sentences."""
    text = extracted.text
    found = [f"lacks {part!r}" for part in case["must_contain"] if part not in text]
    found += [f"holds {part!r}" for part in case["must_not_contain"] if part in text]
    found += [f"holds {part!r} not once" for part in case.get("must_contain_once", ()) if text.count(part) != 1]
    places = [text.find(part) for part in case.get("in_order", ())]
    found += ["parts are out of order"] if places != sorted(places) or -1 in places else []
    found += [
        f"differs from {other}"
        for other in case.get("same_text_as", ())
        if getattr(outcome(other), "text", None) != text
    ]
    text.encode("utf-8")
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_case_file_gives_its_expected_outcome(name: str, record_property: Any) -> None:
    """Accepted with the right text, or rejected with the right reason, never anything between."""
    case, result = EXPECTED[name], outcome(name)
    right = [(case["outcome"], case["reason"])]
    right += [
        (other["outcome"], other.get("reason")) for other in case.get("also_acceptable", ()) if "only_if" not in other
    ]
    if isinstance(result, DocumentRejected):
        assert ("rejected", str(result.reason)) in right, result
        return
    assert ("ok", None) in right, result.text[:200]
    assert problems(case, result) == []
    missed = [part for part in case.get("best_contain", ()) if part not in result.text]
    record_property("best_missed", missed)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_stays_within_its_memory(name: str) -> None:
    """A few kilobytes must not take the worker's memory."""
    command = [sys.executable, "-c", _MEASURE, str(CASES / "files" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < EXPECTED[name]["max_rss_mb"]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_rejection_quotes_no_content(name: str) -> None:
    """Details go into dead letters, which hold references, never copies."""
    result = outcome(name)
    if isinstance(result, DocumentRejected):
        assert re.fullmatch(r"[\x20-\x7e…]{10,200}", result.detail)
