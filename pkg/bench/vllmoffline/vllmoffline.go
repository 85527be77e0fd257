// Package vllmoffline reads what benchmarks of vLLM without a server leave behind:
// `vllm bench latency`, `throughput` and `startup`, and `profllm job requests`, as JSON
// (--output-json) or as the console text where there is no file.
//
// All of them may lie in one folder: together they fill one record's offline part,
// and none of a load client's keys. The package does not judge the numbers.
//
//	part, err := vllmoffline.Parser{}.Parse(os.DirFS("run/raw"))
package vllmoffline

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// kind is what the record calls the benchmarks, each by its own name.
const kind = "vllm-offline"

// benches are all of them, by the names of their files, and how each is read.
var benches = []struct {
	name string
	file func(*reader, pyjson.Value, *result.Offline) error
	log  func([]line, *result.Offline) bool
}{
	{"latency", (*reader).latency, latencyLog},
	{"throughput", (*reader).throughput, throughputLog},
	{"startup", (*reader).startup, startupLog},
	{requests, (*reader).requests, requestsLog},
	{processorName, (*reader).processor, func([]line, *result.Offline) bool { return false }}, // its text is a table of pandas
}

// A Parser reads latency.json, throughput.json, startup.json and requests.json of a folder, or the
// same with .xz, and .log for each of them that is not there. Of engines that shared a
// benchmark, each has left a file with the rank of its first process: throughput-4.json.
type Parser struct {
	Dir  string // below the folder given to Parse; default the folder itself
	Logs string // likewise, of throughput-0.log, where there is no throughput.log; "" for none
}

// errNoBench is a file that is of something else.
var errNoBench = errors.New("not of vllm bench")

// Parse returns what was measured, and a warning for everything it had to go past.
// The error is fs.ErrNotExist if nothing of them is there, or a file of that
// name is another program's.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	sub, err := fs.Sub(out, cmp.Or(p.Dir, "."))
	if err != nil {
		return result.Part{}, err
	}
	var part result.Part
	m := &result.Metrics{Offline: &result.Offline{}}
	var found, sources []string
	var errs []error
	for _, b := range benches {
		r := &reader{File: &clientfile.File{}, part: &part}
		before := *m.Offline
		ranks := ranksOf(sub, b.name)
		err := r.all(sub, ranks, b.file, m.Offline)
		source := r.Name // as it is packed
		if len(ranks) > 1 {
			source = strings.Join(ranks, ", ")
		}
		if err != nil {
			*m.Offline = before // the place of an error may lie behind the numbers
		}
		missing := errors.Is(err, fs.ErrNotExist)
		if err == nil && b.name == "throughput" && len(ranks) == 1 {
			r.complete(p.console(out, sub, b.name), m.Offline.Throughput)
		}
		if err != nil {
			lines, name := p.console(out, sub, b.name)()
			if !b.log(lines, m.Offline) {
				part.Warnings = append(part.Warnings, r.Warnings...)
				if !missing && !errors.Is(err, errNoBench) {
					errs = append(errs, err)
				}
				continue
			}
			r.Name, source, m.FromLog = name, name, true
			r.recovered(b.name, lines)
		}
		part.Warnings = append(part.Warnings, r.Warnings...)
		found, sources = append(found, "vllm-"+b.name), append(sources, source)
	}
	if len(found) == 0 {
		if len(errs) > 0 {
			return part, errors.Join(errs...)
		}
		return part, fmt.Errorf("no latency, throughput, startup, requests or mm-processor of vLLM: %w", fs.ErrNotExist)
	}
	part.Benchmark.Kind = kind
	if len(found) == 1 {
		part.Benchmark.Kind = found[0]
	}
	m.Source = strings.Join(sources, ", ")
	part.Metrics = m
	return part, nil
}

// console finds the console text of a benchmark.
func (p Parser) console(out, sub fs.FS, name string) func() ([]line, string) {
	return func() ([]line, string) {
		lines, found := consoleLines(sub, name+".log")
		if lines == nil && p.Logs != "" {
			return consoleLines(out, path.Join(p.Logs, name+"-0.log"))
		}
		return lines, found
	}
}

