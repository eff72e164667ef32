"""The documentation against the code: a command, setting, reason, check or path that does not exist fails here.

What does not belong here: running commands. Everything is parsed, nothing is opened, so no database is needed.
"""

import ast
import re
import shlex
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from ingest_assets.checks import CHECKS
from ingest_assets.cli.app import app
from ingest_assets.errors import FATAL_REASONS, Reason
from ingest_assets.settings import SECRET_KEYS, ModelSettings, Settings, load_settings

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "ingest_assets"
PAGES = {
    path: path.read_text(encoding="utf-8") for path in sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
}
COMMANDS = typer.main.get_command(app)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
SECTIONS = {
    name: ModelSettings if name == "models" else field.annotation for name, field in Settings.model_fields.items()
}

# Modules that read a setting of this name without putting it to its use: it stays "not in effect" beside them.
OTHER_READERS = {
    "extract.ocr": {"ingest.py"},  # names the extractor's version
    "extract.timeout_seconds": {"embed/openai.py", "embed/bedrock.py"},  # the setting of the same name of a model
    "alerts.urls": {
        "cli/dev.py",
        "cli/db.py",
        "defs/storage.py",
        "embedded.py",
        "platform.py",
        "defs/housekeeping.py",
    },  # a platform's urls
}


def text_of(page: str) -> str:
    """Return a page's text."""
    return (PROJECT / page).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[str]:
    """Return fenced blocks in these languages."""
    return [body for language, body in BLOCK.findall(text) if language in languages]


def spans(text: str) -> list[str]:
    """Return inline code outside of fenced blocks."""
    return SPAN.findall(BLOCK.sub("", text))


def section(text: str, heading: str) -> str:
    """Return what stands below a heading of the second level."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def table(text: str) -> list[list[str]]:
    """Return the cells of every table row below its header; a bar inside a cell is escaped by a backslash."""
    found, is_body = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            is_body = False
        elif set(line) <= set("|-: "):
            is_body = True
        elif is_body:
            found.append([cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


# Commands


def commands_in(line: str) -> Iterator[list[str]]:
    """Yield the words after each `ingest-assets` of a shell line."""
    for inner in re.findall(r"\$\(([^)]*)\)", line):
        yield from commands_in(inner)
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] | None = None
    for word in lexer:
        if set(word) <= set("();<>|&"):
            if words is not None:
                yield words
            words = None
        elif words is not None:
            words.append(word)
        elif re.fullmatch(r"(.*/)?ingest-assets", word):
            words = []
    if words is not None:
        yield words


def parse(words: list[str]) -> None:
    """Parse a command as the command line does, without running it; a mistake raises its usage error.

    A command's bare name is a mention of it, and complete as it is.
    """
    command, rest, name = COMMANDS, list(words), "ingest-assets"
    while hasattr(command, "commands"):
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            known = {opt: item for item in command.params for opt in item.opts}
            assert option in known or option in ("-h", "--help"), f"{name} has no option {option}"
            if option in known and not known[option].is_flag:
                rest.pop(0)
        if not rest:
            return
        name = rest.pop(0)
        assert name in command.commands, f"there is no command {name}; there are {', '.join(command.commands)}"
        command = command.commands[name]
    if rest and not {"-h", "--help"} & set(rest):
        command.make_context(name, rest)


def documented_commands() -> list[tuple[str, list[str]]]:
    """Return where a command stands, and its words."""
    found = []
    for page, text in PAGES.items():
        lines = [line for block in blocks(text, "sh", "console") for line in block.splitlines()]
        lines += [span for span in spans(text) if "ingest-assets " in span]
        found += [(page.name, words) for line in lines for words in commands_in(line)]
    return found


def literal_texts(tree: ast.AST) -> Iterator[str]:
    """Yield every string of a module; what an f-string fills in is written as 1."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def advised_commands() -> list[tuple[str, list[str]]]:
    """Return commands that messages and help texts of the package advise."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in literal_texts(ast.parse(path.read_text(encoding="utf-8"))):
            lines = [span for span in SPAN.findall(text) if re.match(r"ingest-assets \S", span)]
            found += [(str(path.relative_to(PROJECT)), words) for line in lines for words in commands_in(line)]
    return found


def shown(value: str | list[str]) -> str:
    """Return a test's parameter as its id."""
    return value if isinstance(value, str) else shlex.join(value)


