"""Handlers as their authors write them, each a module with `handler`."""

KINDS = {
    "a helper": """\
def helper(): return 'old'
def handler(): return helper()
""",
    "a constant of constants": """\
A = 'ol'
WORDS = (A + 'd', {'deep': [1]})
def handler(): return WORDS[0]
""",
    "a default": "def handler(word='old'): return word",
    "a class of a protocol": """\
from typing import Protocol, runtime_checkable
def fee(): return 'old'
@runtime_checkable
class Gate(Protocol):
    def pay(self): ...
class Stripe(Gate):
    def pay(self): return fee() if isinstance(self, Gate) else 'none'
def handler(): return Stripe().pay()
""",
    "a private attribute of a model": """\
from pydantic import BaseModel, PrivateAttr
def made(): return 'old'
class Form(BaseModel):
    _word: str = PrivateAttr(default_factory=made)
def handler(): return Form()._word
""",
    "a default beside a field without a form": """\
from collections.abc import Callable
from pydantic import BaseModel
class Form(BaseModel):
    fn: Callable[[], int] = int
    word: str = 'old'
def handler(): return Form().word
""",
    "a computed field": """\
from pydantic import BaseModel, computed_field
def word(): return 'old'
class Form(BaseModel):
    @computed_field
    @property
    def word(self) -> str: return word()
def handler(): return Form().model_dump()['word']
""",
    "what an enum does with other values": """\
import enum
def rest(): return Word.OTHER
class Word(enum.Enum):
    OTHER = 'old'
    @classmethod
    def _missing_(cls, value): return rest()
def handler(): return Word('x').value
""",
    "metadata of a dataclass": """\
import dataclasses
def word(): return 'old'
def said(): return word()
@dataclasses.dataclass
class Row:
    n: int = dataclasses.field(default=1, metadata={'say': said})
def handler(): return dataclasses.fields(Row)[0].metadata['say']()
""",
    "a class attribute that methods set, too": """\
WORD = 'old'
class Desk:
    word = WORD
    def turn(self): self.word = 'other'
def handler(): return Desk().word
""",
    "a generic class by its alias alone": """\
from typing import Generic, TypeVar
T = TypeVar('T')
class Box(Generic[T]):
    def say(self): return 'old'
WordBox = Box[int]
def handler(): return WordBox().say()
""",
    "a table in a class, by its objects": """\
import dataclasses
@dataclasses.dataclass(frozen=True)
class Sku:
    name: str
Sku.PRICES = {Sku('a'): 'old'}
def handler(): return Sku.PRICES.get(Sku('a'))
""",
    "a set of sets": """\
SETS = {frozenset({'a', 'b'}), frozenset({'c', 'd'}), frozenset({'old', 'f'})}
def handler(): return 'old' if frozenset({'f', 'old'}) in SETS else 'none'
""",
    "a cached property": """\
import functools
def word(): return 'old'
class Desk:
    @functools.cached_property
    def word(self): return word()
def handler(): return Desk().word
""",
    "a keyword default": "def handler(*, word='old'): return word",
    "a closure": """\
def made():
    word = 'old'
    return lambda: word
handler = made()
""",
    "a decorator": """\
import functools
def loud(fn):
    @functools.wraps(fn)
    def wrapper(): return fn() + 'old'[1:]
    return wrapper
@loud
def handler(): return 'o'
""",
    "a generic function": """\
import functools
class Desk: pass
@functools.singledispatch
def said(value): return 'none'
@said.register
def _(value: str): return said(Desk())
@said.register(Desk)
def _(value): return 'old'
def handler(): return said('x')
""",
    "a generic method": """\
import functools
class Desk:
    @functools.singledispatchmethod
    def said(self, value): return 'none'
    @said.register
    def _(self, value: str): return 'old'
def handler(): return Desk().said('x')
""",
    "a partial": """\
import functools
def said(word): return word
handler = functools.partial(said, 'old')
""",
    "a coroutine": """\
async def helper(): return 'old'
async def handler(): return await helper()
""",
    "a context manager": """\
import contextlib
@contextlib.contextmanager
def word():
    yield 'old'
def handler():
    with word() as found: return found
""",
    "a cached function": """\
import functools
@functools.cache
def helper(n): return 'old'
def handler(): return helper(1)
""",
    "two functions that need each other": """\
def even(n): return 'old' if n == 0 else odd(n - 1)
def odd(n): return even(n - 1)
def handler(): return even(4)
""",
    "super": """\
class Base:
    def word(self): return 'ol'
class Desk(Base):
    def word(self): return super().word() + 'd'
def handler(): return Desk().word()
""",
    "methods of a class": """\
class Desk:
    WORD = 'old'
    @classmethod
    def word(cls): return cls.WORD
    @staticmethod
    def same(word): return word
    @property
    def own(self): return self.same(self.word())
def handler(): return Desk().own
""",
    "a frozen dataclass with slots": """\
import dataclasses
@dataclasses.dataclass(frozen=True, slots=True)
class Desk:
    word: str = 'old'
def handler(): return Desk().word
""",
    "an enum with methods": """\
import enum
class Word(enum.StrEnum):
    ONE = 'ol'
    def full(self): return self + 'd'
def handler(): return Word('ol').full()
""",
    "a named tuple": """\
from typing import NamedTuple
class Desk(NamedTuple):
    word: str = 'old'
def handler(): return Desk().word
""",
    "a model with validators": """\
from pydantic import BaseModel, Field, field_validator, model_validator
def ending(): return 'd'
class Form(BaseModel):
    word: str = Field('o', min_length=1)
    made: list = Field(default_factory=list)
    @field_validator('word')
    @classmethod
    def longer(cls, value): return value + 'l'
    @model_validator(mode='after')
    def longest(self):
        self.word += ending()
        return self
def handler(): return Form(word='o').word
""",
    "a model in a model": """\
from __future__ import annotations
from pydantic import BaseModel
class Inner(BaseModel):
    word: str = 'old'
class Form(BaseModel):
    inner: Inner
def handler(): return Form.model_validate({'inner': {}}).inner.word
""",
    "a generic model": """\
from typing import Generic, TypeVar
from pydantic import BaseModel
T = TypeVar('T')
class Form(BaseModel, Generic[T]):
    word: T
    def said(self): return f'{self.word}d'
def handler(): return Form[str](word='ol').said()
""",
    "annotated validators": """\
from typing import Annotated
from pydantic import AfterValidator, BaseModel
def longer(word): return word + 'd'
class Form(BaseModel):
    word: Annotated[str, AfterValidator(longer)]
def handler(): return Form(word='ol').word
""",
    "a table of functions": """\
def one(): return 'old'
TABLE = {'one': one}
def handler(): return TABLE['one']()
""",
    "a table of lambdas": """\
from __future__ import annotations
import functools
TABLE = {'one': lambda: 'old', 'two': functools.partial(lambda word: word, 'old'), 'three': float('nan')}
def handler(): return TABLE['one']() if TABLE['two']() == 'old' else 'none'
""",
    "a zone of the author's own": """\
import datetime
class Zone(datetime.tzinfo):
    def utcoffset(self, at): return datetime.timedelta(0)
    def tzname(self, at): return 'old'
def handler(zone=Zone()): return zone.tzname(None)
""",
    "constants that are assigned in pairs": """\
A, (B, C) = 'ol', ('d', 1)
class Desk:
    one, two = 'o', 'l'
def handler(): return A + B if A == Desk.one + Desk.two else 'none'
""",
    "constants that are made": """\
import inspect, textwrap
A, B, C = dict(word='old'), set(['old']), list(('old',))
D = '{} '.format('old').strip()
E = textwrap.dedent('  old')
F = inspect.cleandoc(' '.join(['old']))
def handler(): return 'old' if {A['word'], *B, *C, D, E, F} == {'old'} else 'none'
""",
    "a pattern": """\
import re
WORD = re.compile('old')
def handler(): return WORD.pattern
""",
    "a class in a function": """\
def word(): return 'old'
def handler():
    class Desk:
        found = word()
    return Desk.found
""",
    "a function with attributes": """\
def helper(): return helper.word
helper.word = 'old'
def handler(): return helper()
""",
}
"""A handler that returns `old`, in each of these ways."""

