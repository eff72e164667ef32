"""`make demo`: ingest examples/corpus, ask it three questions, then show what becomes of files that cannot be indexed.

It only runs commands that you can run yourself, and prints each before it does.
"""

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent
CORPUS, TROUBLE = EXAMPLES / "demo.toml", EXAMPLES / "trouble.toml"
PASSAGE_CHARACTERS = 360
GOOD, BAD = 0, 1


def main() -> int:
    """Run the demo and return its exit code."""
    began = time.monotonic()
    title("1. Ingest examples/corpus: documents become chunks and vectors in an embedded Postgres")
    show(CORPUS, "run", expect=GOOD)
    title("2. Ask")
    wrong = [question for question in questions() if not ask(**question)]
    title("3. Files that cannot be indexed become dead letters with a reason; nothing is lost silently")
    show(TROUBLE, "run", expect=BAD)
    reasons = ask_json(TROUBLE, "status", expect=BAD)["dead_letters"]["by_reason"]
    print("\nReasons: " + ", ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items())))
    title(f"Done in {time.monotonic() - began:.0f} s")
    print("Look further:  .venv/bin/ingest-assets --config examples/demo.toml dev    (the Dagster UI)")
    return 1 if wrong or len(reasons) != len(list((EXAMPLES / "trouble").iterdir())) else 0


def questions() -> list[dict[str, Any]]:
    """Return the sample questions with the document, and page where it has pages, that answers each."""
    return tomllib.loads((EXAMPLES / "questions.toml").read_text(encoding="utf-8"))["questions"]


def ask(text: str, document: str, answer: str, page: int | None = None) -> bool:
    """Ask one question, print the best passage, and tell whether it holds the answer, in the expected document."""
    [hit] = ask_json(CORPUS, "search", text, "-k", "1", expect=GOOD)
    where = hit["document"] + pages(hit["page_start"], hit["page_end"])
    passage = " ".join(hit["text"].split())
    print(f"\nQ: {text}\nA: {where}  (score {hit['score']:.2f})")
    print(f"   … {excerpt(passage, answer)} …")
    is_on_page = page is None or hit["page_start"] <= page <= hit["page_end"]
    return hit["document"] == document and answer in passage and is_on_page


def pages(first: int | None, last: int | None) -> str:
    """Return where in a document with pages a passage lies."""
    if first is None:
        return ""
    return f", page {first}" if first == last else f", pages {first} to {last}"


def excerpt(passage: str, answer: str) -> str:
    """Return the part of a passage that holds the answer, or its beginning where it does not."""
    middle = max(passage.find(answer), 0)
    return passage[max(0, middle - PASSAGE_CHARACTERS // 2) : middle + PASSAGE_CHARACTERS // 2]


def show(config: Path, *arguments: str, expect: int) -> None:
    """Run a command in sight."""
    run(config, *arguments, expect=expect, capture=False)


def ask_json(config: Path, *arguments: str, expect: int) -> Any:
    """Run a command with --json and return its value."""
    return json.loads(run(config, *arguments, "--json", expect=expect, capture=True))


def run(config: Path, *arguments: str, expect: int, capture: bool) -> str:
    """Run a command and leave the demo where it ends otherwise than expected."""
    shown = " ".join(f'"{part}"' if " " in part else part for part in arguments)
    print(f"$ ingest-assets --config examples/{config.name} {shown}", flush=True)
    command = [sys.executable, "-m", "ingest_assets", "--config", str(config), *arguments]
    finished = subprocess.run(command, stdout=subprocess.PIPE if capture else None, text=True, check=False)
    if finished.returncode != expect:
        print(
            finished.stdout or "",
            f"\nThe demo stopped: exit code {finished.returncode}, expected {expect}.",
            file=sys.stderr,
        )
        raise SystemExit(finished.returncode or 1)
    return finished.stdout or ""


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n=== {text} ===", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
