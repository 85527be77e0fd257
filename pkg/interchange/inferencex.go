package interchange

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// A row of InferenceX, as utils/process_result.py of SemiAnalysisAI/InferenceX makes
// it of a result of bench_serving: every key that ends in _ms without it and in
// seconds, each tpot once more as intvty in tokens per second, and throughputs over
// GPUs: over TP alone on one node, over the GPUs of the role in a disaggregated one.

func isInferenceX(n *node) bool {
	if n.kind == list && len(n.items) > 0 {
		n = n.items[0]
	}
	return n.has("hw", "conc", "tput_per_gpu")
}

func readInferenceX(s *source) error {
	rows := s.docs
	if s.docs[0].kind == list {
		rows = s.docs[0].items
	}
	var errs []error
	for i, n := range rows {
		errs = append(errs, s.row(i, n))
	}
	return errors.Join(errs...)
}

func (s *source) row(index int, n *node) error {
	if !n.has("hw", "conc", "tput_per_gpu") {
		return n.errorf(s.file, "want a row of InferenceX: an object with hw, conc and tput_per_gpu")
	}
	it := s.add(index, "")
	r := it.Record
	m := &result.Metrics{}
	p := result.Part{Metrics: m, Model: n.get("model").str()}
	b := &p.Benchmark
	b.MaxConcurrency = n.get("conc").whole()
	m.MaxConcurrency = b.MaxConcurrency
	b.InputTokens, b.OutputTokens = n.get("isl").whole(), n.get("osl").whole()
	r.Provenance.Engine, r.Provenance.Image = n.get("framework").str(), n.get("image").str()
	if hw := n.get("hw").str(); hw != "" {
		r.System = &result.System{HardwareInfo: &result.Hardware{GPU: hw}}
	}
	tp := n.get("tp").whole()
	for key, of := range map[string]*node{"tensor_parallel_size": n.get("tp"), "quantization": n.get("precision")} {
		if of != nil && of.kind != table && of.kind != list {
			r.Config.Server[key] = of.plain()
			of.take()
		}
	}
	s.rowLatencies(it, n, m)
	s.rowRates(it, n, m, tp)
	if !m.Measured() {
		s.items = s.items[:len(s.items)-1]
		return n.errorf(s.file, "no latency and no throughput in this row")
	}
	if s.docs[0].kind == list {
		it.Name = []string{rowName(n)}
	}
	it.finish(n, p)
	return nil
}

// rowName tells a row from the others of its file.
func rowName(n *node) string {
	var parts []string
	word := func(prefix, key string) {
		if v := n.get(key); v != nil && (v.kind == scalar || v.kind == text) && v.text != "" {
			t := v.text
			if i := strings.LastIndexByte(t, '/'); i >= 0 {
				t = t[i+1:]
			}
			parts = append(parts, prefix+t)
		}
	}
	if n.get("infmax_model_prefix") != nil {
		word("", "infmax_model_prefix")
	} else {
		word("", "model")
	}
	word("", "hw")
	word("", "framework")
	word("", "precision")
	word("isl", "isl")
	word("osl", "osl")
	word("tp", "tp")
	word("conc", "conc")
	return strings.Join(parts, "-")
}

// rowLatencies reads the statistics, in seconds. The intvty of a known tpot says
// nothing more, unless it contradicts it.
func (s *source) rowLatencies(it *Item, n *node, m *result.Metrics) {
	for i, key := range n.keys {
		family, stat, ok := result.SplitKey(key + "_ms")
		if !ok {
			continue
		}
		if v := n.items[i].times(1000); v != nil {
			_ = m.SetLatency(family, stat, *v) // SplitKey accepted the name
		} else if n.items[i].kind != nothing {
			it.noNumber(s, n.items[i], key)
		}
	}
	for i, key := range n.keys {
		stat, ok := strings.CutSuffix(key, "_intvty")
		if !ok {
			continue
		}
		tpot := n.get(stat + "_tpot")
		if tpot == nil || !tpot.taken {
			continue
		}
		want, _ := tpot.number()
		if v, ok := n.items[i].number(); ok && want > 0 && math.Abs(v*want-1) > 1e-3 {
			it.warn(s, n.items[i], result.Contradicts, key, "%g tokens per s, but the TPOT of %g s gives %g", v, want,
				1/want)
			n.items[i].taken = false
		}
	}
}

