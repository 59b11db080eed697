"""A passage of YAML inside a file: read, converted to nouns, and faulted at the right line.

The rule kept here: a key given twice, a tag, or a value of another type is a fault that says where and
how to mend it. A date stays text until it is checked; ``1e-5`` is a number, as YAML 1.2 has it.
"""

import re
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct

from warplog.fault import Fault
from warplog.names import nearest
from warplog.place import line_of, steps_of

_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{kind}" for kind in ["str", "int", "float", "bool", "null", "map", "seq"]
}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z"
    r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
)
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_REMEDIES = {
    "float": "write a plain number in SI units, without quotes",
    "`int": "write a plain whole number",
    "`bool": "write true or false",
    "`array": "write a list: [a, b]",
    "`object": "write keys with values below it",
    "`str": "write text; in quotes where it could be read as something else",
}
_EXAMPLES = {
    "between": "write both ends: between: [low, high]",
    "reported": "write what, where and who: {value: 3, device: nvidia-b200, by: who}",
}
_KINDS = {
    "int": "a number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "keys with values",
    "null": "nothing",
}
_T = TypeVar("_T", bound=Struct)


class _Loader(yaml.CSafeLoader):
    """YAML as an author means it, which is that of 1.2 without octal and hexadecimal numbers.

    ``1e-5`` is a number, ``010`` is ten, and ``1:30``, ``0x1f``, ``1_000``, ``yes`` and dates are text.
    """


def _number(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> int | float:
    """Return the number that a plain scalar spells, or raise ValueError for an explicit tag's text."""
    text = str(loader.construct_scalar(node))
    if _INT.match(text):
        return int(text)
    if not _FLOAT.match(text):
        message = f"{text[:80]!r} is no plain number"
        raise ValueError(message)
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


_OURS = (":timestamp", ":float", ":int", ":bool")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if not tag.endswith(_OURS)]
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


class Passage(Struct, frozen=True):
    """YAML `text` in the file `place`, where its first line is number `first`.

    `who` opens each message about it: ``claim 'fast': ``; `steps` lead to it from the whole text.
    """

    text: str
    place: str
    first: int
    who: str = ""
    steps: tuple[str, ...] = ()

    def at(self, who: str, *steps: str) -> "Passage":
        """Return the part of this passage below `steps`, called `who` in messages."""
        return Passage(self.text, self.place, self.first, who, self.steps + steps)

    def fault(self, problem: str, remedy: str, *steps: str) -> Fault:
        """Return a fault at the line of the value below `steps`, or of its nearest parent."""
        line = line_of(self.text, [*self.steps, *steps], self.first)
        return Fault(f"{self.place}:{line}", f"{self.who}{problem}", remedy)

    def load(self) -> Any:
        """Return the value of the whole text, None where it is empty, or raise Fault."""
        remedy = "write `key: value` lines; put text with a colon or a # in quotes"
        try:
            loader = _Loader(self.text)
            try:
                node = loader.get_single_node()
                if node is None:
                    return None
                self._refuse_doubtful(node)
                return loader.construct_document(node)
            finally:
                loader.dispose()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = self.first + (mark.line if mark else 0)
            problem = f"{self.who}is not YAML ({error.problem})"
        except _YAML_ERRORS as error:
            line, problem = self.first, f"{self.who}is not YAML ({error})"
        raise Fault(f"{self.place}:{line}", problem, remedy)

    def convert(self, data: Any, kind: type[_T]) -> _T:
        """Return `data` as a `kind`, or raise Fault at the line of what does not fit."""
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `")
            steps = steps_of(path.rstrip("`"))
            problem, remedy = _explain(message, _kind_at(kind, steps), steps[-1] if steps else "")
            unknown = re.search(r"unknown field `(.*)`", message)
            if unknown:
                raise self.fault(problem, remedy, *steps, unknown[1]) from None
            named = [step for step in steps if step != "..." and not step.isdigit()]
            where = f"{named[-1]}: " if named else ""
            raise self.fault(where + problem, remedy, *steps) from None

    def _refuse_doubtful(self, root: yaml.Node) -> None:
        """Raise Fault for a key given twice and for a tag such as ``!!binary``."""
        pending, seen = [root], set()
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.tag not in _PLAIN_TAGS:
                raise self._fault_of(node, f"the YAML tag {node.tag!r}", "write plain values")
            if isinstance(node, yaml.SequenceNode):
                pending += node.value
            elif isinstance(node, yaml.MappingNode):
                self._refuse_twice(node)
                pending += [part for pair in node.value for part in pair]

    def _refuse_twice(self, node: yaml.MappingNode) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._fault_of(key, "a key that is no plain word", "write `key: value`")
            if key.value in lines:
                problem = f"the key {key.value!r} is also on line {lines[key.value]}"
                raise self._fault_of(key, problem, "keep one of them")
            lines[key.value] = self.first + key.start_mark.line

    def _fault_of(self, node: yaml.Node, problem: str, remedy: str) -> Fault:
        line = self.first + node.start_mark.line
        return Fault(f"{self.place}:{line}", f"{self.who}{problem}", remedy)


def _kind_at(kind: type[Struct], steps: list[str]) -> type[Struct]:
    """Return the Struct that the value at `steps` should have been, as far as types say."""
    for step in steps:
        hint = msgspec.inspect.type_info(kind)
        fields = hint.fields if isinstance(hint, msgspec.inspect.StructType) else ()
        for each in fields:
            options = getattr(each.type, "types", (each.type,))
            inner = [one for one in options if isinstance(one, msgspec.inspect.StructType)]
            if each.encode_name == step and inner:
                kind = inner[0].cls
    return kind


def _explain(message: str, kind: type[Struct], key: str) -> tuple[str, str]:
    """Return the problem and the remedy for a message of msgspec's about the value of `key`."""
    unknown = re.search(r"unknown field `(.*)`", message)
    if unknown:
        return f"no key {unknown[1]!r} is known here", nearest(unknown[1], kind.__struct_fields__)
    missing = re.search(r"missing required field `(.*)`", message)
    if missing:
        return f"the key {missing[1]!r} is missing", f"add `{missing[1]}: ...`"
    choice = re.search(r"[Ii]nvalid enum value (.*)", message)
    if choice:
        return f"{choice[1]} is no choice here", nearest(choice[1].strip("'"), _choices(kind, key))
    wanted = message.partition(", got ")[0]
    remedy = next((text for sign, text in _REMEDIES.items() if sign in wanted), "mend it")
    return _in_words(message), _EXAMPLES.get(key, remedy)


def _in_words(message: str) -> str:
    """Return msgspec's ``Expected `int | float | null`, got `str``` as ``is text, not a number``."""
    types = re.fullmatch(r"Expected `(.*)`, got `(.*)`", message)
    if types is None:
        return message[:1].lower() + message[1:]
    wanted, got = ([_KINDS.get(one, one) for one in side.split(" | ")] for side in types.groups())
    named = [word for word in dict.fromkeys(wanted) if word != "nothing"] or wanted
    return f"is {' or '.join(got)}, not {' or '.join(named)}"


def _choices(kind: type[Struct], key: str) -> list[str]:
    """Return the words of which the field `key` of `kind` allows one."""
    hint = msgspec.inspect.type_info(kind)
    fields = hint.fields if isinstance(hint, msgspec.inspect.StructType) else ()
    own = (each.type for each in fields if each.encode_name == key)
    literals = (one for each in own for one in getattr(each, "types", (each,)))
    found = (one.values for one in literals if isinstance(one, msgspec.inspect.LiteralType))
    return [str(word) for words in found for word in words]
