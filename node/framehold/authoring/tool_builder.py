"""Builds a tool from named steps and an end: the steps ask, and the end acts, exactly once.

The law: no effect happens before all questions are answered, because only the end has an effect. The parameters of a
step are arguments of the tool and the data of earlier steps, by name. A step returns its data or an
`InputRequiredResult`. In the latter case its questions are asked, all in one round, and the step is called again with
the answers.

The built tool is an ordinary async tool. It is re-entrant because its only effect is under `once`. So under strategy
hold the end runs once, even if a request comes twice or a node dies; under strategy replay no node holds anything.
Clients of earlier revisions get the questions as requests over their live session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, overload

import mcp_types as types

from ..sdk.marks import PARTS, options, reentrant
from ..sdk.present_call import present
from .signatures import Function, context_parameter, signature
from .tool_steps import Step, through

Fn = TypeVar("Fn", bound=Function)
Built = Callable[..., Coroutine[Any, Any, Any]]

_ALIKE = 0.8
"""From this similarity on (by difflib) one of two names is taken for a misspelling: `unit` and `units` have 0.89."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ToolBuilder:
    """Collects the steps and the end of a tool, and builds the tool.

        weather = framehold.ToolBuilder("weather")

        @weather.step
        async def units(location: str, ctx: Context) -> str | InputRequiredResult: ...

        @weather.end
        async def look_up(location: str, units: str) -> str: ...

        mcp.add_tool(weather.build())

    Steps run in the order in which they are defined. A step runs again with each answer, so it must be pure; it may
    also await `ctx.elicit`. `framehold.accepted_content(ctx, key, Model)` and `input_response(ctx, key)` read the
    answers to the step's own questions of its last round.
    """

    def __init__(self, name: str) -> None:
        if not (name and isinstance(name, str)):
            raise TypeError(f"ToolBuilder takes the tool's name, a text that is not empty, not {name!r}")
        self.name = name
        self._steps: list[Step] = []
        self._end: Step | None = None

    def step(self, fn: Fn) -> Fn:
        """Add a step with the name of its function. Each later function that has a parameter of this name gets the
        step's data.

        Raises:
            TypeError: `fn` is no function, or has a parameter that can't be given by name.
            ValueError: there is a step of this name.
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
        """Set the end: the function that runs when all steps have returned their data. It runs under `once`, so it may
        not ask. Its return value is the tool's result.

        Args:
            idempotent: whether a second run is safe where nobody knows whether the first one took place, as for
                `framehold.once`.

        Raises:
            TypeError: `fn` is no function, has a parameter that can't be given by name, or is annotated to return an
                `InputRequiredResult`.
            ValueError: the tool has an end already.
        """
        if fn is None:
            return lambda given: self._set_end(given, idempotent)
        return self._set_end(fn, idempotent)

    def _set_end(self, fn: Fn, idempotent: bool) -> Fn:
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
        """Build the tool. It is registered like any other: `mcp.add_tool(weather.build())`. Its arguments are the
        parameters that no step provides; its description and its return type are those of the end.

        Args:
            strategy: as for `framehold.options`.
            ttl: as for `framehold.options`.

        Raises:
            ValueError: there is no end; a step has the name of an argument; two functions declare an argument with
                different types or defaults; or no function takes the data of a step, and an argument has a similar
                name.
        """
        if self._end is None:
            raise ValueError(f"the tool {self.name!r} has no end; nothing was built; add one with @{self.name}.end")
        steps, end, name = tuple(self._steps), self._end, self.name
        context = _context_of((*steps, end))
        parameters = self._tool_parameters((*steps, end), context)
        self._refuse_misspelled((*steps, end))

        async def tool(**arguments: Any) -> Any:
            call = present(f"the tool {name!r}")
            ctx = None if context is None else arguments.pop(context.name, None)
            return await through(call, steps, end, arguments, ctx)

        tool.__name__ = tool.__qualname__ = name
        tool.__doc__, tool.__module__ = end.fn.__doc__, end.fn.__module__
        returned = end.signature.return_annotation
        made = inspect.Signature(list(parameters.values()), return_annotation=returned)
        tool.__annotations__ = {item: parameter.annotation for item, parameter in parameters.items()}
        if returned is not inspect.Signature.empty:
            tool.__annotations__["return"] = returned
        tool.__dict__.update({"__signature__": made, "__wrapped__": end.fn, PARTS: tuple(step.fn for step in steps)})
        if strategy is not None or ttl is not None:
            options(strategy=strategy, ttl=ttl)(tool)
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

    def _tool_parameters(
        self, order: tuple[Step, ...], context: inspect.Parameter | None
    ) -> dict[str, inspect.Parameter]:
        """The parameters of the tool, by name: those that no earlier step provides, and the context. Raises
        ValueError."""
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
                # Compared as texts: two equal-looking fields (pydantic's `Field`) are not equal.
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

    def _refuse_misspelled(self, order: tuple[Step, ...]) -> None:
        """Raise ValueError where a misspelled parameter would lose an answer: no function takes the data of a step, and
        a later function has an argument with almost the step's name. An argument that the step itself or an earlier
        one takes is meant."""
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
    """The tool's parameter for the context: that of the first step which has one; None if no step has one."""
    for step in order:
        if step.context is not None:
            return step.signature.parameters[step.context].replace(kind=inspect.Parameter.KEYWORD_ONLY)
    return None


def _may_ask(annotation: Any) -> bool:
    """Whether a function with this return annotation may return an `InputRequiredResult`."""
    return any(kind is types.InputRequiredResult for kind in (annotation, *getattr(annotation, "__args__", ())))


def _gives_nothing(annotation: Any) -> bool:
    """Whether a step with this return annotation returns no data: None, or an `InputRequiredResult` before that."""
    return set(getattr(annotation, "__args__", (annotation,))) <= {None, type(None), types.InputRequiredResult}
