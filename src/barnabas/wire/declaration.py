"""What a message module declares: `@message`, `@struct`, `on(...)`, and the field specifications read from them."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from barnabas.model.uuid import Uuid
from barnabas.wire.primitives import Records

__all__ = [
    "NEVER",
    "FieldSpec",
    "Kind",
    "Message",
    "Range",
    "Struct",
    "field",
    "field_specs",
    "message",
    "on",
    "struct",
]

Kind = Literal["request", "response", "header", "data", "metadata", "coordinator-key", "coordinator-value"]
NEVER: Final = 32767
"""A version that is never reached: FLEXIBLE_FROM of a message without flexible versions."""
_T = TypeVar("_T")


class _LazyFields:
    """`dataclasses.fields`, `replace` and the like work on messages; what they need is made when first asked for."""

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, dataclasses.Field[Any]]:
        if owner not in _defaults:
            raise AttributeError(f"{owner.__name__} declares no fields")
        return _fields(owner)


class Struct:
    """A part of a message; its fields are declared by the generated subclass.

    Like a slotted, keyword-only dataclass, but its methods are made when they are first used: a node declares some
    hundreds of messages, and uses a few dozen.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[Any] = _LazyFields()

    def __init__(self, **values: Any) -> None:
        cls: Any = type(self)
        cls.__init__ = _compiled_init(cls)
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _declared(type(self)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in _fields(type(self)).values() if f.repr)
        return f"{type(self).__qualname__}({shown})"


class Message(Struct):
    """A whole message: it has an encoding of its own in each version from MIN_VERSION to MAX_VERSION."""

    __slots__ = ()
    NAME: ClassVar[str]
    KIND: ClassVar[Kind]
    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int]
    LATEST_UNSTABLE: ClassVar[bool]


@dataclass(frozen=True, slots=True)
class Range:
    """Versions from low to high, both included; empty when low is above high."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Range:
        """Give the range that Kafka writes as `3`, `1-4`, `2+` or `none`."""
        if text == "none":
            return cls(NEVER, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), NEVER)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


@dataclass(frozen=True, slots=True)
class On:
    """In which versions a field stands, may be null, is a tagged one, is flexible; see `on`."""

    versions: Range
    nullable: Range
    tagged: Range
    tag: int
    ignorable: bool
    flexible: bool


def on(
    versions: str = "0+",
    *,
    nullable: str = "none",
    tagged: str = "none",
    tag: int = -1,
    ignorable: bool = False,
    flexible: bool = True,
) -> On:
    """Say in which versions a field stands and how.

    versions, nullable, tagged: ranges as Kafka writes them (`2+`, `0-4`); ignorable: a value other than the
    default is dropped, not refused, in a version without the field; flexible: false for a string that keeps its
    old encoding in flexible versions too.
    """
    return On(Range.parse(versions), Range.parse(nullable), Range.parse(tagged), tag, ignorable, flexible)


_defaults: Final[dict[type[Any], dict[str, Any]]] = {}
"""What each class gives its fields when they are left out: a value, or a `dataclasses.Field`."""
_made_fields: Final[dict[type[Any], dict[str, dataclasses.Field[Any]]]] = {}


def _declared(cls: type[Any]) -> dict[str, Any]:
    return inspect.get_annotations(cls)


def _slotted(cls: type[_T]) -> type[_T]:
    """Give the class again with its fields as slots, their defaults put aside."""
    names = _declared(cls)
    body = {k: v for k, v in cls.__dict__.items() if k not in names and k not in ("__dict__", "__weakref__")}
    made: Any = type(cls.__name__, cls.__bases__, {**body, "__slots__": tuple(names)})
    made.__qualname__ = cls.__qualname__
    _defaults[made] = {name: cls.__dict__[name] for name in names}
    return made  # type: ignore[no-any-return]


def _fields(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """Give the fields as the standard library describes them, off a dataclass of the same declaration."""
    if cls not in _made_fields:
        shadow: Any = type(
            cls.__name__, (), {"__annotations__": _declared(cls), "__module__": cls.__module__} | _defaults[cls]
        )
        _made_fields[cls] = dataclass(kw_only=True, eq=False, repr=False)(shadow).__dataclass_fields__
    return _made_fields[cls]


def _compiled_init(cls: type[Any]) -> Callable[..., None]:
    parameters: list[str] = []
    lines: list[str] = []
    known: dict[str, Any] = {"_MISSING": MISSING}
    for name, default in _defaults[cls].items():
        made = isinstance(default, dataclasses.Field) and default.default_factory is not MISSING
        known[f"_{name}"] = default.default_factory if made else getattr(default, "default", default)
        parameters.append(f"{name}={'_MISSING' if made else '_' + name}")
        lines.append(f"self.{name} = _{name}() if {name} is _MISSING else {name}" if made else f"self.{name} = {name}")
    source = f"def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}):\n  " + "\n  ".join(
        lines or ["pass"]
    )
    exec(source, known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[_T]) -> type[_T]:
    """Make a part of a message: slotted, keyword-only, equal by value."""
    return _slotted(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, name: str, kind: Kind, versions: str, flexible: str, api_key: int = -1, unstable: bool = False
) -> Callable[[type[_T]], type[_T]]:
    """Make a message; unstable: the newest version is not to be advertised yet."""
    valid = Range.parse(versions)

    def wrap(cls: type[_T]) -> type[_T]:
        made: Any = _slotted(cls)
        made.NAME, made.KIND, made.API_KEY = name, kind, api_key
        made.MIN_VERSION, made.MAX_VERSION = valid.low, valid.high
        made.FLEXIBLE_FROM = Range.parse(flexible).low
        made.LATEST_UNSTABLE = unstable
        return made  # type: ignore[no-any-return]

    return wrap


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of a struct. kind: a primitive's name, `string`, `bytes`, `records`, `array` or `struct`."""

    name: str
    kind: str
    on: On
    element: str = ""
    """The elements' kind when this is an array."""
    struct: type[Struct] | None = None
    """The class of the struct, or of the array's elements."""
    default: object = None
    default_factory: Callable[[], Any] | None = None

    def fresh_default(self) -> object:
        """Give the default; lists and structs are new ones."""
        return self.default_factory() if self.default_factory is not None else self.default


