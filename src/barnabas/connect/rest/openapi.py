"""The API described by itself: `/openapi.json`, and a page for people at `/docs`. Made from the table of endpoints."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from barnabas.connect.rest.endpoint import Endpoint

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ERROR: Final = {
    "description": "Refused; the message says why and what to do",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
            }
        }
    },
}
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Kafka Connect REST API</title>
<style>body{{font:16px/1.5 system-ui;max-width:60em;margin:2em auto;padding:0 1em}}code,pre{{background:#f3f3f3}}
pre{{padding:.5em;overflow:auto}}h2{{font-size:1em;margin-top:2em}}h2 b{{display:inline-block;width:5em}}</style></head>
<body><h1>Kafka Connect REST API</h1><p>Barnabas {version}. The same as <a href="/openapi.json">OpenAPI</a>.</p>
{rows}</body></html>
"""


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Give the OpenAPI document of what is meant for users."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in _public(endpoints):
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kafka Connect REST API", "version": version("barnabas")},
        "paths": paths,
    }


def page(endpoints: Sequence[Endpoint]) -> str:
    """Give the page."""
    return _PAGE.format(version=version("barnabas"), rows="\n".join(_row(each) for each in _public(endpoints)))


def _public(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    return [each for each in endpoints if not each.internal]


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in endpoint.query
    ]
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "responses": {str(endpoint.status): {"description": "Done"}, "default": _ERROR},
    }
    if parameters:
        found["parameters"] = parameters
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"example": endpoint.body}}}
    return found


def _row(endpoint: Endpoint) -> str:
    said = [
        f"<h2><b>{endpoint.method}</b> <code>{html.escape(endpoint.path)}</code></h2>",
        f"<p>{html.escape(endpoint.summary)}. Answers {endpoint.status}.</p>",
    ]
    said += [f"<p><code>?{html.escape(name)}=</code> {html.escape(text)}</p>" for name, text in endpoint.query]
    if endpoint.body is not None:
        said.append(f"<pre>{html.escape(json.dumps(endpoint.body, indent=2))}</pre>")
    return "\n".join(said)