LIVE = {
    "a setting of the environment": """\
import os
WHERE = os.environ.get('NO_SUCH') or '{word}'
def handler(): return WHERE
""",
    "a lock": """\
import threading
class Held:
    pass
held = threading.local()
held.word = '{word}'
def handler(): return held.word
""",
    "a container that collects": """\
SEEN = []
def add(word): SEEN.append(word)
add('{word}')
def handler(): return SEEN[0]
""",
    "a table that was changed": """\
TABLE = {{'a': 'x'}}
TABLE['a'] = '{word}'
def handler(): return TABLE['a']
""",
    "a global that is assigned by a function": """\
word = ''
def start():
    global word
    word = '{word}'
start()
def handler(): return word
""",
    "an object of a library": """\
import types
state = types.SimpleNamespace(word='{word}')
def handler(): return state.word
""",
    "an object in a closure that has a name": """\
import types
state = types.SimpleNamespace(word='{word}')
def made(held):
    return lambda: held.word
handler = made(state)
""",
    "a setting in the body of a class in a function": """\
import os
from pydantic import BaseModel, Field
WHERE = os.environ.get('NO_SUCH') or '{word}'
def handler():
    class Form(BaseModel):
        where: str = Field(WHERE, pattern=WHERE)
    return Form().where
""",
    "a setting with the name of a builtin, in a class in a class": """\
import os
id = os.environ.get('NO_SUCH') or '{word}'
def handler():
    class Outer:
        class Inner:
            found = id
    return Outer.Inner.found
""",
    "the state of the author's object": """\
class Desk:
    def __init__(self): self.word = '{word}'
desk = Desk()
def handler(): return desk.word
""",
    "an attribute of a class": """\
import threading
class Desk:
    held = threading.local()
Desk.held.word = '{word}'
def handler(): return Desk.held.word
""",
}
"""A handler that returns a word that its process holds. `{word}` stands for the word."""
