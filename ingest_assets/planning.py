"""The plan of an embedding run: what would be sent, what it costs, how long it takes, and whether it is allowed.

What does not belong here: sending. Everything here is known before anything is spent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingest_assets.database import Database, one
from ingest_assets.errors import Reason, Refused
from ingest_assets.records import Lane
from ingest_assets.settings import LimitSettings, ModelSettings


@dataclass(frozen=True, slots=True)
class Plan:
    """What embedding would send at one version, before anything is spent."""

    model: str
    units: int  # distinct texts that will be sent
    reused: int  # distinct texts that have a vector already and are copied
    tokens: int  # of the units, in the chunker's measure
    cost: float | None  # None where no price is set
    minutes: float | None  # at the rate of the account or the lane's share of it; None where no rate is set


def estimate(settings: ModelSettings, *, units: int, reused: int, tokens: int, lane: Lane = "incremental") -> Plan:
    """Price a number of units and tokens at a version's settings; minutes are of a lane that has its share alone."""
    price, rates = settings.price_per_million_tokens, []
    share = settings.backfill_share if lane == "backfill" else 1.0
    if settings.tokens_per_minute:
        rates.append(tokens / settings.tokens_per_minute)
    if settings.requests_per_minute:
        requests = max(units / settings.max_batch_items, tokens / settings.max_batch_tokens)
        rates.append(requests / settings.requests_per_minute)
    cost = None if price is None else tokens * price / 1_000_000
    return Plan(settings.version, units, reused, tokens, cost, max(rates) / share if rates else None)


def plan_documents(database: Database, settings: ModelSettings, queue: Mapping[str, Any], lane: Lane) -> Plan:
    """Return what embedding a queue would send; `queue` holds the parameters of `ingest.embedding_queue`."""
    with database.connection() as connection:
        found = one(connection, "plan_queue", **queue)
    return estimate(
        settings,
        units=found["units"] - found["known_units"],
        reused=found["known_units"],
        tokens=found["tokens"] - found["known_tokens"],
        lane=lane,
    )


def plan_all(database: Database, settings: ModelSettings, lane: Lane = "incremental") -> Plan:
    """Return what embedding everything that is chunked would send at a version."""
    with database.connection() as connection:
        watermark = one(connection, "current_watermark")
    return plan_documents(database, settings, {"version": settings.version, "document_ids": None, **watermark}, lane)


def refuse_over_limits(limits: LimitSettings, plan: Plan, approved_units: int | None) -> None:
    """Return where a plan is within the limits, or approved.

    Raises:
        Refused: `over_budget`; the message has the number and the way to approve it.
    """
    if approved_units is not None and plan.units <= approved_units:
        return
    approval = (
        f"approve it with `ingest-assets run --approve-units {plan.units}`, "
        f"or in the run config of the UI with `approved_units: {plan.units}`."
    )
    if plan.units > limits.max_units_per_run:
        raise Refused(
            f"{Reason.OVER_BUDGET}: this run would send {plan.units} texts, limits.max_units_per_run is "
            f"{limits.max_units_per_run}; {approval}"
        )
    if plan.cost is not None and limits.max_cost_per_run is not None and plan.cost > limits.max_cost_per_run:
        raise Refused(
            f"{Reason.OVER_BUDGET}: this run would cost {plan.cost:.2f}, limits.max_cost_per_run is "
            f"{limits.max_cost_per_run:.2f}; {approval}"
        )
