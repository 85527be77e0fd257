package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/sim/sglang"
	"github.com/profllm/profllm/pkg/sim/vllm"
)

// The components under which workers register.
const (
	backend = "backend"
	prefill = "prefill"
)

// A worker is one simulated worker.
type worker struct {
	module string
	one    instance
	count  int // instances that it registers
	folder folder
	start  time.Time
	server atomic.Pointer[engine.Server] // nil until it serves
}

// serveWorker is a worker: the engine at a port of its own choice, and its health and counters at
// DYN_SYSTEM_PORT.
func serveWorker(ctx context.Context, p program.Process, module string, args []string) int {
	f := program.ParseFlags(args)
	w := &worker{module: module, folder: folder(p.Env(folderVar)), start: time.Now(), count: 1, one: instance{
		Component: backend, Endpoint: generate, Namespace: "dynamo", Simulated: true,
		Model: f.Text(firstOf(&f, "served-model-name", "model-name", "model", "model-path"), ""),
	}}
	if mode(&f) == prefill {
		w.one.Component = prefill
	}
	if err := w.named(f.Text("endpoint", "")); err != nil {
		return p.Fail(program.Usage, err)
	}
	host := engine.NodeHost("", p.Env("PROFLLM_NODE_ADDR"))
	if port := p.Env("DYN_SYSTEM_PORT"); port != "" {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			return p.Fail(program.Failed, fmt.Errorf("system status server: %w", err))
		}
		defer l.Close()
		go http.Serve(l, w.status())
	}
	switch module {
	case vllmModule:
		return vllm.Start(ctx, p, slices.Concat(args, []string{"--port", "0"}), w.answer)
	case sglangModule:
		p.Env = with(p.Env, "SGLANG_HOST_IP", host)
		return sglang.Start(ctx, p, slices.Concat(args, []string{"--host", "0.0.0.0", "--port", "0"}), w.answer)
	}
	return w.mock(ctx, p, f)
}

// mode is the part that a worker plays, in the words of any version.
func mode(f *program.Flags) string {
	for _, part := range []string{prefill, "decode"} {
		if f.Bool("is-"+part+"-worker", false) {
			return part
		}
	}
	return f.Text("disaggregation-mode", "")
}

// firstOf is the first option that is given.
func firstOf(f *program.Flags, names ...string) string {
	for _, n := range names {
		if _, ok := f.Values[n]; ok {
			return n
		}
	}
	return names[0]
}

// with is an environment with a variable that has a value where it has none.
func with(env func(string) string, variable, value string) func(string) string {
	return func(name string) string {
		if name == variable {
			return cmp.Or(env(name), value)
		}
		return env(name)
	}
}

// named takes --endpoint, dyn://NAMESPACE.COMPONENT.ENDPOINT.
func (w *worker) named(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(endpoint, "dyn://"), ".")
	if len(parts) != 3 {
		return fmt.Errorf("--endpoint=%q: want dyn://namespace.component.endpoint", endpoint)
	}
	w.one.Namespace, w.one.Component, w.one.Endpoint = parts[0], parts[1], parts[2]
	return nil
}

// answer registers the engine and serves it until it ends.
func (w *worker) answer(ctx context.Context, p program.Process, s *engine.Server, l net.Listener,
	log *engine.Logger) int {
	s.Worker = true
	w.one.Transport = map[string]string{"tcp": l.Addr().String()}
	leave, err := w.folder.register(w.one, w.count)
	defer leave()
	if err != nil {
		return p.Fail(program.Failed, fmt.Errorf("register: %w", err))
	}
	w.server.Store(s)
	log.Info("Registered as %s.%s.%s (profllm sim)", w.one.Namespace, w.one.Component, w.one.Endpoint)
	return engine.Answer(ctx, p, s, l, log)
}

// status is the worker's system status server.
func (w *worker) status() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(out http.ResponseWriter, _ *http.Request) {
		state, code := "ready", http.StatusOK
		if w.server.Load() == nil {
			state, code = "notready", http.StatusServiceUnavailable
		}
		up := time.Since(w.start)
		writeJSON(out, code, map[string]any{"status": state, "simulated": true,
			"uptime":    map[string]any{"secs": int(up.Seconds()), "nanos": int(up.Nanoseconds() % 1e9)},
			"endpoints": map[string]string{w.one.Endpoint: state}})
	})
	mux.HandleFunc("GET /metrics", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/plain; version=0.0.4")
		out.Write(w.page())
	})
	return mux
}

// mockerFamilies are the engine's counters that the mocker of 1.6.1 has.
var mockerFamilies = []string{"vllm:e2e_request_latency_seconds", "vllm:inter_token_latency_seconds",
	"vllm:kv_cache_usage_perc", "vllm:num_preemptions", "vllm:num_requests_running", "vllm:num_requests_waiting",
	"vllm:time_to_first_token_seconds"}

