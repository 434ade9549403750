"""A process's measurements over HTTP: Prometheus text at `/metrics`, JSON at `/jmx?qry=<MBean pattern>` (design D8).

Off unless `barnabas.metrics.listener` names an address. It tells how much, never what: no record, no secret, no data of
a client. Bind it to loopback or protect it by the network; it has no login of its own.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Final

from aiohttp import web

from barnabas.model.config import ConfigError
from barnabas.model.metrics import Bean, Metrics, Value

_ADDRESS: Final = re.compile(r"http://([^:/]+|\[[0-9a-fA-F:]+\]):(\d+)/?")
_MBEAN: Final = re.compile(r"([^:]+):(.*)")
_TAG: Final = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)')
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON: Final = "application/json; charset=utf-8"
SLICE: Final = 200
"""How many MBeans are looked at in one turn of the loop, and written in one piece."""


def prometheus_name(name: str, attribute: str) -> tuple[str, dict[str, str]]:
    """Give the name and labels that the usual rules of the JMX exporter make of an MBean's attribute."""
    match = _MBEAN.fullmatch(name)
    domain, tags = (match[1], dict(_TAG.findall(match[2]))) if match else (name, {})
    labels = {_snake(k): v.strip('"') for k, v in tags.items() if k not in ("type", "name")}
    parts = [domain, tags.get("type", ""), tags.get("name", ""), "" if attribute == "Value" else attribute]
    return _snake("_".join(p for p in parts if p)).lower(), labels


def _snake(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


class _Families:
    """Samples by Prometheus name: all of a name stand together, whatever order they come in."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, attributes: Mapping[str, Value]) -> None:
        """Take in an MBean; text is not for Prometheus."""
        for attribute, value in attributes.items():
            if isinstance(value, str):
                continue
            metric, labels = prometheus_name(name, attribute)
            lines = self._lines.get(metric)
            if lines is None:
                lines = self._lines[metric] = [f"# HELP {metric} {_help(name)}\n# TYPE {metric} gauge\n"]
            told = ",".join(f'{label}="{_label(text)}"' for label, text in labels.items())
            lines.append(f"{metric}{{{told}}} {_number(value)}\n" if told else f"{metric} {_number(value)}\n")

    def texts(self) -> Iterator[str]:
        """Give what is to be sent, piece by piece."""
        for lines in self._lines.values():
            for at in range(0, len(lines), SLICE):
                yield "".join(lines[at : at + SLICE])


def _help(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n")


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(float(value)) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")


def _json(value: Value) -> Value:
    """Give a value as JSON has it: what is no number there is text, as other servers of MBeans write it."""
    if isinstance(value, str) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class MetricsServer:
    """The HTTP listener."""

    def __init__(self, address: str, metrics: Metrics) -> None:
        """address: http://host:port; ConfigError when it is something else."""
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise ConfigError(f"barnabas.metrics.listener: {address!r} is not http://host:port")
        self._host, self._port = match[1].strip("[]"), int(match[2])
        self._metrics = metrics
        app = web.Application()
        app.add_routes([web.get("/metrics", self._prometheus), web.get("/jmx", self._jmx)])
        self._runner = web.AppRunner(app, access_log=None)

    @property
    def port(self) -> int:
        """Give the port that is listened on."""
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listen."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _beans(self, pattern: str) -> AsyncIterator[Bean]:
        """Give what there is, and let the rest work in between: with ten thousand partitions there is much of it."""
        for number, bean in enumerate(self._metrics.values(pattern), 1):
            yield bean
            if not number % SLICE:
                await asyncio.sleep(0)

    async def _prometheus(self, request: web.Request) -> web.StreamResponse:
        families = _Families()
        async for name, attributes in self._beans("*"):
            families.add(name, attributes)
        return await _send(request, PROMETHEUS, families.texts())

    async def _jmx(self, request: web.Request) -> web.StreamResponse:
        beans = []
        async for name, attributes in self._beans(request.query.get("qry", "*")):
            beans.append(json.dumps({"name": name} | {a: _json(v) for a, v in attributes.items()}))
        pieces = (",\n".join(beans[at : at + SLICE]) for at in range(0, len(beans), SLICE))
        return await _send(request, JSON, _listed(pieces))


def _listed(pieces: Iterable[str]) -> Iterator[str]:
    yield '{"beans": ['
    for number, piece in enumerate(pieces):
        yield (",\n" if number else "") + piece
    yield "]}\n"


async def _send(request: web.Request, content_type: str, pieces: Iterable[str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece.encode())
        await asyncio.sleep(0)
    await response.write_eof()
    return response
