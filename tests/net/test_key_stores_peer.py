"""Stores that Java's keytool made, used for handshakes between our two sides."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.model.config import ConfigError
from barnabas.net.tls import ServerTls, TlsConfig
from tests.peers.maven import java

from .test_tls import connect

pytestmark = pytest.mark.peer


def keytool(*arguments: str) -> None:
    program = shutil.which("keytool") or str(Path(java()).resolve().parent / "keytool")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("algorithm", ["RSA", "EC"])
def test_key_and_trust_stores_of_keytool_serve(tmp_path: Path, kind: str, algorithm: str) -> None:
    key_store, trust_store, certificate = tmp_path / "server.ks", tmp_path / "trust.ks", tmp_path / "server.crt"
    key_pass = "keypass" if kind == "JKS" else "storepass"
    opening = ("-storetype", kind, "-storepass", "storepass")
    keytool("-genkeypair", "-alias", "server", "-keyalg", algorithm, "-dname", "CN=localhost", "-validity", "2",
            "-ext", "san=dns:localhost", "-keystore", str(key_store), "-keypass", key_pass, *opening)  # fmt: skip
    keytool("-exportcert", "-rfc", "-alias", "server", "-file", str(certificate), "-keystore", str(key_store), *opening)
    keytool("-importcert", "-noprompt", "-alias", "server", "-file", str(certificate), "-keystore", str(trust_store),
            *opening)  # fmt: skip
    server = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(key_store),
        "ssl.keystore.password": "storepass",
        "ssl.key.password": key_pass,
    }
    client = {
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(trust_store),
        "ssl.truststore.password": "storepass",
    }
    assert connect(server, client).version() == "TLSv1.3"
    for wrong in ({"ssl.keystore.password": "wrong"}, {"ssl.keystore.location": str(tmp_path / "none")}):
        with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
            ServerTls(TlsConfig.parse({**server, **wrong}))
    with pytest.raises(ConfigError, match="no private key"):
        ServerTls(TlsConfig.parse({**server, "ssl.keystore.location": str(trust_store)}))
