package interchange

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/result"
)

// vllm bench sweep serve writes the result of each run again with run_number and,
// behind it, every parameter of the combination (vllm/benchmarks/sweep/serve.py).
const runNumber = "run_number"

func isServe(n *node) bool {
	if n.kind == list && len(n.items) > 0 { // summary.json
		return n.items[0].has("duration", "completed", runNumber)
	}
	return n.has("duration", "completed")
}

// readServe reads the results of a file: one, several that were appended to each
// other, or the list of a sweep's summary.
func readServe(s *source) error {
	all := s.docs
	if s.docs[0].kind == list {
		all = s.docs[0].items
	}
	var errs []error
	for i, n := range all {
		if n.kind != table {
			errs = append(errs, n.errorf(s.file, "want a result of vllm bench serve, an object"))
			continue
		}
		errs = append(errs, s.serve(i, n, s.data[n.from:n.to], n.line-1))
	}
	return errors.Join(errs...)
}

// serve adds one result. raw is the object alone; below is how many lines of the
// file are above it.
func (s *source) serve(index int, n *node, raw []byte, below int) error {
	p, err := vllmserve.Read(path.Base(s.file), raw)
	if err != nil {
		return n.errorf(s.file, "%v", err)
	}
	for i := range p.Warnings {
		if p.Warnings[i].Line > 0 {
			p.Warnings[i].Line += below
		}
	}
	for i, key := range n.keys {
		if vllmserve.Known(key) {
			n.items[i].take()
		}
	}
	it := s.add(index, "")
	it.stamp(s, n.get("date"))
	if at := slices.Index(n.keys, runNumber); at >= 0 {
		it.Record.Provenance.Imported.From = sweepProgram
		number := n.items[at].whole()
		if number == nil {
			return n.items[at].errorf(s.file, "run_number is not a number, 0 or more")
		}
		it.Name = []string{combination(n, at), strconv.Itoa(*number)}
		s.parameters(it, n, at)
	}
	it.finish(n, p)
	return nil
}

// combination names a run's parameters, for files that are not in its folder.
func combination(n *node, at int) string {
	var parts []string
	for i, key := range n.keys[at+1:] {
		v := n.items[at+1+i]
		if key == benchmarkName && v.kind == text { // of the load alone, if the server has one as well
			parts = append(parts, v.text)
		} else if v.kind == scalar || v.kind == text {
			parts = append(parts, key+"="+v.text)
		}
	}
	if len(parts) == 0 {
		return "run"
	}
	return strings.Join(parts, "-")
}

const (
	sweepProgram  = "vllm bench sweep serve"
	benchmarkName = "_benchmark_name"
)

// parameters puts a run's parameters where the record has them: those of the server
// among its options, those of the client in the load. The file does not tell them
// apart; the name of its folder does where nothing was given a name.
func (s *source) parameters(it *Item, n *node, at int) {
	serve, _, _ := strings.Cut(path.Base(path.Dir(s.file)), "-BENCH--")
	serve, named := strings.CutPrefix(serve, "SERVE--")
	for i := at + 1; i < len(n.keys); i++ {
		key, v := n.keys[i], n.items[i]
		under := strings.ReplaceAll(key, "-", "_")
		switch {
		case key == benchmarkName, vllmserve.Known(key):
		case clientLoad(&it.Record.Config.Benchmark, under, v):
		case clientKey(under) && !(named && v.kind != table && strings.Contains("-"+serve+"-", "-"+key+"="+v.text+"-")):
		default:
			it.Record.Config.Server[under] = v.plain()
			v.take()
		}
	}
}

// clientLoad takes a parameter of the client that the record has a place for.
func clientLoad(b *result.Benchmark, key string, v *node) bool {
	switch key {
	case "random_input_len", "input_len":
		b.InputTokens = v.whole()
		return b.InputTokens != nil
	case "random_output_len", "output_len":
		b.OutputTokens = v.whole()
		return b.OutputTokens != nil
	case "dataset_name":
		b.DatasetName = v.str()
		return b.DatasetName != ""
	case "endpoint":
		b.Endpoint = v.str()
		return b.Endpoint != ""
	case "num_warmups":
		b.Warmups = v.whole()
		return b.Warmups != nil
	case "ignore_eos":
		eos, known := v.truth()
		if known {
			b.IgnoreEOS = &eos
		}
		return known
	}
	return false
}

// clientKey reports whether an option is one of vllm bench serve that the server
// does not have (vllm 0.32.0).
func clientKey(key string) bool {
	for _, prefix := range []string{"random_", "sharegpt_", "sonnet_", "hf_", "custom_", "prefix_repetition_", "burst",
		"ramp_up_", "blazedit_", "spec_bench_", "asr_", "goodput", "percentile_", "metric_"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"dataset_path", "disable_tqdm", "extra_body", "header", "label", "logprobs", "lora_modules", "metadata",
		"no_oversample", "no_stream",
		"plot_timeline", "profile", "ready_check_timeout_sec", "request_id_prefix", "save_detailed", "skip_test_prompt",
		"temperature", "top_p", "top_k", "min_p",
		"frequency_penalty", "presence_penalty", "repetition_penalty", "use_beam_search",
	}, key)
}

// readCSV reads the summary.csv of a sweep: a row for each run, an empty cell for
// null, lists as text. Any other CSV file is ErrUnknown.
func readCSV(file string, data []byte) (Format, []Item, error) {
	r, head, err := headerOf(file, data)
	if err != nil {
		return "", nil, err
	}
	for _, want := range []string{"duration", "completed", runNumber} {
		if !slices.Contains(head, want) {
			return "", nil, fmt.Errorf("%s: %w", file, ErrUnknown)
		}
	}
	s := &source{file: file}
	var errs []error
	for i := 0; ; i++ {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			errs = append(errs, csvError(file, err))
			if errors.Is(err, csv.ErrFieldCount) {
				continue
			}
			break // behind a broken quotation no row can be told from another
		}
		line, _ := r.FieldPos(0)
		raw := objectOf(head, row)
		docs, err := parseJSON(file, raw)
		if err == nil {
			docs[0].line = line
			err = s.serve(i, docs[0], raw, line-1)
		}
		errs = append(errs, err)
	}
	for i := range s.items {
		s.items[i].Record.Provenance.Imported.Format = string(VLLMServe)
	}
	return VLLMServe, distinct(s.items), errors.Join(errs...)
}

// objectOf makes the JSON object that a row was made of, as far as a CSV keeps it.
func objectOf(head, row []string) []byte {
	b := []byte{'{'}
	for i, cell := range row {
		if head[i] == "" || cell == "" { // the row's number; null
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		key, _ := json.Marshal(head[i]) // a string always has a form
		b = append(append(b, key...), ':')
		switch _, err := strconv.ParseFloat(cell, 64); {
		case json.Valid([]byte(cell)) && (err == nil || cell[0] == '[' || cell[0] == '{'):
			b = append(b, cell...)
		case cell == "True", cell == "False":
			b = append(b, strings.ToLower(cell)...)
		default:
			text, _ := json.Marshal(cell)
			b = append(b, text...)
		}
	}
	return append(b, '}')
}
