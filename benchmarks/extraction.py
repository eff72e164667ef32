"""Extraction on the manuals of Debian packages: what is read, how fast, in how much memory, and how truly.

What does not belong here: documents in the tree. Packages are downloaded into a temporary folder with `apt-get`, and
unpacked there; on a machine without them, name files or folders on the command line. Speed is measured in a process
of its own for each document and library, beside bare pypdfium2 and bare pypdf, as the least CPU time of a few runs by
turns, because a neighbour on the machine only ever adds to it; truth is measured against `pdftotext` (poppler-utils),
page by page, as the Jaccard index of the sets of words.
"""

import argparse
import gzip
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

import pypdfium2 as pdfium

from ingest_assets.errors import DocumentRejected
from ingest_assets.extract import extract
from ingest_assets.extract.normalise import normalise
from ingest_assets.extract.pdf_running import without_running_lines
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

RESULTS = Path(__file__).parent / "results.md"
PACKAGES = (
    "asymptote-doc", "bash-doc", "debian-policy", "debian-reference-en", "gnuplot-doc", "octave-doc", "pari-doc",
    "sbcl-doc",
)  # fmt: skip
LARGE_PAGES = 150  # a document of fewer is too short to be timed
RUNS = 3  # of ours and of pypdfium2, by turns
PYPDF_PAGES = 20  # of each document that bare pypdf reads: it is slow
HTML_PAGES = 300  # that are read at most
TRUE = 0.95  # Jaccard index of an ordinary page
WORST = 10
WORD = re.compile(r"\w+")
SETTINGS = ExtractSettings()

# A fresh process, so that the peak is this document's and nobody else's.
CHILD = """
import json, re, sys, time
from pathlib import Path
way, path, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
data = path.read_bytes()
if way == "ours":
    from ingest_assets.extract import extract
    from ingest_assets.settings import ExtractSettings
elif way == "pypdfium2":
    import pypdfium2
else:
    import io, logging, pypdf
    logging.disable()
began = time.process_time()
if way == "ours":
    count = len(extract(data, path.name, ExtractSettings()).pages)
elif way == "pypdfium2":
    document = pypdfium2.PdfDocument(data)
    count = len(document)
    for page in document:
        text_page = page.get_textpage()
        text_page.get_text_range()
        text_page.close()
        page.close()
else:
    pages = pypdf.PdfReader(io.BytesIO(data)).pages
    count = min(limit, len(pages))
    for index in range(count):
        pages[index].extract_text()
seconds = time.process_time() - began
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps({"pages": count, "seconds": seconds, "peak_mib": peak}))
"""


