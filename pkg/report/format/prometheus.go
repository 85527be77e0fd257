package format

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// exposition is a page of gauges, in Prometheus' text format.
type exposition struct {
	order []string
	names map[string]*gauge
}

// gauge is a Prometheus metric: base units, and every name once.
type gauge struct {
	name, help string
	lines      []string
}

func (x *exposition) add(name, help string, value float64, labels ...records.Setting) {
	g := x.names[name]
	if g == nil {
		g = &gauge{name: "profllm_" + name, help: help}
		x.names[name], x.order = g, append(x.order, name)
	}
	g.lines = append(g.lines, g.name+labelled(labels)+" "+strconv.FormatFloat(value, 'g', -1, 64))
}

func (x *exposition) String() string {
	var b strings.Builder
	for _, name := range x.order {
		g := x.names[name]
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s\n", g.name, g.help, g.name, strings.Join(g.lines, "\n"))
	}
	return b.String()
}

// gauges are the names of the records' metrics, in base units.
var gauges = map[string]struct {
	name  string
	scale float64 // makes base units
	help  string
}{
	"output_throughput": {"output_tokens_per_second", 1,
		"Output tokens per second."},
	"output_throughput_per_user": {"output_tokens_per_second_per_user", 1,
		"Output tokens per second and concurrent request."},
	"output_throughput_per_gpu": {"output_tokens_per_second_per_gpu", 1,
		"Output tokens per second and GPU."},
	"total_token_throughput": {"tokens_per_second", 1,
		"Input and output tokens per second."},
	"total_token_throughput_per_gpu": {"tokens_per_second_per_gpu", 1,
		"Input and output tokens per second and GPU."},
	"request_throughput": {"requests_per_second", 1,
		"Completed requests per second."},
	"request_goodput": {"good_requests_per_second", 1,
		"Requests per second that completed within their limits."},
	"prefix_cache_hit_rate": {"prefix_cache_hit_ratio", 1,
		"Share of the prompts' tokens that workers of Dynamo found in their prefix caches."},
	"completed_requests": {"completed_requests", 1,
		"Completed requests."},
	"successful_percent": {"completed_requests_ratio", 0.01,
		"Share of sent requests that completed."},
	"accuracy": {"accuracy_ratio", 1,
		"Share of the evaluation's questions that were answered right."},
	"avg_gpu_utilization": {"gpu_utilization_ratio", 0.01,
		"Use of the serving GPUs in the client's window."},
	"gpu_power_w": {"gpu_power_watts", 1,
		"Power of the serving GPUs in the client's window."},
	"gpu_energy_j": {"gpu_energy_joules", 1,
		"Energy of the serving GPUs in the client's window."},
	"joules_per_output_token": {"joules_per_output_token", 1,
		"Energy of the serving GPUs per output token."},
	"usd_per_million_output_tokens": {"usd_per_million_output_tokens", 1,
		"Price of the serving GPUs per million output tokens, USD."},
	"usd_per_million_tokens": {"usd_per_million_tokens", 1,
		"Price of the serving GPUs per million input and output tokens, USD."},
	"kwh_per_million_output_tokens": {"joules_per_million_output_tokens", 3.6e6,
		"Energy of the serving GPUs per million output tokens."},
	"offline.throughput.request_throughput": {"offline_requests_per_second", 1,
		"Requests per second without a server."},
	"offline.throughput.total_token_throughput": {"offline_tokens_per_second", 1,
		"Input and output tokens per second without a server."},
	"offline.throughput.output_throughput": {"offline_output_tokens_per_second", 1,
		"Output tokens per second without a server."},
}

var latencyGauges = map[result.Family]struct{ name, help string }{
	result.TTFT: {"time_to_first_token_seconds", "Time to the first token."},
	result.TPOT: {"time_per_output_token_seconds", "Time per output token after the first."},
}

