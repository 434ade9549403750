"""A node of either system for log-ins: the same `server.properties` with the same certificates and keys for both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from tests.mechanisms.issuer import AUDIENCE, ISSUER, Issuer
from tests.peers.kafka import ADMIN, ADMIN_PASSWORD, RealKafka, cluster_id

from barnabas.server.dev_node import DevFiles
from barnabas.testing.processes import Barnabas, NodeProcess
from bench.login_load import TLS, LoginLoad
from bench.systems import KAFKAS_JVM

USER: Final = ADMIN
SESSION_S: Final = 3600
"""How long sessions may last: long enough for none to end, and as they have an end they may be renewed."""
_BEARER: Final = "org.apache.kafka.common.security.oauthbearer"
_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")


class LoginNode:
    """One running node. Use as a context manager."""

    def __init__(self, folder: Path, *, kafka: bool) -> None:
        self._folder = folder
        self._kafka = kafka
        issuer, keys = Issuer(), folder / "keys.json"
        folder.mkdir(parents=True)
        keys.write_text(issuer.jwks())
        self._bearer_token = issuer.token(USER)
        allowed = f"-D{_BEARER.replace('common.security', 'sasl')}.allowed"
        self._files = RealKafka(
            folder,
            _PROTOCOLS,
            properties=_properties(keys),
            jvm=(*KAFKAS_JVM, f"{allowed}.urls=file://{keys}", f"{allowed}.files={keys}"),
        )
        process = self._files.process
        self._process = process if kafka else NodeProcess(process.plan, DevFiles(folder), Barnabas())

    def __enter__(self) -> Self:
        if self._kafka:
            self._files.start()
        else:
            self._format()
            self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(self, mechanism: str, *, tls: bool, seconds: float, warm_up_s: float, under_way: int) -> LoginLoad:
        """Give the load of log-ins by a mechanism, over TLS or not."""
        files = self._files.tls
        assert files is not None
        with_certificate = mechanism == TLS
        return LoginLoad(
            port=self._files.ports["SSL" if with_certificate else "SASL_SSL" if tls else "SASL_PLAINTEXT"],
            pid=self._process.pid,
            mechanism=mechanism,
            seconds=seconds,
            warm_up_s=warm_up_s,
            under_way=under_way,
            user=USER,
            secret=self._bearer_token if mechanism == "OAUTHBEARER" else ADMIN_PASSWORD,
            ca=str(files.ca) if tls else "",
            certificate=str(files.client_cert) if with_certificate else "",
            key=str(files.client_key) if with_certificate else "",
        )

    def _format(self) -> None:
        config = self._files.config_file
        arguments = ["storage", "format", "-c", str(config), "-t", cluster_id(config), "--standalone"]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            arguments += ["--add-scram", f"{mechanism}=[name={USER},password={ADMIN_PASSWORD}]"]
        _barnabas(arguments)


def _properties(keys: Path) -> dict[str, str]:
    prefix = "listener.name.sasl_plaintext"
    bearer = f"{prefix}.oauthbearer.sasl"
    return {
        "connections.max.reauth.ms": str(SESSION_S * 1000),
        f"{prefix}.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
        f"{bearer}.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        f"{bearer}.oauthbearer.expected.issuer": ISSUER,
        f"{bearer}.oauthbearer.expected.audience": AUDIENCE,
        f"{bearer}.server.callback.handler.class": f"{_BEARER}.OAuthBearerValidatorCallbackHandler",
        # Apache Kafka's module wants to be named, and says nothing of tokens that are checked by keys.
        f"{bearer}.jaas.config": f"{_BEARER}.OAuthBearerLoginModule required;",
    }


def _barnabas(arguments: Sequence[str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "barnabas.cli.main", *arguments],
        stdout=subprocess.DEVNULL,
        check=True,
        env=os.environ,
        timeout=60,
    )
