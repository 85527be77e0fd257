package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/result"
)

// gauge is a Prometheus metric: base units, and every name once.
type gauge struct {
	name, help string
	lines      []string
}

// gauges are the names of the records' metrics, with what makes base units of them.
var gauges = map[string]struct {
	name, help string
	scale      float64
}{
	"output_throughput":                         {"output_tokens_per_second", "Output tokens per second.", 1},
	"output_throughput_per_user":                {"output_tokens_per_second_per_user", "Output tokens per second and concurrent request.", 1},
	"output_throughput_per_gpu":                 {"output_tokens_per_second_per_gpu", "Output tokens per second and GPU.", 1},
	"total_token_throughput":                    {"tokens_per_second", "Input and output tokens per second.", 1},
	"total_token_throughput_per_gpu":            {"tokens_per_second_per_gpu", "Input and output tokens per second and GPU.", 1},
	"request_throughput":                        {"requests_per_second", "Completed requests per second.", 1},
	"request_goodput":                           {"good_requests_per_second", "Completed requests per second that met their limits.", 1},
	"completed_requests":                        {"completed_requests", "Completed requests.", 1},
	"successful_percent":                        {"completed_requests_ratio", "Completed requests of those that were sent.", 0.01},
	"accuracy":                                  {"accuracy_ratio", "Right answers of the evaluation's questions.", 1},
	"avg_gpu_utilization":                       {"gpu_utilization_ratio", "Use of the GPUs that served, in the client's window.", 0.01},
	"gpu_power_w":                               {"gpu_power_watts", "Power of the GPUs that served, in the client's window.", 1},
	"gpu_energy_j":                              {"gpu_energy_joules", "Energy of the GPUs that served, in the client's window.", 1},
	"joules_per_output_token":                   {"joules_per_output_token", "Energy of the GPUs that served by output token.", 1},
	"offline.throughput.request_throughput":     {"offline_requests_per_second", "Requests per second without a server.", 1},
	"offline.throughput.total_token_throughput": {"offline_tokens_per_second", "Input and output tokens per second without a server.", 1},
	"offline.throughput.output_throughput":      {"offline_output_tokens_per_second", "Output tokens per second without a server.", 1},
}

var latencyGauges = map[result.Family]struct{ name, help string }{
	result.TTFT: {"time_to_first_token_seconds", "Time to the first token."},
	result.TPOT: {"time_per_output_token_seconds", "Time per output token behind the first."},
}

// Prometheus writes the newest run of each series in the text format, for the
// textfile collector of node_exporter: no times beside the values. The numbers of a
// run that is neither valid nor suspect are not written, nor are withheld ones.
func (r *Report) Prometheus(w io.Writer) error {
	var order []string
	page := map[string]*gauge{}
	add := func(name, help string, value float64, labels ...Setting) {
		g := page[name]
		if g == nil {
			g = &gauge{name: "profllm_" + name, help: help}
			page[name], order = g, append(order, name)
		}
		g.lines = append(g.lines, g.name+labelled(labels)+" "+strconv.FormatFloat(value, 'g', -1, 64))
	}
	verdicts := map[[2]string]int{}
	for _, e := range r.Runs {
		verdicts[[2]string{string(e.Verdict), strconv.FormatBool(e.Kind.Simulated())}]++
	}
	for _, v := range slices.SortedFunc(maps.Keys(verdicts), func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
		add("runs", "Runs that were read, by their verdict.", float64(verdicts[v]), Setting{"simulated", v[1]}, Setting{"verdict", v[0]})
	}
	for _, e := range r.newest() {
		labels := []Setting{
			{"scenario", e.Case.Scenario}, {"test", e.Case.Test}, {"phase", e.Case.Phase}, {"series", e.run.Key()}, {"simulated", strconv.FormatBool(e.Kind.Simulated())},
		}
		valid := 0.0
		if e.best() {
			valid = 1
		}
		add("run_valid", "1 if the newest run is valid, 0 if it is suspect, invalid or failed.", valid, labels...)
		if t := when(e.run); !t.IsZero() {
			add("run_start_timestamp_seconds", "Start of the newest run, since 1970.", float64(t.UnixMilli())/1000, labels...)
		}
		info := append(slices.Clone(labels), Setting{"run_id", e.RunID}, Setting{"verdict", string(e.Verdict)})
		for _, s := range e.run.Surroundings() {
			info = append(info, Setting{column(s.Key), s.Value})
		}
		add("run_info", "What the newest run was; its value is 1.", 1, info...)
		if !e.Usable {
			continue
		}
		for _, m := range metrics {
			v := e.Metrics[m.Key].Number
			if v == nil {
				continue
			}
			if g, ok := gauges[m.Key]; ok {
				add(g.name, g.help, *v*g.scale, labels...)
			} else if name, stat, ok := offlineTiming(m.Key); ok {
				add("offline_"+name+"_seconds", "Duration of a step without a server.", *v, append(slices.Clone(labels), Setting{"stat", stat})...)
			} else if f, stat, ok := result.SplitKey(m.Key); ok {
				g := latencyGauges[f]
				add(g.name, g.help, *v/1000, append(slices.Clone(labels), Setting{"stat", stat})...)
			}
		}
	}
	var b strings.Builder
	for _, name := range order {
		g := page[name]
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s\n", g.name, g.help, g.name, strings.Join(g.lines, "\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// newest are the last runs of each series with a record, in the order of the report;
// what a profiler slowed is not among them.
func (r *Report) newest() []*Entry {
	at := map[string]int{}
	var list []*Entry
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.run.Result == nil || e.Kind == Profiled {
			continue
		}
		id := fmt.Sprintf("%q %q %q %s %s", e.Case.Scenario, e.Case.Test, e.Case.Phase, e.run.Key(), e.Kind)
		k, ok := at[id]
		switch {
		case !ok:
			at[id], list = len(list), append(list, e)
		case !when(e.run).Before(when(list[k].run)):
			list[k] = e
		}
	}
	return list
}

// labelValue escapes what the format escapes, and what is no UTF-8 becomes the
// replacement character.
var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func labelled(labels []Setting) string {
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = l.Key + `="` + labelValue.Replace(printable.Line(l.Value)) + `"`
	}
	return "{" + strings.Join(parts, ",") + "}"
}
