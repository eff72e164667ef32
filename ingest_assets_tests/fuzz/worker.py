"""Reads damaged documents one after the other in a process of its own, and says what is wrong with the answers.

What does not belong here: limits of time, and restarting after a crash (__main__.py).
"""

import resource
import sys
from itertools import count
from random import Random

from ingest_assets.errors import DocumentRejected
from ingest_assets.extract import extract
from ingest_assets.extract.normalise import normalise
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings
from ingest_assets_tests.fuzz.mutations import mutate
from ingest_assets_tests.fuzz.seeds import seeds

SETTINGS = ExtractSettings(min_characters=1)


def make_input(kind: str, seed: int, number: int, found: list[tuple[str, bytes]] | None = None) -> tuple[str, bytes]:
    """Return (key, content) of one damaged document; the same for the same arguments."""
    known = seeds(kind) if found is None else found
    random = Random(f"{kind}:{seed}:{number}")
    key, data = random.choice(known)
    return key, mutate(data, random.choice(known)[1], kind, random)


def complaint(key: str, data: bytes) -> str:
    """Return what is wrong with the answer to this document; "" where it is read or rejected as promised."""
    try:
        extracted = extract(data, key, SETTINGS)
    except DocumentRejected as rejected:
        # The step's last resort is kept, but whatever needs it deserves a reason of its own.
        return f"nobody foresaw: {rejected.detail}" if "cannot be read (" in rejected.detail else ""
    except BaseException as error:  # noqa: BLE001 - anything else is what is looked for
        return f"{type(error).__name__} escapes"
    return _broken_promise(extracted)


def _broken_promise(found: Extracted) -> str:
    places = [heading.char_start for heading in found.headings]
    promises = {
        "the text is not normalised": found.text == normalise(found.text),
        "the text is empty": bool(found.text),
        "the text is not UTF-8": found.text == found.text.encode("utf-8", "ignore").decode(),
        "a page is out of the text": all(
            0 <= page.char_start <= page.char_end <= len(found.text) for page in found.pages
        ),
        "a heading is out of the text or out of order": places == sorted(places)
        and all(0 <= place < len(found.text) for place in places),
        "a property is not one line": all(
            value and value == " ".join(value.split()) for value in found.properties.values()
        ),
    }
    return "; ".join(complaint for complaint, is_kept in promises.items() if not is_kept)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Say every number before its document is read, and `number: complaint` after a bad answer, until killed."""
    kind, seed, first, memory_limit_mb = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    known = seeds(kind)
    for number in count(first):
        key, data = make_input(kind, seed, number, known)
        _say(str(number))
        wrong = complaint(key, data)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if peak_mb > memory_limit_mb:
            wrong = f"{wrong} reading takes {peak_mb} MiB".strip()
        if wrong:
            _say(f"{number}: {wrong}")
        if peak_mb > memory_limit_mb:
            return  # the peak never falls again


if __name__ == "__main__":
    main()
