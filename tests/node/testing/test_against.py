"""A waiting call meets the next release of its server: a rehearsal shows which changes break it."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import framehold.testing
from framehold.testing import Rehearsal, RehearsalFailed, Rehearse
from tests.node.code.releases import release

rehearse = framehold.testing.rehearse

SHOP = '''\
import io

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp = MCPServer("shop")
done = []
RATE = 3

class Sure(BaseModel):
    sure: bool

def price(count):
    return count * RATE

def note(line):
    done.append(line)
    return line

@mcp.tool()
@framehold.reentrant
async def order(item: str, ctx: Context) -> str:
    """Order something."""
    await framehold.once("audit", note, f"audit {item}")
    await framehold.once("reserve", note, f"reserve {item}")
    first = await ctx.elicit(f"Order {item}?", Sure)
    await framehold.once("charge", note, f"charge {price(2)}")
    second = await ctx.elicit(f"Pay {price(2)}?", Sure)
    receipt = await framehold.once("send", note, f"send {item}")
    return f"{receipt} for {price(2)}: {first.data.sure} {second.data.sure}"
'''
YES = {"sure": True}
RESULT = "send tea for 6: True True"
EFFECTS = ["audit", "reserve", "charge", "send"]
KEEP_NOT = ("@framehold.reentrant\n", "@framehold.reentrant\n@framehold.options(keep_code=False)\n")
FILE = (
    "def note(line):\n    done.append(line)\n    return line\n",
    "def made():\n    file = io.TextIOWrapper(io.BytesIO())\n\n    def note(line):\n        done.append(line)\n"
    "        return line if file else None\n\n    return note\n\n\nnote = made()\n",
)
QUESTION = ('"Order {item}?"', '"Order {item} now?"')
LATER = ('"Pay {price', '"Please pay {price')
ORDER = (
    'once("audit", note, f"audit {item}")\n    await framehold.once("reserve", note, f"reserve {item}")',
    'once("reserve", note, f"reserve {item}")\n    await framehold.once("audit", note, f"audit {item}")',
)
HELPER = ("return count * RATE", "return count * RATE + 1")
FIELD = ("    sure: bool\n", "    sure: bool\n    colour: str = 'red'\n")
COMMENTS = ("RATE = 3\n", "RATE = 3  # euro\n\n# The prices.\n")
GONE = ("async def order", "async def buy")
UNMARKED = ("@framehold.reentrant\n", "")
OFFERS = (
    '    second = await ctx.elicit(f"Pay {price(2)}?", Sure)\n',
    """\
    heard = []

    async def offer(seconds):
        heard.append(await framehold.once(f"offer {seconds}", asyncio.sleep, seconds, seconds))

    await asyncio.gather(*map(offer, (0.09, 0.03, 0.0)))
    second = await ctx.elicit(f"Pay {heard}?", Sure)
