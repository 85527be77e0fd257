package engine

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/sim/program"
)

// Profile is the profiler that a server was started with; Kind "" for none.
type Profile struct {
	Kind     string // torch, cuda
	Dir      string // of the traces
	Plain    bool   // no gzip
	Frontend bool   // the API process writes a trace, too
	Ranges   string // file to which a cuda profiler adds a line each time it starts; "" for none
}

// RangesVar is the variable by which the simulated nsys names Profile.Ranges to the server behind it.
const RangesVar = "PROFLLM_SIMULATED_NSYS_RANGES"

// maxTraced bounds the requests in a simulated trace.
const maxTraced = 10_000

// A profiler records which sequences an engine served between its start and its stop. It
// is safe for concurrent use.
type profiler struct {
	mu      sync.Mutex
	began   time.Time // zero: it does not run
	events  []traceEvent
	omitted int
}

// A traceEvent is an event of the Trace Event Format, which Perfetto reads. Times are in µs.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Cat   string         `json:"cat,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Time  float64        `json:"ts"`
	Took  float64        `json:"dur"`
	Args  map[string]any `json:"args,omitempty"`
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// start begins a recording; false if one runs.
func (p *profiler) start() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began.IsZero() {
		return false
	}
	p.began, p.events, p.omitted = time.Now(), nil, 0
	return true
}

// openRange tells the simulated nsys that a capture range begins.
func (p Profile) openRange() error {
	if p.Kind != "cuda" || p.Ranges == "" {
		return nil
	}
	f, err := os.OpenFile(p.Ranges, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("range\n")
	return errors.Join(err, f.Close())
}

// add records a sequence that is over.
func (p *profiler) add(r *record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		return
	}
	if len(p.events) >= maxTraced {
		p.omitted++
		return
	}
	start := r.start
	if start.Before(p.began) {
		start = p.began
	}
	p.events = append(p.events, traceEvent{
		Name: "simulated request", Phase: "X", Cat: "simulated", PID: 1, TID: len(p.events) + 1,
		Time: micros(start.Sub(p.began)), Took: micros(max(0, time.Since(start))),
		Args: map[string]any{"prompt_tokens": len(r.seq.prompt), "output_tokens": r.seq.out},
	})
}

// stop ends the recording and returns it.
func (p *profiler) stop() (events []traceEvent, omitted int, ran bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		return nil, 0, false
	}
	session := traceEvent{Name: "simulated profile: no model ran", Phase: "X", Cat: "simulated", PID: 1,
		Took: micros(time.Since(p.began))}
	events, omitted = append([]traceEvent{session}, p.events...), p.omitted
	p.began, p.events = time.Time{}, nil
	return events, omitted, true
}

// profileRoutes adds the two paths that exist only if a profiler is configured
// (vllm/entrypoints/serve/profile/api_router.py, 0.32).
func (s *Server) profileRoutes(route func(method, path string, h http.HandlerFunc)) {
	if s.config.Profile.Kind == "" {
		return
	}
	route("POST", "/start_profile", func(w http.ResponseWriter, _ *http.Request) {
		if s.engine.profile.start() && s.config.Profile.openRange() != nil {
			internal().write(w)
		}
	})
	route("POST", "/stop_profile", func(w http.ResponseWriter, _ *http.Request) {
		events, omitted, ran := s.engine.profile.stop()
		if !ran || s.config.Profile.Kind != "torch" {
			return
		}
		if err := s.writeTraces(events, omitted); err != nil {
			internal().write(w)
		}
	})
}

// writeTraces writes a trace for each worker, and one for the API process, under the names that
// vLLM gives them.
func (s *Server) writeTraces(events []traceEvent, omitted int) error {
	p := s.config.Profile
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return err
	}
	var names []string
	for pp := range s.config.PP {
		for tp := range s.config.TP {
			names = append(names, fmt.Sprintf("dp0_pp%d_tp%d_dcp0_ep0_rank%d", pp, tp, pp*s.config.TP+tp))
		}
	}
	if host, err := os.Hostname(); err == nil && p.Frontend {
		names = append(names, fmt.Sprintf("%s_%d.async_llm", host, os.Getpid()))
	}
	for _, name := range names {
		if err := writeTrace(p, name, events, omitted); err != nil {
			return err
		}
	}
	return nil
}

func writeTrace(p Profile, name string, events []traceEvent, omitted int) error {
	data, err := json.Marshal(map[string]any{
		"schemaVersion": 1, "simulated": true, "by": program.Version, "omitted_requests": omitted, "traceName": name,
		"traceEvents": append([]traceEvent{{Name: "process_name", Phase: "M", PID: 1,
			Args: map[string]any{"name": "profllm sim: " + name}}}, events...),
	})
	if err != nil {
		return err
	}
	file := fmt.Sprintf("%s.%d.pt.trace.json", strings.ReplaceAll(name, "/", "_"), time.Now().UnixNano())
	if !p.Plain {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(data); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		data, file = packed.Bytes(), file+".gz"
	}
	return os.WriteFile(filepath.Join(p.Dir, file), data, 0o644)
}
