"""Joins the JSON objects of many releases into their catalogue: a line for each member of each option.

    objects.py OBJECTS.json > objects.json

OBJECTS.json is what extract.py objects printed. Members of members have names with dots.
"""

import json
import sys


def flat(members, prefix=""):
    for name, form in members.items():
        form = dict(form)
        inner = form.pop("members", {})
        form.pop("strict", None)
        yield prefix + name, form
        yield from flat(inner, prefix + name + ".")


def spans_of(found, order):
    """What is the same from release to release, with since and until."""
    spans = []
    for index, value in found:
        if spans and spans[-1]["end"] == index and spans[-1]["value"] == value:
            spans[-1]["end"] = index + 1
        else:
            spans.append({"begin": index, "end": index + 1, "value": value})
    for s in spans:
        yield {"since": order[s["begin"]], **({"until": order[s["end"]]} if s["end"] < len(order) else {}), **s["value"]}


def main():
    with open(sys.argv[1]) as f:
        releases = json.load(f)
    order = sorted(releases, key=lambda v: [int(n) for n in v.split(".")])
    options = {}
    for index, release in enumerate(order):
        for name, found in releases[release].items():
            option = options.setdefault(name, {"whole": [], "members": {}})
            option["whole"].append((index, {k: found[k] for k in ("class", "strict", "late") if found.get(k)}))
            for member, form in flat(found["members"]):
                option["members"].setdefault(member, []).append((index, form))
    lines = []
    for name in sorted(options):
        whole = json.dumps(list(spans_of(options[name]["whole"], order)), separators=(",", ":"))
        members = [json.dumps({"name": m, "forms": list(spans_of(found, order))}, separators=(",", ":"))
                   for m, found in options[name]["members"].items()]
        lines.append(f'{{"name":"{name}","forms":{whole},"members":[\n' + ",\n".join(members) + "]}")
    print("[" + ",\n".join(lines) + "]")


if __name__ == "__main__":
    main()
