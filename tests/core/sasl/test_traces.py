"""Conversations with the SASL server, as scripts with the outcome beneath (tests/traces/sasl).

A script is blocks divided by empty lines: commands, a line `----`, what they gave. `make traces` writes the second
halves anew. Commands:

    connect [mechanisms=A,B] [max_reauth_ms=N]    a new connection
    now=N                                         the clock says N
    ApiVersions [refused]                         refused: its version or its client's name is not accepted
    SaslHandshake vN MECHANISM
    plain USER PASSWORD [AUTHZID]                 a token of PLAIN, in SaslAuthenticate or bare as the state wants it
    scram USER PASSWORD                           the first token of SCRAM
    scram                                         the next one, made from the server's last
    token TEXT                                    any token; \\0 is NUL
    request API                                   anything else
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.core.sasl.exchange import AuthenticationError, ServerMechanism
from barnabas.core.sasl.mechanisms.plain import PlainServer, verify_in
from barnabas.core.sasl.mechanisms.scram import (
    ALGORITHMS,
    SCRAM_SHA_256,
    ScramClient,
    ScramServer,
    derive_keys,
    salt_password,
)
from barnabas.core.sasl.server import SaslServer, SaslStateError, TokenReply

FOLDER = Path(__file__).parents[2] / "traces" / "sasl"
SCRIPTS = sorted(FOLDER.glob("*.txt"))
PASSWORDS = {"alice": "secret", "b=o,b": "söcret"}
SALT = b"0123456789abcdef"
ITERATIONS = 4096
KEYS = {
    (mechanism, user): derive_keys(algorithm, salt_password(algorithm, password, SALT, ITERATIONS), SALT, ITERATIONS)
    for mechanism, algorithm in ALGORITHMS.items()
    for user, password in PASSWORDS.items()
}


def mechanism_called(name: str) -> ServerMechanism:
    if name == "PLAIN":
        return PlainServer(verify_in(PASSWORDS))
    return ScramServer(ALGORITHMS[name], lambda user: KEYS.get((name, user)), lambda: "server", b"decoy")


class Conversation:
    def __init__(self) -> None:
        self.now_ms = 0
        self.server = SaslServer((), mechanism_called)
        self.client: ScramClient | None = None
        self.last_token = b""
        self.commands: dict[str, Callable[[list[str]], str]] = {
            "connect": self.connect,
            "ApiVersions": self.api_versions,
            "SaslHandshake": self.handshake,
            "plain": self.plain,
            "scram": self.scram,
            "token": lambda words: self.send(words[0].replace("\\0", "\0").encode() if words else b""),
            "request": self.request,
        }

    def run(self, line: str) -> str:
        word, *rest = line.split(" ")
        if word.startswith("now="):
            self.now_ms = int(word[4:])
            return ""
        try:
            answer = self.commands[word](rest)
        except SaslStateError as e:
            said = "send ILLEGAL_SASL_STATE" if e.answer else "send nothing"
            answer = f"{said}{', close' if e.close else ''}: {e}"
        return f"{answer}\n{self.state()}" if answer else self.state()

    def state(self) -> str:
        server = self.server
        text = server.state.name
        if server.complete:
            text += f" principal={server.principal} expires={server.expires_at_ms}"
        return text + (" (bare tokens)" if server.expects_raw_token else "")

    def connect(self, words: list[str]) -> str:
        options = dict(word.split("=") for word in words)
        mechanisms = options.get("mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512").split(",")
        limit = int(options.get("max_reauth_ms", 0))
        self.server = SaslServer(mechanisms, mechanism_called, lambda mechanism: limit)
        return ""

    def api_versions(self, words: list[str]) -> str:
        self.server.api_versions(valid=words != ["refused"])
        return "send ApiVersions"

    def handshake(self, words: list[str]) -> str:
        reply = self.server.handshake(int(words[0][1:]), words[1], self.now_ms)
        return f"send {reply.error.name} {','.join(reply.mechanisms)}{self.end(reply.failure)}"

    def plain(self, words: list[str]) -> str:
        user, password, authorization_id = [*words, ""][:3]
        return self.send(f"{authorization_id}\0{user}\0{password}".encode())

    def scram(self, words: list[str]) -> str:
        if words:
            algorithm = ALGORITHMS.get(self.server.mechanism_name or "", SCRAM_SHA_256)
            self.client = ScramClient(algorithm, words[0], words[1], lambda: "client")
            return self.send(self.client.first())
        assert self.client is not None
        token = self.client.step(self.last_token)
        if token is None:
            return "the client is content"
        return self.send(token)

    def request(self, words: list[str]) -> str:
        self.server.other(words[0])
        return ""

    def send(self, token: bytes) -> str:
        bare = self.server.expects_raw_token
        reply = self.server.token(token, self.now_ms, self.now_ms)
        self.last_token = reply.token
        return self.shown(reply, bare)

    def shown(self, reply: TokenReply, bare: bool) -> str:
        if bare:
            sent = "send nothing" if reply.failure else f"send bare {reply.token.decode()!r}"
            return sent + self.end(reply.failure)
        parts = ["send", reply.error.name]
        if reply.message is not None:
            parts.append(f"({reply.message})")
        if reply.token:
            parts.append(reply.token.decode())
        if reply.session_lifetime_ms:
            parts.append(f"session_lifetime_ms={reply.session_lifetime_ms}")
        return " ".join(parts) + self.end(reply.failure)

    @staticmethod
    def end(failure: str | None) -> str:
        return "" if failure is None else f", close: {failure}"


def played(script: str) -> str:
    """Give the script with the outcomes as they are."""
    conversation = Conversation()
    blocks = []
    for block in script.strip("\n").split("\n\n"):
        commands = block.partition("\n----")[0]
        if commands.startswith("#"):
            blocks.append(commands)
            continue
        try:
            outcome = "\n".join(filter(None, map(conversation.run, commands.split("\n"))))
        except AuthenticationError as e:
            outcome = f"the client gives up: {e}"
        blocks.append(f"{commands}\n----\n{outcome}")
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_trace(script: Path) -> None:
    expected = script.read_text(encoding="utf-8")
    outcome = played(expected)
    if os.environ.get("BARNABAS_REWRITE_TRACES"):
        script.write_text(outcome, encoding="utf-8")
    else:
        assert outcome == expected


def test_there_are_traces() -> None:
    assert len(SCRIPTS) >= 4
