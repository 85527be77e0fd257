// Package guidellm reads the reports of GuideLLM, benchmarks.json, in the forms that
// they had since 0.2.
//
// A report may hold several benchmarks, one for each rate or concurrency. A record is
// of one load: the last benchmark with a completed request is taken, and a warning
// says of how many. The numbers are those of the successful requests.
//
// GuideLLM's names differ from vLLM's. Its inter_token_latency_ms is a request's time
// per output token after the first (TPOT here; weighted by tokens, where vLLM weights
// requests alike). Its time_per_output_token_ms begins with the request, since 0.4
// (NTPOT here). It measures no gaps between chunks (ITL). The package does not judge
// the numbers.
//
//	part, err := guidellm.Parser{}.Parse(os.DirFS("run/raw"))
package guidellm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// kind is what the record calls the client.
const kind = "guidellm"

// DefaultFile is GuideLLM's own name for its report.
const DefaultFile = "benchmarks.json"

// A Parser reads one report.
type Parser struct {
	Dir string // below the folder given to Parse; default the folder itself
}

// errNoReport is a file of that name that is of another program.
var errNoReport = errors.New("no GuideLLM benchmark in the file")

// Parse returns what the client measured, and a warning for everything it had to go
// past. It reads benchmarks.json, else the first *-benchmarks.json. The error is
// fs.ErrNotExist if there is neither, or it is of another program.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	sub, err := fs.Sub(out, cmp.Or(p.Dir, "."))
	if err != nil {
		return result.Part{}, err
	}
	r := &report{File: clientfile.File{Name: DefaultFile}}
	err = r.Read(sub, r.walk)
	if other := otherReport(sub); errors.Is(err, fs.ErrNotExist) && other != "" {
		r.Name = other
		if err = r.Read(sub, r.walk); err == nil {
			r.Warn(result.OtherFile, pyjson.Value{}, "", "%s is missing, this file was read", DefaultFile)
		}
	}
	if err == nil && r.taken == nil {
		err = fmt.Errorf("%s: %w: %w", r.Name, errNoReport, fs.ErrNotExist)
	}
	if err != nil {
		return result.Part{Warnings: r.Warnings}, err
	}
	if r.found > 1 {
		r.Warn(result.Appended, pyjson.Value{}, "", "%d benchmarks in one file, number %d was used: %s", r.found,
			r.number, r.taken.strategy)
	}
	return r.part(), nil
}

// otherReport is the first file that ends like a report's name.
func otherReport(dir fs.FS) string {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".xz"); !e.IsDir() && strings.HasSuffix(name, "-"+DefaultFile) {
			return name
		}
	}
	return ""
}

// A report is one file.
type report struct {
	clientfile.File
	model  string // of the arguments
	found  int
	taken  *benchmark
	number int // of the one taken, from 1
}

// walk reads the file's top level.
func (r *report) walk(in *pyjson.Reader) error {
	if in.Kind() != pyjson.Object {
		return in.Skip()
	}
	return in.Object(func(key string) error {
		switch {
		case key == "benchmarks" && in.Kind() == pyjson.List:
			return in.List(func() error { return r.benchmark(in) })
		case (key == "args" || key == "config") && in.Kind() == pyjson.Object:
			v, err := in.Value()
			r.model = firstText(v.At("model"), v.At("spec", "backend", "model"), v.At("backend", "model"))
			return err
		}
		return in.Skip()
	})
}

func (r *report) benchmark(in *pyjson.Reader) error {
	if in.Kind() != pyjson.Object {
		return in.Skip()
	}
	b := &benchmark{fields: map[string]pyjson.Value{}}
	err := in.Object(func(key string) error {
		switch key {
		case "requests":
			return b.readRequests(in)
		case "config", "args", "metrics", "duration", "warmup_duration", "cooldown_duration", "request_totals",
			"total_count",
			"worker", "benchmarker", "scheduler", "run_stats", "scheduler_metrics", "start_time", "end_time":
			v, err := in.Value()
			b.fields[key] = v
			return err
		}
		return in.Skip()
	})
	if err != nil || b.fields["metrics"].Kind != pyjson.Object {
		return err
	}
	r.found++
	b.strategy = b.describe()
	if r.taken == nil || b.completed() > 0 {
		r.taken, r.number = b, r.found
	}
	return nil
}

func firstText(list ...pyjson.Value) string {
	for _, v := range list {
		if v.Kind == pyjson.Text && v.Str != "" {
			return v.Str
		}
	}
	return ""
}
