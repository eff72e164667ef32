"""The rules of CONTRIBUTING.md, read from the source with ast: where things live, and which way imports run.

What does not belong here: behaviour. Nothing is imported or run, so a broken rule is found even in code that fails.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "ingest_assets"
TESTS = PROJECT / "ingest_assets_tests"
MODULES = sorted(PACKAGE.rglob("*.py"))
STEPS = ("source", "extract", "chunk", "embed")
DECORATORS = {"asset", "multi_asset", "asset_check", "multi_asset_check", "sensor", "op", "job", "schedule"}
LONGEST_BODY_LINES = 15

# Modules outside of defs/ that import dagster, where they do, and why.
DAGSTER_AT_TOP = {"definitions.py": "the one object that workspace.yaml loads"}
DAGSTER_INSIDE_FUNCTIONS = {
    "cli/alerts.py": "looks at the instance from outside",
    "cli/backfill.py": "asks the instance, or executes runs of it",
    "source/client.py": "S3Resource keeps one set of rules for profiles, roles and retries",
    "cli/run.py": "a pass executes runs of the instance; other commands do not wait for the import",
    "cli/dev.py": "prepares the instance's home before it starts Dagster",
}

# Modules other than settings.py that touch the environment, and why.
ENVIRONMENT = {
    "defs/instance.py": "DAGSTER_HOME is Dagster's variable, and wins over the home we would make",
    "cli/app.py": "--config is handed to the processes that Dagster starts, by INGEST_CONFIG",
    "cli/dev.py": "the children get this process's environment, with the urls of the embedded services",
    "cli/db.py": "finds a psql that may be executed",
}

# Modules with SQL of their own, and why.
SQL = {
    "schema.py": "the table of applied migrations must be there before any file is applied",
    "embedded.py": "databases are made on the server, before there is one to hold statements",
}
# Folders in docstrings that are no folders of this project.
EXAMPLES = {"reports/"}  # how a pattern of keys is written

STATEMENT = re.compile(
    r"^\s*(SELECT|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|CREATE|ALTER|DROP|TRUNCATE|COPY|WITH|GRANT|REVOKE|LOCK"
    r"|SET|BEGIN|VACUUM|ANALYZE|NOTIFY|LISTEN)\b",
)


def name_of(path: Path) -> str:
    """Return a module's path inside the package."""
    return str(path.relative_to(PACKAGE))


