"""A KDC of MIT Kerberos, of a test's own: its realm, its principals, its key tables."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from barnabas.testing.ports import HOST, free_ports
from tests.peers.maven import PeerUnavailableError

REALM: Final = "BARNABAS.TEST"
SERVICE: Final = f"kafka/localhost@{REALM}"
_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_LIMIT_S: Final = 60
_KRB5_CONF: Final = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
_KDC_CONF: Final = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_life = 1d
  max_renewable_life = 7d
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
 }}
[logging]
 kdc = FILE:{folder}/log
"""


class Kdc:
    """See the module. As a context it runs; `environment` is for whoever has to find it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (self.port,) = free_ports(1)
        self.krb5_conf = folder / "krb5.conf"
        self.krb5_conf.write_text(_KRB5_CONF.format(realm=REALM, port=self.port))
        (folder / "kdc.conf").write_text(_KDC_CONF.format(realm=REALM, port=self.port, folder=folder))
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'nobody.cache'}",
            "KRB5RCACHEDIR": str(folder),
        }
        self._pid_file = folder / "pid"

    def __enter__(self) -> Self:
        if not (self.folder / "principals").exists():
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the test")
            self.principal(SERVICE)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; it listens when this returns."""
        self._run("krb5kdc", "-P", str(self._pid_file))

    def stop(self) -> None:
        """End it, by the id that it has left; nobody listens when this returns."""
        if self._pid_file.exists():
            pid = int(self._pid_file.read_text())
            self._pid_file.unlink()
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + _LIMIT_S
            while self._listens():
                assert time.monotonic() < end, f"the KDC {pid} does not end"
                time.sleep(0.01)

    def _listens(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), _LIMIT_S).close()
        except ConnectionError:
            return False
        return True

    def principal(self, name: str, *options: str) -> str:
        """Make a principal with random keys; give the file of its key table."""
        path = self._file(name, "keytab")
        self._admin(f'addprinc -randkey {" ".join(options)} "{name}"')
        self.add_keys(name, str(path))
        return str(path)

    def service(self) -> str:
        """Give the key table of the nodes."""
        return str(self._file(SERVICE, "keytab"))

    def add_keys(self, name: str, path: str) -> None:
        """Give a principal new keys, and put them into a key table."""
        self._admin(f'ktadd -k {path} "{name}"')

    def change_keys(self, name: str) -> None:
        """Give a principal new keys, that nobody has."""
        self._admin(f"change_password -randkey {name}")

    def logins(self, name: str) -> int:
        """Say how often a principal has been given a ticket to get tickets by."""
        return self._given("AS_REQ", name)

    def renewals(self, name: str) -> int:
        """Say how often such a ticket has been renewed."""
        return self._given("TGS_REQ", name)

    def _given(self, request: str, name: str) -> int:
        lines = (self.folder / "log").read_text().splitlines()
        return sum(request in line and "ISSUE" in line and f" {name}@{REALM} for krbtgt/" in line for line in lines)

    def remove(self, name: str) -> None:
        """Forget a principal."""
        self._admin(f"delete_principal -force {name}")

    def ticket(self, name: str, *options: str) -> str:
        """Log in by the principal's key table; give the file of the ticket cache."""
        path, table = self._file(name, "cache"), self._file(name, "keytab")
        self._run("kinit", *options, "-c", f"FILE:{path}", "-k", "-t", str(table), name)
        return str(path)

    def _file(self, name: str, kind: str) -> Path:
        return self.folder / f"{quote(name, safe='')}.{kind}"

    def _admin(self, query: str) -> None:
        said = self._run("kadmin.local", "-r", REALM, "-q", query)
        assert "while" not in said, said

    def _run(self, program: str, *args: str) -> str:
        found = shutil.which(program, path=_PATH)
        if found is None:
            raise PeerUnavailableError(f"there is no `{program}`: install MIT Kerberos (Debian: krb5-kdc, krb5-user)")
        done = subprocess.run(
            [found, *args],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{program} {args}: {done.stdout}"
        return done.stdout


def by_key_table(path: str, principal: str, **more: str) -> str:
    """Give the JAAS entry of somebody who has keys."""
    options = "".join(f' {key}="{value}"' for key, value in more.items())
    return f'{_MODULE} required useKeyTab=true storeKey=true keyTab="{path}" principal="{principal}"{options};'


def by_ticket_cache(path: str) -> str:
    """Give the JAAS entry of somebody who has a ticket."""
    return f'{_MODULE} required useTicketCache=true ticketCache="{path}";'
