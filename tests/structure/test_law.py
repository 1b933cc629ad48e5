"""The law ships with the code: what code, tests and docs cite of it is in this repository.

`docs/protocol.md` states the rules and invariants, the pages beside it what is stored and the tables, `docs/decisions`
why they are so. `held_by.toml` names what holds each of them. Each check is a function from a text to its violations.
Each has a test over the repository and one over a bad sample, so that a check which sees nothing any more fails as a
broken citation does.
"""

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import pytest

from framehold_core import ownership, retry
from tests.sim.mutations import ELSEWHERE, MASKED, RED

ROOT = Path(__file__).parents[2]
LAW = ROOT / "docs" / "protocol.md"
STORE = ROOT / "docs" / "protocol-store.md"
TABLES = ROOT / "docs" / "protocol-tables.md"
HELD = Path(__file__).with_name("held_by.toml")
DECISIONS = ROOT / "docs" / "decisions"
PLACES = ("core", "store", "fleet", "router", "node", "cli", "loadtest", "tests", "docs", "examples", "helm", "release")
KINDS = {".py", ".lua", ".md", ".toml", ".yaml", ".yml", ".tpl", ".txt", ".sh"}
PAGES = ("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
FILES = (*PAGES, "Makefile", "pyproject.toml", ".ci/run", ".pre-commit-config.yaml")
"""What is looked at beside the folders of `PLACES`."""

_PAPERS = "PROTOCOL|DESIGN|OPERATIONS|DURABILITY|FINDINGS|HOUSE|STYLE"
"""Names of papers from before the first release. They are no part of the repository."""
_ANY = re.compile(rf"\b[Rr]ules?\s|\bI\d|[Dd]ecisions?\b|\.md\b|{_PAPERS}|[Ss]ections? \d")
"""What a text has that could cite; most have none of it, and are not parsed."""
_LIST = r"(\d+(?:(?:, | and | or | to |, and )\d+)*)"
_RULE = re.compile(rf"\b[Rr]ules? {_LIST}\b")
_INVARIANT = re.compile(r"\bI([0-9]+)\b")
_DECISION = re.compile(r"\b[Dd]ecisions? (\d{3}(?:(?:, | and | or | to )\d{3})*)\b")
_CODE_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|lua|js|tpl))[`:]")
_DECISION_FILE = re.compile(r"\bdecisions/(\d{3})\b")
_DOCUMENT = re.compile(r"(?<![\w./-])[\w./-]*\w\.md\b")
_OWN = re.compile(r"(?<![\w/-])docs/[\w./-]*\w\.md\b")
_HEADING = re.compile(r'(docs/[\w/-]+\.md), "([^"]+)"')
_NAMED = re.compile(rf"\b(?:{_PAPERS}|MCP\.md)\b(?!\.md)")
_SECTION = re.compile(r"(?<!RFC \d{4}, )\b[Ss]ections? \d")
_LINK = re.compile(r"\]\(([^()\s]*?)(?:#([\w-]+))?\)")
_ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
_STATED = re.compile(r"rule-\d+|i\d+")
_CITED_RULE = re.compile(r"^rule-(\d+)$")
_ROW = re.compile(r"^\| ([^|]+?) \|", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """One file: where it is, counted from the root, and what it says."""

    path: Path
    text: str

    @cached_property
    def _parts(self) -> tuple[str, str]:
        """What people read of it, and the other texts in it. Of a file that is no Python all of it is read."""
        if not _ANY.search(self.text):
            return "", ""
        if self.path.suffix != ".py":
            return re.sub(r"^-- ?", "", self.text, flags=re.MULTILINE), ""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        prose = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
        read: set[ast.AST] = set()
        others: list[str] = []
        for node in ast.walk(ast.parse(self.text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                read.add(node.value)
                prose.append(node.value.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in read:
                others.append(node.value)
        return "\n".join(prose), "\n".join(others)

    @property
    def prose(self) -> str:
        """Comments and docstrings of Python, else the whole text; each run of white space is one space."""
        return " ".join(re.sub(r"https?://\S+", "", self._parts[0]).split())

    @property
    def strings(self) -> str:
        """The other texts of a Python file: messages, names, data."""
        return " ".join(self._parts[1].split())


Check = Callable[[Source], Iterator[str]]


@cache
def law() -> dict[str, str]:
    """The sections of the protocol and of the pages beside it, by their anchors. No two of them have one anchor."""
    found: dict[str, str] = {}
    for page in (LAW, STORE, TABLES):
        here = sections(page.read_text(encoding="utf-8"))
        assert not found.keys() & here.keys(), f"{page} has anchors of another page"
        found |= here
    return found


def sections(text: str) -> dict[str, str]:
    """A page cut at its explicit anchors."""
    marks = list(_ANCHOR.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {mark[1]: text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)}


@cache
def decisions() -> frozenset[str]:
    """The numbers of all decisions."""
    return frozenset(path.name[:3] for path in DECISIONS.glob("[0-9][0-9][0-9]-*.md"))


# ---- checks of whoever cites


def numbers_exist(source: Source) -> Iterator[str]:
    """Each rule, invariant and decision that is cited is stated."""
    text = f"{source.prose} {source.strings}"
    for kind, found in (("rule", _RULE), ("decision", _DECISION)):
        stated = decisions() if kind == "decision" else {name.removeprefix("rule-") for name in law()}
        for cited in found.findall(text):
            yield from (f"{source.path}: {kind} {n}" for n in re.findall(r"\d+", cited) if n not in stated)
    yield from (f"{source.path}: I{n}" for n in _INVARIANT.findall(text) if f"i{n}" not in law())
    yield from (f"{source.path}: decisions/{n}" for n in _DECISION_FILE.findall(text) if n not in decisions())


def says_where_rules_are(source: Source) -> Iterator[str]:
    """Whoever cites a rule or an invariant names the page once."""
    cites = _RULE.search(source.prose) or _INVARIANT.search(source.prose)
    if cites and "protocol.md" not in source.prose and source.path != LAW.relative_to(ROOT):
        yield f"{source.path}: cites {cites[0]!r}, and not docs/protocol.md"


def documents_exist(source: Source) -> Iterator[str]:
    """No page is cited that is not there. Of texts in code only those that begin with `docs/` are citations."""
    for name in (*_DOCUMENT.findall(source.prose), *_OWN.findall(source.strings)):
        near = (source.path.parent, Path(), Path("docs"), Path("helm/framehold"))
        if not any((ROOT / folder / name).resolve().is_file() for folder in near):
            yield f"{source.path}: {name}"
    for name, heading in _HEADING.findall(source.prose):
        if slug(heading) not in anchors(ROOT / name):
            yield f"{source.path}: {name} has no heading {heading!r}"


def no_paper_by_name(source: Source) -> Iterator[str]:
    """No paper outside of the repository is cited, by its name or by the number of its section."""
    yield from (f"{source.path}: {name}" for name in _NAMED.findall(source.prose))
    yield from (f"{source.path}: {name}" for name in _SECTION.findall(source.prose))


def links_lead_somewhere(source: Source) -> Iterator[str]:
    """Each link of a page leads to a file, and to an anchor in it."""
    if source.path.suffix != ".md":
        return
    for file, anchor in _LINK.findall(re.sub(r"(?s)```.*?```", "", source.text)):
        if ":" in file:
            continue
        target = (ROOT / source.path.parent / file).resolve() if file else ROOT / source.path
        if not target.exists():
            yield f"{source.path}: {file}"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target, source):
            yield f"{source.path}: {file}#{anchor}"


@cache
def endings() -> frozenset[str]:
    """All by which a file may be cited: its path, without some of its folders."""
    found = (path.relative_to(ROOT).parts for place in PLACES for path in (ROOT / place).rglob("*.*"))
    return frozenset("/".join(parts[start:]) for parts in found for start in range(len(parts)))


def cited_code_exists(source: Source) -> Iterator[str]:
    """No page, and no decision, names a file of the code that has moved or is gone."""
    if source.path.suffix == ".md":
        yield from (f"{source.path}: {file}" for file in _CODE_FILE.findall(source.text) if file not in endings())


def slug(heading: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path, source: Source | None = None) -> set[str]:
    """What a link to a page may name."""
    own = source is not None and page == ROOT / source.path
    text = source.text if own and source is not None else page.read_text(encoding="utf-8")
    text = re.sub(r"(?s)```.*?```", "", text)
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        name = slug(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading))
        same = sum(1 for other in found if other == name or re.fullmatch(re.escape(name) + r"-\d+", other))
        found.append(f"{name}-{same}" if same else name)
    return {*found, *_ANCHOR.findall(text)}


# ---- checks of the law itself


@cache
def functions(path: Path) -> frozenset[str]:
    """The tests of a file."""
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    found = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


@dataclass(frozen=True)
class Held:
    """What holds a rule, an invariant or a section: mutations that are found, tests, and mutations that are masked."""

    mutations: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    masked: list[str] = field(default_factory=list)


def holders(text: str) -> dict[str, Held]:
    """What a file of the form of `held_by.toml` says, by the anchors of the law."""
    return {anchor: Held(**held) for anchor, held in tomllib.loads(text).items()}


@cache
def held_by() -> dict[str, Held]:
    """What holds each part of the law."""
    return holders(HELD.read_text(encoding="utf-8"))


def each_has_an_entry(source: Source) -> Iterator[str]:
    """Each rule and invariant has an entry, and each entry is of a part of the law."""
    found = holders(source.text)
    yield from (
        f"{source.path}: nothing holds {name}" for name in law() if _STATED.fullmatch(name) and name not in found
    )
    yield from (f"{source.path}: the law has no {name}" for name in found if name not in law())


def each_is_held(source: Source) -> Iterator[str]:
    """Each entry of a rule or an invariant names a mutation that is found, or a test; each that is named exists, and is
    named there once."""
    for anchor, held in holders(source.text).items():
        if _STATED.fullmatch(anchor) and not held.tests and not [name for name in held.mutations if name in RED]:
            yield f"{source.path}: nothing holds {anchor}"
        for name in held.tests:
            file, _, function = name.partition("::")
            if function not in functions(ROOT / "tests" / file):
                yield f"{source.path}: {anchor} names {name}"
        yield from (f"{source.path}: {anchor} names {name}" for name in held.mutations if name not in RED)
        yield from (f"{source.path}: {anchor} names {name}" for name in held.masked if name not in MASKED)
        names = Counter([*held.mutations, *held.tests, *held.masked])
        yield from (f"{source.path}: {anchor} names {name} twice" for name, times in names.items() if times > 1)


def each_mutation_is_named(source: Source) -> Iterator[str]:
    """Each mutation is named where the rule is that it takes away; a masked one somewhere."""
    found = holders(source.text)
    for name, mutation in RED.items():
        anchor = f"rule-{mutation.rule}" if mutation.rule.isdigit() else mutation.rule.lower()
        if name not in found.get(anchor, Held()).mutations:
            yield f"{source.path}: {anchor} does not name {name}"
    masked = {name for held in found.values() for name in held.masked}
    yield from (f"{source.path}: no rule names {name}" for name in MASKED if name not in masked)


def rules_are_in_order(source: Source) -> Iterator[str]:
    """The rules are numbered from 1 on, and each has its number in its heading."""
    found = [(match[1], text) for name, text in sections(source.text).items() if (match := _CITED_RULE.match(name))]
    for place, (number, text) in enumerate(found, 1):
        if number != str(place) or not text.lstrip().startswith(f"### Rule {place}: "):
            yield f"{source.path}: rule {number} stands in the place of rule {place}"


def tables_are_the_codes(source: Source) -> Iterator[str]:
    """The rows of the retry table and of the ownership table are those of the code, in their order."""
    tables = {
        "retry-table": [row.when for row in retry.ROWS],
        "ownership-table": [row.when for row in ownership.ROWS],
    }
    stated = {name: _ROW.findall(sections(source.text).get(name, ""))[2:] for name in tables}
    wrong = {name: stated[name] for name, rows in tables.items() if stated[name] != rows}
    if wrong:
        yield f"{source.path}: other rows than those of the code: {wrong}"


CITING: list[Check] = [
    numbers_exist,
    says_where_rules_are,
    documents_exist,
    no_paper_by_name,
    links_lead_somewhere,
    cited_code_exists,
]
STATING: list[tuple[Check, Path]] = [
    (each_has_an_entry, HELD),
    (each_is_held, HELD),
    (each_mutation_is_named, HELD),
    (rules_are_in_order, LAW),
    (tables_are_the_codes, TABLES),
]
"""Each check of the law itself, and the file that it reads."""


@cache
def sources() -> tuple[Source, ...]:
    """All files that may cite. What is built or installed beside them is none of ours."""
    found = [path for place in PLACES for path in sorted((ROOT / place).rglob("*")) if path.suffix in KINDS]
    found += [ROOT / name for name in FILES]
    ours = [
        path for path in found if not {"node_modules", "__pycache__", "vendor"} & set(path.parts) and path.is_file()
    ]
    return tuple(Source(path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in ours)


@pytest.mark.parametrize("check", CITING, ids=lambda check: check.__name__)
def test_the_repository_cites_what_it_has(check: Check) -> None:
    assert [violation for source in sources() for violation in check(source)] == []


@pytest.mark.parametrize(("check", "file"), STATING, ids=[check.__name__ for check, _ in STATING])
def test_the_law_is_whole(check: Check, file: Path) -> None:
    assert list(check(Source(file.relative_to(ROOT), file.read_text(encoding="utf-8")))) == []


def test_what_holds_the_law_is_read() -> None:
    """An empty file would name nothing that is not there."""
    assert sum(len(held.tests) for held in held_by().values()) > 200


def test_every_place_is_looked_at() -> None:
    """A folder that moved would otherwise cite nothing wrong by having no files."""
    assert {source.path.parts[0] for source in sources()} == {*PLACES, *(name.split("/")[0] for name in FILES)}
    assert len(re.findall(r"\brule \d", " ".join(source.prose for source in sources()))) > 100, "hardly any is cited"


def test_rules_without_a_schedule_are_held_by_the_tests_that_the_simulation_names() -> None:
    """`ELSEWHERE` and `held_by.toml` say the same of what no schedule shows."""
    for number, tests in ELSEWHERE.items():
        assert {test.removeprefix("tests/") for test in tests} <= set(held_by()[f"rule-{number}"].tests)


# The samples are put together here, so that this file cites nothing that isn't there.
BEYOND = len([name for name in law() if _CITED_RULE.match(name)]) + 1
PAGE = f"{'nowhere'}.md"
GOOD_RULE = '<a id="rule-1"></a>\n### Rule 1: One\n\nIt holds.\n'
GOOD_ENTRY = '[rule-1]\nmutations = ["gate-off"]\n'

BAD: list[tuple[Check, str, str]] = [
    (numbers_exist, "core/a.py", f"# as rule {BEYOND} says"),
    (numbers_exist, "core/a.py", f'"""Rules 1 and {BEYOND}."""'),
    (numbers_exist, "core/a.py", f'fail("rule {BEYOND}")'),
    (numbers_exist, "tests/a.py", f'fail("I{99} once")'),
    (numbers_exist, "a/b.lua", f"-- what rule {BEYOND} says"),
    (numbers_exist, "docs/options.md", f"see decision {999}"),
    (says_where_rules_are, "core/a.py", f"# as rule {1} says"),
    (says_where_rules_are, "docs/options.md", f"as rule {1} says"),
    (documents_exist, "core/a.py", f'"""As {PAGE} says."""'),
    (documents_exist, "core/a.py", f'raise ValueError("see docs/{PAGE}")'),
    (documents_exist, "a/b.lua", f"-- as {PAGE} says"),
    (documents_exist, "core/a.py", f'"""As docs/protocol.md, "{"No such heading"}", says."""'),
    (no_paper_by_name, "core/a.py", f'"""As {"PROTO" + "COL"} says."""'),
    (no_paper_by_name, "docs/options.md", f"what {'DE' + 'SIGN'} hoped for"),
    (no_paper_by_name, "core/a.py", f"# see section {4}"),
    (links_lead_somewhere, "docs/options.md", f"[a]({PAGE})"),
    (links_lead_somewhere, "docs/options.md", f"[a](protocol.md#rule-{BEYOND})"),
    (links_lead_somewhere, "docs/options.md", "# One\n\n[a](#two)"),
    (cited_code_exists, "docs/options.md", f"as `engine/{'no_such_file'}.py` says"),
    (each_has_an_entry, "tests/a.toml", "".join(f"[{name}]\n" for name in (*law(), f"rule-{BEYOND}"))),
    (each_has_an_entry, "tests/a.toml", "".join(f"[{name}]\n" for name in law() if name != "rule-1")),
    (each_has_an_entry, "tests/a.toml", "".join(f"[{name}]\n" for name in law() if name != "i1")),
    (each_is_held, "tests/a.toml", "[rule-1]\n"),
    (each_is_held, "tests/a.toml", GOOD_ENTRY.replace('"gate-off"', '"gate-off", "no-such-mutation"')),
    (each_is_held, "tests/a.toml", GOOD_ENTRY.replace('"gate-off"', '"gate-off", "gate-off"')),
    (each_is_held, "tests/a.toml", GOOD_ENTRY + 'tests = ["core/test_rounds.py::test_never"]'),
    (each_is_held, "tests/a.toml", GOOD_ENTRY.replace("gate-off", "window-off") + 'masked = ["gate-off"]'),
    (rules_are_in_order, "docs/options.md", GOOD_RULE.replace("rule-1", "rule-2")),
    (rules_are_in_order, "docs/options.md", GOOD_RULE.replace("### Rule 1:", "### One:")),
    (
        tables_are_the_codes,
        "docs/options.md",
        '<a id="retry-table"></a>\n| Row | Then |\n| --- | --- |\n| r = R | x |\n',
    ),
]

GOOD: list[tuple[Check, str, str]] = [
    (numbers_exist, "core/a.py", f"# rules 1, 2 and {BEYOND - 1}, I1 and I9, decision 005\nI{99} = 1"),
    (says_where_rules_are, "core/a.py", '"""docs/protocol.md, rule 1."""\n# rule 2'),
    (says_where_rules_are, "docs/options.md", "[rule 1](protocol.md#rule-1)"),
    (documents_exist, "core/a.py", f'"""docs/protocol.md; README.md."""\nx = open("{PAGE}")'),
    (documents_exist, "tests/compat/a.py", '"""As docs/protocol-store.md, "Tokens", says, and README.md."""'),
    (no_paper_by_name, "core/a.py", '"""RFC 9110, section 12.5.3; MCP_PROTOCOL_VERSION."""\nPROTOCOL = 1'),
    (cited_code_exists, "docs/options.md", "`engine/loop.py`, `core/test_rounds.py::test_it`, `flow.py`"),
    (
        links_lead_somewhere,
        "docs/options.md",
        "# One `x`\n\n[a](#one-x) [b](protocol.md#i9) [c](https://example.com/#d)",
    ),
    (each_has_an_entry, "tests/a.toml", "".join(f"[{name}]\n" for name in law())),
    (each_is_held, "tests/a.toml", GOOD_ENTRY),
    (
        each_is_held,
        "tests/a.toml",
        '[rule-1]\ntests = ["core/test_rounds.py::test_the_frame_does_not_resume_outside_the_window"]',
    ),
    (rules_are_in_order, "docs/options.md", GOOD_RULE),
]


@pytest.mark.parametrize(("check", "path", "text"), BAD)
def test_a_bad_sample_is_caught(check: Check, path: str, text: str) -> None:
    """Each check sees what it is for: exactly one violation, at the sample's path."""
    found = list(check(Source(Path(path), text)))
    assert len(found) == 1, found
    assert found[0].startswith(path)


@pytest.mark.parametrize(("check", "path", "text"), GOOD)
def test_a_good_sample_passes(check: Check, path: str, text: str) -> None:
    """A check that fails on lawful text would be switched off."""
    assert list(check(Source(Path(path), text))) == []


def test_a_mutation_that_no_rule_names_is_noticed() -> None:
    text = HELD.read_text(encoding="utf-8")
    for name in (*RED, *MASKED):
        without = Source(Path("tests/a.toml"), text.replace(f'"{name}"', '"it"'))
        assert [violation for violation in each_mutation_is_named(without) if name in violation], name
