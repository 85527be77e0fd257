// Package runfiles reads what figures show beyond the record of a run: what its engines and GPUs did
// over time, the marks on that time, and its single requests.
package runfiles

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Sample is a number at a moment, in s since 1970.
type Sample struct {
	At, Value float64
	Gap       bool // samples are missing before it
}

// Track is one number over time.
type Track struct {
	Of      string // a role, or a GPU
	Node    string // of a GPU
	Samples []Sample
}

// Phase is what a client did. End is 0 if it never ended.
type Phase struct {
	Name       string
	Begin, End float64
}

// Run is what a run did over time; what was not sampled is absent.
type Run struct {
	Running, Waiting, Cache, Tokens []Track // by role; the cache from 0 to 1, tokens generated per s
	Use, Memory, Power              []Track // by GPU, in %, MiB and W
	CPU, HostMemory                 []Track // by node: of all its CPUs in %, and MiB in use
	Received, Sent, Read, Written   []Track // by node: of its network and its disks, B/s
	Phases                          []Phase
	Ready, Stopping                 float64 // moments, 0 if not known
	Problems                        []string
}

// Empty reports whether nothing was sampled.
func (r *Run) Empty() bool { return len(r.Running)+len(r.Use)+len(r.Power) == 0 }

// Over reads what the loads of one job did over time: dir is the job's folder, loads are those of
// its loads.
func Over(dir string, loads []string) *Run {
	r := &Run{}
	r.events(dir)
	for _, load := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(loads), dir)))) {
		r.telemetry(load)
	}
	for _, list := range [][]Track{
		r.Running, r.Waiting, r.Cache, r.Tokens, r.Use, r.Memory, r.Power,
		r.CPU, r.HostMemory, r.Received, r.Sent, r.Read, r.Written,
	} {
		slices.SortStableFunc(list, func(a, b Track) int { return strings.Compare(a.Of, b.Of) })
		for i := range list {
			slices.SortStableFunc(list[i].Samples, func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
			list[i].Samples = WithGaps(list[i].Samples)
		}
	}
	for _, list := range [][]Track{r.Tokens, r.Received, r.Sent, r.Read, r.Written} {
		for i := range list {
			list[i].Samples = rates(list[i].Samples)
		}
	}
	return r
}

// WithGaps marks where samples are missing: where three times the usual time passed since the
// sample before. Samples are in the order of time.
func WithGaps(samples []Sample) []Sample {
	var times []float64
	for i := range samples {
		if i > 0 {
			times = append(times, samples[i].At-samples[i-1].At)
		}
	}
	if slices.Sort(times); len(times) == 0 {
		return samples
	}
	most := 3 * times[len(times)/2]
	for i := range samples {
		samples[i].Gap = i > 0 && samples[i].At-samples[i-1].At > most
	}
	return samples
}

func (r *Run) problem(path string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Problems = append(r.Problems, filepath.Base(path)+": "+err.Error())
	}
}

