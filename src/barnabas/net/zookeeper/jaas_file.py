"""Our login at ZooKeeper, from a section of a JAAS file as Kafka's operators write it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from barnabas.core.sasl.jaas import JaasError, LoginModule, parse_jaas_sections
from barnabas.model.config import ConfigError
from barnabas.net.zookeeper.logins import DigestLogin, KerberosLogin, Login

DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
KRB5_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"


def read_login(path: str, section: str, service: str) -> Login | None:
    """Give the login of a section, None when the file has no such section: it may be there for other logins.

    service: the first part of the servers' Kerberos principals, unless the options have a `serviceName`. ConfigError
    when the file cannot be read or used; no text of it is quoted.
    """
    try:
        sections = parse_jaas_sections(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"java.security.auth.login.config={path} cannot be read: {e}") from None
    except JaasError as e:
        raise ConfigError(f"java.security.auth.login.config={path} is not a JAAS file: {e}") from None
    modules = sections.get(section)
    if modules is None:
        return None
    if len(modules) != 1:
        raise ConfigError(f"{path}, section {section}: {len(modules)} login modules; want one")
    try:
        return _login(modules[0], service)
    except ConfigError as e:
        raise ConfigError(f"{path}, section {section}: {e}") from None


def _login(module: LoginModule, service: str) -> Login:
    kind = module.name.rpartition(".")[2]
    if kind == "DigestLoginModule":
        if not module.username or module.password is None:
            raise ConfigError("DigestLoginModule wants username and password")
        return DigestLogin(module.username, module.password)
    if kind == "Krb5LoginModule":
        return KerberosLogin.from_options({"serviceName": service, **module.options})
    raise ConfigError(f"{module.name} is no login for ZooKeeper: want {DIGEST_MODULE} or {KRB5_MODULE}")
