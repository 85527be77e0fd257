package config

import (
	"slices"

	"github.com/profllm/profllm/pkg/source"
)

// Reports is [reports] of a system or scenario file, by name. A name that is
// not in it has the default: on, without groups.
type Reports map[string]Report

// Report is one [reports.NAME].
type Report struct {
	Enable  bool
	GroupBy []string // configuration keys whose values part the runs
}

// plainReports and comparisonReports are the names that CloudAI registers. A
// table without the key enable switches the first kind off and the second on.
var (
	plainReports = []string{"per_test", "status", "dse", "tarball", "nixl_bench_summary",
		"moe_benchmark_throughput"}
	comparisonReports = []string{
		"vllm_comparison", "sglang_comparison", "ai_dynamo_comparison", "nccl_comparison", "nixl_ep_comparison",
		"osu_bench_comparison",
	}
)

// ParseReports decodes [reports]; a nil table has no entry. Every complaint is
// returned, with positions.
func ParseReports(t *source.Table) (Reports, error) {
	var c source.Complaints
	known := slices.Concat(plainReports, comparisonReports)
	out := Reports{}
	for _, name := range t.Keys() {
		v := t.Get(name)
		if !slices.Contains(known, name) {
			hint := source.Suggest(name, known)
			c.Add(source.Errorf(v.Pos, "unknown report %q", name).Hintf("%s", hint))
			continue
		}
		sub, ok := v.Any.(*source.Table)
		if !ok {
			c.Add(source.Errorf(v.Pos, "reports.%s must be a table, not %s", name, v.Describe()).
				Hintf("write [reports.%s] and enable = true below it", name))
			continue
		}
		r, err := parseReport(name, sub)
		c.Add(err)
		out[name] = r
	}
	return out, c.Err()
}

// reportKeys are the keys of [reports.NAME].
type reportKeys struct {
	Enable *bool `toml:"enable"` // Default if the table lacks this key: true for a comparison, else false.
	// Comparisons only: keys by whose values runs are grouped, such as
	// bench_cmd_args.max_concurrency.
	GroupBy []string `toml:"group_by"`
}

func parseReport(name string, t *source.Table) (Report, error) {
	comparison := slices.Contains(comparisonReports, name)
	var keys reportKeys
	var c source.Complaints
	c.Add(source.Decode(t, &keys))
	if !comparison && t.Has("group_by") {
		c.Add(source.Errorf(t.PosOf("group_by"), "reports.%s does not support group_by", name).
			Hintf("only comparisons such as [reports.vllm_comparison] have group_by"))
	}
	r := Report{Enable: comparison, GroupBy: keys.GroupBy}
	if keys.Enable != nil {
		r.Enable = *keys.Enable
	}
	return r, c.Err()
}

// Of returns what holds for a report: the entry of the first file that has one,
// whole, else the default. Entries replace each other, they do not merge.
func (r Reports) Of(name string, next ...Reports) Report {
	for _, x := range append([]Reports{r}, next...) {
		if entry, ok := x[name]; ok {
			return entry
		}
	}
	return Report{Enable: true}
}
