"""Which version serves readers: activation when nothing is missing, and the way back.

What does not belong here: building a version (`embedding.py`), and declaring one (`models.py`).
"""

from collections.abc import Collection
from dataclasses import dataclass

from ingest_assets.checks import CHECKS
from ingest_assets.database import Connection, Database, one, row, rows, run
from ingest_assets.errors import Refused
from ingest_assets.models import ANN_INDEX_ROWS, ModelVersion, all_models
from ingest_assets.verdicts import CheckContext

GATES = ("count_reconciliation", "hash_freshness")  # checks that must pass before a version serves


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that keeps a version from serving."""

    what: str
    count: int
    sentence: str
    command: str  # what mends it


@dataclass(frozen=True, slots=True)
class Switch:
    """What readers are served now, and what they were served before."""

    version: str
    previous: str | None  # None where nothing served, or the version served already
    behind: int  # documents that the previous version serves newer than this one


def missing_for(context: CheckContext, model: ModelVersion, declared: Collection[str]) -> list[Missing]:
    """Return everything that keeps a version from serving, each with its number and the command that mends it."""
    backfill = f"ingest-assets backfill --model {model.version}"
    rebuild = f"ingest-assets rebuild-index --model {model.version}"
    missing: list[Missing] = []
    if model.version not in declared:
        sentence = f"{model.version} is not declared in the settings: new documents would never reach it."
        missing.append(Missing("declaration", 1, sentence, f"add {model.version} to [[models]] in the settings"))
    with context.database.connection() as connection:
        missing += _missing_documents(connection, model, _active(rows(connection, "select_models")), backfill)
        sample = one(connection, "select_sample_size", version=model.version)
        if not (sample["is_known"] and sample["texts"]):
            sentence = "Its client was never recorded with a sample that would prove another one."
            missing.append(Missing("canary", 1, sentence, backfill))
        [served] = rows(connection, "count_serving_rows", {"serving": model.serving})
        has_index = row(connection, "has_ann_index", serving=model.serving_name) is not None
        if served["found"] >= ANN_INDEX_ROWS and not has_index:
            sentence = f"{served['found']} passages have no HNSW index: search would be exact and slow."
            missing.append(Missing("ann_index", served["found"], sentence, rebuild))
    return missing + _failing_checks(context, model)


def activate(context: CheckContext, version: str, declared: Collection[str]) -> Switch:
    """Switch readers to a version in one transaction; a version that serves already is left as it is.

    Raises:
        Refused: the version is unknown, retired, or something is missing; the message has all of it.
    """
    model = _known(context.database, version)
    if model.status == "active":
        return Switch(version, None, 0)
    refuse_incomplete(version, missing_for(context, model, declared))

    def switch(connection: Connection) -> Switch:
        run(connection, "bound_lock_wait")
        served = _active(rows(connection, "lock_model_versions"))
        # What was published since the look above counts, too.
        refuse_incomplete(
            version, _missing_documents(connection, model, served, f"ingest-assets backfill --model {version}")
        )
        _switch(connection, version)
        return Switch(version, served, 0)

    return context.database.transact(switch)


def rollback(database: Database) -> Switch:
    """Give readers back to the version that served before, at once; a second rollback returns from the first.

    Raises:
        Refused: no other version that is not retired ever served.
    """

    def switch(connection: Connection) -> Switch:
        run(connection, "bound_lock_wait")
        served = _active(rows(connection, "lock_model_versions"))
        previous = row(connection, "previous_model")
        if previous is None:
            raise Refused(
                "There is no version to return to: no other one that is not retired ever served. "
                "`ingest-assets models list` shows them; `ingest-assets models activate` switches to one."
            )
        version = previous["version"]
        behind = one(connection, "count_documents_behind", version=version, served=served)
        _switch(connection, version)
        return Switch(version, served, behind["unembedded"] + behind["withheld"])

    return database.transact(switch)


def refuse_incomplete(version: str, missing: Collection[Missing]) -> None:
    """Return where nothing is missing.

    Raises:
        Refused: the message lists what is missing and what mends it.
    """
    if missing:
        lines = "\n".join(f"- {item.sentence} Mend it: {item.command}" for item in missing)
        raise Refused(f"{version} cannot serve yet, and readers stay where they are:\n{lines}")


def _switch(connection: Connection, version: str) -> None:
    run(connection, "stand_by")
    run(connection, "activate_model", version=version)


def _active(models: Collection[dict[str, str]]) -> str | None:
    return next((item["version"] for item in models if item["status"] == "active"), None)


def _known(database: Database, version: str) -> ModelVersion:
    models = {model.version: model for model in all_models(database)}
    model = models.get(version)
    if model is None or model.status == "retired":
        known = ", ".join(item.version for item in models.values() if item.status != "retired")
        state = "unknown" if model is None else "retired and never comes back: declare its model under another label"
        raise Refused(f"The version {version} is {state}; there are: {known}.")
    return model


def _missing_documents(connection: Connection, model: ModelVersion, served: str | None, backfill: str) -> list[Missing]:
    found = one(connection, "count_documents_behind", version=model.version, served=served)
    missing: list[Missing] = []
    if found["unembedded"]:
        sentence = f"{found['unembedded']} documents that are served now are not embedded as they are now."
        missing.append(Missing("documents", found["unembedded"], sentence, backfill))
    if found["withheld"]:
        sentence = f"{found['withheld']} documents that are served now are withheld for their dead letters."
        missing.append(Missing("dead_letters", found["withheld"], sentence, "ingest-assets dead-letters list"))
    if not one(connection, "count_publications", version=model.version)["documents"]:
        missing.append(Missing("publications", 1, "It serves no document at all.", backfill))
    return missing


def _failing_checks(context: CheckContext, model: ModelVersion) -> list[Missing]:
    missing: list[Missing] = []
    for check in CHECKS:
        if check.name in GATES:
            offenders = [
                item for item in check.judge(context).offenders if item.get("version") in {None, model.version}
            ]
            if offenders:
                sentence = f"The check {check.name} fails with {len(offenders)} offenders."
                missing.append(Missing(check.name, len(offenders), sentence, check.command))
    return missing
