"""Every setting and environment name, typed and frozen; the only module that reads the environment.

What does not belong here: opening anything a setting points at. Order of precedence: environment
(`INGEST_SOURCE__URL`), then the settings file, then the defaults below. Relative paths are relative to the
settings file. Secrets (`INGEST_DATABASE__URL`, `INGEST_DATABASE__DAGSTER_URL`, `INGEST_ALERTS__URLS`) come from
the environment only and are never printed.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ingest_assets.errors import SettingsError

SETTINGS_FILE = "ingest.toml"
CONFIG_VARIABLE = "INGEST_CONFIG"  # path of the settings file, for processes that Dagster starts
HARMLESS = re.compile(r"PATH|HOME|TMPDIR|LANG|LC_\w+|TZ|(LD|DYLD)_\w*PATH|TESSDATA_PREFIX|OMP_\w+|PYTHONDONTWRITE\w+")
MOST_DIMENSIONS = 4000  # of a `halfvec` in an HNSW index of pgvector 0.8
SECRET_KEYS = (("database", "url"), ("database", "dagster_url"), ("alerts", "urls"))

Count = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceSettings(_Section):
    """Where the documents are."""

    url: str = Field("./inbox", description="`s3://bucket/folder/`, `file:///folder`, or a path")
    endpoint_url: str | None = Field(None, description="of an S3-compatible store")
    region: str | None = Field(None, description="of the bucket, where the AWS chain does not give it")
    profile: str | None = Field(None, description="AWS profile to read the bucket with")
    queue_url: str | None = Field(None, description="SQS queue of the bucket's change events, read beside the listing")
    listing_interval_seconds: NonNegative = Field(
        10, description="from the beginning of one listing to the next; with `queue_url` 900 is plenty"
    )
    include: tuple[str, ...] = Field((), description="patterns of keys to take; empty takes everything")
    exclude: tuple[str, ...] = Field((), description="patterns of keys to leave out; wins over `include`")
    max_documents_per_run: Count = Field(500, description="documents in one Dagster run")
    deletion_guard_fraction: Fraction = Field(
        0.2, description="deletions are withheld when more than this share, and more than 10 documents, vanish"
    )
    deletion_grace_seconds: NonNegative = Field(
        900, description="a deletion found together with additions waits at most this long for them to be embedded"
    )
    recheck_hours: Rate = Field(6.0, description="how often what can heal without a new object is looked at again")

    @model_validator(mode="after")
    def _events_are_of_a_bucket(self) -> "SourceSettings":
        if self.queue_url is None:
            return self
        if not self.url.startswith("s3://"):
            raise ValueError(f"queue_url is for events of a bucket, and url is {self.url}; leave queue_url out")
        if not re.fullmatch(r"https?://[^/]+/.+", self.queue_url):
            raise ValueError(f"queue_url {self.queue_url} is no url of a queue; it begins with https://sqs.")
        return self


class DatabaseSettings(_Section):
    """Where the rows are; embedded Postgres in `data_dir` when no url is given."""

    url: SecretStr | None = Field(None, description="of the platform's database (environment only)")
    dagster_url: SecretStr | None = Field(None, description="of Dagster's database (environment only)")
    data_dir: Path = Field(Path(".ingest"), description="embedded Postgres and Dagster's local files")
    dagster_storage: Literal["batching", "stock"] = Field(
        "batching", description="`stock` writes Dagster's events as dagster-postgres does: slower, for comparison"
    )


class ExtractSettings(_Section):
    """Limits of extraction."""

    min_characters: Count = Field(20, description="a document with less text is `empty_document`")
    max_bytes: Count = Field(268_435_456, description="largest PDF or DOCX, in bytes")
    max_text_bytes: Count = Field(33_554_432, description="largest HTML, Markdown or text file, in bytes")
    timeout_seconds: Rate = Field(120.0, description="for reading one document, from when a worker begins")
    memory_limit_mb: Count = Field(1024, description="for reading one document, in MiB")
    main_content: bool = Field(
        False, description="of web pages, leave out menus, headers, footers, asides, cookie notices and lists of links"
    )
    ocr: bool = Field(False, description="recognise scanned pages (needs the `ocr` extra)")
    ocr_languages: Annotated[str, Field(pattern=r"^[A-Za-z0-9_/]+(\+[A-Za-z0-9_/]+)*$")] = Field(
        "eng", description="of scanned pages, as Tesseract names them, joined by `+`"
    )


class ChunkerSettings(_Section):
    """Sizes of chunks, in cl100k tokens."""

    max_tokens: Annotated[int, Field(ge=16)] = Field(500, description="no chunk is longer")
    min_tokens: Count = Field(125, description="a chunk is shorter only at the end of a document")
    overlap_tokens: NonNegative = Field(0, description="of the preceding text repeated before a chunk")

    @model_validator(mode="after")
    def _sizes_agree(self) -> "ChunkerSettings":
        if self.min_tokens * 2 > self.max_tokens:
            raise ValueError("min_tokens must be at most half of max_tokens")
        if self.overlap_tokens * 2 > self.max_tokens:
            raise ValueError("overlap_tokens must be at most half of max_tokens")
        return self


class ModelSettings(_Section):
    """One embedding model version. The label never changes its meaning: a new model is a new label."""

    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = Field(description="the label")
    provider: Literal["local", "openai", "bedrock"] = Field(description="who embeds")
    model: str = Field(description="the provider's name of the model")
    dimensions: Annotated[int, Field(gt=0, le=MOST_DIMENSIONS)] = Field(description="numbers in one vector")
    base_url: str | None = Field(None, description="of an OpenAI-compatible server, or of a Bedrock endpoint")
    region: str | None = Field(None, description="AWS region of `bedrock`, where the AWS chain does not give it")
    account: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="name of the provider account whose rate limits are shared; default: provider, server and model",
    )
    max_input_tokens: Count = Field(8191, description="longest text the model takes whole")
    max_batch_items: Count = Field(256, description="texts in one request")
    max_batch_tokens: Count = Field(300_000, description="tokens in one request")
    requests_per_minute: Rate | None = Field(None, description="the account's limit; absent means none")
    tokens_per_minute: Rate | None = Field(None, description="the account's limit; absent means none")
    max_concurrency: Count = Field(16, description="requests of one run at the same time")
    timeout_seconds: Rate = Field(60.0, description="for one request")
    price_per_million_tokens: Annotated[float, Field(ge=0)] | None = Field(
        None, description="in your currency; absent means no cost estimate"
    )
    backfill_share: Fraction = Field(0.7, description="of the account's rate that backfill may use")

    @field_validator("version")
    @classmethod
    def _no_dots(cls, version: str) -> str:
        if ".." in version:
            raise ValueError("must not contain '..'")
        return version

    @field_validator("dimensions", mode="before")
    @classmethod
    def _dimensions_fit_an_index(cls, dimensions: Any) -> Any:
        if isinstance(dimensions, int) and dimensions > MOST_DIMENSIONS:
            raise ValueError(
                f"{dimensions} are more than the {MOST_DIMENSIONS} that an index of pgvector holds; ask the model for "
                "fewer (many shorten their vectors on request), or choose another"
            )
        return dimensions

    @property
    def gateway_key(self) -> str | None:
        """Key of a gateway in Azure's style (AZURE_OPENAI_API_KEY), read anew each time and kept nowhere."""
        return os.environ.get("AZURE_OPENAI_API_KEY") or None