_DEFAULT_ON: Final = on()
_PLAIN: Final[dict[object, str]] = {bool: "bool", str: "string", bytes: "bytes", Uuid: "uuid"}


_specs: Final[dict[type[Any], tuple[FieldSpec, ...]]] = {}


def field_specs(cls: type[Struct]) -> tuple[FieldSpec, ...]:
    """Read the declaration of a message or struct, in the order of the wire."""
    if cls not in _specs:
        hints = get_type_hints(cls, include_extras=True)
        declared: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)
        _specs[cls] = tuple(_field_spec(f, hints[f.name]) for f in declared)
    return _specs[cls]


def _field_spec(declared: dataclasses.Field[Any], hint: object) -> FieldSpec:
    where = _DEFAULT_ON
    if get_origin(hint) is Annotated:
        for extra in hint.__metadata__:  # type: ignore[attr-defined]
            where = extra if isinstance(extra, On) else where
    factory = None if declared.default_factory is MISSING else declared.default_factory
    default = None if declared.default is MISSING else declared.default
    kind, element, struct_class = _type_of(hint)
    return FieldSpec(declared.name, kind, where, element, struct_class, default, factory)


def _type_of(hint: object) -> tuple[str, str, type[Struct] | None]:
    """Give (type, element type, struct class) of an annotation."""
    if get_origin(hint) is Annotated:
        for extra in hint.__metadata__:  # type: ignore[attr-defined]
            if isinstance(extra, str):
                return extra, "", None
        hint = get_args(hint)[0]
    if hint == Records or hint == Records | None:
        return "records", "", None
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(option for option in get_args(hint) if option is not types.NoneType)
        return _type_of(hint)
    if get_origin(hint) is list:
        element, _, struct_class = _type_of(get_args(hint)[0])
        return "array", element, struct_class
    if hint in _PLAIN:
        return _PLAIN[hint], "", None
    if isinstance(hint, type) and issubclass(hint, Struct):
        return "struct", "", hint
    raise TypeError(f"{hint!r} is not a type of the wire")
