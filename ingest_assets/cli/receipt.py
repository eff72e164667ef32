"""`ingest-assets receipt`: the proof that a deleted document is gone at every embedding model version.

What does not belong here: what is counted (`receipts.py`).
"""

from typing import Annotated, Any

import typer

from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import console, errors, print_json, print_table
from ingest_assets.receipts import prove_deletion

EXAMPLES = "Examples: `ingest-assets receipt manuals/pump.pdf` · `ingest-assets receipt manuals/pump.pdf --json`"


def receipt(
    document: Annotated[str, typer.Argument(help="Key, URI or id of a document that was deleted.")],
    as_json: JSON = False,
) -> None:
    """Prove that a document was deleted: when, why, how many rows, and that none is left at any version.

    Exit 1 when it was never seen, is not deleted, or when anything is left.
    """
    with platform_or_leave(as_json=as_json) as platform:
        proof = prove_deletion(platform.database, document)
    print_json(proof) if as_json else _print_proof(proof)
    raise typer.Exit(0 if proof["is_zero"] else 1)


def _print_proof(proof: dict[str, Any]) -> None:
    for name in ("document", "document_id", "source_uri"):
        console.print(f"{name:>12}  {proof[name]}", highlight=False, markup=False)
    for item in proof["receipts"]:
        console.print(
            f"{'deleted':>12}  {item['deleted_at']}, {item['cause']}, run {item['run_id']}",
            highlight=False,
            markup=False,
        )
    removed = proof["receipts"][0]["removed"]
    lines = [
        (name, removed.get(name, 0), proof["remaining"].get(name, 0))
        for name in sorted({*removed, *proof["remaining"]})
    ]
    print_table("Rows", ("table and version", "removed", "left now"), lines)
    if proof["came_back"]:
        console.print(
            "Its object came back after the deletion, and it is a document again. What is counted above is of the "
            f"deleted generations only; `ingest-assets status {proof['document']}` shows what is indexed now.",
            highlight=False,
            markup=False,
        )
    if proof["is_zero"]:
        console.print("Nothing of what was deleted is left.")
    else:
        errors.print(
            "Rows of the deleted document are left, which no transaction of the platform leaves behind. Keep them for "
            "a look, then upload an object of this key and delete it again, with `ingest-assets run` after each.",
            style="red",
        )
