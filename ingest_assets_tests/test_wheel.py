"""The wheel, installed elsewhere: it carries its statements and its instance file."""

import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def test_the_wheel_carries_sql_and_runs_from_another_folder(tmp_path: Path, database_url: str) -> None:
    """What is built is what works: statements, migrations, dagster.yaml and every package are inside."""
    # Built from a copy: an earlier build's leftovers in the checkout would find their way into the wheel.
    copy = shutil.copytree(PROJECT, tmp_path / "checkout", ignore=shutil.ignore_patterns(".*", "build", "*.egg-info"))
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        str(copy),
    ]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    target = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "-q", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    code = (
        "import ingest_assets, ingest_assets.definitions, ingest_assets.cli\n"
        "from ingest_assets import queries, schema, database\n"
        f"assert ingest_assets.__file__.startswith({str(target)!r}), ingest_assets.__file__\n"
        f"assert str(queries.sql_folder()).startswith({str(target)!r})\n"
        f"database.migrate_database({database_url!r})\n"
        "print(len(queries.statements()), len(schema.migrations()))\n"
    )
    environment = {"PYTHONPATH": str(target), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    here = len(list((PROJECT / "sql" / "migrations").glob("*.sql")))
    assert ran.stdout.split()[1] == str(here)
    assert (target / "share" / "ingest_assets" / "dagster.yaml").is_file()
    modules = {path.relative_to(PROJECT) for path in (PROJECT / "ingest_assets").rglob("*.py")}
    assert modules == {path.relative_to(target) for path in (target / "ingest_assets").rglob("*.py")}
