package job

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/run"
)

// GaugeInterval is the time between two looks at the engines' gauges.
const GaugeInterval = time.Second

// Gauges are the engines' gauges that are sampled while a client runs, in the
// order of the columns.
var Gauges = []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}

// generated is the counter that follows the gauges in a line, of engines that have it.
const generated = "vllm:generation_tokens_total"

// ParseGauges reads a line of a GaugeFile: when which engine was looked at, its Gauges, and
// behind them the tokens that it has generated, if it says so.
func ParseGauges(line string) (at float64, role string, values []float64, ok bool) {
	words := strings.Split(strings.TrimSpace(line), ",")
	if n := len(words) - 2 - len(Gauges); n != 0 && n != 1 {
		return 0, "", nil, false
	}
	for _, w := range slices.Concat(words[:1], words[2:]) {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil || !(v >= 0 && v < 1e15) {
			return 0, "", nil, false
		}
		values = append(values, v)
	}
	return values[0], words[1], values[1:], true
}

// GaugeFile is the name, below telemetry/ of a load's directory, of what was
// sampled while the client of a phase ran.
func GaugeFile(phase string) string { return "engines-" + path.Base(phase) + ".csv" }

// sample reads the engines' gauges once a second until the function it returns is
// called. An engine that has none, or does not answer in time, has no line: the
// client must not wait for it.
func (w *watch) sample(ctx context.Context, phase string) (stop func()) {
	engines, load := w.engines(), w.job.lastLoad(w.plan)
	if len(engines) == 0 || load == nil {
		return func() {}
	}
	file := filepath.Join(w.job.loadDir(load), run.TelemetryDir, GaugeFile(phase))
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(GaugeInterval)
		defer tick.Stop()
		for {
			if err := w.look(ctx, file, engines); err != nil && ctx.Err() == nil {
				w.job.logf("no more samples of the engines' gauges: %v", err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// engines are the roles that are watched and have counters, with their pages.
func (w *watch) engines() map[string]string {
	urls := map[string]string{}
	_, place, err := w.job.load()
	if err != nil {
		return nil
	}
	for _, proc := range w.procs {
		if role := w.plan.Role(proc.Name); role != nil && role.Engine {
			if url, err := endpoint(w.plan, place, role, "/metrics"); err == nil {
				urls[role.Name] = url
			}
		}
	}
	return urls
}

// look appends a line for each engine that answered.
func (w *watch) look(ctx context.Context, file string, engines map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, GaugeInterval)
	defer cancel()
	var mu sync.Mutex
	var lines bytes.Buffer
	var asked sync.WaitGroup
	for role, url := range engines {
		asked.Go(func() {
			var body bytes.Buffer
			at := w.job.Now()
			if get(ctx, client(GaugeInterval), url, &body) != nil {
				return
			}
			page, _ := promtext.Read(&body) // lines it does not understand are no reason to drop the rest
			line := fmt.Sprintf("%.3f,%s", float64(at.UnixMilli())/1000, role)
			for _, name := range Gauges {
				v, ok := page.Sum(name)
				if !ok {
					return
				}
				line += fmt.Sprintf(",%g", v)
			}
			if v, ok := page.Sum(generated); ok {
				line += fmt.Sprintf(",%.0f", v)
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(&lines, line)
		})
	}
	asked.Wait()
	if lines.Len() == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		fmt.Fprintln(f, "time_s,role,running,waiting,kv_cache,generated_tokens")
	}
	if _, err := f.Write(lines.Bytes()); err != nil {
		return err
	}
	return f.Close()
}
