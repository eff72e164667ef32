"""Front matter of Markdown files, read as flat strings.

What does not belong here: YAML. Only what people write in front matter is understood (scalars, short
lists, folded lines); everything else is kept as the words that were written. Nothing is ever constructed.
"""

import re
import tomllib

from ingest_assets.extract.normalise import one_line

_YAML = re.compile(r"---[ \t]*\n(.*?)(?:\n|^)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\+\+\+[ \t]*\n(.*?)\n\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"([\w][\w .-]{0,63}):(?:[ \t]+(.*))?$")
_LIMIT = 65536  # characters of front matter; beyond that it is text


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return (properties, remaining text); where there is no front matter, ({}, text)."""
    head = text[:_LIMIT]
    if match := _YAML.match(head):
        properties = _yaml_fields(match.group(1))
    elif match := _TOML.match(head):
        properties = _toml_fields(match.group(1))
    else:
        return {}, text
    # A rule between two paragraphs looks the same, but holds no fields.
    return (properties, text[match.end() :].lstrip("\n")) if properties else ({}, text)


def _yaml_fields(block: str) -> dict[str, str]:
    fields: dict[str, list[str]] = {}
    name = ""
    for line in block.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _FIELD.match(line)
        if match:
            name = match.group(1).strip()
            fields[name] = _yaml_values(match.group(2) or "")
        elif name and line[0] in " \t-":
            fields[name].append(_unquoted(line.strip().removeprefix("- ")))
        else:
            return {}
    tidy = {key: one_line(", ".join(value for value in values if value)) for key, values in fields.items()}
    return {key: value for key, value in tidy.items() if value}


def _yaml_values(value: str) -> list[str]:
    value = value.strip()
    if value in ("", "|", ">", "|-", ">-", "null", "~"):
        return []
    if value.startswith("[") and value.endswith("]"):
        return [_unquoted(item) for item in value[1:-1].split(",")]
    return [_unquoted(value)]


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return re.split(r"\s#\s", value, maxsplit=1)[0]


def _toml_fields(block: str) -> dict[str, str]:
    try:
        values = tomllib.loads(block)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    return {name: one_line(_toml_text(value)) for name, value in values.items() if not isinstance(value, dict)}


def _toml_text(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