""",
)
Edit = tuple[str, str]


def edited(*edits: Edit) -> str:
    text = SHOP
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    return text


class Releases:
    """Two releases of a shop. Only the later one is imported as `server`."""

    def __init__(self, rehearse: Rehearse, folder: Path) -> None:
        self.rehearse, self._folder = rehearse, folder
        self._numbers = itertools.count()
        self.recording = folder / "order.recording"
        self.earlier: ModuleType
        self.present: ModuleType

    def record(self, before: str, **options: Any) -> Rehearsal:
        """The rehearsal of the earlier release, which writes a recording."""
        call = {"arguments": {"item": "tea"}, "answers": [YES, YES], **options}
        with release(self._folder / f"before-{next(self._numbers)}", before) as self.earlier:
            return self.rehearse(self.earlier.mcp, "order", record=self.recording, **call)

    def deploy(self, after: str, against: Any = None, **options: Any) -> Rehearsal:
        """The rehearsal of the later release against the earlier one, by default against the recording."""
        call = {"arguments": {"item": "tea"}, **options}
        with release(self._folder / f"after-{next(self._numbers)}", after) as self.present:
            return self.rehearse(self.present.mcp, "order", against=against or self.recording, **call)

    def play(self, before: str, after: str) -> Rehearsal:
        """The earlier release is recorded, and the later one rehearsed against that."""
        self.record(before)
        return self.deploy(after)

    def broken(self, before: str, after: str) -> str:
        """The text with which the rehearsal of the later release fails."""
        with pytest.raises(RehearsalFailed) as failure:
            self.play(before, after)
        return str(failure.value)


@pytest.fixture
def releases(rehearse: Rehearse, tmp_path: Path) -> Releases:
    return Releases(rehearse, tmp_path)


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Any]:
    """The server of the earlier release, imported under a name of its own."""
    path = tmp_path / "earlier_server.py"
    path.write_text(SHOP)
    spec = importlib.util.spec_from_file_location("earlier_server", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("after", [SHOP, edited(COMMENTS)], ids=["nothing", "comments"])
def test_an_unchanged_tool_goes_on(after: str, releases: Releases) -> None:
    rehearsal = releases.play(SHOP, after)
    assert (rehearsal.text, rehearsal.effects) == (RESULT, EFFECTS) and rehearsal.questions == ["Order tea?", "Pay 6?"]
    assert [item.round for item in rehearsal.deploys] == [1, 2]
    for item in rehearsal.deploys:
        assert item.kept is item.not_kept and item.kept.code == "unchanged"
        assert str(item.kept) == "it goes on as it began; the present code, which is unchanged, was entered"
        assert (item.kept.text, item.kept.questions, item.kept.effects) == (RESULT, rehearsal.questions, EFFECTS)


DIVERGES = {
    "a question": (QUESTION, (1, 2), "the handler came to ask 'elicit-5c0efa92-1' (Order tea now?)"),
    "a later question": (LATER, (2,), "the handler came to ask 'elicit-e161f93d-1' (Please pay 6?)"),
    "the order of effects": (ORDER, (1, 2), "recorded is once 'audit' (note) (entry 0), but the handler came to once"),
    "a helper": (HELPER, (2,), "recorded is once 'charge' (note) (entry 6), but the handler came to once 'charge'"),
    "a field of a form": (FIELD, (1, 2), "question 1.requestedSchema.properties.colour is {'default': 'red', "),
}


@pytest.mark.parametrize("what", DIVERGES)
def test_a_change_breaks_a_call_only_where_its_code_is_missing(what: str, releases: Releases) -> None:
    edit, rounds, why = DIVERGES[what]
    rehearsal = releases.play(SHOP, edited(edit))
    for item in rehearsal.deploys:
        assert (item.kept.code, item.kept.broken, item.kept.changed, item.kept.text) == ("kept", "", "", RESULT)
        assert item.kept.effects == EFFECTS and item.not_kept.code == "present"
        assert (why in item.not_kept.broken) is (item.round in rounds), item.not_kept.broken
        assert (not item.not_kept.broken) is (item.round not in rounds)


@pytest.mark.parametrize("what", DIVERGES)
@pytest.mark.parametrize("unkept", [KEEP_NOT, FILE], ids=["marked", "a file"])
def test_it_breaks_a_call_whose_code_is_not_kept(unkept: Edit, what: str, releases: Releases) -> None:
    """The text has each round, the difference, and why the code is not kept."""
    edit, rounds, why = DIVERGES[what]
    text = releases.broken(edited(unkept), edited(unkept, edit))
    assert text.startswith("calls of 'order' that began in the earlier release break if this one is deployed while")
    assert why in text and [f"in round {n}: " in text for n in (1, 2)] == [n in rounds for n in (1, 2)]
    named = "it is marked keep_code=False"
    if unkept is FILE:
        named = "'file' in the closure of server.made.<locals>.note is an object of _io.TextIOWrapper"
    assert f"the present code was entered, since its code is not kept: {named}" in text
    assert text.endswith("have it kept, or let the present code do the same")


def test_other_questions_are_named_and_other_effects_run_once(releases: Releases) -> None:
    rehearsal = releases.play(SHOP, edited(HELPER))
    first = rehearsal.deploys[0].not_kept
    assert first.changed == "question 2.message is 'Pay 7?', and was 'Pay 6?' in the earlier release"
    assert (first.text, first.effects) == ("send tea for 7: True True", EFFECTS)
    assert releases.earlier.done == ["audit tea", "reserve tea", "charge 6", "send tea"]
    assert releases.present.done == ["charge 7"]


def test_results_come_as_late_as_they_were_recorded(releases: Releases) -> None:
    """So they come in the order in which the effects ended."""
    text = edited(("import io\n", "import asyncio\nimport io\n"), OFFERS)
    rehearsal = releases.play(text, text)
    assert rehearsal.questions == ["Order tea?", "Pay [0.0, 0.03, 0.09]?"]
    assert [(item.kept.broken, item.kept.changed) for item in rehearsal.deploys] == [("", "")] * 2


@pytest.mark.parametrize("edit", [GONE, UNMARKED], ids=["gone", "not marked"])
def test_a_tool_that_is_not_entered_again_any_more(edit: Edit, releases: Releases) -> None:
    rehearsal = releases.play(SHOP, edited(edit))
    why = "the present release has no tool 'order'; no code was entered"
    if edit is UNMARKED:
        why = "tool 'order' is not marked @framehold.reentrant in the present release; no code was entered"
    for item in rehearsal.deploys:
        assert item.kept.code == "kept" and item.kept.text == RESULT
        assert str(item.not_kept) == why
    if edit is GONE:
        text = releases.broken(edited(KEEP_NOT), edited(GONE))
        assert f"\n  in round 1: {why}, since its code is not kept: it is marked keep_" in text


def test_code_that_misses_a_name_can_not_be_loaded(releases: Releases) -> None:
    text = releases.broken(SHOP, edited(QUESTION).replace("done", "lines"))
    assert "its kept code can't be loaded: AttributeError: module 'server' has no attribute 'done'" in text


OTHERWISE = {
    "RATE": "the call differs under the present release: the effect 'charge' of once is called with ('charge 8')",
    "PLACE": "the code that it began with comes to something else here: result.content[0].text is 'send tea for 6: ",
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_kept_code_that_comes_to_something_else(name: str, releases: Releases) -> None:
    """It meets the state of the present release, such as a global that is computed when its module is imported."""
    read = "len(io.StringIO('abc').read())"
    shop = edited(("RATE = 3\n", f"RATE = {read}\nPLACE = {read}\n"), ("{second.data.sure}", "{PLACE}"))
    after = shop.replace(f"{name} = {read}", f"{name} = 1 + {read}").replace(*QUESTION)
    assert f"in round 1: {OTHERWISE[name]}" in releases.broken(shop, after)


def test_an_error_of_the_present_code_breaks_the_call(releases: Releases) -> None:
    edit = ('f"{receipt} for', 'f"{receipt.number} for')
    text = releases.broken(edited(KEEP_NOT), edited(KEEP_NOT, edit))
    assert "in round 1: it ends with an error after question 2, 'Pay 6?'" in text
    assert "the handler raised AttributeError: 'str' object has no attribute 'number' (" in text


RECEIPT = (
    ("def note(line):\n", "class Receipt(BaseModel):\n    line: str\n\n\ndef note(line):\n"),
    ("    return line\n", "    return Receipt(line=line)\n"),
    ("{receipt} for", "{receipt.line} for"),
)


def test_a_class_of_a_recorded_result_that_is_gone(releases: Releases) -> None:
    """The code of the call has it. Without that code, nothing can read a result of it."""
    shop = edited(*RECEIPT)
    for item in releases.play(shop, shop.replace("Receipt", "Bill")).deploys:
        assert (item.kept.code, item.kept.broken) == ("kept", "")
    shop = shop.replace(*KEEP_NOT)
    text = releases.broken(shop, shop.replace("Receipt", "Bill"))
    assert "in round 1: the call ends (unreadable) under the present release, after question 1, 'Order tea?'" in text
    assert "in round 2: " in text and "AttributeError: Can't get attribute 'Receipt' on <module 'server'" in text


def test_a_class_of_a_later_result_that_is_gone(releases: Releases) -> None:
    """The effect would run after the deploy, with the class that its code has. So the call does not break."""
    sent = ("def note(line):\n", "def sent(line):\n    return Receipt(line=note(line))\n\n\ndef note(line):\n")
    shop = edited(("class Sure(", "class Receipt(BaseModel):\n    line: str\n\n\nclass Sure("), sent)
    shop = shop.replace('once("send", note', 'once("send", sent').replace("{receipt} for", "{receipt.line} for")
    for before, code in ((shop, "kept"), (shop.replace(*KEEP_NOT), "present")):
        for item in releases.play(before, before.replace("Receipt", "Bill")).deploys:
            assert (item.kept.code, item.kept.broken) == (code, "")
            assert item.kept.changed.startswith("the rehearsal ends at the effect 'send', whose result is not played:")


MORE = ("    receipt = await", '    third = await ctx.elicit("Really?", Sure)\n    receipt = await')


def test_a_question_that_the_earlier_release_did_not_ask(releases: Releases) -> None:
    """A function answers it; without one the play ends there, and the call is not broken."""
    releases.record(SHOP)
    rehearsal = releases.deploy(edited(MORE))
    assert [item.not_kept.changed for item in rehearsal.deploys] == [
        "it asks question 3, 'Really?' (key 'elicit-d575f7fb-1', round 3), for which there is no answer"
    ] * 2
    rehearsal = releases.deploy(edited(MORE), answers=lambda asked: YES)
    assert [item.not_kept.questions[-1] for item in rehearsal.deploys] == ["Really?"] * 2
    assert [item.not_kept.text for item in rehearsal.deploys] == [RESULT] * 2


def test_settings_that_keep_no_code(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attached server has the settings that it was attached with."""
    attach = "\n\nfrom framehold.config import Settings\nframehold.attach(mcp, Settings(node_id='s', keep_code={}))\n"
    rehearsal = releases.play(SHOP + attach.format(True), edited(QUESTION) + attach.format(True))
    assert [item.kept.code for item in rehearsal.deploys] == ["kept", "kept"]
    text = releases.broken(SHOP + attach.format(True), edited(QUESTION) + attach.format(False))
    assert "since no code is kept with FRAMEHOLD_KEEP_CODE=false" in text
    monkeypatch.setenv("FRAMEHOLD_KEEP_CODE", "false")
    text = releases.broken(SHOP, edited(QUESTION))
    assert "since no code is kept with FRAMEHOLD_KEEP_CODE=false or FRAMEHOLD_PICKLE=false" in text


