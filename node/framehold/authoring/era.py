"""Which revision of the protocol a request speaks, for handlers that are written in both styles.

"modern" is 2026-07-28, where a handler returns its questions. "legacy" is any earlier revision, where a question is a
request over the live session. A handler that awaits its questions need not know the era: Framehold serves it on both.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Literal, TypeVar, cast

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..frame.async_functions import is_async
from ..sdk.present_call import present
from . import handler_context
from .signatures import Function, context_parameter, run, signature

Era = Literal["legacy", "modern"]
Fn = TypeVar("Fn", bound=Function)


def era(ctx: object) -> Era:
    """The era of the present request's protocol version.

    Args:
        ctx: the handler's context: an MCPServer's `Context`, a low-level server's context, or FastMCP's.

    Raises:
        NotInCall: `ctx` belongs to no request.
        TypeError: `ctx` is no context.
    """
    return "modern" if handler_context.version(ctx, "framehold.era") in MODERN_PROTOCOL_VERSIONS else "legacy"


def by_era(*, legacy: Function, modern: Fn) -> Fn:
    """One handler out of two: `legacy` runs for clients of earlier revisions, `modern` runs on 2026-07-28.

    The result has the name, the docstring, the parameters, the return type and the marks of `modern`. Register it as
    you would register `modern`.

    Args:
        legacy: a function, async or not.
        modern: a function, async or not, whose parameters have the same names and kinds. If one takes the context, the
            other takes it in the same parameter.

    Raises:
        TypeError: their parameters differ, one of them is no function, or `modern` has no name (a partial, an object).
    """
    known, other = signature(modern, "by_era: modern"), signature(legacy, "by_era: legacy")
    if not hasattr(modern, "__name__"):
        # The SDK would treat the context as an argument that the client has to send.
        raise TypeError(
            f"by_era: modern must have a name, as a function that is made with def has, not {type(modern).__name__}; "
            "nothing was registered; call it from such a function"
        )
    if differing := _differing(known, other):
        raise TypeError(
            f"by_era: legacy and modern take different parameters ({', '.join(differing)}); nothing was registered; "
            "give both the same names, of the same kinds, and the same one for the context"
        )
    context = context_parameter(known)

    def chosen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function:
        ctx = None if context is None else known.bind_partial(*args, **kwargs).arguments.get(context)
        if ctx is not None:
            return modern if era(ctx) == "modern" else legacy
        return legacy if present("a handler of by_era without a context").frame is None else modern

    @functools.wraps(modern)
    async def handler(*args: Any, **kwargs: Any) -> Any:
        return await run(chosen(args, kwargs), args, kwargs)

    @functools.wraps(modern)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return chosen(args, kwargs)(*args, **kwargs)

    # If neither function is async, the handler is not either: the SDK runs it in a thread.
    return cast(Fn, handler if is_async(modern) or is_async(legacy) else plain)


def _differing(modern: inspect.Signature, legacy: inspect.Signature) -> list[str]:
    """Texts about the parameters in which the two signatures differ; empty if they don't differ."""
    kinds = [{name: item.kind for name, item in found.parameters.items()} for found in (modern, legacy)]
    names = dict.fromkeys([*modern.parameters, *legacy.parameters])
    found = [_difference(name, *(kind.get(name) for kind in kinds)) for name in names]
    modern_context, legacy_context = context_parameter(modern), context_parameter(legacy)
    if modern_context != legacy_context:
        found.append(f"the context is {legacy_context!r} of legacy and {modern_context!r} of modern")
    return [item for item in found if item]


def _difference(name: str, modern: Any, legacy: Any) -> str:
    if modern is None or legacy is None:
        return f"{name!r} only of {'legacy' if modern is None else 'modern'}"
    return "" if modern == legacy else f"{name!r} is {legacy.description} of legacy and {modern.description} of modern"
