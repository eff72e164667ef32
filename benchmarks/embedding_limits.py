"""Figures on a server that limits: how much of the budget is used (a), and who waits for whom (e).

What does not belong here: starting things (`embedding_setup.py`) and what the server counts (`metering.py`).
"""

import statistics
import time

from embedding_corpus import insert_documents
from embedding_section import Section
from embedding_setup import Json, MeteredServer, Setup, figures, wait_until

TOKENS_PER_MINUTE, REQUESTS_PER_MINUTE = 600_000, 1200
LIMITS = {"tokens_per_minute": TOKENS_PER_MINUTE, "requests_per_minute": REQUESTS_PER_MINUTE}
BUDGET_SECONDS, QUICK_BUDGET_SECONDS = 28, 12
WARM_SECONDS, TAIL_SECONDS = 3.0, 1.5  # left out at either end of a load
SHORT_WORDS, LONG_WORDS = 36, 150
ARRIVALS, QUICK_ARRIVALS = 8, 4
PAUSE_SECONDS = 1.5
TARGET_USE, TARGET_LIMITED, TARGET_DELAY_SECONDS = 0.97, 0.01, 2.0


def budget_use(setup: Setup) -> Section:
    """Measure how much of the account's limit a load uses, by one process and by three on one queue."""
    seconds = QUICK_BUDGET_SECONDS if setup.is_quick else BUDGET_SECONDS
    texts = int(TOKENS_PER_MINUTE / 60 * seconds / SHORT_WORDS)
    corpus = setup.database()
    insert_documents(setup.url(corpus), texts // 20, 20, SHORT_WORDS, setup.seed)
    section = Section(
        "use of a limit",
        f"{TOKENS_PER_MINUTE:,} tokens and {REQUESTS_PER_MINUTE:,} requests a minute (seed {setup.seed})",
        f"{texts:,} texts. The server's buckets hold one second. Used: tokens let in / tokens allowed, from "
        f"{WARM_SECONDS:.0f} s after the first to {TAIL_SECONDS} s before the last. Target: at least {TARGET_USE}, "
        f"under {TARGET_LIMITED:.0%} answered 429, nothing paid twice.",
        ("429 says when", "processes", "used", "requests", "answered 429", "tokens each", "load / ideal", "paid again"),
    )
    for processes in (1, 3):
        for says_when in (True, False):
            section.add(*_budget_row(setup, corpus, processes, says_when=says_when))
    setup.drop(corpus)
    return section


def _budget_row(setup: Setup, corpus: str, processes: int, *, says_when: bool) -> tuple[object, ...]:
    name = setup.database(corpus)
    with MeteredServer(**LIMITS, retry_after=says_when) as server:
        job = {"url": setup.url(name), "model": server.model(**LIMITS)}
        running = [setup.start("embed", **job) for _ in range(processes)]
        found = [figures(process) for process in running]
        stats, log = server.stats(), server.log()
    assert sum(item["embedded"] for item in found) == stats["distinct_texts"]
    setup.drop(name)
    admitted = [(at, tokens) for at, _, tokens, is_in in log if is_in]
    refused = [at - log[0][0] for at, _, _, is_in in log if not is_in]
    load = stats["last_answer_at"] - stats["first_request_at"]
    ideal = stats["billed_tokens"] / (TOKENS_PER_MINUTE / 60)
    return (
        "yes" if says_when else "no",
        processes,
        f"{_use(admitted):.3f}",
        stats["requests"],
        f"{len(refused)} ({len(refused) / len(log):.1%})" + (f", first at {refused[0]:.1f} s" if refused else ""),
        f"{stats['billed_tokens'] / len(admitted):.0f}",
        f"{load:.1f} s / {ideal:.1f} s",
        stats["billed_again"],
    )


def _use(admitted: list[tuple[float, int]]) -> float:
    """Return tokens let in / allowed over the steady window, from one admission (left out) to another (counted)."""
    first, last = admitted[0][0] + WARM_SECONDS, admitted[-1][0] - TAIL_SECONDS
    window = [(at, tokens) for at, tokens in admitted if first <= at <= last]
    if len(window) < 2:
        return float("nan")
    return sum(tokens for _, tokens in window[1:]) / (window[-1][0] - window[0][0]) * 60 / TOKENS_PER_MINUTE


def lanes(setup: Setup) -> Section:
    """Measure how long a new document waits for its vectors, alone and while a backfill uses its share."""
    name = setup.database()
    arrivals = QUICK_ARRIVALS if setup.is_quick else ARRIVALS
    # Enough for the backfill to outlast the arrivals many times over: it is ended with them.
    insert_documents(setup.url(name), 1500, 10, LONG_WORDS, setup.seed)
    with MeteredServer(**LIMITS) as server:
        job = {
            "url": setup.url(name),
            "model": server.model(**LIMITS),
            "documents": arrivals,
            "pause_seconds": PAUSE_SECONDS,
            "chunks_each": 10,
            "mean_words": LONG_WORDS,
        }
        alone = setup.run("arrivals", **job, seed=setup.seed + 1000)["waits"]
        server.reset()
        backfill = setup.start(
            "embed", url=job["url"], lane="backfill", model=server.model(**LIMITS, version="metered-384-v2")
        )
        wait_until(lambda: server.stats()["requests"] > 0, backfill)
        time.sleep(WARM_SECONDS)
        before = {**server.stats(), "at": time.monotonic()}
        beside = setup.run("arrivals", **job, seed=setup.seed + 2000)["waits"]
        after = {**server.stats(), "at": time.monotonic()}
        is_beside = backfill.poll() is None
        backfill.kill()
        backfill.communicate()
    setup.drop(name)
    return _lanes_section(setup, alone, beside, before, after, is_beside=is_beside)


def _lanes_section(
    setup: Setup, alone: list[float], beside: list[float], before: Json, after: Json, *, is_beside: bool
) -> Section:
    section = Section(
        "a new document beside a backfill",
        f"the same limits (seed {setup.seed})",
        f"{len(alone)} documents of 10 chunks one after the other, from their commit to their publication. Target: the "
        f"median grows by less than {TARGET_DELAY_SECONDS:.0f} s.",
        ("figure", "median", "worst"),
    )
    median = statistics.median
    tokens = after["billed_tokens"] - before["billed_tokens"] - len(beside) * 10 * LONG_WORDS
    section.add("alone", f"{median(alone):.2f} s", f"{max(alone):.2f} s")
    note = "" if is_beside else " (which ended early)"
    section.add(f"beside a backfill{note}", f"{median(beside):.2f} s", f"{max(beside):.2f} s")
    section.add("growth", f"{median(beside) - median(alone):.2f} s", f"{max(beside) - max(alone):.2f} s")
    section.add(
        "share of the limit that the backfill used",
        f"{tokens / (after['at'] - before['at']) * 60 / TOKENS_PER_MINUTE:.2f}",
        "",
    )
    limited, requests = (after[name] - before[name] for name in ("answered_429", "requests"))
    section.add("requests answered 429", f"{limited} of {requests}", "")
    return section