def test_against_a_server(rehearse: Rehearse, earlier: Any, releases: Releases) -> None:
    rehearsal = releases.deploy(edited(QUESTION), earlier.mcp, answers=[YES, YES])
    assert (rehearsal.text, rehearsal.ways) == (RESULT, ("hold", "replay"))
    assert [item.kept.code for item in rehearsal.deploys] == ["kept", "kept"]
    assert all("Order tea now?" in item.not_kept.broken for item in rehearsal.deploys)
    assert earlier.done == ["audit tea", "reserve tea", "charge 6", "send tea"] and releases.present.done == []


def test_a_server_whose_module_was_replaced_is_refused(releases: Releases) -> None:
    releases.record(SHOP)
    with pytest.raises(ValueError, match="the module 'server' of the earlier release is not imported under this name"):
        releases.deploy(SHOP, releases.earlier.mcp, answers=[YES, YES])


def test_an_earlier_release_that_fails_alone(releases: Releases, earlier: Any) -> None:
    with pytest.raises(RehearsalFailed, match="too few answers: 1 given"):
        releases.deploy(SHOP, earlier.mcp, answers=[YES])
    with pytest.raises(ValueError, match="there is no tool 'other' here; nothing was run; there are 'order'"):
        releases.rehearse(earlier.mcp, "other", against=earlier.mcp)


