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

// Gauges is how many gauges of an engine are sampled while a client runs: its requests running and
// waiting, and the share of its KV cache that is used, in the order of the columns.
const Gauges = 3

// ParseGauges reads a line of a GaugeFile: when which engine was looked at, its gauges, and
// behind them the tokens that it has generated, if it says so.
func ParseGauges(line string) (at float64, role string, values []float64, ok bool) {
	words := strings.Split(strings.TrimSpace(line), ",")
	if n := len(words) - 2 - Gauges; n != 0 && n != 1 {
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
			line, ok := sampled(page)
			if !ok {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&lines, "%.3f,%s%s\n", float64(at.UnixMilli())/1000, role, line)
		})
	}
	asked.Wait()
	if lines.Len() == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := run.Append(file)
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

// sampled are the columns of an engine's page: its gauges, and the tokens it has generated if it
// counts them. It is false for a page of no engine that is known.
func sampled(page *promtext.Snapshot) (columns string, ok bool) {
	names, ok := gaugesOn(page)
	if !ok {
		return "", false
	}
	running, _ := page.Sum(names.running)
	waiting, hasWaiting := page.Sum(names.waiting)
	cache, hasCache := page.Max(names.cache) // the fullest of several engines on one page
	if !hasWaiting || !hasCache {
		return "", false
	}
	columns = fmt.Sprintf(",%g,%g,%g", running, waiting, cache)
	if v, ok := page.Sum(names.generated); ok {
		columns += fmt.Sprintf(",%.0f", v)
	}
	return columns, true
}
