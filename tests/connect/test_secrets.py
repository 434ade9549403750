"""References in connectors' configurations: what they stand for, and what they may not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.connect.secrets import Secrets
from barnabas.model.config import ConfigError

ALL = {"config.providers": "file,dir,env"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "db.properties").write_text("password=s3:cret\nuser=u\n")
    (tmp_path / "open" / "token").write_text("t0ken\n")
    (tmp_path / "shut.properties").write_text("password=never\n")
    return tmp_path


def test_files_folders_and_the_environment_are_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_HOST", "db.example")
    secrets = Secrets.from_properties(ALL)
    config = {
        "url": f"jdbc://${{env:DB_HOST}}/?u=${{file:{store}/open/db.properties:user}}",
        "password": f"${{file:{store}/open/db.properties:password}}",
        "token": f"${{dir:{store}/open:token}}",
        "path": "/data/${topic}/${vault:secret:key}",
    }
    assert secrets.resolve_all(config) == {
        "url": "jdbc://db.example/?u=u",
        "password": "s3:cret",
        "token": "t0ken\n",
        "path": "/data/${topic}/${vault:secret:key}",
    }


def test_javas_classes_are_understood_under_any_name(store: Path) -> None:
    classes = "org.apache.kafka.common.config.provider"
    secrets = Secrets.from_properties(
        {"config.providers": "vault", "config.providers.vault.class": f"{classes}.FileConfigProvider"}
    )
    assert secrets.resolve(f"${{vault:{store}/open/db.properties:user}}") == "u"
    with pytest.raises(ConfigError, match=r"config\.providers\.x\.class: 'Other' is unknown; want File"):
        Secrets.from_properties({"config.providers": "x", "config.providers.x.class": "a.Other"})


@pytest.mark.parametrize("name", ["file", "dir", "env"])
def test_what_the_operator_has_not_named_does_not_work(name: str, store: Path) -> None:
    with pytest.raises(ConfigError, match=f"password: .*config.providers does not have {name}"):
        Secrets.from_properties({}).resolve_all({"password": f"${{{name}:{store}/open/db.properties:user}}"})


@pytest.mark.parametrize(
    "reference",
    ["file:{}/shut.properties:password", "file:{}/open/../shut.properties:password", "dir:{}:shut.properties"],
)
def test_paths_are_kept_within_what_is_allowed(reference: str, store: Path) -> None:
    allowed = {f"config.providers.{name}.param.allowed.paths": f"{store}/open" for name in ("file", "dir")}
    secrets = Secrets.from_properties(ALL | allowed)
    assert secrets.resolve(f"${{dir:{store}/open:token}}") == "t0ken\n"
    with pytest.raises(ConfigError, match=r"allowed\.paths"):
        secrets.resolve("${" + reference.format(store) + "}")


def test_variables_are_kept_within_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_HOST", "db.example")
    monkeypatch.setenv("SECRET", "not-to-be-seen")
    secrets = Secrets.from_properties(ALL | {"config.providers.env.param.allowlist.pattern": "DB_.*"})
    assert secrets.resolve("${env:DB_HOST}") == "db.example"
    with pytest.raises(ConfigError, match="there is no 'SECRET'"):
        secrets.resolve("${env:SECRET}")


@pytest.mark.parametrize(
    "reference",
    ["file:{}/none:x", "file:{}/open/db.properties:none", "file::x", "dir:{}/open:../shut.properties", "dir:{}/open:x"],
)
def test_a_reference_to_nothing_is_named(reference: str, store: Path) -> None:
    reference = "${" + reference.format(store) + "}"
    with pytest.raises(ConfigError) as refused:
        Secrets.from_properties(ALL).resolve_all({"key": reference})
    assert str(refused.value).startswith("key: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [("file.param.allowed.paths", "relative"), ("env.param.allowlist.pattern", "("), ("dir.class", "X")],
)
def test_a_provider_that_is_set_up_wrong_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.split(".")[0]):
        Secrets.from_properties(ALL | {f"config.providers.{key}": value})


def test_references_cannot_be_put_together_from_pieces(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTHING", "")
    text = f"${{fi${{env:NOTHING}}le:{store}/shut.properties:password}}"
    with pytest.raises(ConfigError, match="does not have env"):
        Secrets.from_properties({}).resolve(text)
    with pytest.raises(ConfigError, match="makes another reference"):
        Secrets.from_properties({"config.providers": "env"}).resolve(text)