def tree_of(path: Path) -> ast.Module:
    """Return a module's syntax."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(node: ast.AST) -> list[str]:
    """Return the modules an import statement may load: for `from a import b` both `a` and `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: imports are absolute"
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every module that is imported anywhere in a tree."""
    for node in ast.walk(tree):
        yield from imported(node)


def imports_at_top(tree: ast.Module) -> Iterator[str]:
    """Yield modules that are loaded with this one; not those for type checkers only."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        yield from imported(node)
        pending += ast.iter_child_nodes(node)


def needs_dagster(module: str) -> bool:
    """Tell whether importing this loads dagster: itself, its companions, and what of ours is built on it."""
    top = module.partition(".")[0]
    is_ours = module == "ingest_assets.definitions" or re.match(r"ingest_assets\.(defs|definitions)\b", module)
    return top == "dagster" or top.startswith("dagster_") or bool(is_ours)


def test_every_module_says_what_lives_in_it_and_what_does_not() -> None:
    """A newcomer learns from the top of a file whether it is the right one."""
    missing = [name_of(path) for path in MODULES if not ast.get_docstring(tree_of(path))]
    assert missing == []
    silent = [
        name_of(path)
        for path in MODULES
        if path.name != "__main__.py"
        and path != PACKAGE / "__init__.py"
        and not re.search(r"does not belong here|Not here", ast.get_docstring(tree_of(path)) or "")
    ]
    assert silent == []


def test_every_module_that_a_module_docstring_names_exists() -> None:
    """The signposts point at files that are there."""
    lost = []
    for path in MODULES:
        text = ast.get_docstring(tree_of(path)) or ""
        for named in re.findall(r"\b((?:\w+/)*\w+\.py)\b|`((?:\w+/)+)`", text):
            target = named[0] or named[1]
            if target not in EXAMPLES and not any(
                (folder / target).exists() for folder in (path.parent, PACKAGE, PROJECT)
            ):
                lost.append((name_of(path), target))
    assert lost == []


def test_dagster_is_imported_in_the_wiring_only() -> None:
    """Work can be read, tested and started without Dagster."""
    broken = []
    for path in MODULES:
        name = name_of(path)
        if name.startswith("defs/"):
            continue
        tree = tree_of(path)
        at_top = [module for module in imports_at_top(tree) if needs_dagster(module)]
        anywhere = [module for module in imports(tree) if needs_dagster(module)]
        if at_top and name not in DAGSTER_AT_TOP:
            broken.append((name, "at the top", at_top[0]))
        elif anywhere and name not in DAGSTER_AT_TOP and name not in DAGSTER_INSIDE_FUNCTIONS:
            broken.append((name, "inside a function", anywhere[0]))
    assert broken == []


def test_steps_know_neither_each_other_nor_their_callers() -> None:
    """Each step can be read and replaced alone; what it needs comes as arguments and records."""
    forbidden = {
        step: [f"ingest_assets.{other}" for other in (*STEPS, "defs", "cli", "definitions") if other != step]
        for step in STEPS
    }
    broken = [
        (name_of(path), module)
        for step in STEPS
        for path in sorted((PACKAGE / step).rglob("*.py"))
        for module in imports(tree_of(path))
        if any(module == other or module.startswith(f"{other}.") for other in forbidden[step])
    ]
    assert broken == []


def test_only_the_command_line_and_the_wiring_import_upwards() -> None:
    """Plain functions do not reach for who calls them; the command line and the wiring do not reach for each other."""
    broken = [
        (name_of(path), module)
        for path in MODULES
        if not name_of(path).startswith("cli/") and name_of(path) != "__main__.py"
        for module in imports(tree_of(path))
        if re.match(r"ingest_assets\.cli\b", module)
        or (
            re.match(r"ingest_assets\.defs\b", module)
            and not name_of(path).startswith("defs/")
            and name_of(path) != "definitions.py"
        )
    ]
    assert broken == []


def test_the_shelf_imports_no_step_and_no_body() -> None:
    """Records, errors, settings and ids stand under everything."""
    shelf = {"records", "errors", "settings", "identity", "queries", "progress"}
    broken = [
        (name, module)
        for name in sorted(shelf)
        for module in imports(tree_of(PACKAGE / f"{name}.py"))
        if module.startswith("ingest_assets.") and module.split(".")[1] not in shelf
    ]
    assert broken == []


def test_the_environment_is_read_by_the_settings_only() -> None:
    """A setting has one name, one type and one place."""
    readers = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in ("environ", "environb", "getenv", "putenv", "unsetenv")
    }
    readers |= {
        name_of(path) for path in MODULES if {"os.environ", "os.getenv", "dagster.EnvVar"} & set(imports(tree_of(path)))
    }
    assert readers - {"settings.py"} <= set(ENVIRONMENT)


def decorated(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield functions that a decorator hands to Dagster."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
            if {ast.unparse(call).rpartition(".")[2] for call in calls} & DECORATORS:
                yield node


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a body without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_decorated_bodies_are_thin() -> None:
    """A body takes keys, calls a plain function and reports; work can be tested without Dagster."""
    bodies = {f"{name_of(path)}:{node.name}": body_lines(node) for path in MODULES for node in decorated(tree_of(path))}
    assert len(bodies) >= 6
    assert {name: lines for name, lines in bodies.items() if lines > LONGEST_BODY_LINES} == {}


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings in an expression."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
            yield part.value.decode(errors="replace") if isinstance(part.value, bytes) else part.value


def test_sql_lives_in_sql_files() -> None:
    """A statement is found by its name, prepared against the real schema by a test, and never built from input."""
    broken = []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call) or name_of(path) in SQL:
                continue
            function = ast.unparse(node.func)
            is_executed = function.rpartition(".")[2] in ("execute", "executemany", "copy", "fetch", "stream")
            is_composed = function in ("sql.SQL", "SQL", "text", "sqlalchemy.text")
            arguments = [*node.args, *(item.value for item in node.keywords)]
            found = [text for argument in arguments[:1] for text in texts(argument) if STATEMENT.match(text)]
            if (is_executed or is_composed) and found:
                broken.append((name_of(path), node.lineno, found[0][:40]))
    assert broken == []


def test_no_string_outside_of_sql_files_is_a_statement() -> None:
    """A statement that goes through a variable is one too; sentences of ours do not begin like one."""
    pattern = re.compile(
        r"^\s*(SELECT\s.+\sFROM\s|INSERT INTO|UPDATE \S+ SET|DELETE FROM|CREATE (TABLE|INDEX|VIEW))", re.DOTALL
    )
    broken = [
        (name_of(path), text[:40])
        for path in MODULES
        if name_of(path) not in SQL
        for text in texts(tree_of(path))
        if pattern.match(text)
    ]
    assert broken == []


@pytest.mark.parametrize(
    "exceptions", [DAGSTER_INSIDE_FUNCTIONS, ENVIRONMENT, SQL], ids=["dagster", "environment", "sql"]
)
def test_every_exception_names_a_module_that_is_there(exceptions: dict[str, str]) -> None:
    """An exception goes when its module does."""
    assert [name for name in exceptions if not (PACKAGE / name).is_file()] == []


def test_no_module_is_a_drawer() -> None:
    """A module has a subject."""
    drawers = {"utils", "util", "helpers", "helper", "common", "constants", "manager", "misc"}
    named = [path for folder in (PACKAGE, TESTS) for path in folder.rglob("*") if path.stem in drawers]
    assert named == []


def test_tests_mock_nothing() -> None:
    """A test that replaces what it tests proves that the replacement works."""
    broken = []
    for path in sorted(TESTS.rglob("*.py")):
        tree = tree_of(path)
        if any(re.match(r"(unittest\.)?mock\b|pytest_mock\b", module) for module in imports(tree)):
            broken.append((path.name, "imports mock"))
        named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        if named & {"MagicMock", "AsyncMock"} or "mocker" in arguments:
            broken.append((path.name, "uses a mock"))
    assert broken == []


def test_every_test_says_in_one_line_what_it_is_good_for() -> None:
    """Names and docstrings of tests read as the specification."""
    silent = [
        (path.name, node.name)
        for path in sorted(TESTS.rglob("test_*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len((ast.get_docstring(node) or "").splitlines()) != 1
    ]
    assert silent == []


def test_every_lint_exception_has_its_reason() -> None:
    """`noqa` and `type: ignore` name a rule, and `noqa` says why."""
    broken = []
    for path in [*MODULES, *sorted(TESTS.rglob("*.py"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"#\s*type: ignore(?!\[)", line) or re.search(
                r"#\s*noqa(?!: [A-Z]+\d+(, ?[A-Z]+\d+)*\s+[#-] \w)", line
            ):
                broken.append((path.name, number))
    assert [item for item in broken if item[0] != Path(__file__).name] == []


def test_no_possessive_group_is_left_to_re() -> None:
    """Python before 3.11.5 matches them wrongly, and the same text would give other chunks there; `regex` is right."""
    calls = [
        (name_of(path), call)
        for path in MODULES
        for call in ast.walk(tree_of(path))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "re"
    ]
    broken = [
        (name, part.value)
        for name, call in calls
        for part in ast.walk(call)
        if isinstance(part, ast.Constant) and re.search(r"\)(?:[*+?]|\{[\d,]+\})\+", str(part.value))
    ]
    assert calls
    assert broken == []