class LimitSettings(_Section):
    """What a run may not exceed."""

    max_units_per_run: Count = Field(200_000, description="a plan of more texts is refused until approved")
    max_cost_per_run: Annotated[float, Field(ge=0)] | None = Field(
        50.0, description="a plan that costs more is refused until approved"
    )
    dead_letter_tolerance: NonNegative = Field(
        0, description="dead-lettered chunks per document before it is withheld from publication"
    )


class ReaderSettings(_Section):
    """Who reads the retrieval index, and how much of it."""

    tenant_key: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="metadata key that says whose a document is; readers then see their tenants' passages only"
    )


class HousekeepingSettings(_Section):
    """What is kept of the past."""

    event_retention_days: Rate = Field(
        30.0, description="how long Dagster's log keeps what no state of a partition needs"
    )


class AlertSettings(_Section):
    """Who is told."""

    urls: SecretStr | None = Field(None, description="Apprise addresses (environment only)")
    ui_url: str = Field("http://127.0.0.1:3000", description="where people reach the Dagster UI; messages link into it")
    repeat_hours: Rate = Field(24.0, description="what stays wrong is told again so often")
    stalled_minutes: Rate = Field(30.0, description="work that waits for longer, while no run works, is told")


LOCAL_MODEL = ModelSettings(
    version="wordllama-256-v1", provider="local", model="wordllama-l2-supercat", dimensions=256, max_batch_items=1024
)


