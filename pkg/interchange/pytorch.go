package interchange

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/result"
)

// PyTorch benchmark records as vLLM writes them with SAVE_TO_PYTORCH_BENCHMARK_FORMAT
// (vllm/benchmarks/lib/utils.py): a list with a record for each metric; what else the
// benchmark said is in metric.extra_info of each.

func isPyTorch(n *node) bool {
	return n.kind == list && len(n.items) > 0 && n.items[0].has("benchmark", "metric")
}

// readPyTorch makes one result of the records of each benchmark: those that differ
// in the metric alone. A metric that comes again begins the next one.
func readPyTorch(s *source) error {
	var groups [][]*node
	newest := map[string]int{} // group of a benchmark
	var errs []error
	for _, n := range s.docs[0].items {
		metric := n.get("metric")
		name := metric.get("name")
		if name == nil || name.kind != text || metric.get("benchmark_values") == nil {
			errs = append(errs, n.errorf(s.file, "want a record with metric.name and metric.benchmark_values"))
			continue
		}
		key := s.raw(n.get("benchmark")) + s.raw(n.get("model")) + s.raw(metric.get("extra_info"))
		i, ok := newest[key]
		if !ok || slices.ContainsFunc(groups[i],
			func(o *node) bool { return o.get("metric").get("name").text == name.text }) {
			i = len(groups)
			newest[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], n)
	}
	for i, g := range groups {
		errs = append(errs, s.records(i, g))
	}
	return errors.Join(errs...)
}

// raw is a value as it stands in the file.
func (s *source) raw(n *node) string {
	if n == nil {
		return ""
	}
	return string(s.data[n.from:n.to])
}

// records adds the result of one benchmark. What its records say alike is kept of
// the first.
func (s *source) records(index int, group []*node) error {
	first := group[0]
	info := first.get("benchmark").get("extra_info")
	args, extra := info.get("args"), first.get("metric").get("extra_info")
	it := s.add(index, "")
	r := it.Record
	doc := map[string]string{} // a result of vllm bench serve, as far as the records have it
	for _, key := range []string{"num_prompts", "max_concurrency", "request_rate", "burstiness", "backend"} {
		doc[key] = s.raw(args.get(key))
	}
	s.known(extra, doc)
	var apart []string
	var ours result.Metrics // of vllm bench throughput
	for _, n := range group {
		name, values := n.get("metric").get("name"), n.get("metric").get("benchmark_values")
		name.take()
		if values.kind == list && len(values.items) == 1 && vllmserve.Known(name.text) {
			doc[name.text] = s.raw(values.items[0])
			values.take()
		} else if !s.offline(it, &ours, name.text, values) {
			apart = append(apart, name.text)
		}
		if n != first && !slices.Contains(apart, name.text) {
			n.take()
		}
	}
	part, err := s.served(first, doc)
	if m := part.Metrics; err == nil {
		m.RequestThroughput, m.TotalTokenThroughput = cmp.Or(m.RequestThroughput,
			ours.RequestThroughput), cmp.Or(m.TotalTokenThroughput, ours.TotalTokenThroughput)
		m.Duration, m.NumPrompts = cmp.Or(m.Duration, extra.get("elapsed_time").float()), cmp.Or(m.NumPrompts,
			extra.get("num_requests").whole())
	}
	if err == nil && !part.Metrics.Measured() {
		err = fmt.Errorf("no metric that a record can hold: %s", strings.Join(apart, ", "))
	}
	if err != nil {
		s.items = s.items[:len(s.items)-1]
		return first.errorf(s.file, "%v", err)
	}
	s.engine(it, args)
	if part.Model == "" {
		part.Model = first.get("model").get("name").str()
	}
	first.get("model").get("name").take()
	it.stamp(s, extra.get("date"))
	label, _ := info.get("simulated").truth()
	r.Simulated = label
	it.finish(first, part)
	keepOthers(r.Provenance.Imported, group[1:])
	return nil
}

// keepOthers keeps the metrics for which a record has no field.
func keepOthers(im *result.Imported, group []*node) {
	for _, n := range group {
		if left := n.get("metric").rest(); left != nil && !n.taken {
			if im.Fields == nil {
				im.Fields = map[string]any{}
			}
			others, _ := im.Fields["metrics"].(map[string]any)
			if others == nil {
				others = map[string]any{}
				im.Fields["metrics"] = others
			}
			others[n.get("metric").get("name").text] = n.get("metric").get("benchmark_values").plain()
		}
	}
}

// known moves what a result of vllm bench serve has a key for.
func (s *source) known(extra *node, doc map[string]string) {
	if extra == nil || extra.kind != table {
		return
	}
	for i, key := range extra.keys {
		if vllmserve.Known(key) {
			doc[key] = s.raw(extra.items[i])
			extra.items[i].take()
		}
	}
}

