"""What is asked of both sides: each transformation by its settings, over typed and untyped records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.connect.spark.kafka_side import TEXT, WITHOUT, Case, Link
from tests.connect.spark.samples import TYPED, UNTYPED, Record

_TABLE: Final[Sequence[tuple[str, Mapping[str, str]]]] = (
    ("Cast$Value", {"spec": "i8:string,i16:int8,i32:int8,i64:int32,f32:int64,f64:int16,flag:int32,text:string"}),
    ("Cast$Value", {"spec": "i8:boolean,i16:float32,i64:float64,f32:string,f64:string,flag:string,text:boolean"}),
    ("Cast$Value", {"spec": "text:int32"}),
    ("Cast$Value", {"spec": "text:float64,i32:string,f64:int64,f32:boolean"}),
    ("Cast$Value", {"spec": "data:string,price:string,day:string,time:string,at:string"}),
    ("Cast$Value", {"spec": "price:int32,day:int64,time:int16,at:int64,list:string"}),
    ("Cast$Value", {"spec": "price:float64,day:int32,at:string", "replace.null.with.default": "false"}),
    ("Cast$Value", {"spec": "data:int32"}),
    ("Cast$Value", {"spec": "int32"}),
    ("Cast$Key", {"spec": "int8"}),
    ("Cast$Key", {"spec": "string"}),
    ("DropHeaders", {"headers": "a,c"}),
    ("ExtractField$Value", {"field": "price"}),
    ("ExtractField$Value", {"field": "i32"}),
    ("ExtractField$Value", {"field": "i32", "replace.null.with.default": "false"}),
    ("ExtractField$Value", {"field": "inner"}),
    ("ExtractField$Value", {"field": "inner.s", "field.syntax.version": "V2"}),
    ("ExtractField$Value", {"field": "nowhere"}),
    ("ExtractField$Key", {"field": "id"}),
    ("Flatten$Value", {}),
    ("Flatten$Value", {"delimiter": "__"}),
    ("HeaderFrom$Value", {"fields": "text,i64", "headers": "a,n", "operation": "copy"}),
    ("HeaderFrom$Value", {"fields": "flag,f64", "headers": "f,n", "operation": "move"}),
    ("HeaderFrom$Value", {"fields": "nowhere", "headers": "n", "operation": "move"}),
    ("InsertField$Value", {"topic.field": "t", "partition.field": "p!", "offset.field": "o?", "timestamp.field": "ts"}),
    ("InsertField$Value", {"static.field": "st!", "static.value": 'it\'s \\ "so"'}),
    ("InsertField$Value", {"timestamp.field": "ts!"}),
    ("InsertField$Value", {"static.field": "i8", "static.value": "1"}),
    ("InsertField$Key", {"topic.field": "t"}),
    ("InsertHeader", {"header": "h", "value.literal": "12"}),
    ("InsertHeader", {"header": "h", "value.literal": "some text"}),
    ("InsertHeader", {"header": "h", "value.literal": "true"}),
    ("MaskField$Value", {"fields": "i8,i16,i32,i64,f32,f64,flag,text,day,time,at,list"}),
    ("MaskField$Value", {"fields": "i8,i64,f32,text", "replacement": "12"}),
    ("MaskField$Value", {"fields": "i64", "replacement": "x"}),
    ("MaskField$Value", {"fields": "flag", "replacement": "1"}),
    ("MaskField$Value", {"fields": "data"}),
    ("MaskField$Value", {"fields": "inner"}),
    ("RegexRouter", {"regex": "(o)(.*)", "replacement": "$2-$1"}),
    ("RegexRouter", {"regex": "rde", "replacement": "x"}),
    ("ReplaceField$Value", {"exclude": "data,list,inner", "renames": "i8:a,text:b"}),
    ("ReplaceField$Value", {"include": "i32,price,nowhere"}),
    ("ReplaceField$Value", {"include": "i32", "replace.null.with.default": "false"}),
    ("SetSchemaMetadata$Value", {"schema.name": "other.Name", "schema.version": "9"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSS"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "unix"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "unix", "unix.precision": "seconds"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "Date"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "Time"}),
    ("TimestampConverter$Value", {"field": "day", "target.type": "Timestamp"}),
    ("TimestampConverter$Value", {"field": "time", "target.type": "string", "format": "HH:mm:ss"}),
    ("TimestampConverter$Value", {"field": "i64", "target.type": "Timestamp", "unix.precision": "nanoseconds"}),
    ("TimestampConverter$Value", {"field": "text", "target.type": "Timestamp", "format": "HH:mm"}),
    ("TimestampConverter$Value", {"field": "flag", "target.type": "unix"}),
    ("TimestampConverter$Key", {"target.type": "unix", "unix.precision": "microseconds"}),
    ("TimestampRouter", {}),
    ("TimestampRouter", {"topic.format": "x.${timestamp}.${topic}", "timestamp.format": "yyyy-MM-dd HH"}),
    ("ValueToKey", {"fields": "i8,inner"}),
    ("ValueToKey", {"fields": "i32,text"}),
    ("ValueToKey", {"fields": "nowhere"}),
)
_UNTYPED_TABLE: Final[Sequence[tuple[str, Mapping[str, str]]]] = (
    ("Cast$Value", {"spec": "number:int32,real:int64,flag:string,none:int8,gone:string"}),
    ("Cast$Value", {"spec": "number:string,real:boolean,flag:int8"}),
    ("Cast$Value", {"spec": "text:int16"}),
    ("Cast$Value", {"spec": "list:string"}),
    ("Cast$Value", {"spec": "boolean"}),
    ("Cast$Key", {"spec": "string"}),
    ("ExtractField$Value", {"field": "inner"}),
    ("ExtractField$Value", {"field": "inner.x.y", "field.syntax.version": "V2"}),
    ("ExtractField$Value", {"field": "nowhere"}),
    ("Flatten$Value", {}),
    ("Flatten$Value", {"delimiter": "/"}),
    ("HeaderFrom$Value", {"fields": "number,text", "headers": "n,t", "operation": "move"}),
    ("HeaderFrom$Value", {"fields": "flag,none", "headers": "f,z", "operation": "copy"}),
    ("HoistField$Value", {"field": "wrapped"}),
    ("HoistField$Key", {"field": "wrapped"}),
    (
        "InsertField$Value",
        {"topic.field": "t", "partition.field": "p!", "offset.field": "o", "timestamp.field": "text"},
    ),
    ("MaskField$Value", {"fields": "number,real,text,flag,none,list,inner,gone"}),
    ("MaskField$Value", {"fields": "number,text", "replacement": "5"}),
    ("MaskField$Value", {"fields": "flag", "replacement": "5"}),
    ("ReplaceField$Value", {"exclude": "list,inner", "renames": "number:n,text:flag"}),
    ("ReplaceField$Value", {"include": "real,flag"}),
    ("SetSchemaMetadata$Value", {"schema.name": "n"}),
    ("TimestampConverter$Value", {"field": "millis", "target.type": "string", "format": "yyyy-MM-dd HH:mm:ss"}),
    ("TimestampConverter$Value", {"field": "millis", "target.type": "unix", "unix.precision": "microseconds"}),
    ("TimestampConverter$Value", {"field": "text", "target.type": "unix", "format": "yyyy-MM-dd"}),
    ("TimestampConverter$Value", {"field": "flag", "target.type": "unix"}),
    ("ValueToKey", {"fields": "number,gone"}),
)
_ROUTED: Final = tuple(
    Record(value, topic=topic, headers=headers)
    for value in (b"x", None)
    for topic in ("orders", "other")
    for headers in ((), (("h", b"1"),))
)
_MOVE: Final = ("RegexRouter", {"regex": ".*", "replacement": "moved"})
PREDICATED: Final = (
    Case("filter tombstones", _ROUTED, [Link("Filter", {}, "RecordIsTombstone")], TEXT, TEXT, TEXT),
    Case("filter by header", _ROUTED, [Link("Filter", {}, "HasHeaderKey", {"name": "h"}, True)], TEXT, TEXT, TEXT),
    Case("move by topic", _ROUTED, [Link(*_MOVE, "TopicNameMatches", {"pattern": "or.*"})], TEXT, TEXT, TEXT),
    Case("move the others", _ROUTED, [Link(*_MOVE, "TopicNameMatches", {"pattern": "or"}, True)], TEXT, TEXT, TEXT),
    Case(
        "hoist what has a value",
        TYPED[:5],
        [Link("HoistField$Value", {"field": "f"}, "RecordIsTombstone", {}, True)],
    ),
    Case(
        "one after the other",
        TYPED,
        [
            Link("Flatten$Value", {"delimiter": "_"}),
            Link("ReplaceField$Value", {"include": "i8,inner_s,at", "renames": "inner_s:s"}),
            Link("InsertField$Value", {"static.field": "z", "static.value": "1"}),
            Link("ValueToKey", {"fields": "s"}),
            Link("ExtractField$Key", {"field": "s"}),
            Link("Filter", {}, "TopicNameMatches", {"pattern": "other"}),
        ],
    ),
)
CASES: Final = (
    *(Case(f"{i} {kind} {dict(config)}", TYPED, [Link(kind, config)]) for i, (kind, config) in enumerate(_TABLE)),
    *(
        Case(f"untyped {i} {kind} {dict(config)}", UNTYPED, [Link(kind, config)], WITHOUT, WITHOUT, WITHOUT)
        for i, (kind, config) in enumerate(_UNTYPED_TABLE)
    ),
    *PREDICATED,
)