// page is a worker's page of counters: Dynamo's, and behind them the engine's. The names of
// SGLang's are not simulated.
func (w *worker) page() []byte {
	var b bytes.Buffer
	requests := int64(0)
	s := w.server.Load()
	if s != nil {
		requests = s.Requests()
	}
	component := fmt.Sprintf("dynamo_component=%q,dynamo_endpoint=%q,dynamo_namespace=%q", w.one.Component,
		w.one.Endpoint, w.one.Namespace)
	metric(&b, "dynamo_component_requests_total", "counter", component, float64(requests))
	metric(&b, "dynamo_component_uptime_seconds", "gauge", "", time.Since(w.start).Seconds())
	if s == nil || w.module == sglangModule {
		return b.Bytes()
	}
	var all bytes.Buffer
	if err := s.WriteMetrics(&all); err != nil {
		return b.Bytes()
	}
	for line := range bytes.Lines(all.Bytes()) {
		if bytes.Contains(line, []byte("vllm:")) && (w.module == vllmModule || ofMocker(line)) {
			b.Write(line)
		}
	}
	return b.Bytes()
}

func ofMocker(line []byte) bool {
	return slices.ContainsFunc(mockerFamilies, func(name string) bool { return bytes.Contains(line, []byte(name)) })
}

// mock is the mocker, whose engine takes its options from its own command line.
func (w *worker) mock(ctx context.Context, p program.Process, f program.Flags) int {
	start := time.Now()
	c, bootstrap, err := w.mocked(&f)
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("dynamo.mocker: %w", err))
	}
	k, err := knobs.Read(p.Env)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	log := &engine.Logger{Writer: p.Stdout, Now: time.Now, PID: os.Getpid()}
	log.Info("dynamo.mocker %s (simulated by profllm), model %s", program.Version, c.Model)
	engine.LogConfig(p, log, c, k, f)
	if k.Planted.DieAtStart {
		return engine.Die(p, log, k.Planted.Exit, "ValueError: No available memory for the cache blocks.")
	}
	s := engine.NewServer(c, k, start)
	p.Env = with(with(p.Env, "VLLM_NIXL_SIDE_CHANNEL_HOST", engine.NodeHost("", k.NodeAddr)),
		"VLLM_NIXL_SIDE_CHANNEL_PORT", bootstrap)
	listeners, err := engine.Bind(ctx, p, s)
	if err != nil {
		return engine.Die(p, log, program.Failed, "OSError: "+err.Error())
	}
	defer listeners.Close()
	if k.Planted.NeverReady || !program.Wait(ctx, k.Startup) {
		<-ctx.Done()
		log.Info("Shutting down before the worker was ready.")
		return program.OK
	}
	l, err := net.Listen("tcp", listeners.HTTP)
	if err != nil {
		return engine.Die(p, log, program.Failed, "OSError: "+err.Error())
	}
	return w.answer(ctx, p, s, l, log)
}

// mockedSeqs is the mocker's default of --max-num-seqs (1.6.1).
const mockedSeqs = 256

// mocked reads the mocker's options. Prefill and decode meet at the first of --bootstrap-ports.
func (w *worker) mocked(f *program.Flags) (c engine.Config, bootstrap string, err error) {
	c = engine.Config{Model: f.Text("model-path", ""), Names: []string{w.one.Model}, TP: 1, PP: 1,
		Prefix: f.Bool("enable-prefix-caching", true), MaxLen: engine.DefaultMaxLen}
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
	}{
		{&c.MaxSeqs, "max-num-seqs", mockedSeqs}, {&c.BlockSize, "block-size", engine.DefaultBlockSize},
		{&w.count, "num-workers", 1},
	} {
		if *x.to, err = f.Size(x.name, x.fallback, 1); err != nil {
			return c, "", err
		}
	}
	if c.Model == "" {
		return c, "", fmt.Errorf("--model-path is missing")
	}
	bootstrap = "0"
	switch part := mode(f); part {
	case "", "agg", "aggregated", "none":
	case prefill, "decode":
		c.Connector, c.Consumer = "NixlConnector", part == "decode"
		if ports, _, _ := strings.Cut(f.Text("bootstrap-ports", ""), ","); part == prefill && ports != "" {
			bootstrap = ports
		}
		if n, err := strconv.Atoi(bootstrap); err != nil || n < 0 {
			return c, "", fmt.Errorf("--bootstrap-ports=%q: want ports", bootstrap)
		}
	default:
		return c, "", fmt.Errorf("--disaggregation-mode=%q: want prefill or decode", part)
	}
	return c, bootstrap, nil
}
