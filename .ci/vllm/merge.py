"""Joins the options of many releases into the catalogue: a line for each option.

    merge.py RELEASES.json CATALOGUE.json > new.json

RELEASES.json is what extract.py printed. The catalogue so far gives the summaries and successors, which are written
by hand, and the order of options, names and choices, which is that of vLLM's parser. What is missing is listed on
standard error.
"""

import json
import sys

KINDS = {"human-int": "human_readable_int", "human-int-or-auto": "human_readable_int_or_auto"}


def version(text):
    return [int(n) for n in text.split(".")]


def ordered(found, shown):
    """found in the order in which the catalogue shows it, if it shows the same."""
    return next((s for s in shown if set(s) == set(found)), found)


def form_of(option, known):
    form = {**option, **option.pop("limits", {})}
    for key in ("group", "negatable", "limits"):
        form.pop(key, None)
    forms = known.get("forms", [])
    form["names"] = ordered(form["names"], [f["names"] for f in forms if "names" in f])
    if form.get("choices"):
        form["choices"] = ordered(form["choices"], [f["choices"] for f in forms if "choices" in f])
    form["type"] = KINDS.get(form["type"], form["type"])
    for key, usual in (("values", "1"), ("type", "string"), ("names", [known.get("name")]), ("choices", [])):
        if form.get(key) == usual:
            del form[key]
    return form


def main():
    with open(sys.argv[1]) as f:
        releases = json.load(f)
    with open(sys.argv[2]) as f:
        catalogue = {o["name"]: o for o in json.load(f)["options"]}
    order = sorted(releases, key=version)
    for before, after in zip(order, order[1:]):
        lost = len({o["names"][0] for o in releases[before]} - {o["names"][0] for o in releases[after]})
        if lost > 25:
            sys.exit(f"vLLM {after} lacks {lost} options of {before}: its sources are cut short, or its parser is new")
    options = {}
    for index, release in enumerate(order):
        for o in releases[release]:
            name = next(n for n in o["names"] if n.startswith("--"))
            known = catalogue.get(name, {"name": name})
            entry = options.setdefault(name, {"group": "", "spans": []})
            entry["group"] = o["group"] or entry["group"]
            form, spans = form_of(o, known), entry["spans"]
            if spans and spans[-1]["end"] == index and spans[-1]["form"] == form:
                spans[-1]["end"] = index + 1
            else:
                spans.append({"begin": index, "end": index + 1, "form": form})
    place = {name: i for i, name in enumerate(catalogue)}
    lines = []
    for name in sorted(options, key=lambda n: (place.get(n, len(place)), n)):
        known, spans = catalogue.get(name, {}), options[name]["spans"]
        out = {"name": name, "group": options[name]["group"]}
        out |= {key: known[key] for key in ("summary", "successor") if key in known}
        out["forms"] = []
        for s in spans:
            until = {"until": order[s["end"]]} if s["end"] < len(order) else {}
            out["forms"].append({"since": order[s["begin"]], **until, **s["form"]})
        lines.append(json.dumps(out, separators=(",", ":"), ensure_ascii=False))
    for name, entry in options.items():
        known, end = catalogue.get(name, {}), entry["spans"][-1]["end"]
        if "summary" not in known and end == len(order):
            print(f"{name} has no summary", file=sys.stderr)
        if "successor" not in known and end < len(order) and name not in catalogue:
            print(f"{name} is gone: has it a successor?", file=sys.stderr)
    print('{"releases":' + json.dumps(order) + ',\n"options":[')
    print(",\n".join(lines))
    print("]}")


if __name__ == "__main__":
    main()
