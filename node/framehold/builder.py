"""A tool out of named steps and an end: the steps ask, the end acts, exactly once.

The law: nothing of what has an effect can be reached before all questions are answered, because only the end has one.
A step is a function of the tool's arguments and of what earlier steps gave, by their names. It returns its data, or an
`InputRequiredResult`; then its questions are asked, all in one round, and it is called again with the answers.

Nothing new runs underneath: what is built is an ordinary async tool, re-entrant because its one effect is under
`once`. So under hold the end runs once also where a request comes twice or a node dies, and under replay nothing is
held anywhere. To clients of earlier revisions its questions are requests over the live session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, overload

import mcp_types as types

from . import authoring
from .authored import Function, context_parameter, signature
from .marks import PARTS, hold, reentrant
from .steps import Step, through

Fn = TypeVar("Fn", bound=Function)
Built = Callable[..., Coroutine[Any, Any, Any]]

_ALIKE = 0.8
"""How alike two names are, by difflib, of which one is taken for a slip: `unit` and `units` are 0.89."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ToolBuilder:
    """A tool in the making.

        weather = framehold.ToolBuilder("weather")

        @weather.step
        async def units(location: str, ctx: Context) -> str | InputRequiredResult: ...

        @weather.end
        async def look_up(location: str, units: str) -> str: ...

        mcp.add_tool(weather.build())

    Steps run in the order in which they are defined. One is run again with each answer, so it is to be pure; it may
    also await `ctx.elicit`. `framehold.accepted_content(ctx, key, Model)` and `input_response(ctx, key)` read what came
    for the step's own questions in its last round.
    """

    def __init__(self, name: str) -> None:
        if not (name and isinstance(name, str)):
            raise TypeError(f"ToolBuilder takes the tool's name, a text that is not empty, not {name!r}")
        self.name = name
        self._steps: list[Step] = []
        self._end: Step | None = None

    def step(self, fn: Fn) -> Fn:
        """Add a step, named like its function. Its data goes to whichever later function has a parameter of that name.

        Raises:
            TypeError: it is no function, or has a parameter that can't be given by name.
            ValueError: there is a step of that name.
        """
        step = self._read(fn)
        if any(step.name == known.name for known in self._steps):
            raise ValueError(
                f"{self._named(step)} is there already; the second was not added; give each step a name of its own"
            )
        self._steps.append(step)
        return fn

    @overload
    def end(self, fn: Fn, /) -> Fn: ...
    @overload
    def end(self, /, *, idempotent: bool) -> Callable[[Fn], Fn]: ...
    def end(self, fn: Any = None, /, *, idempotent: bool = False) -> Any:
        """Say what the tool does once all steps have their data: under `once`, so it may not ask. What it returns is
        the tool's result.

        Args:
            idempotent: as for `framehold.once`: running it a second time is safe where nobody knows whether it ran.

        Raises:
            TypeError: as for `step`, or it says that it returns an `InputRequiredResult`.
            ValueError: the tool has an end.
        """
        if fn is None:
            return lambda given: self._ends(given, idempotent)
        return self._ends(fn, idempotent)

    def _ends(self, fn: Fn, idempotent: bool) -> Fn:
        end = replace(self._read(fn), idempotent=idempotent)
        if self._end is not None:
            raise ValueError(
                f"the tool {self.name!r} ends with {self._end.name!r}; {end.name!r} was not added; a tool has one end"
            )
        if _may_ask(end.signature.return_annotation):
            raise TypeError(
                f"the end of the tool {self.name!r}, {end.name!r}, may not ask, and says that it returns an "
                "InputRequiredResult; it was not added; ask in a step"
            )
        self._end = end
        return fn

    def build(self, *, strategy: Literal["hold", "replay"] | None = None, ttl: float | None = None) -> Built:
        """The tool, to be registered like any other: `mcp.add_tool(weather.build())`. Its arguments are the parameters
        that no step provides; its text and what it returns are the end's.

        Args:
            strategy, ttl: as for `framehold.hold`.

        Raises:
            ValueError: it has no end, a step is named like an argument, two functions want an argument otherwise, or
                what a step gives is taken by nobody, and an argument has almost its name.
        """
        if self._end is None:
            raise ValueError(f"the tool {self.name!r} has no end; nothing was built; add one with @{self.name}.end")
        steps, end, name = tuple(self._steps), self._end, self.name
        context = _context_of((*steps, end))
        outside = self._outside((*steps, end), context)
        self._all_spelt_right((*steps, end))

        async def tool(**arguments: Any) -> Any:
            call = authoring.present(f"the tool {name!r}")
            ctx = None if context is None else arguments.pop(context.name, None)
            return await through(call, steps, end, arguments, ctx)

        tool.__name__ = tool.__qualname__ = name
        tool.__doc__, tool.__module__ = end.fn.__doc__, end.fn.__module__
        returned = end.signature.return_annotation
        made = inspect.Signature(list(outside.values()), return_annotation=returned)
        tool.__annotations__ = {item: parameter.annotation for item, parameter in outside.items()}
        if returned is not inspect.Signature.empty:
            tool.__annotations__["return"] = returned
        tool.__dict__.update({"__signature__": made, "__wrapped__": end.fn, PARTS: tuple(step.fn for step in steps)})
        if strategy is not None or ttl is not None:
            hold(strategy=strategy, ttl=ttl)(tool)
        return reentrant(tool)

    def _read(self, fn: Function) -> Step:
        whose = f"a step of the tool {self.name!r}"
        found, name = signature(fn, whose), getattr(fn, "__name__", "")
        if not name.isidentifier():
            raise TypeError(f"{whose} must have a name, as a function that is made with def has; it was not added")
        step = Step(name, fn, found, context_parameter(found))
        for item, parameter in found.parameters.items():
            if parameter.kind not in _NAMED:
                raise TypeError(
                    f"{self._named(step)} has the parameter {item!r}, which is {parameter.kind.description}: nothing "
                    "provides it; it was not added; give each parameter a name to be called by"
                )
        return step

    def _named(self, step: Step) -> str:
        return f"the step {step.name!r} of the tool {self.name!r}"

    def _outside(self, order: tuple[Step, ...], context: inspect.Parameter | None) -> dict[str, inspect.Parameter]:
        """What the tool takes: what no earlier step provides, and one context, all by name."""
        steps, known, found = {step.name for step in order[:-1]}, set[str](), dict[str, inspect.Parameter]()
        for step in order:
            for name, parameter in step.takes().items():
                if name in known:
                    continue
                if name in steps:
                    which = "itself" if name == step.name else "a step that comes later"
                    raise ValueError(
                        f"{self._named(step)} takes {name!r}, which is {which}, so nothing provides it; nothing was "
                        "built; an argument of the tool and a step can't have one name"
                    )
                wanted = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                # By their text: two fields that were written alike (pydantic's `Field`) are not equal.
                if str(found.setdefault(name, wanted)) != str(wanted):
                    raise ValueError(
                        f"{self._named(step)} takes {found[name]} as {wanted}; nothing was built; an argument has one "
                        "type and one default in all steps; give an Annotated type a name, and use that in each"
                    )
            known.add(step.name)
        if context is not None:
            if context.name in found or context.name in steps:
                raise ValueError(
                    f"{context.name!r} names the context in one step of the tool {self.name!r} and something else in "
                    "another; nothing was built; give the context a name of its own"
                )
            found[context.name] = context
        return found

    def _all_spelt_right(self, order: tuple[Step, ...]) -> None:
        """Refuse what would lose an answer: an argument with almost the name of a step whose data nobody takes. One
        that is taken up to that step is the author's meaning."""
        names = {step.name for step in order}
        for place, step in enumerate(order[:-1]):
            earlier = {name for other in order[: place + 1] for name in other.takes()}
            later = [(other, name) for other in order[place + 1 :] for name in other.takes() if name not in earlier]
            if _gives_nothing(step.signature.return_annotation) or any(name == step.name for _, name in later):
                continue
            for other, name in later:
                if name not in names and get_close_matches(name, (step.name,), cutoff=_ALIKE):
                    raise ValueError(
                        f"no later function takes what {self._named(step)} gives, and {other.name!r} takes {name!r}, "
                        f"which no step provides; nothing was built; write {step.name!r} there, or, if it is an "
                        "argument of the tool, give one of the two another name"
                    )


def _context_of(order: tuple[Step, ...]) -> inspect.Parameter | None:
    """The context that the tool takes: that of the first step which has one, by name."""
    for step in order:
        if step.context is not None:
            return step.signature.parameters[step.context].replace(kind=inspect.Parameter.KEYWORD_ONLY)
    return None


def _may_ask(annotation: Any) -> bool:
    return any(kind is types.InputRequiredResult for kind in (annotation, *getattr(annotation, "__args__", ())))


def _gives_nothing(annotation: Any) -> bool:
    """Whether a step says that it has no data: None, which it may ask before it returns."""
    return set(getattr(annotation, "__args__", (annotation,))) <= {None, type(None), types.InputRequiredResult}