def test_what_is_no_recording_of_this_call_is_refused(releases: Releases) -> None:
    releases.record(SHOP)
    with pytest.raises(ValueError, match=r"the recording is of tools/call with .*'tea'.*, and this call is tools/call"):
        releases.deploy(SHOP, arguments={"item": "milk"})
    with pytest.raises(ValueError, match="against and record belong to tests of two releases"):
        releases.deploy(SHOP, record=releases.recording)
    whole = releases.recording.read_bytes()
    for data, why in {
        b"nothing": "these bytes are no recording of a rehearsal; nothing was played; record the call again",
        whole.replace(b'"format": 1', b'"format": 2'): "the recording has format 2 of framehold",
        whole.replace(b'"parks"', b'"sparks"'): "can't be loaded here \\(KeyError: 'parks'\\); nothing was played",
    }.items():
        with pytest.raises(ValueError, match=why), release(releases.recording.parent / why[:9].strip(), SHOP) as module:
            releases.rehearse(module.mcp, "order", {"item": "tea"}, against=data)


FASTMCP = (
    ("from mcp.server import MCPServer\n", "from fastmcp import FastMCP\n"),
    ("from mcp.server.mcpserver import Context\n", "from fastmcp import Context\n"),
    ('MCPServer("shop")', 'FastMCP("shop")'),
)
KINDS = """\
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp = MCPServer("kinds")

class Word(BaseModel):
    word: str

@mcp.prompt()
@framehold.reentrant
async def poem(ctx: Context) -> str:
    return f"old {(await ctx.elicit('About what?', Word)).data.word}"

@mcp.resource("note://{name}")
@framehold.reentrant
async def note(name: str, ctx: Context) -> str:
    return f"old {(await ctx.elicit('Which?', Word)).data.word}"
"""
WORD = [{"word": "rain"}]


