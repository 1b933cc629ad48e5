"""The checks of `framehold doctor` on the fleet: its nodes, their calls, and who may read the router's API.

The verdicts are pure functions of the router's replies. `check` reads these from the router.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from framehold_core.errors import ConfigError
from framehold_fleet.models.nodes import NodesView, NodeView, OverviewView
from framehold_fleet.models.problems import ProblemView, Severity

from ..checks.findings import Finding, fail, ok, warn
from ..client.api import ApiClient, ApiRefused, Unproved
from ..show import figures

Access = Literal["open", "token", "nobody"]
"""Who may read a router's API: everybody, callers with a token, or nobody by this address."""


def check(url: str, token: str | None, access: Access) -> list[Finding]:
    """All findings on the fleet of the router at `url`."""
    with ApiClient(url, token) as api:
        try:
            answer = api.get("overview", OverviewView)
            nodes = api.get("nodes", NodesView).view.nodes
        except ApiRefused as refused:
            if isinstance(refused, Unproved) or (refused.status == 401 and not api.has_token):
                wants = "the router wants one, and none was given"
                says = "who answers does not prove that it has this one" if api.has_token else wants
                return [fail("admin token", says, "give --token or FRAMEHOLD_ADMIN_TOKEN; checks of its nodes need it")]
            return [fail("fleet", str(refused), "do what the router says, or look at its log")]
        except ConfigError as error:
            return [fail("fleet", str(error), "see docs/operating.md; checks of its nodes need its API")]
    overview, found = answer.view, answer.view.problems
    return [
        *(admin(access), *verdict(found, nodes), *versions(overview.version, nodes), calls(overview)),
        *kept_code(nodes),
    ]


def admin(access: Access) -> Finding:
    """Whether the router needs an admin token. A token that it refuses is a finding of `check`."""
    if access == "token":
        return ok("admin token", "the router wants it, and takes the one that was given")
    says = "the router has none: all on its machine may read its API, and nobody may drain, cancel or evict"
    return warn("admin token", says, "export FRAMEHOLD_ADMIN_TOKEN=$(framehold keys new) for routers and nodes")


_LOGS = "see the logs of the nodes, and of the router"


def verdict(problems: Sequence[ProblemView], nodes: Sequence[NodeView]) -> list[Finding]:
    """The problems that the router reports: a failure for each that harms users now, a warning for each other."""
    if problems:
        kinds = {Severity.HARM: fail, Severity.RISK: warn}
        return [kinds[problem.severity]("fleet", problem.text, problem.next or _LOGS) for problem in problems]
    return [ok("fleet", f"{figures.many(len(nodes), 'node')} known, and each answers the router")]


def versions(router: str, nodes: Sequence[NodeView]) -> list[Finding]:
    """Whether all processes run one release. Nodes that don't report their release are left out."""
    by_version: dict[str, list[str]] = {router: ["the router"]} if router else {}
    for one in nodes:
        if one.version:
            by_version.setdefault(one.version, []).append(one.node_id)
    summary = "; ".join(f"{version}: {', '.join(names)}" for version, names in sorted(by_version.items()))
    if len(by_version) > 1:
        return [warn("versions", summary, "fine during a roll-out; then bring all to the newest")]
    return [ok("versions", summary)] if by_version else []


def kept_code(nodes: Sequence[NodeView]) -> list[Finding]:
    """Whether calls go on with the code that they began with, and the handlers of which they don't."""
    reported = [node.not_kept for node in nodes if node.not_kept is not None]
    if not reported:
        says = "no node keeps the code of its handlers: after a deploy parked calls meet the new code"
        return [warn("code", says, "FRAMEHOLD_KEEP_CODE and FRAMEHOLD_PICKLE must be true")] if nodes else []
    found = {item.handler: item.why for views in reported for item in views}
    if not found:
        return [ok("code", "kept: after a deploy parked calls go on with the code that they began with")]
    return [warn("code", f"that of {name} is not kept", why) for name, why in sorted(found.items())]


def calls(overview: OverviewView) -> Finding:
    """How many calls wait for their clients after their nodes have gone. Stuck calls are a problem of `verdict`."""
    return ok("calls", f"orphaned: {overview.open.orphaned.text}")
