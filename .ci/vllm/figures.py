"""Prints what vLLM's own code makes of sweeps: the points and frontier of plot_pareto, and the means
of plot for some options. `pkg/plot/testdata/vllm/expected.json` is its output; the test there runs
it again where VLLM_LAB has vLLM.

    python figures.py TREE REAL >expected.json
"""

import json
import sys
from pathlib import Path

import pandas as pd
from vllm.benchmarks.sweep import plot, plot_pareto

PLACE = "_file"


def runs(root):
    return [
        {**run, PLACE: str(path.parent.relative_to(root))}
        for path in sorted(root.rglob("summary.json"))
        for run in json.loads(path.read_text())
    ]


def name(run):
    return f"{run[PLACE]} {run['run_number']}"


def number(value):
    return str(value) if value in (float("inf"), float("-inf")) else value


def pareto(root, gpus=None):
    points, skipped = plot_pareto._prepare_records(runs(root), user_count_var="max_concurrency", gpu_count_var=gpus)
    table = pd.DataFrame.from_records(points)
    front = plot_pareto._pareto_frontier(table, "tokens_per_user", "tokens_per_gpu")
    keys = ["user_count_estimate", "gpu_count", "tokens_per_user", "tokens_per_gpu"]
    return {
        "gpus": gpus or "",
        "skipped": skipped,
        "points": {name(p): [number(p[k]) for k in keys] for p in points},
        "frontier": sorted(name(p) for _, p in front.iterrows()),
    }


def grid(root, x, y, curve, where, bins):
    table = pd.DataFrame.from_records(plot._convert_inf_nan_strings(runs(root)))
    table = plot.PlotBinners.parse_str(bins).apply(plot.PlotFilters.parse_str(where).apply(table))
    points = []
    for key, part in table.groupby(curve) if curve else [((), table)]:
        for at, same in part.groupby(x):
            ys = same[y].dropna()
            if len(ys):
                points.append([*key, at, ys.mean(), ys.std() if len(ys) > 1 else 0, len(ys)])
    return {"x": x, "y": y, "curve": curve, "filter": where, "bins": bins, "points": points}


def main(tree, real):
    result = {
        "tree": {
            "pareto": [pareto(tree), pareto(tree, "num_gpus")],
            "grids": [
                grid(tree, "max_concurrency", "p99_e2el_ms", ["tensor_parallel_size"], "max_concurrency<=16", ""),
                grid(tree, "request_throughput", "p99_e2el_ms", ["_benchmark_name"],
                     "_benchmark_name!=c1,p99_e2el_ms>0", "request_throughput%2.5"),
                grid(tree, "output_throughput", "mean_ttft_ms", [], "request_rate==inf,max_concurrency!=4",
                     "output_throughput%0.1"),
            ],
        },
        "real": {
            "pareto": [pareto(real)],
            "grids": [grid(real, "max_concurrency", "p99_e2el_ms", ["max_num_seqs"], "", "")],
        },
    }
    json.dump(result, sys.stdout, indent=1, sort_keys=True)
    print()


main(Path(sys.argv[1]), Path(sys.argv[2]))