// rowRates multiplies the throughputs by what they were divided by. Where the row
// does not say by what, they are kept as they are.
func (s *source) rowRates(it *Item, n *node, m *result.Metrics, tp *int) {
	disagg, _ := n.get("disagg").truth()
	multi, _ := n.get("is_multinode").truth()
	var all, decode, prefill *int
	if v, ok := n.get("tp").number(); ok && v < 1 && !disagg && !multi {
		it.warn(s, n.get("tp"), result.Contradicts, "tp", "throughputs per GPU of %g GPUs", v)
	}
	switch {
	case disagg:
		prefill, decode = n.get("num_prefill_gpu").whole(), n.get("num_decode_gpu").whole()
		if prefill == nil || decode == nil || *prefill <= 0 || *decode <= 0 {
			return
		}
		all = new(*prefill + *decode)
		m.GPUs = all
	case !multi && tp != nil && *tp > 0:
		all, decode, prefill = tp, tp, tp
	default:
		return
	}
	for _, x := range []struct {
		key, ours string
		to        **float64
		by        *int
	}{
		{"tput_per_gpu", "total_token_throughput", &m.TotalTokenThroughput, all},
		{"output_tput_per_gpu", "output_throughput", &m.OutputThroughput, decode},
		{"input_tput_per_gpu", "input_throughput", &m.InputThroughput, prefill},
	} {
		if *x.to = it.rate(s, n.get(x.key), x.key, float64(*x.by)); *x.to != nil {
			m.NoteDerived(x.ours)
		}
	}
}

// inferenceXNames are the keys of a row that say what ran; a record may lack them,
// and Options.Set has them then.
var inferenceXNames = []string{
	"hw", "framework", "model", "infmax_model_prefix", "precision", "image", "spec_decoding", "isl", "osl", "conc",
	"tp", "ep", "dp_attention",
	"prefill_tp", "prefill_ep", "prefill_dp_attention", "prefill_num_workers", "decode_tp", "decode_ep",
	"decode_dp_attention", "decode_num_workers",
}

// numericNames are those of them that are numbers.
var numericNames = []string{"isl", "osl", "conc", "tp", "ep", "prefill_tp", "prefill_ep", "prefill_num_workers",
	"decode_tp", "decode_ep", "decode_num_workers"}

// writeInferenceX makes the row of a record: ready to be marshalled.
func writeInferenceX(r *result.Result, o Options) (map[string]any, error) {
	row := map[string]any{}
	addSetup(row, r)
	gpus := gpusOf(r)
	for role, n := range gpus.tp {
		row[role] = n
	}
	if err := o.into(row); err != nil {
		return nil, err
	}
	row["disagg"], row["is_multinode"] = gpus.disagg, gpus.disagg || gpus.nodes > 1
	need := []string{"hw", "framework", "model", "precision", "isl", "osl", "conc"}
	total, output, input := gpus.prefill+gpus.decode, gpus.decode, gpus.prefill
	if gpus.disagg {
		row["num_prefill_gpu"], row["num_decode_gpu"] = gpus.prefill, gpus.decode
	} else {
		need = append(need, "tp")
		n, _ := row["tp"].(int)
		total, output, input = n, n, n
	}
	var missing []string
	for _, key := range need {
		if _, ok := row[key]; !ok {
			missing = append(missing, key)
		}
	}
	switch {
	case len(missing) > 0:
		return nil, &MissingError{Format: InferenceX, Keys: missing}
	case gpus.nodes > 1 && !gpus.disagg:
		return nil, errors.New("a row of InferenceX divides by TP alone, which is wrong for one server over several nodes")
	case total <= 0 || output <= 0 || input <= 0:
		return nil, errors.New("a row of InferenceX is per GPU, and the record does not say how many served")
	}
	addRates(row, r, total, output, input)
	if _, ok := row["tput_per_gpu"]; !ok {
		return nil, errors.New("the record lacks the total token throughput, which an InferenceX row needs")
	}
	for key, ms := range latencies(r) {
		row[strings.TrimSuffix(key, "_ms")] = ms / 1000
		if strings.HasSuffix(key, "_tpot_ms") && ms > 0 {
			row[strings.TrimSuffix(strings.Replace(key, "_tpot_", "_intvty_", 1), "_ms")] = 1000 / ms
		}
	}
	return row, nil
}