// Prometheus writes the newest run of each series in the text format, for the
// textfile collector of node_exporter: no times beside the values. The numbers of a
// run that is neither valid nor suspect are not written, nor are withheld ones.
func Prometheus(w io.Writer, r *report.Report) error {
	x := exposition{names: map[string]*gauge{}}
	x.addVerdicts(r)
	for _, e := range newestRuns(r) {
		x.addRun(e)
	}
	_, err := io.WriteString(w, x.String())
	return err
}

// addVerdicts counts the runs by their verdict.
func (x *exposition) addVerdicts(r *report.Report) {
	count := map[[2]string]int{}
	for _, e := range r.Runs {
		count[[2]string{string(e.Verdict), strconv.FormatBool(e.Kind.Simulated())}]++
	}
	order := slices.SortedFunc(maps.Keys(count),
		func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	for _, v := range order {
		x.add("runs", "Runs that were read, by verdict.", float64(count[v]),
			records.Setting{Key: "simulated", Value: v[1]}, records.Setting{Key: "verdict", Value: v[0]})
	}
}

// addRun adds what a run was, and its numbers.
func (x *exposition) addRun(e *report.Entry) {
	labels := []records.Setting{
		{Key: "scenario", Value: e.Case.Scenario}, {Key: "test", Value: e.Case.Test},
		{Key: "phase", Value: e.Case.Phase},
		{Key: "series", Value: e.Run.Key()}, {Key: "simulated", Value: strconv.FormatBool(e.Kind.Simulated())},
	}
	valid := 0.0
	if e.Best() {
		valid = 1
	}
	x.add("run_valid", "1 if the newest run is valid, 0 if it is suspect, invalid or failed.", valid, labels...)
	if t := e.Run.Began(); !t.IsZero() {
		x.add("run_start_timestamp_seconds", "Start of the newest run, in seconds since 1970.",
			float64(t.UnixMilli())/1000, labels...)
	}
	info := with(labels, "run_id", e.RunID)
	info = with(info, "verdict", string(e.Verdict))
	for _, s := range e.Run.Surroundings() {
		info = with(info, column(s.Key), s.Value)
	}
	x.add("run_info", "What the newest run was; its value is 1.", 1, info...)
	if !e.Usable {
		return
	}
	for _, m := range metric.All {
		if v := e.Metrics[m.Key].Number; v != nil {
			x.addNumber(m.Key, *v, labels)
		}
	}
}

// addNumber adds a metric by its key, in base units.
func (x *exposition) addNumber(key string, v float64, labels []records.Setting) {
	if g, ok := gauges[key]; ok {
		x.add(g.name, g.help, v*g.scale, labels...)
	} else if t, stat, ok := metric.SplitTiming(key); ok {
		name := "offline_" + strings.ReplaceAll(t.Key, ".", "_") + "_seconds"
		x.add(name, "Duration of a step without a server.", v, with(labels, "stat", stat)...)
	} else if f, stat, ok := result.SplitKey(key); ok {
		g := latencyGauges[f]
		x.add(g.name, g.help, v/1000, with(labels, "stat", stat)...)
	}
}

// with are labels and one more.
func with(labels []records.Setting, key, value string) []records.Setting {
	return append(slices.Clone(labels), records.Setting{Key: key, Value: value})
}

// newestRuns are the last runs of each series with a record, in the order of the report;
// what a profiler slowed is not among them.
func newestRuns(r *report.Report) []*report.Entry {
	at := map[string]int{}
	var list []*report.Entry
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Run.Result == nil || e.Kind == records.Profiled {
			continue
		}
		id := fmt.Sprintf("%q %q %q %s %s", e.Case.Scenario, e.Case.Test, e.Case.Phase, e.Run.Key(), e.Kind)
		k, ok := at[id]
		switch {
		case !ok:
			at[id], list = len(list), append(list, e)
		case !e.Run.Began().Before(list[k].Run.Began()):
			list[k] = e
		}
	}
	return list
}

// labelValue escapes what the format escapes, and what is no UTF-8 becomes the
// replacement character.
var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func labelled(labels []records.Setting) string {
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = l.Key + `="` + labelValue.Replace(printable.Line(l.Value)) + `"`
	}
	return "{" + strings.Join(parts, ",") + "}"
}