class Settings(BaseSettings):
    """All settings of one deployment."""

    model_config = SettingsConfigDict(
        env_prefix="INGEST_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    source: SourceSettings = SourceSettings()
    database: DatabaseSettings = DatabaseSettings()
    extract: ExtractSettings = ExtractSettings()
    chunker: ChunkerSettings = ChunkerSettings()
    models: tuple[ModelSettings, ...] = (LOCAL_MODEL,)
    limits: LimitSettings = LimitSettings()
    readers: ReaderSettings = ReaderSettings()
    housekeeping: HousekeepingSettings = HousekeepingSettings()
    alerts: AlertSettings = AlertSettings()

    @model_validator(mode="after")
    def _models_differ(self) -> "Settings":
        labels = [model.version for model in self.models]
        if not labels:
            raise ValueError("models: declare at least one embedding model version, or leave the section out")
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(
                    f"models: the version {label} is declared twice; a label stands for one model for ever"
                )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the environment before the file, whose values arrive as init arguments."""
        return env_settings, init_settings

    @property
    def data_dir(self) -> Path:
        """Folder of the embedded services, absolute."""
        return self.database.data_dir


def load_settings(config: Path | None = None) -> Settings:
    """Read the settings of this process.

    `config` defaults to `INGEST_CONFIG`, then to `ingest.toml` in the working directory, then to no file at all.

    Raises:
        SettingsError: the file cannot be read, or a setting is unknown or wrong; the message names it.
    """
    path, is_asked_for = _config_path(config)
    values = _read_toml(path, is_asked_for=is_asked_for)
    _refuse_unknown(values, str(path))
    _refuse_unknown(_environment_values(), "the environment")
    _refuse_secrets(values, str(path))
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError(_explain(error)) from error
    return _absolute(settings, path.parent)


def harmless_environment() -> dict[str, str]:
    """Return what programs need of this process's environment, without the secrets: for those that read documents."""
    return {name: value for name, value in os.environ.items() if HARMLESS.fullmatch(name)}


def _config_path(config: Path | None) -> tuple[Path, bool]:
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    path = (named or Path(SETTINGS_FILE)).absolute()
    return path, named is not None


def _read_toml(path: Path, *, is_asked_for: bool) -> dict[str, Any]:
    if not path.exists() and not is_asked_for:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SettingsError(f"The settings file {path} does not exist; create it or leave out --config.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The settings file {path} is not valid TOML: {error}.") from error


def _environment_values() -> dict[str, Any]:
    """Return the INGEST_ variables as nested keys, values untouched."""
    nested: dict[str, Any] = {}
    for name in os.environ:
        if name.upper().startswith("INGEST_") and name.upper() != CONFIG_VARIABLE:
            section, _, key = name[len("INGEST_") :].lower().partition("__")
            if section == "models":
                continue
            nested.setdefault(section, {})
            if key:
                nested[section][key] = ""
    return nested


def _refuse_unknown(values: dict[str, Any], where: str) -> None:
    for name, known in _unknown(values):
        near = difflib.get_close_matches(name.rpartition(".")[2], known, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else f" Known here: {', '.join(sorted(known))}."
        raise SettingsError(f"Unknown setting {name} in {where}.{hint}")


def _unknown(values: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for section, content in values.items():
        field = Settings.model_fields.get(section)
        if field is None:
            yield section, list(Settings.model_fields)
            continue
        model = ModelSettings if section == "models" else field.annotation
        rows = content if isinstance(content, list) else [content]
        for row in rows:
            if isinstance(row, dict) and isinstance(model, type) and issubclass(model, BaseModel):
                yield from (
                    (f"{section}.{key}", list(model.model_fields)) for key in row if key not in model.model_fields
                )


def _refuse_secrets(values: dict[str, Any], where: str) -> None:
    for section, key in SECRET_KEYS:
        if isinstance(values.get(section), dict) and key in values[section]:
            raise SettingsError(
                f"{section}.{key} is a secret and does not belong in {where}; "
                f"set the environment variable INGEST_{section.upper()}__{key.upper()} instead."
            )


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        name = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name}: {message}" if name else message)
    return "The settings are not usable. " + "; ".join(lines) + "."


def _absolute(settings: Settings, base: Path) -> Settings:
    data_dir = (base / settings.database.data_dir.expanduser()).resolve()
    database = settings.database.model_copy(update={"data_dir": data_dir})
    source = settings.source.model_copy(update={"url": _absolute_url(settings.source.url, base)})
    return settings.model_copy(update={"database": database, "source": source})


def _absolute_url(url: str, base: Path) -> str:
    scheme = urlsplit(url).scheme
    if scheme == "s3":
        if not urlsplit(url).netloc:
            raise SettingsError(f"source.url {url} names no bucket; write s3://bucket/prefix.")
        return url if url.endswith("/") else url + "/"
    if scheme not in ("", "file"):
        raise SettingsError(f"source.url {url} is neither s3:// nor file:// nor a path.")
    path = Path(unquote(urlsplit(url).path)) if scheme == "file" else Path(url).expanduser()
    return "file://" + str((base / path).resolve())
