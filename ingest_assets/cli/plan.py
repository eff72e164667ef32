"""`ingest-assets plan`: what the next run will send and cost, before anything is spent.

What does not belong here: how it is foreseen (`changes.py`) and priced (`planning.py`).
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ingest_assets.cli.context import JSON, ignored_or_said, platform_or_leave
from ingest_assets.cli.output import console, print_json, print_table, progress_shown
from ingest_assets.errors import Refused
from ingest_assets.models import lane_of, live_models, served_model
from ingest_assets.platform import Platform
from ingest_assets.settings import ModelSettings

if TYPE_CHECKING:
    from ingest_assets.changes import Changes, VersionPlan

EXAMPLES = (
    "Examples: `ingest-assets plan` · `ingest-assets plan --model openai-small-512-v1 --json` · after another "
    "`chunker.max_tokens` in the settings: `ingest-assets plan`"
)


def plan(
    model: Annotated[str | None, typer.Option(help="Embedding model version; default: every declared one.")] = None,
    as_json: JSON = False,
) -> None:
    """Show texts, tokens, cost and minutes before anything is spent, a change of chunker or extractor included.

    Documents that wait for another chunker are cut from stored text; those that wait for another extractor are read.
    Nothing is sent to a provider, and nothing is recorded.
    """
    from ingest_assets.changes import plan_changes  # loads every reader of documents

    with platform_or_leave(as_json=as_json) as platform, progress_shown(is_shown=not as_json):
        served, wanted = _wanted(platform, model)
        ignored = ignored_or_said(platform, as_json=as_json)
        models = live_models(platform.database)
        lanes = [(item, lane_of(item.version, models)) for item in wanted]
        changes, plans = plan_changes(platform.database, platform.source, platform.settings, lanes)
    first = next((item for item in plans if item.plan.model == served), plans[0])
    if as_json:
        versions = [item.as_json() for item in plans]
        print_json({**asdict(first.plan), "changes": asdict(changes), "versions": versions, "ignored": ignored})
    else:
        _print_plan(changes, plans)


def _wanted(platform: Platform, version: str | None) -> tuple[str, list[ModelSettings]]:
    """Return the version that readers use, and those to plan for."""
    declared, models = platform.settings.models, live_models(platform.database)
    live = {item.version for item in models}
    served = served_model([item for item in models if item.version in {model.version for model in declared}])
    wanted = [item for item in declared if item.version in ({version} if version else live)]
    if not wanted:
        raise Refused(
            f"The version {version} is not declared in the settings."
            if version
            else "Every declared version is retired; declare one that is not."
        )
    if version and version not in live:
        raise Refused(f"The version {version} is retired: nothing is embedded at it any more.")
    return version or (served.version if served else wanted[0].version), wanted


def _print_plan(changes: "Changes", plans: "list[VersionPlan]") -> None:
    if changes.rechunked or changes.reextracted or changes.unreadable:
        failed = f", {changes.rejected} of them cannot be indexed" if changes.rejected else ""
        failed += f"; {changes.unreadable} could not be read for this plan" if changes.unreadable else ""
        console.print(
            f"The chunker or the extractor changed: {changes.rechunked} documents are chunked again from stored text, "
            f"{changes.reextracted} are extracted again from the source{failed}. Together they have {changes.chunks} "
            "chunks; what is served now is served until they are embedded.",
            highlight=False,
        )
    if changes.unread:
        console.print(
            f"{changes.unread} new or changed documents are not in these numbers: nobody has read them yet.",
            highlight=False,
        )
    columns = ("model", "texts to send", "texts reused", "tokens", "cost", "minutes", "changed chunks with new text")
    print_table("Plan", columns, [_line(item) for item in plans])


def _line(item: "VersionPlan") -> tuple[object, ...]:
    found = item.plan
    cost = "no price set" if found.cost is None else f"{found.cost:.4f}"
    minutes = "no rate set" if found.minutes is None else f"{found.minutes:.1f}"
    return (found.model, found.units, found.reused, found.tokens, cost, minutes, item.new_chunks)
