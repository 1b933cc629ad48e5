"""An API server in miniature: it keeps objects, and runs nothing. Enough for `helm install`, `upgrade` and `lookup`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import helm_python
import yaml

from tests.helm.chart.render import CHART, Object

# What is kept, by the group and version that it stands under: kind, and whether it is in a namespace.
_KINDS: dict[str, dict[str, tuple[str, bool]]] = {
    "api/v1": {
        "namespaces": ("Namespace", False),
        "pods": ("Pod", True),
        "secrets": ("Secret", True),
        "configmaps": ("ConfigMap", True),
        "services": ("Service", True),
        "serviceaccounts": ("ServiceAccount", True),
    },
    "apis/apps/v1": {"deployments": ("Deployment", True), "statefulsets": ("StatefulSet", True)},
    "apis/policy/v1": {"poddisruptionbudgets": ("PodDisruptionBudget", True)},
    "apis/networking.k8s.io/v1": {"networkpolicies": ("NetworkPolicy", True), "ingresses": ("Ingress", True)},
    "apis/autoscaling/v2": {"horizontalpodautoscalers": ("HorizontalPodAutoscaler", True)},
    "apis/gateway.networking.k8s.io/v1": {"httproutes": ("HTTPRoute", True)},
    "apis/monitoring.coreos.com/v1": {
        "servicemonitors": ("ServiceMonitor", True),
        "prometheusrules": ("PrometheusRule", True),
    },
}

_NODES = "/apis/apps/v1/namespaces/prod/statefulsets/fleet-framehold-node"


class Cluster:
    """What was asked to be. `objects`: by the path of each. `address`: of the API server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.objects: dict[str, Object] = {}
        self._lock = threading.Lock()

    def secret(self, name: str, namespace: str = "prod") -> Object:
        """That Secret, which must be there."""
        return self.objects[f"/api/v1/namespaces/{namespace}/secrets/{name}"]

    def template(self, plural: str, name: str, namespace: str = "prod") -> Object:
        """The pods of that workload as they shall be."""
        found: Object = self.objects[f"/apis/apps/v1/namespaces/{namespace}/{plural}/{name}"]["spec"]["template"]
        return found

    def replicas(self) -> Any:
        """How many nodes are asked for, as a release has written it or an autoscaler has; None where nobody says it."""
        return self.objects[_NODES]["spec"].get("replicas")

    def scale(self, count: int) -> None:
        """As an autoscaler of the nodes does."""
        self.objects[_NODES]["spec"]["replicas"] = count

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Object]:
        """One request's status and response."""
        path = urlsplit(target).path
        with self._lock:
            if method == "GET" and (result := _discovery(path)) is not None:
                return 200, result
            if method == "GET":
                return self._get(path, urlsplit(target).query)
            if method == "DELETE":
                return (200, self.objects.pop(path)) if path in self.objects else _missing(path)
            return self._write(method, path, yaml.safe_load(body))

    def _get(self, path: str, query: str) -> tuple[int, Object]:
        if path in self.objects:
            return 200, self.objects[path]
        if path.rsplit("/", 1)[-1] not in {name for kinds in _KINDS.values() for name in kinds}:
            return _missing(path)
        labels = dict(pair.split("%3D", 1) for pair in _selector(query).split("%2C") if "%3D" in pair)
        items = [
            made
            for where, made in self.objects.items()
            if where.startswith(f"{path}/") and labels.items() <= made["metadata"].get("labels", {}).items()
        ]
        group, kind = _of(path)
        return 200, {"apiVersion": group, "kind": f"{kind}List", "metadata": {}, "items": items}

    def _write(self, method: str, path: str, text: Object) -> tuple[int, Object]:
        where = f"{path}/{text['metadata']['name']}" if method == "POST" else path
        if method == "POST" and where in self.objects:
            return 409, _status(409, "AlreadyExists", f"{where} is there already")
        group, kind = _of(path if method == "POST" else path.rsplit("/", 1)[0])
        made = {"apiVersion": group, "kind": kind, **text}
        made["metadata"] = {"uid": "0", "resourceVersion": "1", **made["metadata"]}
        self.objects[where] = made
        return 200, made


class Release:
    """A release as its operator handles it: `helm install`, then `helm upgrade` or `helm rollback`."""

    def __init__(self, at: Cluster) -> None:
        self._config = helm_python.Config(
            kube_apiserver=at.address, kube_token="nobody's", namespace="prod", storage_driver="memory"
        )

    def install(self, values: dict[str, Any]) -> None:
        self._config.install(str(CHART), "fleet", values, namespace="prod")

    def upgrade(self, values: dict[str, Any], **options: Any) -> None:
        self._config.upgrade(str(CHART), "fleet", values, namespace="prod", **options)

    def rollback(self, revision: int) -> None:
        self._config.rollback("fleet", version=revision)

    def values(self, revision: int) -> dict[str, Any]:
        """As `helm get values --revision` shows them."""
        return dict(self._config.get_values("fleet", revision=revision))


@contextmanager
def cluster() -> Iterator[Cluster]:
    """One that listens on this machine until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are two writes: the second would wait for the first one's acknowledgement, 40 ms.
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, result = kept.answer(self.command, self.path, body)
            data = json.dumps(result).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept = Cluster(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _discovery(path: str) -> Object | None:
    if path == "/version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = [where.removeprefix("apis/") for where in _KINDS if where.startswith("apis/")]
        groups = [
            {"name": each.split("/")[0], "versions": [{"groupVersion": each, "version": each.split("/")[1]}]}
            for each in versions
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path == "/openapi/v3":
        return {"paths": {where: {"serverRelativeURL": f"/openapi/v3/{where}"} for where in _KINDS}}
    if path.startswith("/openapi/v3/"):
        return _openapi(path.removeprefix("/openapi/v3/"))
    kinds = _KINDS.get(path.strip("/"))
    if kinds is None:
        return None
    verbs = ["get", "list", "create", "update", "patch", "delete"]
    resources = [
        {"name": name, "singularName": "", "namespaced": inside, "kind": kind, "verbs": verbs}
        for name, (kind, inside) in kinds.items()
    ]
    group = path.strip("/").removeprefix("apis/").removeprefix("api/")
    return {"kind": "APIResourceList", "groupVersion": group, "resources": resources}


def _openapi(where: str) -> Object:
    """That the server checks the fields of what it is sent: Helm asks no more of it."""
    checks = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
    group, _, version = where.removeprefix("apis/").removeprefix("api/").rpartition("/")
    paths = {
        f"/{where}/{name}": {
            "patch": {
                "parameters": checks,
                "responses": {},
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
            }
        }
        for name, (kind, _) in _KINDS[where].items()
    }
    return {"openapi": "3.0.0", "info": {"title": "", "version": ""}, "paths": paths}


def _of(path: str) -> tuple[str, str]:
    """The group's version and the kind of a collection's path."""
    for where, kinds in _KINDS.items():
        if path.strip("/").startswith(f"{where}/"):
            return where.removeprefix("apis/").removeprefix("api/"), kinds[path.rsplit("/", 1)[-1]][0]
    raise KeyError(path)


def _selector(query: str) -> str:
    return next((part.partition("=")[2] for part in query.split("&") if part.startswith("labelSelector=")), "")


def _missing(path: str) -> tuple[int, Object]:
    return 404, _status(404, "NotFound", f"{path} not found")


def _status(code: int, reason: str, message: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