@pytest.mark.parametrize(("page", "words"), documented_commands(), ids=shown)
def test_every_documented_command_exists_with_its_options(page: str, words: list[str]) -> None:
    """A reader who copies a line gets no usage error."""
    assert page
    parse(words)


@pytest.mark.parametrize(("module", "words"), advised_commands(), ids=shown)
def test_every_command_that_a_message_advises_exists(module: str, words: list[str]) -> None:
    """An error that names the way out names one that is there."""
    assert module
    parse(words)


def test_every_command_is_documented() -> None:
    """Each command stands in a page at least once."""
    written = {" ".join(words[:2]) for _, words in documented_commands()} | {
        " ".join(words[:1]) for _, words in documented_commands()
    }
    leaves = [
        f"{name} {inner}".strip()
        for name, command in COMMANDS.commands.items()
        for inner in getattr(command, "commands", [""])
    ]
    assert [leaf for leaf in leaves if leaf not in written] == []


def test_every_make_target_that_is_named_exists_and_every_one_is_described() -> None:
    """`make` knows what the pages tell people to type, and CONTRIBUTING.md lists all of it."""
    phony = re.search(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)
    assert phony is not None
    targets = set(phony[1].split())
    named = {
        target
        for page in PAGES
        for code in (
            *blocks(PAGES[page], "sh", "console"),
            *spans(PAGES[page]),
        )
        for target in re.findall(r"(?:^|&& )make (\w+)", code, re.MULTILINE)
    }
    assert named <= targets
    described = set(re.findall(r"`make (\w+)`", text_of("CONTRIBUTING.md")))
    assert targets <= described


def test_the_first_forty_lines_of_the_readme_bring_a_stranger_to_a_result() -> None:
    """The demo, a run over own documents, a question and the UI stand before the fold."""
    top = "\n".join(text_of("README.md").splitlines()[:40])
    for line in ("make demo", "mkdir inbox", "ingest-assets run", "ingest-assets search", "ingest-assets dev"):
        assert line in top


# Settings


def kind_of(annotation: Any, metadata: tuple[Any, ...] = ()) -> str:
    """Return a type in the words of docs/configuration.md."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        nested = [item for extra in inner[1:] for item in (extra.metadata if isinstance(extra, FieldInfo) else [extra])]
        return kind_of(inner[0], tuple(nested))
    if origin in (typing.Union, types.UnionType):
        return kind_of(next(item for item in inner if item is not type(None)))
    if origin is typing.Literal:
        return " or ".join(f"`{item}`" for item in inner)
    if origin is tuple:
        return "list of texts"
    words = {
        str: "text",
        int: "integer",
        float: "number",
        bool: "true or false",
        Path: "path",
        SecretStr: "secret text",
    }
    limits = [
        f"{sign} {getattr(item, name):g}"
        for item in metadata
        for name, sign in (("gt", ">"), ("ge", "≥"), ("le", "≤"))
        if getattr(item, name, None) is not None
    ]
    return ", ".join([words[annotation], *limits])


def default_of(field: FieldInfo) -> str:
    """Return a default as docs/configuration.md writes it."""
    if field.is_required():
        return "required"
    value = field.default
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "`[]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def expected_settings() -> list[list[str]]:
    """Return the rows of the table of settings."""
    return [
        [
            f"`{name}.{key}`",
            kind_of(field.annotation, tuple(field.metadata)),
            default_of(field),
            field.description or "",
        ]
        for name, model in SECTIONS.items()
        for key, field in model.model_fields.items()
    ]


def readers() -> dict[str, set[str]]:
    """Return for each attribute the modules that read one of its name."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name != "settings.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    found.setdefault(node.attr, set()).add(str(path.relative_to(PACKAGE)))
    return found


