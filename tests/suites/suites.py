"""The suites that are played, and the modes in which they are played."""

from __future__ import annotations

from dataclasses import dataclass

COMMON = ("pytest>=9,<10", "pytest-timeout>=2.4", "pytest-xdist>=3.8")
"""What each suite is run with."""
PLAIN, SERVED, FLEET = "plain", "served", "fleet"
MODES = {"attached": PLAIN, "app": PLAIN, FLEET: SERVED}
"""The modes with Framehold in between, each with the mode without it that it is compared with. `plugins/placed.py`
describes them."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one release of another project.

    `digest` is the SHA-256 of its source archive. `requirements` are installed beside this checkout. `tests` are paths
    of the archive; `options` are for pytest. `plugin` is the module in `plugins/` that puts Framehold in between;
    `needed` are modules there that each mode has.
    """

    name: str
    project: str
    version: str
    digest: str
    requirements: tuple[str, ...]
    tests: tuple[str, ...]
    plugin: str
    needed: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Folders of the archive from which the tests import."""
    timeout: int = 120
    """Seconds that one test may take."""
    fleet_plugin: str = ""
    """The plugin that runs servers in processes of their own; empty if the suite can't be played on a fleet."""
    fleet_tests: tuple[str, ...] = ()
    """What is played on a fleet: tests that connect to a server in memory. Each such connection starts a fleet."""

    @property
    def modes(self) -> list[str]:
        return [mode for mode in MODES if mode != FLEET or self.fleet_plugin]

    def plugins(self, mode: str) -> list[str]:
        """The plugins of pytest for a mode."""
        common = ["ordinary_failures", *self.needed]
        if mode == PLAIN:
            return common
        return [*common, "placed", self.fleet_plugin if mode in (SERVED, FLEET) else self.plugin]

    def files(self, mode: str) -> tuple[str, ...]:
        return self.fleet_tests if mode in (SERVED, FLEET) else self.tests


_PAGES = (
    "client_callbacks",
    "context",
    "dependencies",
    "elicitation",
    "legacy_clients",
    "mrtr",
    "progress",
    "prompts",
    "sampling_and_roots",
    "tools",
    "troubleshooting",
)
"""Pages of the SDK's documentation whose examples are played on a fleet."""

SDK = Suite(
    name="sdk",
    project="mcp",
    version="2.3.0",
    digest="8b147a50441cf059dc88c684e0aeed3687f0aa0f39c6cde7b90330effd2b34d8",
    requirements=(
        "mcp[cli]==2.3.0",
        "blockbuster>=1.5.27",
        "coverage>=7.10",
        "dirty-equals>=0.9",
        "inline-snapshot>=0.23",
        "logfire>=3",
        "opentelemetry-sdk>=1.39",
        "pillow>=12",
        "pytest-examples>=0.0.14",
        "trio>=0.26",
    ),
    # Left out are the tests of the command line, of the documentation's scripts and of the types: they meet no server.
    tests=(
        "tests/client",
        "tests/docs_src",
        "tests/examples",
        "tests/interaction",
        "tests/issues",
        "tests/server",
        "tests/shared",
        "tests/test_examples.py",
        "tests/transports",
    ),
    plugin="in_sdk",
    options=("-o", "log_cli=false"),
    path=("examples",),
    fleet_plugin="in_processes",
    # Tests of servers that ask, and a few of others: a fleet for each connection takes its time.
    fleet_tests=(
        *(f"tests/docs_src/test_{page}.py" for page in _PAGES),
        "tests/server/mcpserver/test_elicitation.py",
        "tests/server/mcpserver/test_resolve.py",
        "tests/server/mcpserver/test_url_elicitation.py",
    ),
)

# Not on a fleet: nearly all servers of these tests have no name, and a fleet refuses a FastMCP server without a name.
# The archive has the sources of fastmcp-tasks too. The tests import those, so only what they need is installed. They
# ask for pydocket 0.29.1: an index may have an older one only, which is enough (`plugins/older_docket.py`).
FASTMCP = Suite(
    name="fastmcp",
    project="fastmcp",
    version="4.2.3",
    digest="0c9d1739d59e89506489bea589dec6193d204ab86e9739333d6bb46c13476477",
    requirements=(
        "fastmcp[apps,code-mode]==4.2.3",
        "pydocket>=0.27",
        "redis!=8.1.0",
        "mcp==2.3.0",
        "dirty-equals>=0.9",
        "fastapi>=0.115",
        "httpx>=0.28",
        "inline-snapshot[dirty-equals]>=0.27",
        "opentelemetry-sdk>=1.39",
        "psutil>=7",
        "pyperclip>=1.9",
        "pytest-asyncio>=1.2",
        "pytest-env>=1.1",
        "pytest-examples>=0.0.18",
        "pytest-retry>=1.7",
    ),
    tests=(
        "tests/client",
        "tests/prompts",
        "tests/resources",
        "tests/server",
        "tests/tasks",
        "tests/telemetry",
        "tests/tools",
    ),
    plugin="in_fastmcp",
    needed=("older_docket",),
    options=(
        # Left out: services on the network, processes that the plugin doesn't reach, another suite.
        *("-m", "not integration and not client_process and not subprocess_heavy and not conformance"),
        # They need the clients of two model providers.
        "--ignore=tests/client/sampling/handlers",
    ),
    timeout=60,
)

SUITES = {suite.name: suite for suite in (SDK, FASTMCP)}