def test_a_fastmcp_server(releases: Releases) -> None:
    """Its kept tool goes on, also where the present release has none of its name."""
    releases.record(edited(*FASTMCP))
    for edit in (QUESTION, GONE):
        rehearsal = releases.deploy(edited(*FASTMCP, edit))
        for item in rehearsal.deploys:
            assert (item.kept.code, item.kept.text, item.kept.broken) == ("kept", RESULT, "")
            assert item.not_kept.broken


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (KINDS, {"name": "poem", "kind": "prompt", "answers": WORD}),
        (KINDS, {"name": "note://x", "kind": "resource", "answers": WORD}),
    ],
    ids=["prompt", "resource"],
)
def test_other_kinds_of_handlers(text: str, call: dict[str, Any], rehearse: Rehearse, tmp_path: Path) -> None:
    with release(tmp_path / "before", text) as module:
        first = rehearse(module.mcp, record=tmp_path / "recording", **call)
    with release(tmp_path / "after", text.replace("old ", "new ")) as module:
        rehearsal = rehearse(module.mcp, against=tmp_path / "recording", **call)
    (item,) = rehearsal.deploys
    assert (item.kept.code, item.kept.text, item.kept.broken) == (
        "kept",
        first.text,
        "",
    ) and rehearsal.text == first.text
    assert (item.not_kept.broken, item.not_kept.text) == ("", first.text.replace("old ", "new "))
    assert item.not_kept.changed.endswith("in the earlier release")


BY_HAND = """\
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

import framehold

mcp = MCPServer("by hand")

@mcp.tool()
@framehold.reentrant
async def order(ctx: Context) -> str | InputRequiredResult:
    number = framehold.uuid4("number")
    if ctx.input_responses:
        return f"old {number} {ctx.input_responses['q'].content['word']}"
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    asked = ElicitRequest(params=ElicitRequestFormParams(message=f"As {number}?", requested_schema=schema))
    return InputRequiredResult(input_requests={"q": asked}, request_state="asked")
"""


def test_a_handler_that_parks_by_hand(rehearse: Rehearse, tmp_path: Path) -> None:
    with release(tmp_path / "before", BY_HAND) as module:
        first = rehearse(module.mcp, "order", answers=WORD, record=tmp_path / "recording")
    with release(tmp_path / "after", BY_HAND.replace("old ", "new ")) as module:
        (item,) = rehearse(module.mcp, "order", against=tmp_path / "recording").deploys
    assert item.kept is item.not_kept and (item.kept.code, item.kept.problem) == ("present", "")
    assert item.kept.text == first.text.replace("old ", "new ") and not item.kept.broken


@pytest.mark.parametrize("mark", ['strategy="hold"', 'strategy="replay"', "ttl=0.001"])
def test_options_of_a_tool(mark: str, releases: Releases) -> None:
    """A tool of either strategy can be recorded, and a recording doesn't expire."""
    marked = ("@framehold.reentrant\n", f"@framehold.reentrant\n@framehold.options({mark})\n")
    rehearsal = releases.play(edited(marked), edited(marked, QUESTION))
    assert [item.kept.code for item in rehearsal.deploys] == ["kept", "kept"]


def test_a_tool_that_is_not_marked_yet(releases: Releases) -> None:
    releases.record(edited(UNMARKED), assume_reentrant=True)
    rehearsal = releases.deploy(edited(UNMARKED, QUESTION), assume_reentrant=True)
    assert [item.kept.text for item in rehearsal.deploys] == [RESULT, RESULT]
