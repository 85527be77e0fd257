"""Reads the options of `vllm serve` or `vllm bench serve` out of vLLM's source releases, without running them.

    extract.py serve|bench|objects FOLDER...      one folder for each unpacked source release (vllm-0.32.0)

Prints one JSON document: for each release that has the program, its options as argparse would know them; for objects,
the members of those options of `vllm serve` that are JSON objects. Only names, kinds, choices and limits are read, never
a sentence.
"""

import ast
import json
import os
import re
import sys

FRONT_END_JSON = {"allowed_origins", "allowed_methods", "allowed_headers", "default_chat_template_kwargs"}
STRICTLY = {"gt": "above", "ge": "min", "lt": "below", "le": "max"}


class Module:
    def __init__(self, tree, name):
        self.name, self.values, self.classes, self.imports = name, {}, {}, {}
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        # if TYPE_CHECKING: import X, else: X = Any
        self.unknown = {
            statement.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for statement in node.orelse
            if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "Any"
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self.values.setdefault(node.targets[0].id, node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self.values.setdefault(node.target.id, node.value)
            elif isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, node)
            elif isinstance(node, ast.ImportFrom):
                parts = name.split(".")
                base = ".".join(parts[: len(parts) - node.level]) if node.level else ""
                target = ".".join(p for p in (base, node.module or "") if p)
                for a in node.names:
                    self.imports[a.asname or a.name] = (target, a.name)


class Release:
    def __init__(self, folder):
        self.folder, self.modules = folder, {}

    def module(self, name):
        if name not in self.modules:
            path = os.path.join(self.folder, *name.split("."))
            path = next((p for p in (path + ".py", os.path.join(path, "__init__.py")) if os.path.exists(p)), None)
            self.modules[name] = None
            if path:
                package = name + ".__init__" if path.endswith("__init__.py") else name
                self.modules[name] = Module(ast.parse(open(path, encoding="utf-8").read()), package)
        return self.modules[name]

    def find(self, name, module, kind, depth=0):
        """The definition of a name, followed through imports: (node, module)."""
        if not module or depth > 8:
            return None, None
        table = getattr(module, kind)
        if name in table:
            return table[name], module
        if name in module.imports:
            target, original = module.imports[name]
            if target.startswith("vllm"):
                return self.find(original, self.module(target), kind, depth + 1)
        return None, None

    # Types: a set of "bool", "int", …, with literals, elements and limits beside.

    def type_of(self, node, module, depth=0):
        t = {"tags": set(), "choices": [], "element": None, "limits": {}, "class": None}

        def merge(o):
            t["class"] = t["class"] or o["class"]
            t["tags"] |= o["tags"]
            t["choices"] += o["choices"]
            t["element"] = t["element"] or o["element"]
            t["limits"].update(o["limits"])

        if depth > 12 or node is None:
            return t
        if isinstance(node, ast.Constant):
            if node.value is None:
                t["tags"].add("None")
            elif isinstance(node.value, str):
                merge(self.type_of(ast.parse(node.value, mode="eval").body, module, depth + 1))
            return t
        if isinstance(node, ast.BinOp):
            merge(self.type_of(node.left, module, depth + 1))
            merge(self.type_of(node.right, module, depth + 1))
            return t
        if isinstance(node, ast.Attribute):
            node = ast.Name(id=node.attr)
        if isinstance(node, ast.Subscript):
            head = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if head == "Literal":
                t["tags"].add("literal")
                for i in items:
                    merge_literal(t, i, self, module)
            elif head in ("Optional", "Union", "Annotated", "SkipValidation", "ClassVar", "Final"):
                if head == "Annotated":
                    merge(self.type_of(items[0], module, depth + 1))
                    for i in items[1:]:
                        t["limits"].update(limits(i))
                else:
                    for i in items:
                        merge(self.type_of(i, module, depth + 1))
                    if head == "Optional":
                        t["tags"].add("None")
            elif head.lower() in ("list", "tuple", "set", "sequence"):
                t["tags"].add(head.lower())
                t["element"] = self.type_of(items[0], module, depth + 1)
                t["length"] = None if head.lower() != "tuple" or len(items) < 2 or is_ellipsis(items[1]) else len(items)
            elif head.lower() in ("dict", "mapping"):
                t["tags"].add("dict")
            else:
                t["tags"].add("other")
            return t
        if isinstance(node, ast.Name):
            name = node.id
            if name in ("bool", "int", "float", "str", "dict", "list"):
                t["tags"].add(name)
                return t
            if name == "Any" or name in module.unknown:
                t["tags"].add("other")
                return t
            value, at = self.find(name, module, "values")
            cls, at2 = self.find(name, module, "classes")
            if cls is not None:
                bases = {ast.unparse(b).split("[")[0].split(".")[-1] for b in cls.bases}
                decorated = any("dataclass" in ast.dump(d) or "config" in ast.dump(d) for d in cls.decorator_list)
                if any("dict" in b.lower() for b in bases):
                    t["tags"].add("dict")
                elif decorated:
                    t["tags"].add("dataclass")
                    t["class"] = (cls, at2)
                elif bases & {"Enum", "str"}:
                    t["tags"].add("enum")
                else:
                    t["tags"].add("other")
            elif value is not None and not isinstance(value, ast.Name):
                merge(self.type_of(value, at, depth + 1))
            else:
                t["tags"].add("other")
            return t
        t["tags"].add("other")
        return t

    def field(self, cls, name, module):
        """(annotation, default, module) of a field, through base classes."""
        if cls is None:
            return None, None, None
        for node in cls.body:
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name:
                return node.annotation, node.value, module
        for base in cls.bases:
            b, at = self.find(getattr(base, "id", ""), module, "classes")
            if b is not None:
                found = self.field(b, name, at)
                if found[0] is not None:
                    return found
        return None, None, None

    def fields(self, cls, module):
        names = []
        for base in cls.bases:
            b, at = self.find(getattr(base, "id", ""), module, "classes")
            if b is not None:
                names += self.fields(b, at)
        for node in cls.body:
            if isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith("ClassVar"):
                names.append(node.target.id)
        return names

    def kwargs(self, cls, name, module):
        """What argparse is told of a field of a config class."""
        annotation, default, at = self.field(cls, name, module)
        if annotation is None:
            return {}
        t = self.type_of(annotation, at)
        limit = dict(t["limits"])
        if isinstance(default, ast.Call):
            limit.update(limits(default))
        k = shape(t, name, self.human(), self.auto())
        if limit:
            k["limits"] = limit
        value = self.default(default, at)
        if value is not None:
            k["default"] = value
        if t["class"]:
            k["class"] = t["class"]
        return k

    def members(self, cls, module, depth=0):
        """The members of a JSON object that becomes a config class: a kind, choices and limits where it is plain."""
        free = set() # those that code reads before their type counts
        for node in ast.walk(cls):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "field_validator":
                if any(kw.arg == "mode" and ast.unparse(kw.value) in ("'before'", "'wrap'", "'plain'") for kw in node.keywords):
                    free |= {a.value for a in node.args if isinstance(a, ast.Constant)}
        found = {}
        for name in self.fields(cls, module):
            annotation, default, at = self.field(cls, name, module)
            if isinstance(default, ast.Call) and any(kw.arg == "init" and ast.unparse(kw.value) == "False" for kw in default.keywords):
                continue # none that anybody can give
            found[name] = {} if name in free else self.member(annotation, default, at, depth)
        return found

    def member(self, annotation, default, module, depth):
        t = self.type_of(annotation, module)
        limit = dict(t["limits"])
        if isinstance(default, ast.Call):
            limit.update(limits(default))
        tags = t["tags"] - {"None"}
        m = {}
        if tags == {"dataclass"} and depth < 3:
            m = {"type": "json", **self.object(t["class"], depth + 1)}
        elif tags == {"literal"} and all(isinstance(c, str) for c in t["choices"]):
            m = {"choices": list(dict.fromkeys(t["choices"]))}
        elif len(tags) == 1 and tags <= {"int", "float", "bool"}:
            m = {"type": tags.pop(), **limit}
        if m and "None" in t["tags"]:
            m["optional"] = True
        return m

    def object(self, found, depth=0):
        """A config class: its name, its members, and whether it refuses others."""
        cls, module = found
        own = " ".join(ast.unparse(d) for d in cls.decorator_list)
        decorator, _ = self.find("config", module, "functions")
        strict = "extra='forbid'" in own or (own.startswith("config") and decorator is not None and "extra='forbid'" in ast.unparse(decorator))
        return {"class": cls.name, "strict": strict, "members": self.members(cls, module, depth)}

    def objects(self):
        """The config class of each option of `vllm serve` that takes the members of one as JSON."""
        found = {}
        loads = set(re.findall(r'\["(\w+)"\]\["type"\] = (?:optional_type\()?json\.loads', self.source()))
        for o in self.options():
            if o.get("type") == "json" and "class" in o:
                name = next(n for n in o["names"] if n.startswith("--"))
                late = name[2:].replace("-", "_") in loads # the class is made behind the parser
                found[name] = {**self.object(o["class"], 3 if late else 0), "late": late}
        speculative = self.find("SpeculativeConfig", self.module("vllm.config"), "classes")
        if speculative[0] is not None and "--speculative-config" not in found:
            found["--speculative-config"] = {**self.object(speculative, 3), "late": True}
        return found

    def default(self, node, module, depth=0):
        """The default that the source spells out, as JSON would; nothing where code decides."""
        if depth > 6 or node is None:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, (bool, int, float, str)) else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.default(node.operand, module, depth + 1)
            return -value if isinstance(value, (int, float)) else None
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            if name in ("Field", "field"):
                given = next((k.value for k in node.keywords if k.arg == "default"), node.args[0] if node.args else None)
                return self.default(given, module, depth + 1)
            if name == "get_field" and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
                return self.default(ast.Attribute(node.args[0], node.args[1].value), module, depth + 1)
            return "inf" if ast.unparse(node) == "float('inf')" else None
        if isinstance(node, ast.Name):
            return self.default(*self.find(node.id, module, "values"), depth + 1)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            cls, at = self.find(node.value.id, module, "classes")
            _, value, at = self.field(cls, node.attr, at)
            return self.default(value, at, depth + 1)
        return None

    def source(self):
        return open(os.path.join(self.folder, "vllm/engine/arg_utils.py"), encoding="utf-8").read()

    def human(self):
        """Fields whose numbers may have a unit (1k, 2M)."""
        if not hasattr(self, "_human"):
            found = set()
            for m in re.finditer(r"(?:human_readable_int_args = |elif name in )\{([^}]*)\}", self.source()):
                found |= set(re.findall(r'"(\w+)"', m.group(1)))
            for m in re.finditer(r'name == "(\w+)":\n\s+kwargs\[name\]\["type"\] = (?:optional_type\()?human_readable', self.source()):
                found.add(m.group(1))
            self._human = found
        return self._human

    def auto(self):
        return "human_readable_int_or_auto" in self.source()

    def options(self):
        """The options of `vllm serve`."""
        out, add = collector()
        for path in self.parsers():
            module = self.module(path)
            if module is None:
                continue
            tree = ast.parse(open(self.path_of(path), encoding="utf-8").read())
            for function, cls in functions(tree):
                if not wanted(path, function, cls):
                    continue
                self.calls(function, cls, module, add)
        return out

    def client(self):
        """The options of `vllm bench serve`, in the order in which its parser gets them."""
        out, add = collector()
        function, module = self.find("add_cli_args", self.module("vllm.benchmarks.serve"), "functions")
        if function is not None:
            self.parser_of(function, module, "", add)
        return out

    def parser_of(self, function, module, group, add):
        """Adds the options of a function that fills a parser or a group, and of those that it gives its parser to."""
        groups = {function.args.args[0].arg: group} # of each parser and group, by its variable
        for node in sorted((n for n in ast.walk(function) if isinstance(n, ast.Call)), key=lambda n: n.lineno):
            name = getattr(node.func, "attr", "")
            if name == "add_argument_group":
                target = next(n.targets[0].id for n in ast.walk(function) if isinstance(n, ast.Assign) and n.value is node)
                groups[target] = node.args[0].value
            elif name == "add_argument":
                names = [a.value for a in node.args if isinstance(a, ast.Constant)]
                k = self.direct({kw.arg: kw.value for kw in node.keywords}, module, False)
                add(groups[node.func.value.id], names, k)
            elif node.args and getattr(node.args[0], "id", "") in groups:
                called, at = self.find(getattr(node.func, "id", ""), module, "functions")
                if called is not None:
                    self.parser_of(called, at, groups[node.args[0].id], add)

    def path_of(self, module):
        return os.path.join(self.folder, *module.split(".")) + ".py"

    def parsers(self):
        found = []
        for root, _, files in os.walk(os.path.join(self.folder, "vllm/entrypoints")):
            for f in files:
                p = os.path.relpath(os.path.join(root, f), self.folder)
                if f == "cli_args.py" or p in ("vllm/entrypoints/cli/serve.py", "vllm/scripts.py"):
                    found.append(p[:-3].replace("/", "."))
        if os.path.exists(os.path.join(self.folder, "vllm/scripts.py")):
            found.append("vllm.scripts")
        return sorted(found) + ["vllm.engine.arg_utils"]

    def calls(self, function, cls, module, add):
        kwargs_of, groups, variables = {}, {}, {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, (ast.Subscript, ast.Dict)):
                    variables.setdefault(node.targets[0].id, []).append(node.value)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                target, key = node.targets[0].value, node.targets[0].slice
                if isinstance(target, ast.Name) and isinstance(key, ast.Constant):
                    variables.setdefault(target.id, []).append(ast.Dict([key], [node.value]))
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call):
                call, target = node.value, getattr(node.targets[0], "id", "")
                if getattr(call.func, "id", getattr(call.func, "attr", "")) == "get_kwargs":
                    kwargs_of[target] = getattr(call.args[0], "id", "")
                if getattr(call.func, "attr", "") == "add_argument_group":
                    title = next((a.value for a in [*call.args, *[k.value for k in call.keywords if k.arg == "title"]]
                                  if isinstance(a, ast.Constant)), None)
                    groups[target] = title or (cls.name.replace("Args", "") if cls else "")
        if "cls" in kwargs_of.values() or any(v == "FrontendArgs" for v in kwargs_of.values()):
            name = "FrontendArgs"
            node, at = self.find(name, module, "classes")
            for field in self.fields(node, at):
                k = self.kwargs(node, field, at)
                if field in FRONT_END_JSON:
                    k = {"values": "1", "type": "json"}
                if field in ("middleware", "disable_access_log_for_endpoints"):
                    k = {"values": "1", "type": "string"}
                add("Frontend", ["--" + field.replace("_", "-")], k)
        calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "add_argument"]
        for call in sorted(calls, key=lambda n: n.lineno):
            names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            group = groups.get(getattr(call.func.value, "id", ""), "")
            k, direct = {}, {}
            for kw in call.keywords:
                if kw.arg is None:
                    k.update(self.unpacked(kw.value, kwargs_of, variables, module))
                else:
                    direct[kw.arg] = kw.value
            if isinstance(direct.get("default"), ast.Constant) and direct["default"].value is None:
                k.pop("default", None)
            k = {**k, **self.direct(direct, module, bool(k))}
            if "type" not in k and "values" not in k:
                k.update(values="1", type="string")
            add(group, names, k)

    def unpacked(self, node, kwargs_of, variables, module):
        """What **node adds to the arguments of add_argument."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            name = kwargs_of.get(getattr(node.value, "id", ""), "")
            if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "get_kwargs":
                name = node.value.args[0].id
            cls, at = self.find(name, module, "classes")
            return self.kwargs(cls, node.slice.value, at) if cls is not None else {}
        if isinstance(node, ast.Name):
            k = {}
            for part in variables.get(node.id, []):
                k.update(self.unpacked(part, kwargs_of, variables, module))
            return k
        if isinstance(node, ast.Dict):
            k, direct = {}, {}
            for key, value in zip(node.keys, node.values):
                if key is None:
                    k.update(self.unpacked(value, kwargs_of, variables, module))
                elif key.value == "default" and isinstance(value, ast.Constant) and value.value is None:
                    k.pop("default", None)
                else:
                    direct[key.value] = value
            if "type" in direct and isinstance(direct["type"], ast.Lambda) and "lower" in ast.unparse(direct["type"]):
                k["fold"] = True # capitals and dashes are as good as small letters and underscores
                del direct["type"]
            return {**k, **self.direct(direct, module, True)}
        return {}

    def direct(self, kw, module, rest):
        """What add_argument is told in place."""
        k = {}
        action = ast.unparse(kw["action"]).strip("'\"") if "action" in kw else ""
        if action in ("store_true", "store_false"):
            k.update(values="0", type="bool")
        elif action.endswith("BooleanOptionalAction"):
            k.update(values="0", type="bool", negatable=True)
        elif action == "StoreBoolean":
            k.update(values="?", type="bool", choices=["true", "false"])
        elif "type" in kw or not rest:
            text = ast.unparse(kw["type"]) if "type" in kw else "str"
            if text.startswith("lambda") or text == "_parse_mm_bucket_config":
                text = "str"
            k["values"] = "1"
            k["type"] = kind_of(text)
            if "optional" in text or "nullable" in text:
                k["optional"] = True
        value = self.default(kw.get("default"), module)
        if value is not None:
            k["default"] = value
        if "nargs" in kw and isinstance(kw["nargs"], ast.Constant):
            k["values"] = {"*": "*", "+": "+", "?": "?"}.get(kw["nargs"].value, str(kw["nargs"].value))
        if "choices" in kw:
            choices = self.evaluate(kw["choices"], module)
            if choices:
                k["choices"] = [str(c) for c in choices if c is not None]
                if isinstance(kw["choices"], ast.Set): # Python's order of a set changes from run to run
                    k["choices"].sort()
        return k

    def evaluate(self, node, module):
        try:
            return list(ast.literal_eval(node))
        except (ValueError, TypeError):
            pass
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("list", "get_args") and node.args:
            inner = node.args[0]
            if node.func.id == "get_args":
                return self.type_of(inner, module)["choices"]
            return self.evaluate(inner, module)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "keys":
            return self.evaluate(node.func.value, module)
        if isinstance(node, ast.Dict):
            return [key.value for key in node.keys]
        if isinstance(node, ast.List):
            out = []
            for e in node.elts:
                if isinstance(e, ast.Starred):
                    part = self.evaluate(e.value, module)
                    if part is None:
                        return None
                    out += part
                elif isinstance(e, ast.Constant):
                    out.append(e.value)
                else:
                    return None
            return out
        if isinstance(node, ast.Name):
            value, at = self.find(node.id, module, "values")
            return self.evaluate(value, at) if value is not None else None
        return None


def collector():
    """A list of options, and a function that adds one to it unless it is there."""
    out, seen = [], set()

    def add(group, names, k):
        names = [n for n in names if n.startswith("-")]
        long = next((n for n in names if n.startswith("--")), None)
        if not long or long in seen:
            return
        seen.add(long)
        if k.get("negatable"):
            names = [x for n in names for x in ([n, "--no-" + n[2:]] if n.startswith("--") else [n])]
        out.append({"names": names, "group": group, **{a: b for a, b in k.items() if b is not None and b != [] and b != {}}})

    return out, add


def merge_literal(t, node, release, module):
    if isinstance(node, ast.Constant):
        if node.value is None:
            t["tags"].add("None")
        else:
            t["choices"].append(node.value)
    else:
        t["choices"] += release.type_of(node, module)["choices"]


def is_ellipsis(node):
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def limits(node):
    """gt, ge, lt, le of pydantic's Field."""
    found = {}
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Field", "field", "Ge", "Gt", "Le", "Lt"):
        for kw in node.keywords:
            if kw.arg in STRICTLY:
                try:
                    found[STRICTLY[kw.arg]] = ast.literal_eval(kw.value)
                except ValueError:
                    pass
    return found