// addRates adds the throughputs, each divided by the GPUs that make it.
func addRates(row map[string]any, r *result.Result, total, output, input int) {
	m := &r.Results
	rate := func(key, ours string, v *float64, by int) {
		if v != nil && !r.Validity.Withholds(ours) {
			row[key] = *v / float64(by)
		}
	}
	rate("tput_per_gpu", "total_token_throughput", m.TotalTokenThroughput, total)
	rate("output_tput_per_gpu", "output_throughput", m.OutputThroughput, output)
	in := m.InputThroughput
	if in == nil && m.TotalTokenThroughput != nil && m.OutputThroughput != nil {
		in = new(*m.TotalTokenThroughput - *m.OutputThroughput)
	}
	rate("input_tput_per_gpu", "input_throughput", in, input)
}

// addSetup adds what was measured: the model, the engine, the hardware and the load.
func addSetup(row map[string]any, r *result.Result) {
	b := r.Config.Benchmark
	set := func(key string, v any, known bool) {
		if known {
			row[key] = v
		}
	}
	model, _ := r.Config.Server["model"].(string)
	set("model", model, model != "")
	if p := r.Provenance; p != nil {
		set("framework", p.Engine, p.Engine != "")
		set("image", p.Image, p.Image != "")
	}
	if s := r.System; s != nil && s.HardwareInfo != nil {
		set("hw", s.HardwareInfo.GPU, s.HardwareInfo.GPU != "")
	}
	if conc := cmp.Or(r.Results.MaxConcurrency, b.MaxConcurrency); conc != nil {
		row["conc"] = *conc
	}
	set("isl", value(b.InputTokens), b.InputTokens != nil)
	set("osl", value(b.OutputTokens), b.OutputTokens != nil)
	precision, ok := r.Config.Server["quantization"].(string)
	set("precision", precision, ok)
}

// served is what a record says of its GPUs.
type served struct {
	disagg          bool
	nodes           int
	prefill, decode int
	tp              map[string]int // by the row's key
}

// gpusOf counts GPUs by role. Of a server that is no prefill or decode only TP is
// of interest.
func gpusOf(r *result.Result) served {
	s := served{tp: map[string]int{}}
	if n, ok := wholeOf(r.Config.Server["tensor_parallel_size"]); ok {
		s.tp["tp"] = n
	} else if g := r.Results.GPUs; g != nil && *g == 1 {
		s.tp["tp"] = 1
	}
	if r.Placement != nil {
		s.nodes = len(r.Placement.Nodes)
		workers := map[string]int{}
		for _, role := range r.Placement.Roles {
			n := role.GPUsPerNode * role.Slice.Count
			switch role.Role {
			case "prefill":
				s.prefill += n
			case "decode":
				s.decode += n
			default:
				continue
			}
			workers[role.Role]++
		}
		if s.disagg = s.prefill > 0 && s.decode > 0; s.disagg {
			delete(s.tp, "tp")
			for role, n := range workers {
				s.tp[role+"_num_workers"] = n
			}
			for _, c := range r.Config.Roles {
				if n, ok := wholeOf(c.Server["tensor_parallel_size"]); ok && workers[c.Role] > 0 {
					s.tp[c.Role+"_tp"] = n
				}
			}
		}
	}
	return s
}

// wholeOf reads a whole number from 1 on, whatever JSON or TOML made of it.
func wholeOf(v any) (int, bool) {
	var f float64
	switch x := v.(type) {
	case float64:
		f = x
	case int:
		f = float64(x)
	case int64:
		f = float64(x)
	case interface{ Float64() (float64, error) }: // json.Number
		var err error
		if f, err = x.Float64(); err != nil {
			return 0, false
		}
	case string:
		n, err := strconv.Atoi(x)
		if err != nil {
			return 0, false
		}
		f = float64(n)
	default:
		return 0, false
	}
	if f != math.Trunc(f) || f < 1 || f > 1<<31 {
		return 0, false
	}
	return int(f), true
}
