"""`ingest-assets backfill`: every document at one embedding model version.

What does not belong here: the runs themselves (`defs/`), and switching readers to the version.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest_assets.cli import run
from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import console, print_json, progress_shown
from ingest_assets.errors import Refused

if TYPE_CHECKING:
    from ingest_assets.platform import Platform

EXAMPLES = (
    "Examples: `ingest-assets backfill --model openai-small-512-v1` · "
    "`ingest-assets backfill --model openai-small-512-v1 --approve-units 500000 --json`"
)


def backfill(
    model: Annotated[str, typer.Option(help="Embedding model version, declared in the settings.")],
    approve_units: Annotated[
        int | None, typer.Option(help="Let each run send up to this many texts although the limits say less.", min=0)
    ] = None,
    as_json: JSON = False,
) -> None:
    """Embed every document that a version misses: by the running daemon, else here. Exit 1 when a check fails."""
    with platform_or_leave(as_json=as_json) as platform:
        found = _backfill(platform, model, approve_units, is_shown=not as_json)
    if as_json:
        print_json({name: value for name, value in found.items() if name != "sentence"})
    else:
        console.print(found["sentence"], highlight=False)
    raise typer.Exit(found.get("exit_code", 0))


def _backfill(platform: "Platform", version: str, approved_units: int | None, *, is_shown: bool) -> dict[str, Any]:
    from ingest_assets.defs.backfills import daemon_is_alive, request_backfill
    from ingest_assets.defs.instance import open_instance
    from ingest_assets.defs.partitions import add_documents, synchronise_versions
    from ingest_assets.embedding import uncovered_documents
    from ingest_assets.models import declare_models, lane_of
    from ingest_assets.planning import plan_all

    models = declare_models(platform.database, platform.settings.models)
    declared = next((item for item in platform.settings.models if item.version == version), None)
    if declared is None or version not in [item.version for item in models]:
        known = ", ".join(item.version for item in models)
        raise Refused(
            f"The version {version} is {'not declared' if declared is None else 'retired'}; there are: {known}."
        )
    lane = lane_of(version, models)
    keys = uncovered_documents(platform.database, version)
    plan = asdict(plan_all(platform.database, declared, lane))
    if not keys:
        return {"model": version, "documents": 0, "plan": plan, "sentence": f"Every document is covered at {version}."}
    with open_instance(platform.settings) as instance:
        synchronise_versions(instance, models)
        add_documents(instance, keys)
        if not daemon_is_alive(instance):
            return _run_here(platform, instance, version, approved_units, is_shown=is_shown)
        _refuse_second(instance, version)
        requested = request_backfill(instance, version, keys, lane, approved_units)
    return {
        **asdict(requested),
        "model": version,
        "plan": plan,
        "sentence": f"Requested backfill {requested.backfill_id} of {version}: {requested.documents} documents in "
        f"{requested.runs} runs, {plan['units']} texts to send. The daemon begins within a minute; watch it in the UI "
        "under Runs › Backfills.",
    }


def _refuse_second(instance: Any, version: str) -> None:
    from ingest_assets.defs.backfills import keys_in_backfills, unfinished_backfills

    for item in unfinished_backfills(instance):
        waiting = keys_in_backfills([item], "embed", version)
        if waiting:
            raise Refused(
                f"Backfill {item.backfill_id} is at work on {version}, {len(waiting)} documents are left; wait for "
                "it, or cancel it in the UI under Runs › Backfills. Nothing is paid for twice either way."
            )


def _run_here(
    platform: "Platform", instance: Any, version: str, approved_units: int | None, *, is_shown: bool
) -> dict[str, Any]:
    from ingest_assets.definitions import build_definitions
    from ingest_assets.defs.passes import Pass

    with progress_shown(is_shown=is_shown):
        result = Pass(platform, instance, build_definitions(), approved_units=approved_units).backfill(version)
    if is_shown:
        run.print_outcome(result)
    return {**run.result_as_json(result), "exit_code": run.exit_code(result), "model": version, "sentence": ""}
