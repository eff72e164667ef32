"""What a person sees of an embedding run while it works and afterwards: tags of the run, and lines in its log.

What does not belong here: partitions (`bookkeeping.py`), and the numbers themselves (`ledger.py`). Tags carry the plan
before the first call and the spend at the end, so the list of runs can be searched by them; one set per version.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from ingest_assets.defs.keys import VERSION_TAG
from ingest_assets.embedding import EmbeddingOutcome
from ingest_assets.planning import Plan
from ingest_assets.progress import Progress, listening

LOG_SECONDS = 10.0


def publish_plan(context: dg.AssetExecutionContext, plan: Plan) -> None:
    """Tag the run with what it is going to send."""
    tags = {
        "planned_texts": str(plan.units),
        **_unless_zero("reused_texts", plan.reused),
        "planned_tokens": str(plan.tokens),
        **({} if plan.cost is None else {"estimated_cost": f"{plan.cost:.4f}"}),
        **({} if plan.minutes is None else {"estimated_minutes": f"{plan.minutes:.1f}"}),
    }
    _tag(context, plan.model, tags)
    context.log.info("%s: plan: %s", plan.model, ", ".join(f"{value} {name}" for name, value in tags.items()))


def publish_outcome(context: dg.AssetExecutionContext, version: str, outcome: EmbeddingOutcome) -> None:
    """Tag the run with what it did and spent, and say it in its log."""
    requests = outcome.requests
    costs = [item.cost for item in outcome.spend if item.cost is not None]
    tags = {
        "embedded_texts": str(outcome.embedded),
        "sent_tokens": str(outcome.sent_tokens),
        **_unless_zero("dead_lettered_texts", outcome.dead_lettered),
        **_unless_zero("billed_tokens", requests.billed_tokens),
        **_unless_zero("rate_limited_responses", requests.rate_limited_responses),
        **_unless_zero("other_failures", requests.other_failures),
        **({"cost": f"{sum(costs):.4f}"} if costs else {}),
    }
    _tag(context, version, tags)
    spent = "; ".join(
        f"{item.origin}: {item.units} texts, {item.tokens} tokens"
        + ("" if item.cost is None else f", cost {item.cost:.4f}")
        for item in outcome.spend
    )
    summary = (
        f"{version}: planned {outcome.plan.units + outcome.plan.reused} texts, reused {outcome.reused}, embedded "
        f"{outcome.embedded} ({outcome.sent_tokens} tokens, {requests.billed_tokens} billed), dead-lettered "
        f"{outcome.dead_lettered}, left to other runs {outcome.left_to_others}, vanished {outcome.vanished}; "
        f"{requests.requests} requests, {requests.rate_limited_responses} answered with a rate limit, "
        f"{requests.other_failures} with another error. {spent or 'Nothing was sent'}."
    )
    context.log.info(summary)


@contextmanager
def logged_progress(context: dg.AssetExecutionContext, version: str) -> Iterator[None]:
    """Log how far embedding is, every ten seconds while the block runs."""
    last = time.monotonic()

    def listener(progress: Progress) -> None:
        nonlocal last
        if progress.stage != "embed" or time.monotonic() - last < LOG_SECONDS:
            return
        last = time.monotonic()
        context.log.info(
            "%s: %d texts completed, %d remaining, %d dead-lettered; %s.",
            version,
            progress.done - progress.failed,
            progress.total - progress.done,
            progress.failed,
            progress.detail,
        )

    with listening(listener):
        yield


def _unless_zero(name: str, count: int) -> dict[str, str]:
    """Return a tag that says something: each is a line in the list of runs."""
    return {name: str(count)} if count else {}


def _tag(context: dg.AssetExecutionContext, version: str, tags: dict[str, str]) -> None:
    """Write tags of one version; a run over several versions has a set for each, in names of at most 63 characters."""
    suffix = "" if context.run.tags.get(VERSION_TAG) == version else f".{version}"
    context.instance.add_run_tags(
        context.run.run_id, {f"ingest/{f'{name}{suffix}'[:63]}": value for name, value in tags.items()}
    )
