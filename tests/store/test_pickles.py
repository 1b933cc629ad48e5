"""Pickles are read with the classes of the code that reads them."""

from __future__ import annotations

import types
from typing import Any

import pytest

from framehold_store.named import Named, Names
from framehold_store.pickles import NoName, dumps, loads


class Base:
    pass


class Derived(Base):
    pass


class Missing:
    pass


class Set:
    """An object with a state, known by its identity."""

    def __init__(self, n: int) -> None:
        self.n = n


class Slotted:
    __slots__ = ("n",)


def helper() -> str:
    return "present"


MISSING, BARE, SETTINGS, SLOTTED = Missing(), object(), Set(1), Slotted()


def kept(name: str, made: Any) -> dict[Named, Any]:
    return {Named(__name__, name): made}


def another(kind: type, *bases: type) -> type:
    """A class of that name, as another release has it."""
    return type(kind.__name__, bases or (object,), {"__module__": __name__, "__qualname__": kind.__qualname__})


def test_a_name_means_what_the_code_has_under_it() -> None:
    made = another(Base)
    assert type(loads(dumps([Base()], {}), kept("Base", made))[0]) is made
    assert type(loads(dumps([Base()], {}), {})[0]) is Base


def test_what_the_code_has_is_written_by_its_name() -> None:
    """Also where the present module has another class under that name."""
    made = another(Base)
    data = dumps({"k": made(), "kind": made}, kept("Base", made))
    found = loads(data, kept("Base", made))
    assert (type(found["k"]), found["kind"]) == (made, made)
    assert type(loads(data, {})["k"]) is Base
    function = types.FunctionType(helper.__code__, {}, "helper")
    function.__module__ = __name__
    assert loads(dumps(function, kept("helper", function)), kept("helper", function)) is function


def test_a_class_whose_base_is_another_one_in_this_release_is_refused() -> None:
    """It was not kept with the code, so neither it nor any other class would be right."""
    data = dumps(Derived(), {})
    with pytest.raises(TypeError, match="Derived was not kept with the code of the call, and its base Base is another"):
        loads(data, kept("Base", another(Base)))
    assert type(loads(data, kept("Base", Base))) is Derived


@pytest.mark.parametrize("item", [MISSING, BARE, SETTINGS, SLOTTED], ids=["empty", "bare", "state", "slots"])
def test_an_object_that_is_known_by_its_identity_is_that_object(item: object) -> None:
    assert loads(dumps({"k": [item]}, {}), {})["k"][0] is item


def test_an_object_whose_state_has_changed_since_is_a_copy_with_the_recorded_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = dumps(SETTINGS, {})
    monkeypatch.setattr(SETTINGS, "n", 2)
    found = loads(data, {})
    assert (type(found), found.n) == (Set, 1) and found is not SETTINGS


def test_an_object_that_has_no_name_any_more_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    data = dumps(SETTINGS, {})
    monkeypatch.delitem(globals(), "SETTINGS")
    assert loads(data, {}).n == 1


def test_an_object_of_another_release_is_refused() -> None:
    """Its class has slots, so that no object can have the old class and the present state."""
    data, made = dumps(SLOTTED, {}), another(Slotted)
    with pytest.raises(TypeError, match="SLOTTED is an object of another release"):
        loads(data, kept("Slotted", made))


def test_the_code_has_its_own_object_under_a_name() -> None:
    made = another(Missing)
    own = made()
    known = {**kept("Missing", made), **kept("MISSING", own)}
    assert loads(dumps(MISSING, {}), known) is own


def test_a_class_without_a_name_is_refused() -> None:
    with pytest.raises(NoName, match="no name leads to the class Base"):
        dumps(another(Base)(), {})


def test_names_of_excluded_modules_are_not_found() -> None:
    assert Names().of(MISSING) == Named(__name__, "MISSING")
    assert Names(lambda module: module != __name__).of(MISSING) is None
    assert Names().of(Set(3)) is None and Names().of(7) is None
