"""The exceptions that an error was made of."""

from framehold_core.errors import causes


def test_each_cause_comes_once() -> None:
    """The outermost first, a cause before a context; a ring ends, also one of exceptions that are equal."""

    class Equal(Exception):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]  # nor can it be in a set

    first, second, third, other = Equal(), Equal(), Equal(), KeyError()
    first.__cause__, first.__context__, second.__context__, third.__cause__ = second, other, third, first
    assert [id(found) for found in causes(first)] == [id(first), id(second), id(third)]
    assert list(causes(None)) == []


def test_the_first_of_a_group_comes_in_its_place() -> None:
    """Also where the group is in a ring."""
    inner, outer = ValueError(), KeyError()
    group = ExceptionGroup("several", [ExceptionGroup("inner", [inner, OSError()])])
    outer.__cause__, group.__cause__, inner.__context__ = group, OSError(), group
    assert list(causes(outer, first_of_groups=True)) == [outer, inner]
    assert list(causes(outer)) == [outer, group, group.__cause__]