def main() -> None:
    """Measure, print, and write into results.md when asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders, in place of the packages")
    parser.add_argument("--write", action="store_true", help="append to results.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = given.paths or [fetched(Path(folder))]
        found = [path for root in paths for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
        pdfs = [path for path in found if path.suffix == ".pdf" and path.is_file() and not path.is_symlink()]
        html = [path for path in found if path.suffix in (".html", ".htm") and path.is_file()][:HTML_PAGES]
        if not pdfs:
            print("No PDF was found: this machine cannot download Debian packages; name files on the command line.")
            return
        rows = [*success(pdfs, html), "", *speed(pdfs), "", *truth(pdfs)]
    if given.write:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write("\n## Extraction of Debian's manuals\n\n" + "\n".join(rows) + "\n")


def fetched(folder: Path) -> Path:
    """Download and unpack the packages; those that the network does not have are left out."""
    (folder / "unpacked").mkdir()
    for package in PACKAGES:
        done = subprocess.run(["apt-get", "download", "-q", package], cwd=folder, capture_output=True, check=False)
        if done.returncode:
            print(f"{package} cannot be downloaded; it is left out.")
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", archive, folder / "unpacked" / archive.name.partition("_")[0]], check=True)
    for packed in (folder / "unpacked").rglob("*.pdf.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder / "unpacked"


def shown(row: str) -> str:
    """Print a row as soon as it is known."""
    print(row, flush=True)
    return row


def success(pdfs: list[Path], html: list[Path]) -> list[str]:
    """Read every file; a refusal is named."""
    rows = [shown("| files | read | refused | files a second |"), shown("|---|---|---|---|")]
    for name, files in (("PDF", pdfs), ("HTML", html)):
        began, refused = time.process_time(), []
        for path in files:
            try:
                extract(path.read_bytes(), path.name, SETTINGS)
            except DocumentRejected as rejected:
                refused.append(f"{path.name}: {rejected.reason}")
        rate = len(files) / max(1e-9, time.process_time() - began)
        rows.append(shown(f"| {name} | {len(files) - len(refused)} | {len(refused)} | {rate:.0f} |"))
        rows += [shown(f"| {row.partition(': ')[0]} | | {row.partition(': ')[2]} | |") for row in refused[:WORST]]
    return rows


def measured(way: str, path: Path) -> dict[str, float]:
    """Read one document in a process of its own."""
    command = [sys.executable, "-c", CHILD, way, str(path), str(PYPDF_PAGES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def speed(pdfs: list[Path]) -> list[str]:
    """Return pages a second of one core and peak memory of long documents."""
    rows = [
        shown("| document | pages | ours: s, pages/s, MiB | pypdfium2: pages/s, MiB | pypdf: pages/s | of pypdfium2 |"),
        shown("|---|---|---|---|---|---|"),
    ]
    ratios, pages, seconds, bare = [], 0.0, 0.0, 0.0
    for path in (path for path in pdfs if len(pdfium.PdfDocument(path)) >= LARGE_PAGES):
        runs = [(measured("ours", path), measured("pypdfium2", path)) for _ in range(RUNS)]
        ours, theirs = (min(found, key=lambda run: run["seconds"]) for found in zip(*runs, strict=True))
        slow = measured("pypdf", path)
        ratios.append(theirs["seconds"] / ours["seconds"])
        pages, seconds, bare = pages + ours["pages"], seconds + ours["seconds"], bare + theirs["seconds"]
        rates = [item["pages"] / item["seconds"] for item in (ours, theirs, slow)]
        rows.append(
            shown(
                f"| {path.name} | {ours['pages']} | {ours['seconds']:.2f}, {rates[0]:.0f}, {ours['peak_mib']:.0f} "
                f"| {rates[1]:.0f}, {theirs['peak_mib']:.0f} | {rates[2]:.0f} | {ratios[-1]:.2f} |"
            )
        )
    if ratios:
        rows.append(
            shown(f"| **all** | {pages:.0f} | {seconds:.1f}, {pages / seconds:.0f} | | | {bare / seconds:.2f} |")
        )
    return rows


def truth(pdfs: list[Path]) -> list[str]:
    """Compare the words of every page with pdftotext, running titles taken out of both in the same way."""
    if shutil.which("pdftotext") is None:
        return [shown("pdftotext (Debian: poppler-utils) is not installed: nothing was compared.")]
    scores: list[tuple[float, str, int]] = []
    for path in pdfs:
        try:
            found = extract(path.read_bytes(), path.name, SETTINGS)
        except DocumentRejected:
            continue
        done = subprocess.run(["pdftotext", "-enc", "UTF-8", path, "-"], capture_output=True, check=False)
        theirs = done.stdout.decode("utf-8", "replace").split("\f")[: len(found.pages)]
        if len(theirs) == len(found.pages):
            scores += compared(path, found, without_running_lines([normalise(page) for page in theirs]))
    values = sorted(score for score, _, _ in scores)
    share = sum(value >= TRUE for value in values) / max(1, len(values))
    rows = [
        shown(f"{len(values)} pages against pdftotext: median {statistics.median(values):.3f},"),
        shown(f"{share:.1%} of the pages at {TRUE} or above. The worst:"),
        "",
        shown("| Jaccard | document | page |"),
        shown("|---|---|---|"),
    ]
    return rows + [shown(f"| {score:.2f} | {name} | {number} |") for score, name, number in sorted(scores)[:WORST]]


def compared(path: Path, found: Extracted, theirs: list[str]) -> list[tuple[float, str, int]]:
    """Return (score, file, page number) of every page with words."""
    scores = []
    for page, other in zip(found.pages, theirs, strict=True):
        ours = words(found.text[page.char_start : page.char_end])
        reference = words(other)
        if ours | reference:
            scores.append((len(ours & reference) / len(ours | reference), path.name, page.number))
    return scores


def words(text: str) -> set[str]:
    """Return the words of a text, composed and without case."""
    return set(WORD.findall(unicodedata.normalize("NFKC", text).lower()))


if __name__ == "__main__":
    main()