var rankFile = lazyregexp.New(`^[a-z-]+-([0-9]{1,6})\.json(\.xz)?$`)

// ranksOf are the files of a benchmark: one, or one for each of the engines that shared it.
func ranksOf(dir fs.FS, name string) []string {
	if _, err := fs.Stat(dir, name+".json"); err == nil {
		return []string{name + ".json"}
	}
	entries, _ := fs.ReadDir(dir, ".") // what cannot be read has no files
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), name+"-") && rankFile.MatchString(e.Name()) {
			files = append(files, strings.TrimSuffix(e.Name(), ".xz"))
		}
	}
	if files = slices.Compact(files); len(files) == 0 || len(files) > mostRanks {
		return []string{name + ".json"} // also one that is packed
	}
	return files
}

const mostRanks = 4096

// all reads the files of a benchmark. What engines shared is added up: the time is that of the
// slowest.
func (r *reader) all(dir fs.FS, files []string, read func(*reader, pyjson.Value, *result.Offline) error,
	into *result.Offline) error {
	var sum *result.OfflineThroughput
	for _, name := range files {
		r.File.Name = name
		err := r.Read(dir, func(in *pyjson.Reader) error {
			v, err := in.Value()
			if err != nil {
				return err
			}
			return read(r, v, into)
		})
		if err != nil {
			return err
		}
		if len(files) > 1 && r.pool == nil && into.Throughput != nil {
			sum = together(sum, into.Throughput)
		}
	}
	if sum != nil {
		into.Throughput = sum
	}
	if r.pool != nil {
		r.pool.fill(into)
	}
	return nil
}

// together adds one engine's share to that of others.
func together(sum, one *result.OfflineThroughput) *result.OfflineThroughput {
	if sum == nil {
		copied := *one
		return &copied
	}
	add := func(a, b *int64) *int64 {
		if a == nil || b == nil {
			return nil
		}
		return new(*a + *b)
	}
	t := &result.OfflineThroughput{Duration: new(max(*sum.Duration, *one.Duration)),
		Requests: add(sum.Requests, one.Requests), TotalTokens: add(sum.TotalTokens, one.TotalTokens)}
	rate := func(n *int64) *float64 {
		if n == nil || *t.Duration <= 0 {
			return nil
		}
		return new(float64(*n) / *t.Duration)
	}
	t.RequestThroughput, t.TotalTokenThroughput = rate(t.Requests), rate(t.TotalTokens)
	return t
}

// A reader reads one file.
type reader struct {
	*clientfile.File
	part *result.Part
	pool *pool // requests of the files read so far; nil for other benchmarks
}

// timing reads a mean, a list and percentiles; nil if there is nothing of them. One
// value that is no number makes the list useless.
func (r *reader) timing(doc pyjson.Value, mean, std, values, percentiles string) *result.Timing {
	t := &result.Timing{Mean: r.Number(doc.At(mean), mean), Std: r.Number(doc.At(std), std)}
	if list := doc.At(values); list.Kind == pyjson.List {
		n := len(list.Items)
		t.N = &n
		for _, v := range list.Items {
			x, finite := v.Finite()
			if !finite {
				r.Warn(result.NoNumber, v, values, "the list has a value that is not a number, so it was left out")
				t.Values = nil
				break
			}
			t.Values = append(t.Values, x)
		}
	}
	for _, f := range doc.At(percentiles).Fields {
		if x := r.Number(f.Value, f.Key); x != nil && isRank(f.Key) {
			if t.Percentiles == nil {
				t.Percentiles = map[string]float64{}
			}
			t.Percentiles[f.Key] = *x
		}
	}
	if t.N != nil && *t.N == 0 {
		r.Warn(result.EmptySample, doc.At(values), values, "statistics over an empty sample were left out")
		return nil
	}
	if t.Mean == nil && t.N == nil && t.Percentiles == nil {
		return nil
	}
	return t
}

