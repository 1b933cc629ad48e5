"""Values that the chart refuses, with what it says of them; and some that are just right."""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]

KEY = "k" * 32
SECRET = {"existingSecret": "mine"}
SENTINELS = "rediss+sentinel://a:26379,b:26379"
MONITOR = {"serviceMonitor": {"enabled": True}}
SCRAPED: dict[str, Any] = {"scrapeFrom": [{"namespaceSelector": {}}]}


def node(**values: Any) -> Values:
    return {"node": values}


def scaled(**values: Any) -> Values:
    return {"enabled": True, **values}


WRONG: list[tuple[Values, str]] = [
    ({"auth": {"keys": [KEY, "short"]}}, "auth.keys[1] is shorter than 32 bytes; make one with: framehold keys new"),
    (
        {"auth": {"keys": [f"{KEY},{KEY}"]}},
        "auth.keys[0] has a comma or a blank in it; list each key by itself",
    ),
    ({"auth": {"keys": [f" {KEY}"]}}, "auth.keys[0] has a comma or a blank in it; list each key by itself"),
    ({"auth": {"keys": [KEY, KEY]}}, "auth.keys has a key twice; leave each in once"),
    (
        {"auth": {"adminToken": "f" * 15}},
        "auth.adminToken is not 16 or more printable ASCII characters without a blank; make one with: framehold keys "
        "new",
    ),
    (
        {"auth": {"adminToken": "f" * 16, "adminTokenKey": ""}},
        "auth.adminToken is given, and auth.adminTokenKey is empty, which means that there is none; leave one of them "
        "out",
    ),
    (
        {"auth": {"adminTokenKey": "keys"}},
        'auth.keysKey and auth.adminTokenKey are both "keys"; a Secret holds the two under keys of their own',
    ),
    (
        {"auth": {"readToken": "f" * 16}},
        "auth.readToken is given, and auth.readTokenKey is empty, which means that there is none; leave one of them "
        "out",
    ),
    (
        {"auth": {"readToken": "f" * 15, "readTokenKey": "reads"}},
        "auth.readToken is not 16 or more printable ASCII characters without a blank; make one with: framehold keys "
        "new",
    ),
    (
        {"auth": {"readTokenKey": "keys"}},
        'auth.keysKey and auth.readTokenKey are both "keys"; a Secret holds the two under keys of their own',
    ),
    (
        {"auth": {"readTokenKey": "admin-token"}},
        'auth.adminTokenKey and auth.readTokenKey are both "admin-token"; who reads could act; a Secret holds the two '
        "under keys of their own",
    ),
    (
        {"auth": {"readTokenKey": "reads", "readToken": "f" * 16, "adminToken": "f" * 16}},
        "auth.adminToken and auth.readToken are the same; who reads could act; make another with: framehold keys new",
    ),
    (
        {
            "gitops": True,
            "auth": {"keys": [KEY], "adminToken": "f" * 16, "readTokenKey": "reads"},
            "store": {"url": "redis://redis"},
        },
        "gitops is true, and keys or a token would be made anew at each sync, which ends every parked call; make a "
        "Secret and name it in auth.existingSecret, or give auth.keys and each token that has a key",
    ),
    (
        {"auth": {**SECRET, "keys": [KEY]}},
        "auth.existingSecret is given, and auth.keys, auth.adminToken or auth.readToken beside it; put them into that "
        "Secret, or leave it out",
    ),
    (
        {"gitops": True, "auth": {"keys": [KEY]}, "store": {"url": "redis://redis"}},
        "gitops is true, and keys or a token would be made anew at each sync, which ends every parked call; make a "
        "Secret and name it in auth.existingSecret, or give auth.keys and each token that has a key",
    ),
    (
        {"gitops": True, "auth": SECRET},
        "gitops is true with the bundled store, whose password would be made anew at each sync; name a Secret with a "
        "store's URL in store.existingSecret.name",
    ),
    (
        {"store": {"bundled": {"maxMemory": "1gb"}}},
        "store.bundled.resources.limits.memory is 512Mi, less than twice store.bundled.maxMemory (1gb), which is what "
        "the store may take while it rewrites its journal; raise the one, or lower the other",
    ),
    (
        {"store": {"url": "redis://redis", "existingSecret": {"name": "mine"}}},
        "store.url and store.existingSecret.name are both given; leave one of them out",
    ),
    (
        {"store": {"url": "memcached://cache"}},
        "store.url names no kind of store that pods can share; begin it with redis://, redis+sentinel:// or "
        "redis+cluster://, and with rediss in place of redis for TLS",
    ),
    (
        {"store": {"url": f"{SENTINELS}?ssl_check_hostname=false"}},
        "store.url names sentinels, and no service; end it with the name that they monitor: .../mymaster",
    ),
    (
        {"store": {"url": "redis://redis", "tls": {"caSecret": "ca"}}},
        "store.tls.caSecret is given, and store.url speaks no TLS; begin it with rediss, or leave store.tls.caSecret "
        "out",
    ),
    (
        {"store": {"url": f"{SENTINELS}/mymaster", "tls": {"caSecret": "ca"}}},
        "store.tls.caSecret is given, and store.url doesn't name the file; add "
        "?ssl_ca_certs=/etc/framehold/store-tls/ca.crt",
    ),
    (
        node(terminationGracePeriodSeconds=49),
        "node.terminationGracePeriodSeconds is 49, and an orderly end may take 50 (drainTimeout 30 s, and 20 s for "
        "effects that are under way); say 50 or more, or null",
    ),
    (
        node(terminationGracePeriodSeconds=50, settings={"drainTimeout": 30.5}),
        "node.terminationGracePeriodSeconds is 50, and an orderly end may take 51 (drainTimeout 30.5 s, and 20 s for "
        "effects that are under way); say 51 or more, or null",
    ),
    (
        {"router": {"terminationGracePeriodSeconds": 19}},
        "router.terminationGracePeriodSeconds is 19, and an orderly end may take 20 (preStopSeconds 5, and 15 s for "
        "what is under way); say 20 or more, or null",
    ),
    (
        {"haproxy": {"enabled": True, "preStopSeconds": 30, "terminationGracePeriodSeconds": 44}},
        "haproxy.terminationGracePeriodSeconds is 44, and an orderly end may take 45 (preStopSeconds 30, and 15 s for "
        "what is under way); say 45 or more, or null",
    ),
    (
        node(target="server.py", source="mcp = ..."),
        "node.target and node.source are both given; leave one of them out",
    ),
    (
        node(image={"repository": "acme/weather"}),
        'node.image.repository is "acme/weather", and nothing says what of it is served: it would be the booking '
        "example; name your server: node.target=server.py",
    ),
    (
        node(autoscaling=scaled(memoryPercent=None, cpuPercent=None)),
        "node.autoscaling has nothing to scale by; give memoryPercent, cpuPercent or parkedFrames",
    ),
    (
        node(autoscaling=scaled(kind="KEDA", parkedFrames=5000)),
        "node.autoscaling.kind is KEDA without prometheusUrl; say where your Prometheus answers: "
        "http://prometheus.monitoring:9090",
    ),
    (
        node(autoscaling=scaled(kind="KEDA", prometheusUrl="http://prometheus:9090")),
        "node.autoscaling.kind is KEDA without parkedFrames, which is what it asks Prometheus for; say how many a node "
        "shall hold",
    ),
    (
        node(autoscaling=scaled(minReplicas=11)),
        "node.autoscaling.minReplicas is 11, above maxReplicas (10); lower the one, or raise the other",
    ),
    (
        {"router": {"autoscaling": scaled(maxReplicas=1)}},
        "router.autoscaling.minReplicas is 2, above maxReplicas (1); lower the one, or raise the other",
    ),
    (
        node(autoscaling=scaled(), resources={"requests": {"memory": None}, "limits": {"memory": None}}),
        "node.autoscaling.memoryPercent is a share of node.resources.requests.memory, which is missing; give it, or "
        "set memoryPercent to null",
    ),
    (
        {"router": {"autoscaling": scaled(), "resources": {"requests": {"cpu": None}}}},
        "router.autoscaling.cpuPercent is a share of router.resources.requests.cpu, which is missing; give it",
    ),
    (
        node(pdb={"maxUnavailable": 0}),
        "node.pdb.maxUnavailable is 0: no machine could ever be drained; say 1 or more, or node.pdb.enabled=false",
    ),
    (
        {"router": {"pdb": {"maxUnavailable": "0%"}}},
        "router.pdb.maxUnavailable is 0%: no machine could ever be drained; say 1 or more, or router.pdb.enabled=false",
    ),
    (
        node(env=[{"name": "FRAMEHOLD_LEASE_TTL", "value": "9"}]),
        "node.env sets FRAMEHOLD_LEASE_TTL, which is the chart's to set, and Kubernetes wants each name once; say it "
        "under node.settings, settings, auth, store or allowedHosts",
    ),
    (
        {"router": {"settings": {"maxBuffered": 536870912}}},
        "router.resources.limits.memory is 512Mi, and bodies alone may take router.settings.maxBuffered (536870912 "
        "bytes); raise the one, or lower the other",
    ),
    (
        {"haproxy": {"enabled": True, "resources": {"limits": {"memory": "1Gi"}}}},
        "haproxy.resources.limits.memory is 1Gi, and 4000 connections with 2 buffers of 131072 bytes each, with 64 MiB "
        "for the rest, take 1064Mi; raise it, or lower haproxy.maxConnections or haproxy.bufferBytes",
    ),
    (
        {"service": {"nodePort": 30080}},
        "service.nodePort is given, and service.type is ClusterIP; leave it out, or say NodePort or LoadBalancer",
    ),
    (
        {"service": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}},
        "service.loadBalancerSourceRanges limits nobody with service.type ClusterIP; say LoadBalancer, or use "
        "networkPolicy.clientsFrom",
    ),
    (
        {"service": {"loadBalancerClass": "metal"}},
        "service.loadBalancerClass chooses nothing with service.type ClusterIP; say LoadBalancer, or leave it out",
    ),
    (
        {"service": {"externalTrafficPolicy": "Local"}},
        "service.externalTrafficPolicy is given, and service.type is ClusterIP; leave it out, or say NodePort or "
        "LoadBalancer",
    ),
    (
        {"settings": {"adminPort": 8080}},
        "settings.adminPort is 8080, which the pods use for something else; say another port, or 0 for one port that "
        "serves all",
    ),
    (
        {"settings": {"adminPort": 80}},
        "settings.adminPort is 80, which only root may open; say 1024 or more, or 0 for one port that serves all",
    ),
    (
        {"router": {"dnsPolicy": "None"}},
        "router.dnsPolicy is None without router.dnsConfig, so that no name would be found; say which servers answer",
    ),
    (
        {"metrics": {**MONITOR, "podMonitor": {"enabled": True}}, "networkPolicy": SCRAPED},
        "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are both true, and each process would be "
        "counted twice; leave one of them out",
    ),
    (
        {"networkPolicy": {"enabled": False, "egress": {"enabled": True}}},
        "networkPolicy.egress.enabled is true, and networkPolicy.enabled is false, so that nothing is limited; say "
        "true there too, or leave it out",
    ),
    (
        {"networkPolicy": {"egress": {"enabled": True}}, "store": {"url": "redis://redis"}},
        "networkPolicy.egress.enabled is true with a store of your own, which no pod would reach; say where it is in "
        "networkPolicy.egress.store",
    ),
    (
        {"ingress": {"enabled": True}},
        "ingress.enabled is true without ingress.hosts; name the hosts, since nodes answer to no other names",
    ),
    (
        {"httpRoute": {"enabled": True, "hostnames": ["mcp.example.com"]}},
        "httpRoute.enabled is true without httpRoute.parentRefs; name the Gateway: - name: ...",
    ),
    (
        {"httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}},
        "httpRoute.enabled is true without httpRoute.hostnames; name the hosts, there or in allowedHosts, since nodes "
        "answer to no other names",
    ),
    (
        {"ingress": {"enabled": True, "hosts": ["*.example.com"]}},
        '"*.example.com" is a pattern, and nodes compare whole names; list those that clients use in allowedHosts',
    ),
    (
        {"settings": {"metrics": False}, "metrics": MONITOR, "networkPolicy": SCRAPED},
        "settings.metrics is false, and metrics.serviceMonitor would find nothing; say true, or leave those out",
    ),
    (
        {
            "settings": {"metrics": False},
            "metrics": {"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}},
            **node(autoscaling=scaled(parkedFrames=5000)),
        },
        "settings.metrics is false, and metrics.prometheusRule, metrics.dashboards, node.autoscaling.parkedFrames "
        "would find nothing; say true, or leave those out",
    ),
    (
        {"metrics": MONITOR},
        "metrics.serviceMonitor.enabled is true, and the network policy lets nobody scrape nodes; say where your "
        "Prometheus runs in networkPolicy.scrapeFrom, or networkPolicy.enabled=false",
    ),
    (
        {"metrics": {"serviceMonitor": {"enabled": True, "interval": "1m"}}, "networkPolicy": SCRAPED},
        "metrics.serviceMonitor.interval is 1m, and the alerts count on 30s at most; lower it",
    ),
    (
        {"test": {"answers": ["two"]}},
        "test.arguments or test.answers is given without test.tool; name the tool that they are for",
    ),
]
"""Values that are wrong together, and the one sentence that is said of them."""

OUT_OF_RANGE: list[tuple[Values, str]] = [
    ({"replicas": 5}, "additional properties 'replicas' not allowed"),
    (node(settings={"leaseTLL": 3}), "at '/node/settings': additional properties 'leaseTLL' not allowed"),
    (node(settings={"leaseTtl": 301}), "at '/node/settings/leaseTtl': maximum: got 301, want 300"),
    (node(settings={"drainTimeout": None}), "at '/node/settings': missing property 'drainTimeout'"),
    (node(image={"digest": "sha256:12"}), "at '/node/image/digest': 'sha256:12' does not match pattern"),
    (node(autoscaling={"kind": "VPA"}), "at '/node/autoscaling/kind': value must be one of 'HPA', 'KEDA'"),
    (node(replicas=0), "at '/node/replicas': minimum: got 0, want 1"),
    (node(pdb=None), "at '/node': missing property 'pdb'"),
    (node(resources={"limits": {"memory": "1 Gi"}}), "at '/node/resources/limits/memory': '1 Gi' does not match"),
    ({"auth": {"keys": KEY}}, "at '/auth/keys': got string, want array"),
    ({"settings": {"logLevel": "loud"}}, "at '/settings/logLevel': value must be one of"),
    (node(env=[{"name": "PORT", "value": 80}]), "at '/node/env/0/value': got number, want string"),
    ({"router": {"env": [{"value": "a"}]}}, "at '/router/env/0': missing property 'name'"),
    ({"ingress": {"hosts": ["mcp.example.com:443"]}}, "at '/ingress/hosts/0': 'mcp.example.com:443' does not match"),
    ({"httpRoute": {"hostnames": ["MCP.example.com"]}}, "at '/httpRoute/hostnames/0': 'MCP.example.com' does not"),
    ({"commonLabels": {"helm.sh/chart": "own"}}, "invalid propertyName 'helm.sh/chart'"),
    (node(podLabels={"app.kubernetes.io/name": "own"}), "invalid propertyName 'app.kubernetes.io/name'"),
]
"""Values that the schema refuses, and a piece of what Helm says of them."""

RIGHT: list[Values] = [
    {},
    node(terminationGracePeriodSeconds=50),
    node(image={"repository": "registry.example.com/framehold/node"}),
    node(image={"repository": "acme/weather"}, target="server.py"),
    node(pdb={"enabled": False, "maxUnavailable": 0}),
    node(pdb={"maxUnavailable": "50%"}),
    node(env=[{"name": "CITY", "value": "Rome"}]),
    node(autoscaling=scaled(), resources={"requests": {"memory": None}, "limits": {"memory": "1Gi"}}),
    {
        "store": {
            "url": f"{SENTINELS}/mymaster/0?ssl_ca_certs=/etc/framehold/store-tls/ca.crt",
            "tls": {"caSecret": "ca"},
        }
    },
    {"store": {"url": "REDIS+CLUSTER://a,b,c"}},
    {"store": {"bundled": {"maxMemory": "500m", "resources": {"limits": {"memory": 1_000_000_000}}}}},
    {"gitops": True, "auth": {"keys": [KEY], "adminTokenKey": ""}, "store": {"url": "redis://redis"}},
    {"ingress": {"enabled": True, "hosts": ["*.example.com"]}, "allowedHosts": ["mcp.example.com"]},
    {"metrics": {"serviceMonitor": {"enabled": True, "interval": "30000ms"}}, "networkPolicy": SCRAPED},
    {"metrics": MONITOR, "networkPolicy": {"enabled": False}},
    {"haproxy": {"enabled": True, "resources": {"limits": {"memory": "1064Mi"}}}},
    {"haproxy": {"enabled": True, "resources": {"limits": {"memory": None}}}},
    {"global": {"domain": "example.com"}},
]
"""Each beside a limit of one of the sentences."""
