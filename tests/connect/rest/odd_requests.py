"""Requests that are unusual: other methods, other types, odd paths and parameters."""

from __future__ import annotations

from typing import Final

from tests.connect.rest.sides import Step

_TYPES: Final = ("text/plain", "text/html", "*/*", "application/*", "application/json;charset=utf-8", "nonsense", "")
_NOWHERE: Final = (
    "/connectors/nope/tasks-config",
    "/connectors/nope/restart/x",
    "/connectors/nope/tasks/0",
    "/connectors/nope/tasks/0/config",
    "/Connectors",
    "/connectors/",
    "/connectors/nope/",
    "/health/",
    "/admin",
    "/connector-plugins/x",
    "/connector-plugins/FileStreamSink/config/validate",
    "/health/x",
)
_METHODS: Final = (
    ("GET", "/connectors/nope/restart"),
    ("GET", "/connectors/nope/pause"),
    ("POST", "/connectors/nope/pause"),
    ("DELETE", "/connectors/nope/config"),
    ("POST", "/connectors/nope/config"),
    ("PUT", "/connectors/nope/tasks"),
    ("PUT", "/connectors/nope/offsets"),
    ("GET", "/connectors/nope/topics/reset"),
    ("PATCH", "/connectors"),
    ("POST", "/health"),
    ("DELETE", "/admin/loggers/root"),
    ("PUT", "/admin/loggers"),
    ("PUT", "/connector-plugins/FileStreamSink/config"),
)
_QUERIES: Final = (
    ("GET", "/connectors?expand=status&expand=status"),
    ("GET", "/connectors?expand=INFO"),
    ("GET", "/connectors?nonsense=1"),
    ("GET", "/connectors/nope?forward=false"),
    ("GET", "/connectors/nope?forward=nonsense"),
    ("POST", "/connectors/nope/restart?includeTasks=nonsense"),
    ("POST", "/connectors/nope/restart?onlyFailed="),
    ("GET", "/connector-plugins?connectorsOnly=nonsense"),
    ("GET", "/connector-plugins?connectorsOnly="),
    ("GET", "/admin/loggers/a%20b"),
)


def odd_requests() -> list[Step]:
    """Give them all; none changes anything."""
    steps = [Step("GET", path, headers={"Accept": kind}) for kind in _TYPES for path in ("/", "/connectors/nope")]
    steps += [Step("GET", path) for path in _NOWHERE]
    steps += [Step(method, path) for method, path in (*_METHODS, *_QUERIES)]
    steps += [
        Step(method, path, status_only=True)
        for method in ("HEAD", "OPTIONS")
        for path in ("/", "/connectors/nope", "/nope")
    ]
    steps += [
        Step(method, "/connectors/nope/pause", body, {"Content-Type": "text/plain"})
        for method in ("PUT", "GET")
        for body in (b"{}", b"", None)
    ]
    steps += [
        Step("PUT", "/connector-plugins/FileStreamSink/config/validate", b"{}", {"Content-Type": kind})
        for kind in ("application/json; charset=utf-16", "APPLICATION/JSON", "application/x-json", "text/json")
    ]
    steps += [
        Step("GET", "/connectors/nope", headers={"Accept": accepted})
        for accepted in ("text/html, */*;q=0.1", "text/html, application/json;q=0", "APPLICATION/JSON")
    ]
    steps += [Step("GET", "/connectors/nope", headers={"Content-Type": "text/plain"})]
    levels = ("INFO", "INFO", "ALL", "OFF", "FATAL", "TRACE")
    steps += [Step("PUT", "/admin/loggers/b.logger", {"level": level}) for level in levels]
    steps += [Step("GET", "/admin/loggers/b.logger")]
    steps += [
        Step("PUT", f"/admin/loggers/a.logger?scope={scope}", {"level": "INFO"}) for scope in ("worker", "", "WORKER")
    ]
    return steps