// isRank accepts whole ranks and such as 99.9, as vLLM writes them.
func isRank(s string) bool {
	return s != "" && len(s) < 8 && strings.Trim(s, "0123456789.") == ""
}

// identify counts keys that nobody knows, and takes the model.
func (r *reader) identify(doc pyjson.Value, known func(key string) bool) {
	if v := doc.At("model_id"); v.Kind == pyjson.Text {
		r.part.Model = v.Str
	}
	for _, f := range doc.Fields {
		if f.Key != "model_id" && !known(f.Key) {
			r.part.UnknownKeys++
		}
	}
}

func (r *reader) latency(doc pyjson.Value, o *result.Offline) error {
	t := r.timing(doc, "avg_latency", "std_latency", "latencies", "percentiles")
	if t == nil || t.Mean == nil {
		return errNoBench
	}
	r.identify(doc, func(key string) bool {
		return key == "avg_latency" || key == "std_latency" || key == "latencies" || key == "percentiles"
	})
	o.Batch = &result.BatchLatency{Latency: t}
	return nil
}

func (r *reader) throughput(doc pyjson.Value, o *result.Offline) error {
	t := &result.OfflineThroughput{
		Duration:             r.Number(doc.At("elapsed_time"), "elapsed_time"),
		Requests:             r.Count(doc.At("num_requests"), "num_requests"),
		TotalTokens:          r.Count(doc.At("total_num_tokens"), "total_num_tokens"),
		RequestThroughput:    r.Number(doc.At("requests_per_second"), "requests_per_second"),
		TotalTokenThroughput: r.Number(doc.At("tokens_per_second"), "tokens_per_second"),
	}
	if t.Duration == nil || t.RequestThroughput == nil {
		return errNoBench
	}
	r.identify(doc, func(key string) bool {
		return key == "elapsed_time" || key == "num_requests" || key == "total_num_tokens" ||
			key == "requests_per_second" || key == "tokens_per_second"
	})
	o.Throughput = t
	return nil
}

// complete takes from the console text what the file never has: the output tokens.
func (r *reader) complete(console func() ([]line, string), t *result.OfflineThroughput) {
	lines, name := console()
	log := &result.Offline{}
	if !throughputLog(lines, log) || log.Throughput.OutputThroughput == nil {
		return
	}
	// Another run's text would be noticed by the rate that both have.
	if a, b := *t.RequestThroughput, *log.Throughput.RequestThroughput; math.Abs(a-b) > 0.00501 {
		r.Warn(result.Contradicts, pyjson.Value{}, "request_throughput",
			"%.2f in %s, %.2f in the file: the text's output tokens were left out", b, name, a)
		return
	}
	t.OutputThroughput, t.InputTokens, t.OutputTokens = log.Throughput.OutputThroughput, log.Throughput.InputTokens, log.Throughput.OutputTokens
	r.Warn(result.Recovered, pyjson.Value{}, "output_throughput",
		"output tokens were read from %s, rounded to two decimals", name)
}

func (r *reader) startup(doc pyjson.Value, o *result.Offline) error {
	s := &result.Startup{}
	known := map[string]bool{}
	for key, to := range partsOf(s) {
		mean, values, percentiles := "avg_"+key+"_time", key+"_times", key+"_percentiles"
		known[mean], known[values], known[percentiles] = true, true, true
		*to = r.timing(doc, mean, "", values, percentiles)
	}
	if s.Cold == nil && s.Warm == nil {
		return errNoBench
	}
	r.identify(doc, func(key string) bool { return known[key] })
	o.Startup = s
	return nil
}

// partsOf returns the parts of a start by the names that vLLM gives them.
func partsOf(s *result.Startup) map[string]**result.Timing {
	return map[string]**result.Timing{
		"cold_startup": &s.Cold, "cold_compilation": &s.ColdCompilation, "cold_encoder_compilation": &s.ColdEncoder,
		"warm_startup": &s.Warm, "warm_compilation": &s.WarmCompilation, "warm_encoder_compilation": &s.WarmEncoder,
	}
}
