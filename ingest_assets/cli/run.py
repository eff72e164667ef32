"""`ingest-assets run`: one pass without a daemon.

What does not belong here: the pass itself (`defs/passes.py`).
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest_assets.cli.context import JSON, ignored_or_said, platform_or_leave
from ingest_assets.cli.output import console, errors, print_json, print_table, progress_shown
from ingest_assets.status import totals
from ingest_assets.verdicts import Verdict

if TYPE_CHECKING:
    from ingest_assets.defs.passes import PassResult
    from ingest_assets.platform import Platform

EXAMPLES = (
    "Examples: `ingest-assets run` · `ingest-assets run --json` · `ingest-assets run --approve-deletions` · "
    "`ingest-assets run --approve-units 500000`"
)


def run(
    approve_deletions: Annotated[
        bool, typer.Option("--approve-deletions", help="Carry out deletions that were withheld as suspicious.")
    ] = False,
    approve_units: Annotated[
        int | None, typer.Option(help="Send up to this many texts although the limits say less.", min=0)
    ] = None,
    as_json: JSON = False,
) -> None:
    """Discover, ingest, embed, publish, delete and check, once.

    Exit 1 while dead letters are open, a check fails, or objects could not be read and wait for another attempt.
    """
    with platform_or_leave(as_json=as_json) as platform:
        result = _execute(platform, approve_deletions=approve_deletions, approve_units=approve_units, as_json=as_json)
        found = totals(platform.database)
        found["models"]["ignored"] = ignored_or_said(platform, as_json=as_json)
    if as_json:
        print_json({**result_as_json(result), "totals": found})
    else:
        print_totals(found)
        print_outcome(result)
    # What could not be read is tried again; until then the index lacks something that the source has.
    raise typer.Exit(max(exit_code(result), 1 if found["source"]["unreadable"] else 0))


def exit_code(result: "PassResult") -> int:
    """Return 2 when the surroundings stopped a run, 1 when something needs a look, 0 when all is well."""
    if any(item.cause == "environment" for item in result.failed_runs):
        return 2
    is_well = not result.failed_runs and all(verdict.passed for verdict in result.checks)
    return 0 if is_well else 1


def verdicts_as_json(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    """Return check results as `verify --json` shows them."""
    return [
        {
            "check": verdict.check,
            "asset": verdict.asset,
            "passed": verdict.passed,
            "severity": verdict.severity,
            "metadata": {
                "summary": verdict.summary,
                "scope": verdict.scope,
                **({} if verdict.passed else {"remedy": verdict.remedy}),
                **verdict.counts,
                "sample": list(verdict.offenders),
            },
        }
        for verdict in verdicts
    ]


def print_verdicts(verdicts: list[Verdict]) -> None:
    """Print check results for people, offenders below."""
    lines = [("passed" if item.passed else "FAILED", item.check, item.asset, item.summary) for item in verdicts]
    print_table("Checks", ("result", "check", "asset", ""), lines)
    for verdict in verdicts:
        if verdict.offenders:
            columns = list(dict.fromkeys(name for item in verdict.offenders for name in item))
            lines = [tuple(item.get(name) for name in columns) for item in verdict.offenders]  # type: ignore[misc]
            print_table(f"{verdict.check}: {verdict.summary}", columns, lines)
            console.print(verdict.remedy, highlight=False)


def print_totals(found: dict[str, Any]) -> None:
    """Print the totals of the corpus."""
    documents = found["documents"]
    lines: list[tuple[Any, ...]] = [
        ("documents", documents["total"], _detail(documents, ("complete", "pending", "partial", "rejected"))),
        ("chunks", found["chunks"], ""),
        *(("vectors", count, _served(version, found)) for version, count in found["vectors"].items()),
        ("dead letters", found["dead_letters"]["open"], _detail(found["dead_letters"]["by_reason"])),
    ]
    print_table("Corpus", ("", "count", ""), lines)
    source = found["source"]
    if source["unreadable"]:
        errors.print(
            f"Not readable so far: {_detail(source['unreadable'])}. Tried again after {source['next_attempt_at']}, "
            "and given up as dead letters after three attempts; `ingest-assets status DOCUMENT` says more.",
            style="yellow",
            highlight=False,
        )
    if found["undelivered_alerts"]:
        errors.print(
            f"{found['undelivered_alerts']} alerts wait for their address; `ingest-assets alerts list` says why.",
            style="yellow",
            highlight=False,
        )
    if source["messages_set_aside"]:
        errors.print(
            f"Queue messages that could not be read: {_detail(source['messages_set_aside'])}; "
            "`ingest-assets messages list` shows them.",
            style="yellow",
            highlight=False,
        )
    if found["embedding_runs"]:
        columns = ("model", "lane", "completed", "remaining", "dead_lettered", "rate_limited_responses")
        working = [tuple(item[name] for name in columns) for item in found["embedding_runs"]]
        print_table("Embedding now", [name.replace("_", " ") for name in columns], working)


def _execute(
    platform: "Platform", *, approve_deletions: bool, approve_units: int | None, as_json: bool
) -> "PassResult":
    # Dagster takes about two seconds to import; commands that do not need it do not wait for it.
    from ingest_assets.definitions import build_definitions
    from ingest_assets.defs.instance import open_instance
    from ingest_assets.defs.passes import Pass

    with open_instance(platform.settings) as instance, progress_shown(is_shown=not as_json):
        return Pass(
            platform,
            instance,
            build_definitions(),
            are_deletions_approved=approve_deletions,
            approved_units=approve_units,
        ).execute()


def result_as_json(result: "PassResult") -> dict[str, Any]:
    """Return what a pass did, as `run --json` shows it."""
    return asdict(result) | {"documents": len(result.documents), "checks": verdicts_as_json(result.checks)}


def print_outcome(result: "PassResult") -> None:
    """Print what a pass did, and what needs a look."""
    seen = result.discovery
    print_verdicts(result.checks)
    console.print(
        f"Listed {seen.objects} objects: {seen.added} new, {seen.changed} changed, {seen.missing} missing. "
        f"Ingested {result.ingested}, rejected {result.rejected}, deleted {result.deleted} documents.",
        highlight=False,
    )
    console.print(_embedding_sentence(result), highlight=False)
    if seen.deletions_withheld:
        errors.print(
            f"{seen.deletions_withheld} deletions are withheld: the source shrank suspiciously. If that is right: "
            "ingest-assets run --approve-deletions",
            style="yellow",
        )
    for item in result.replaced_runs:
        errors.print(f"Run {item} had died; it was reported as failed and its work was taken over.", style="yellow")
    for failed in result.failed_runs:
        errors.print(f"Run {failed.run_id} stopped: {failed.message}", style="red", markup=False, highlight=False)


def _embedding_sentence(result: "PassResult") -> str:
    if not result.planned and not result.failed_runs:
        return "Nothing to embed: 0 texts sent."
    costs = [item["cost"] for item in result.spend if item["cost"] is not None]
    price = f", cost {sum(costs):.4f}" if costs else ""
    trouble = (
        f" The provider answered {result.rate_limited_responses} times with a rate limit and {result.other_failures} "
        "times with another error."
    )
    return (
        f"Embedded {result.embedded} texts ({result.sent_tokens} tokens sent{price}), reused {result.reused}, "
        f"dead-lettered {result.dead_lettered}, left to other runs {result.left_to_others}."
        + (trouble if result.rate_limited_responses or result.other_failures else "")
    )


def _served(version: str, found: dict[str, Any]) -> str:
    return f"{version}, serves readers" if version == found["models"]["active"] else version


def _detail(counts: dict[str, int], names: tuple[str, ...] | None = None) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in names or counts if counts[name])