def test_the_table_of_settings_is_that_of_the_code() -> None:
    """Names, types, limits, defaults and meanings, in the order of the sections."""
    rows = table(section(text_of("docs/configuration.md"), "Every setting"))
    assert rows == expected_settings()


def test_every_setting_has_an_effect() -> None:
    """Nobody tunes a setting that nothing reads."""
    found = readers()
    unread = [
        f"{name}.{key}"
        for name, model in SECTIONS.items()
        for key in model.model_fields
        if not found.get(key, set()) - OTHER_READERS.get(f"{name}.{key}", set())
    ]
    assert unread == []


def test_every_setting_that_a_page_names_exists() -> None:
    """`section.name` in inline code is a setting."""
    pattern = re.compile(rf"({'|'.join(SECTIONS)})\.([a-z_]+)")
    named = [
        (page.name, span)
        for page in PAGES
        for span in spans(PAGES[page])
        if (match := pattern.fullmatch(span)) and match[2] not in SECTIONS[match[1]].model_fields and match[2] != "py"
    ]
    assert named == []


def test_every_environment_variable_that_a_page_names_exists() -> None:
    """`INGEST_SECTION__NAME` is the spelling of a setting, and each secret has its variable in the page of settings."""
    known = {f"INGEST_{name}__{key}".upper() for name, model in SECTIONS.items() for key in model.model_fields}
    known |= {"INGEST_CONFIG", "INGEST_MODELS"}
    for page, content in PAGES.items():
        named = set(re.findall(r"\bINGEST_[A-Z_]*[A-Z]\b", content))
        assert named - {"INGEST_SECTION__NAME"} <= known, page.name
    text = text_of("docs/configuration.md")
    assert [key for key in SECRET_KEYS if f"`INGEST_{key[0]}__{key[1]}`".upper() not in text.upper()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(PAGES[page], "toml")], ids=lambda page: page.name)