// served reads the numbers: as those of vllm bench serve where they are complete.
func (s *source) served(at *node, doc map[string]string) (result.Part, error) {
	maps.DeleteFunc(doc, func(_, raw string) bool { return raw == "" })
	read := vllmserve.Keys
	if doc["completed"] != "" && doc["duration"] != "" {
		read = vllmserve.Read
	}
	p, err := read(path.Base(s.file), object(doc))
	for i := range p.Warnings {
		p.Warnings[i].Line, p.Warnings[i].Col = at.line, at.col
	}
	return p, err
}

// object writes a JSON object of values as they were written, sorted by key.
func object(doc map[string]string) []byte {
	b := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		quoted, _ := json.Marshal(key) // a string always has a form
		b = append(append(append(b, quoted...), ':'), doc[key]...)
	}
	return append(b, '}')
}

// offline takes a metric of vllm bench throughput, whose tokens are those of prompts
// and answers together.
func (s *source) offline(it *Item, m *result.Metrics, name string, values *node) bool {
	if values.kind != list || len(values.items) != 1 {
		return false
	}
	switch name {
	case "requests_per_second":
		m.RequestThroughput = it.rate(s, values.items[0], name, 1)
	case "tokens_per_second":
		m.TotalTokenThroughput = it.rate(s, values.items[0], name, 1)
	default:
		return false
	}
	values.take()
	return true
}

// engine takes the arguments that are the server's; the others are the client's.
func (s *source) engine(it *Item, args *node) {
	if args == nil || args.kind != table {
		return
	}
	for i, key := range args.keys {
		v := args.items[i]
		switch {
		case clientLoad(&it.Record.Config.Benchmark, key, v):
		case strings.HasSuffix(key, "_parallel_size"):
			if n := v.whole(); n != nil { // vLLM writes it as text
				it.Record.Config.Server[key] = *n
			}
		case key == "dtype" || key == "quantization":
			if t := v.str(); t != "" {
				it.Record.Config.Server[key] = t
			}
		}
	}
	for _, key := range []string{"num_prompts", "max_concurrency", "request_rate", "burstiness", "backend", "model"} {
		args.get(key).take()
	}
}

// pytorchRecord is one metric of one benchmark.
type pytorchRecord struct {
	Benchmark struct {
		Name      string         `json:"name"`
		ExtraInfo map[string]any `json:"extra_info"`
	} `json:"benchmark"`
	Model struct {
		Name string `json:"name"`
	} `json:"model"`
	Metric struct {
		Name      string         `json:"name"`
		Values    []float64      `json:"benchmark_values"`
		ExtraInfo map[string]any `json:"extra_info"`
	} `json:"metric"`
}

// pytorchStats are the statistics of the families that have a record of their own.
var (
	pytorchStats    = []string{"mean", "median", "std", "p99"}
	pytorchFamilies = []result.Family{result.TTFT, result.TPOT, result.ITL}
)

// writePyTorch makes the records of one run.
func writePyTorch(r *result.Result) ([]pytorchRecord, error) {
	var base pytorchRecord
	base.Benchmark.Name = writer + " benchmark"
	info := map[string]any{"args": pytorchArgs(r)}
	if words := labels(r); len(words) > 0 {
		info["profllm_verdict"] = words
	}
	if r.Simulated {
		base.Benchmark.Name += " (simulated)"
		info["simulated"] = true
	}
	base.Benchmark.ExtraInfo = info
	base.Model.Name, _ = r.Config.Server["model"].(string)
	extra := serveKeys(r)
	extra["profllm_run_id"] = r.RunID
	all := latencies(r)
	var list []pytorchRecord
	for _, f := range pytorchFamilies {
		for _, stat := range pytorchStats {
			if v, ok := all[f.Key(stat)]; ok {
				rec := base
				rec.Metric.Name, rec.Metric.Values, rec.Metric.ExtraInfo = f.Key(stat), []float64{v}, extra
				list = append(list, rec)
				delete(all, f.Key(stat))
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no TTFT, TPOT or ITL, which PyTorch records need")
	}
	for key, v := range all {
		extra[key] = v
	}
	return list, nil
}

// pytorchArgs are what the client and the server were asked, by vLLM's names.
func pytorchArgs(r *result.Result) map[string]any {
	args := maps.Clone(r.Config.Server)
	if args == nil {
		args = map[string]any{}
	}
	b := r.Config.Benchmark
	put := func(key string, n *int) {
		if n != nil {
			args[key] = *n
		}
	}
	put("num_prompts", b.NumPrompts)
	put("max_concurrency", b.MaxConcurrency)
	put("random_input_len", b.InputTokens)
	put("random_output_len", b.OutputTokens)
	if b.DatasetName != "" {
		args["dataset_name"] = b.DatasetName
	}
	if b.RequestRate != nil {
		args["request_rate"] = b.RequestRate
	}
	return args
}