def kind_of(text):
    for word, kind in (("human_readable_int_or_auto", "human-int-or-auto"), ("human_readable_int", "human-int"),
                       ("loads", "json"), ("parse_dataclass", "json"), ("config", "json"), ("dict", "json"),
                       ("float", "float"), ("int", "int")):
        if word in text and not (word == "int" and "print" in text):
            return kind
    return "string"


def shape(t, name, human, auto):
    """Mirrors what vLLM's get_kwargs makes of a type."""
    tags = t["tags"]
    optional = "None" in tags
    if "dataclass" in tags:
        k = {"values": "1", "type": "json"}
    elif tags == {"bool", "str", "None"}:
        return {"values": "?", "type": "string"}
    elif "bool" in tags:
        return {"values": "0", "type": "bool", "negatable": True}
    elif "literal" in tags:
        k = {"values": "1", "type": "int" if all(isinstance(c, int) for c in t["choices"]) else "string"}
        if "str" not in tags:
            k["choices"] = sorted({str(c) for c in t["choices"]})
    elif tags & {"tuple", "list", "set", "sequence"}:
        e = t["element"] or {"tags": {"str"}, "choices": []}
        kind = "string"
        if "None" in e["tags"] or len(e["tags"] - {"None"}) > 1:
            kind = "string"
        elif "int" in e["tags"]:
            kind = "int"
        elif "float" in e["tags"]:
            kind = "float"
        k = {"values": str(t.get("length") or "+"), "type": kind}
        if e["tags"] == {"literal"}:
            k["choices"] = sorted({str(c) for c in e["choices"]})
    elif "int" in tags:
        k = {"values": "1", "type": "int"}
        if name in human:
            k["type"] = "human-int-or-auto" if name == "max_model_len" and auto else "human-int"
    elif "float" in tags:
        k = {"values": "1", "type": "float"}
    elif "dict" in tags:
        k = {"values": "1", "type": "json"}
        if "str" in tags or tags & {"other", "enum"}:
            k["type"] = "json-or-string"
    else:
        k = {"values": "1", "type": "string"}
    if optional:
        k["optional"] = True
    return k


def functions(tree, cls=None):
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node, node)
        elif isinstance(node, ast.FunctionDef):
            yield node, cls


def wanted(path, function, cls):
    if path == "vllm.engine.arg_utils":
        return cls is not None and cls.name in ("EngineArgs", "AsyncEngineArgs") and function.name in (
            "add_cli_args", "_add_cli_args") or cls is None and function.name.startswith("_engine_args")
    return function.name in ("add_cli_args", "make_arg_parser", "subparser_init", "main", "make_arg_parser_common")


def main():
    releases = {}
    for folder in sys.argv[2:]:
        version = re.search(r"(\d+(\.\d+)+)", os.path.basename(folder.rstrip("/"))).group(1)
        release = Release(folder)
        found = {"serve": release.options, "bench": release.client, "objects": release.objects}[sys.argv[1]]()
        if found:
            releases[version] = found
    for options in releases.values():
        for o in options if isinstance(options, list) else []:
            o.pop("class", None)
    json.dump(releases, sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
