"""The node's measurements over HTTP: Prometheus text at `/metrics`, JSON at `/jmx?qry=<MBean pattern>` (design D8).

Off unless `barnabas.metrics.listener` names an address. It tells how much, never what: no record, no secret, no data of
a client. Bind it to loopback or protect it by the network; it has no login of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from barnabas.model.config import ConfigError
from barnabas.model.metrics import Metrics

_ADDRESS: Final = re.compile(r"http://([^:/]+|\[[0-9a-fA-F:]+\]):(\d+)/?")
_MBEAN: Final = re.compile(r"([^:]+):(.*)")
_TAG: Final = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)')
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_name(name: str, attribute: str) -> tuple[str, dict[str, str]]:
    """Give the name and labels that the usual rules of the JMX exporter make of an MBean's attribute."""
    match = _MBEAN.fullmatch(name)
    domain, tags = (match[1], dict(_TAG.findall(match[2]))) if match else (name, {})
    labels = {_snake(k): v.strip('"') for k, v in tags.items() if k not in ("type", "name")}
    parts = [domain, tags.get("type", ""), tags.get("name", ""), "" if attribute == "Value" else attribute]
    return _snake("_".join(p for p in parts if p)).lower(), labels


def _snake(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


class _Everything(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for name, attributes in self._metrics.values():
            for attribute, value in attributes.items():
                if isinstance(value, str):
                    continue
                metric, labels = prometheus_name(name, attribute)
                family = families.get(metric)
                if family is None:
                    family = families[metric] = GaugeMetricFamily(metric, name, labels=list(labels))
                family.add_metric(list(labels.values()), value)
        yield from families.values()


class MetricsServer:
    """The HTTP listener."""

    def __init__(self, address: str, metrics: Metrics) -> None:
        """address: http://host:port; ConfigError when it is something else."""
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise ConfigError(f"barnabas.metrics.listener: {address!r} is not http://host:port")
        self._host, self._port = match[1].strip("[]"), int(match[2])
        self._metrics = metrics
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Everything(metrics))
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

    async def _prometheus(self, request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": PROMETHEUS})

    async def _jmx(self, request: web.Request) -> web.Response:
        pattern = request.query.get("qry", "*")
        beans = [{"name": name, **attributes} for name, attributes in self._metrics.values(pattern)]
        return web.json_response({"beans": beans})