// events takes the marks.
func (r *Run) events(dir string) {
	events, bad, err := job.ReadAllEvents(dir)
	r.problem("events.jsonl", err)
	if len(bad) > 0 {
		r.Problems = append(r.Problems, "events.jsonl has lines that cannot be read")
	}
	for _, e := range events {
		at := seconds(e.Time)
		switch e.Event {
		case job.AllReady:
			r.Ready = at
		case job.Stopping:
			r.Stopping = at
		case job.ClientBegins:
			r.Phases = append(r.Phases, Phase{Name: e.Text, Begin: at})
		case job.ClientEnded:
			i := slices.IndexFunc(r.Phases, func(p Phase) bool { return p.Name == e.Text && p.End == 0 })
			if i >= 0 {
				r.Phases[i].End = at
			}
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// telemetry reads the samples of a folder.
func (r *Run) telemetry(dir string) {
	dir = filepath.Join(dir, run.TelemetryDir)
	list, err := os.ReadDir(dir)
	r.problem(dir, err)
	seen := map[string]bool{}
	for _, e := range list {
		path := filepath.Join(dir, strings.TrimSuffix(e.Name(), ".xz"))
		if seen[path] {
			continue
		}
		seen[path] = true
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, "engines-") && strings.HasSuffix(name, ".csv"):
			r.problem(path, r.engines(dir, name))
		case strings.HasPrefix(name, "gpu-") && strings.HasSuffix(name, ".csv"):
			r.problem(path, r.gpus(dir, name))
		case strings.HasPrefix(name, "host-") && strings.HasSuffix(name, ".csv"):
			r.problem(path, r.hosts(dir, name))
		}
	}
}

// add adds a sample to the track of a name.
func add(list *[]Track, of, node string, s Sample) {
	i := slices.IndexFunc(*list, func(t Track) bool { return t.Of == of })
	if i < 0 {
		i, *list = len(*list), append(*list, Track{Of: of, Node: node})
	}
	(*list)[i].Samples = append((*list)[i].Samples, s)
}

func (r *Run) engines(dir, name string) error {
	data, _, err := packed.Read(regular.DirFS(dir), name, regular.Record)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		at, role, v, ok := job.ParseGauges(line)
		if !ok {
			continue // the header, or cut short by a crash
		}
		for i, list := range []*[]Track{&r.Running, &r.Waiting, &r.Cache, &r.Tokens} {
			if i < len(v) {
				add(list, role, "", Sample{At: at, Value: v[i]})
			}
		}
	}
	return nil
}

func (r *Run) gpus(dir, name string) error {
	f, _, err := packed.Open(regular.DirFS(dir), name)
	if err != nil {
		return err
	}
	defer f.Close()
	node := strings.TrimSuffix(strings.TrimPrefix(name, "gpu-"), ".csv")
	return gpu.Read(f, func(s gpu.Sample) {
		of := fmt.Sprintf("%s GPU %d", node, s.Index)
		at := seconds(s.Time)
		if s.Use != nil {
			add(&r.Use, of, node, Sample{At: at, Value: *s.Use})
		}
		if s.Memory != nil {
			add(&r.Memory, of, node, Sample{At: at, Value: *s.Memory})
		}
		if s.Power != nil {
			add(&r.Power, of, node, Sample{At: at, Value: *s.Power})
		}
	})
}

// rates are the differences of a counter per s. Where the counter fell, the engine started again.
// There is none over a gap, and the rate behind it has the gap.
func rates(samples []Sample) []Sample {
	var out []Sample
	gap := false
	for i, s := range samples {
		if i == 0 {
			continue
		}
		dt, d := s.At-samples[i-1].At, s.Value-samples[i-1].Value
		if s.Gap || d < 0 {
			gap = true
			continue
		}
		if dt > 0 {
			out = append(out, Sample{s.At, d / dt, gap && len(out) > 0})
			gap = false
		}
	}
	return out
}

// Latencies are the latencies of single requests, in ms, ascending; a family that the client did not
// keep is absent. It is empty for clients that keep none, or whose files are not those of vLLM's client.
func Latencies(r *records.Run) map[result.Family][]float64 {
	out := map[result.Family][]float64{}
	source := r.Result.Results.Source
	if source == "" || !filepath.IsLocal(source) || filepath.Ext(source) != ".json" {
		return out
	}
	data, _, err := packed.Read(regular.DirFS(r.Dir), filepath.ToSlash(source), 1<<30)
	if err != nil {
		return out
	}
	part, err := vllmserve.Read(filepath.Base(source), data)
	if err != nil || part.Samples == nil {
		return out
	}
	s := part.Samples
	for family, list := range map[result.Family][]float64{
		result.TTFT: s.TTFT, result.E2EL: s.Latency,
	} {
		for i, v := range list {
			if !s.Failed(i) {
				out[family] = append(out[family], v*1000)
			}
		}
	}
	for i, gaps := range s.ITL {
		if !s.Failed(i) {
			for _, v := range gaps {
				out[result.ITL] = append(out[result.ITL], v*1000)
			}
		}
	}
	for family := range maps.Keys(out) {
		out[family] = slices.DeleteFunc(out[family], func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
		slices.Sort(out[family])
	}
	return out
}
