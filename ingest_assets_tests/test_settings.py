"""Settings: typed, one place, and a wrong one is refused with the right one."""

from pathlib import Path

import pytest

from ingest_assets.errors import SettingsError
from ingest_assets.settings import Settings, load_settings


def load(folder: Path, toml: str) -> Settings:
    """Load a settings file with this content."""
    path = folder / "ingest.toml"
    path.write_text(toml)
    return load_settings(path)


def test_without_any_setting_everything_is_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first start needs no file and no variable."""
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert settings.source.url == f"file://{tmp_path}/inbox"
    assert settings.data_dir == tmp_path / ".ingest"
    assert [model.version for model in settings.models] == ["wordllama-256-v1"]


def test_relative_paths_are_relative_to_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment can be started from any folder."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = load(tmp_path, '[source]\nurl = "documents"\n[database]\ndata_dir = "data"\n')
    assert settings.source.url == f"file://{tmp_path}/documents"
    assert settings.data_dir == tmp_path / "data"


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One variable changes one setting and leaves its neighbours."""
    monkeypatch.setenv("INGEST_SOURCE__URL", "s3://bucket/folder")
    settings = load(tmp_path, '[source]\nurl = "documents"\nexclude = ["*.tmp"]\n')
    assert settings.source.url == "s3://bucket/folder/"
    assert settings.source.exclude == ("*.tmp",)


@pytest.mark.parametrize(
    ("toml", "near"),
    [
        ("[source]\nurll = 'x'\n", "Unknown setting source.urll .* Did you mean url"),
        ("[chunkr]\nmax_tokens = 100\n", "Unknown setting chunkr .* Did you mean chunker"),
        ("[limits]\nmax_unit_per_run = 1\n", "Did you mean max_units_per_run"),
        (
            "[[models]]\nversion = 'a'\nprovider = 'local'\nmodel = 'm'\ndimension = 3\n",
            r"models\.dimension .* Did you mean dimensions",
        ),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_known_name(tmp_path: Path, toml: str, near: str) -> None:
    """A typing error never becomes a default."""
    with pytest.raises(SettingsError, match=near):
        load(tmp_path, toml)


def test_an_unknown_variable_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is checked like the file."""
    monkeypatch.setenv("INGEST_EXTRACT__MIN_CHARACTER", "3")
    with pytest.raises(SettingsError, match="Did you mean min_characters"):
        load(tmp_path, "")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[source]\nmax_documents_per_run = 0\n", "source.max_documents_per_run"),
        ("[chunker]\nmin_tokens = 400\n", "at most half"),
        ("[source]\nurl = 's3://'\n", "names no bucket"),
        ("[source]\nurl = 'ftp://host/x'\n", "neither s3:// nor file://"),
        ("models = []\n", "declare at least one"),
        ("[[models]]\nversion = 'a|b'\nprovider = 'local'\nmodel = 'm'\ndimensions = 3\n", "models.0.version"),
        ("[[models]]\nversion = 'a..b'\nprovider = 'local'\nmodel = 'm'\ndimensions = 3\n", "must not contain"),
        ("[[models]]\nversion = 'a'\nprovider = 'local'\nmodel = 'm'\ndimensions = -1\n", "models.0.dimensions"),
        (
            "[[models]]\nversion = 'a'\nprovider = 'openai'\nmodel = 'm'\ndimensions = 4096\n",
            "4096 are more than the 4000",
        ),
        ("[database]\nurl = 'postgresql://u:secret@h/d'\n", "INGEST_DATABASE__URL"),
        ("[source\n", "not valid TOML"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(tmp_path: Path, toml: str, message: str) -> None:
    """The message says which setting, and never shows a secret."""
    with pytest.raises(SettingsError, match=message) as caught:
        load(tmp_path, toml)
    assert "secret@h" not in str(caught.value)


def test_two_models_with_one_label_are_refused(tmp_path: Path) -> None:
    """A label stands for one model for ever."""
    model = "[[models]]\nversion = 'a'\nprovider = 'local'\nmodel = 'm'\ndimensions = 3\n"
    with pytest.raises(SettingsError, match="declared twice"):
        load(tmp_path, model + model)


def test_a_settings_file_that_was_named_must_exist(tmp_path: Path) -> None:
    """A wrong --config is not silently the defaults."""
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings(tmp_path / "nowhere.toml")


def test_secrets_are_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings may be logged."""
    monkeypatch.setenv("INGEST_DATABASE__URL", "postgresql://u:hunter2@h/d")
    assert "hunter2" not in repr(load(tmp_path, ""))
