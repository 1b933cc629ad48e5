"""A call that one release of a server has played, for a rehearsal with a later release.

A recording as bytes is JSON. It may hold the code of the handler and results of effects as pickles, so loading one runs
code that its writer has chosen.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types

from ..version import VERSION
from .client_script import Answers, AskedQuestion, ClientScript
from .recorded_effects import RecordedEffects
from .rehearsal import Park, PlayedCall, Steady
from .server_double import Reply

_FORMAT = 1
_WHOLE = "nothing was played; record the call again with the earlier release of the server"


@dataclass(frozen=True)
class Recording:
    """A call of an earlier release.

    - `key`: the key (32 bytes or more, as a text) that seals its tokens
    - `method`, `params`, `seed`, `instant`: as for `Act`
    - `run`: the call from its begin to its end, with the requests that answer each round
    - `script`, `known`: its questions with their answers, and its effects with their results
    - `digest`: the digest of its handler's code
    - `code`, `problem`: its handler's code as bytes, by the digest, or why it is not kept
    """

    key: str
    method: str
    params: dict[str, Any]
    seed: bytes
    instant: float
    run: PlayedCall
    script: ClientScript
    known: RecordedEffects
    digest: str
    code: dict[str, bytes]
    problem: str

    def dump(self) -> bytes:
        """The recording as bytes, for `loaded`."""
        run = self.run
        is_error = isinstance(run.reply, types.ErrorData)
        whole = {
            "format": _FORMAT,
            "framehold": VERSION,
            "key": self.key,
            "method": self.method,
            "params": self.params,
            "seed": self.seed.hex(),
            "instant": self.instant,
            "questions": [[*_fields(asked), turn, answer] for asked, turn, answer in self.script.known()],
            "asked": [_fields(asked) for asked in run.asked],
            "effects": run.effects,
            "results": self.known.dump(),
            "parks": run.parks,
            "error": _json(run.reply) if is_error else None,
            "result": None if is_error else run.reply,
            "digest": self.digest,
            "code": {digest: base64.b64encode(data).decode() for digest, data in self.code.items()},
            "problem": self.problem,
        }
        return json.dumps(whole, indent=1).encode()

    def save(self, path: str | Path) -> None:
        """Write the recording to a file."""
        Path(path).write_bytes(self.dump())


def loaded(source: bytes | str | Path, answers: Answers) -> Recording:
    """The recording that `Recording.dump` returned as bytes, or that `save` wrote to a path. `answers` are for
    questions that were not asked then.

    Raises:
        ValueError: it is no recording, of another release's format, or a part of it can't be loaded here.
    """
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    try:
        whole = json.loads(data)
        form, writer = whole["format"], whole["framehold"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"these bytes are no recording of a rehearsal; {_WHOLE}") from None
    if form != _FORMAT:
        raise ValueError(f"the recording has format {form} of framehold {writer}, not {_FORMAT}; {_WHOLE}")
    try:
        return _loaded(whole, answers)
    except Exception as error:
        # Unpickling may raise anything.
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"the recording, of framehold {writer}, can't be loaded here ({why}); {_WHOLE}") from error


def _loaded(whole: dict[str, Any], answers: Answers) -> Recording:
    seed, instant = bytes.fromhex(whole["seed"]), whole["instant"]
    script, known = ClientScript(answers), RecordedEffects()
    for *asked, turn, answer in whole["questions"]:
        script.know(AskedQuestion(*asked), turn, answer)
    known.load(whole["results"])
    error: Reply | None = whole["error"] and types.ErrorData.model_validate(whole["error"])
    run = PlayedCall("replay", Steady(seed, instant), known, reply=error or whole["result"], effects=whole["effects"])
    run.asked += [AskedQuestion(*asked) for asked in whole["asked"]]
    run.parks += [Park(*park) for park in whole["parks"]]
    code = {digest: base64.b64decode(data) for digest, data in whole["code"].items()}
    return Recording(
        *(whole["key"], whole["method"], whole["params"], seed, instant, run, script, known),
        *(whole["digest"], code, whole["problem"]),
    )


def _fields(asked: AskedQuestion) -> list[Any]:
    return [asked.key, asked.kind, asked.params, asked.round]


def _json(error: Any) -> Any:
    return error.model_dump(by_alias=True, mode="json", exclude_none=True)
