"""The SASL mechanisms that this release speaks; a new one is a module here and a line in `MECHANISMS`."""

from __future__ import annotations

from typing import Final

from barnabas.core.sasl.mechanisms import gssapi, oauthbearer, plain
from barnabas.core.sasl.mechanisms.scram import SCRAM_SHA_256, SCRAM_SHA_512

PASSWORD_MECHANISMS: Final = (plain.NAME, SCRAM_SHA_256.name, SCRAM_SHA_512.name)
"""Those that take a user name and a password."""
MECHANISMS: Final = (*PASSWORD_MECHANISMS, oauthbearer.NAME, gssapi.NAME)