def test_every_example_of_a_settings_file_loads(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example can be copied."""
    for name in ("INGEST_CONFIG", "INGEST_SOURCE__URL"):
        monkeypatch.delenv(name, raising=False)
    for text in blocks(PAGES[page], "toml"):
        (tmp_path / "ingest.toml").write_text(text, encoding="utf-8")
        load_settings(tmp_path / "ingest.toml")


# Reasons and checks


def test_every_reason_is_explained_once_where_it_belongs() -> None:
    """Reasons of dead letters in one table, reasons that stop a run in the other, in the order of the code."""
    text = text_of("docs/reasons.md")
    letters = [row[0].strip("`") for row in table(section(text, "Dead letters"))]
    fatal = [row[0].strip("`") for row in table(section(text, "Reasons that stop a run"))]
    assert letters == [reason for reason in Reason if reason not in FATAL_REASONS]
    assert fatal == [reason for reason in Reason if reason in FATAL_REASONS]


def test_every_reason_says_what_it_means_and_what_to_do() -> None:
    """No cell is empty."""
    assert all(all(row) and len(row) == 3 for row in table(text_of("docs/reasons.md")))


def test_every_check_is_explained_in_its_order() -> None:
    """One section per check: asset, severity, what it means, where to look, what mends it."""
    text = text_of("docs/checks.md")
    assert re.findall(r"^## `(\w+)`$", text, re.MULTILINE) == [check.name for check in CHECKS]
    for check in CHECKS:
        body = section(text, f"`{check.name}`")
        assert f"Asset `{check.asset}`, severity {check.severity}." in body
        assert all(word in body for word in ("**Means.**", "**Look first.**", "**Mend.**")), check.name


# Paths, links, names


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_every_relative_link_resolves() -> None:
    """Files exist, and so do the headings that anchors point at."""
    broken = []
    for page, content in PAGES.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", content)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            content_of = path.read_text(encoding="utf-8") if path.suffix == ".md" and path.is_file() else ""
            headings = re.findall(r"^#+ (.*)$", content_of, re.MULTILINE)
            if not path.exists() or (anchor and anchor not in map(slug, headings)):
                broken.append((page.name, target))
    assert broken == []


def test_every_page_is_linked_from_the_readme_or_from_a_page_it_links() -> None:
    """No page is an orphan."""
    readme = text_of("README.md")
    pages = [page for page in PAGES if page.parent == PROJECT / "docs"]
    assert [page.name for page in pages if f"(docs/{page.name})" not in readme] == []
    decisions = sorted((PROJECT / "docs" / "decisions").glob("*.md"))
    listed = "\n".join(PAGES[page] for page in PAGES)
    assert [page.name for page in decisions if page.name not in listed.replace(PAGES[page], "")] == []


def mapped_paths() -> list[str]:
    """Return the paths of the readme's map."""
    [body] = blocks(section(text_of("README.md"), "Map of the code"), "text")
    return [line.split()[0] for line in body.splitlines() if line.strip() and not line.startswith(" ")]


def test_the_map_names_what_exists_and_everything_that_does() -> None:
    """A newcomer finds every package and module in the map, and nothing that is gone."""
    mapped = mapped_paths()
    assert [path for path in mapped if not (PROJECT / path).exists()] == []
    assert [path for path in mapped if path.endswith("/") != (PROJECT / path).is_dir()] == []
    modules = {f"ingest_assets/{path.name}" for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    packages = {f"ingest_assets/{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert (modules | packages) - set(mapped) == set()


def test_every_path_that_a_page_names_exists() -> None:
    """`folder/file.py` in inline code is a file of this project."""
    pattern = re.compile(r"(?:ingest_assets|ingest_assets_tests|sql|docs|examples|benchmarks)/[\w./-]*")
    named = [
        (page.name, span)
        for page in PAGES
        for span in spans(PAGES[page])
        if pattern.fullmatch(span) and not (PROJECT / span).exists()
    ]
    assert named == []


def test_every_table_view_and_function_that_a_page_names_exists() -> None:
    """`ingest.x` and `serving.x` are made by a migration."""
    made = "\n".join(path.read_text(encoding="utf-8") for path in (PROJECT / "sql" / "migrations").glob("*.sql"))
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"\b(?:ingest|serving)\.[a-z_]+\b", PAGES[page])
        if name not in ("ingest.toml", "ingest.py", "serving.index_")
    }
    assert sorted(item for item in named if not re.search(rf"\b{re.escape(item[1])}\b", made)) == []


def test_no_inline_code_is_broken_across_lines() -> None:
    """The other tests read whole commands, and so does whoever copies one."""
    broken = [
        (page.name, line)
        for page, content in PAGES.items()
        for line in BLOCK.sub("", content).splitlines()
        if line.count("`") % 2
    ]
    assert broken == []


def test_every_example_in_python_compiles() -> None:
    """A sample has no syntax error."""
    for page, content in PAGES.items():
        for text in blocks(content, "python"):
            compile(text, page.name, "exec")


def test_every_picture_is_small_and_shown() -> None:
    """A clone stays light, and a picture that nobody sees is taken away."""
    shown = {
        name for content in PAGES.values() for name in re.findall(r"!\[[^\]]+\]\((?:docs/)?images/([^)]+)\)", content)
    }
    pictures = {path.name: path.stat().st_size for path in (PROJECT / "docs" / "images").iterdir()}
    assert set(pictures) == shown
    assert {name: size for name, size in pictures.items() if size > 150_000} == {}
