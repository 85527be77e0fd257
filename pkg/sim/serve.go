package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/redact"
)

// logger writes lines in vLLM's form; where that names a source file, these say "profllm sim". It is safe for concurrent use.
type logger struct {
	mu  sync.Mutex
	w   io.Writer
	now func() time.Time
	pid int
}

func (l *logger) info(format string, args ...any)  { l.line("INFO", format, args...) }
func (l *logger) error(format string, args ...any) { l.line("ERROR", format, args...) }

func (l *logger) line(level, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(l.w, "(APIServer pid=%d) %s %s [profllm sim] %s\n", l.pid, level, l.now().Format("01-02 15:04:05"), line)
	}
}

// shutdownGrace is how long running requests may finish after SIGTERM.
const shutdownGrace = 500 * time.Millisecond

// serve is `vllm serve`.
func (p Process) serve(ctx context.Context, args []string) int {
	start := time.Now()
	switch s := p.Env("PROFLLM_SIM_FLAGS"); s {
	case "":
		known, err := checkServe(args)
		if err != nil {
			return p.refuse(err)
		}
		args = known
	case "any":
	default:
		return p.fail(exitUsage, named("PROFLLM_SIM_FLAGS", s, "any, or nothing", errors.New("unknown")))
	}
	c, flags, err := parseServe(args)
	if err != nil {
		return p.fail(exitUsage, fmt.Errorf("vllm serve: %w", err))
	}
	k, err := readKnobs(p.Env)
	if err != nil {
		return p.fail(exitUsage, err)
	}
	if key := p.Env("VLLM_API_KEY"); key != "" && len(c.apiKeys) == 0 {
		c.apiKeys = []string{key}
	}
	log := &logger{w: p.Stdout, now: time.Now, pid: os.Getpid()}
	p.logStart(log, c, k, flags)

	if c.ray && p.Env(realRay) == "" { // a real cluster was counted by whoever started us
		nodes, err := p.rayNodes(ctx, k)
		if err != nil {
			return p.die(log, exitFailed, "ConnectionError: "+err.Error())
		}
		log.info("Connected to Ray cluster with %d nodes.", len(nodes))
	}
	if k.faults.dieAtStart {
		return p.die(log, k.faults.exit, "ValueError: No available memory for the cache blocks. "+
			"Try increasing `gpu_memory_utilization` when initializing the engine.")
	}
	s := newServer(c, k, start)
	s.dev = p.Env("VLLM_SERVER_DEV_MODE") == "1"
	listeners, err := p.bind(ctx, s)
	if err != nil {
		return p.die(log, exitFailed, "OSError: "+err.Error())
	}
	defer listeners.close()
	if k.faults.neverReady || c.headless || !wait(ctx, k.startup) {
		<-ctx.Done()
		log.info("Shutting down before the server was ready.")
		return exitOK
	}
	l, err := net.Listen("tcp", listeners.http)
	if err != nil {
		return p.die(log, exitFailed, "OSError: "+err.Error())
	}
	return p.answer(ctx, s, l, log)
}

// refuse ends the process as argparse does.
func (p Process) refuse(err error) int {
	fmt.Fprintf(p.Stderr, "profllm sim: the flags are those of vllm 0.32.0; PROFLLM_SIM_FLAGS=any takes those of every release\n"+
		"usage: vllm serve [model_tag] [options]\n%v\n", err)
	return exitUsage
}

func (p Process) logStart(log *logger, c serveConfig, k knobs, flags flagSet) {
	log.info("vLLM API server version %s (simulated by profllm, no model is loaded), model %s", Version, c.model)
	p.logConfig(log, c, k, flags)
}

// logConfig tells what the server was given.
func (p Process) logConfig(log *logger, c serveConfig, k knobs, flags flagSet) {
	var args []string
	for _, name := range flags.names {
		args = append(append(args, "--"+name), flags.values[name]...)
	}
	args = redact.Words(args)
	log.info("non-default args: %s %s", c.model, strings.Join(args, " "))
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "SLURM_PROCID", "SLURMD_NODENAME", "PROFLLM_ROLE"} {
		log.info("env %s=%s", name, p.Env(name))
	}
	log.info("GPU KV cache size: %d tokens, Maximum concurrency for %d tokens per request: %.2fx",
		cacheTokens, c.maxLen, float64(cacheTokens)/float64(c.maxLen))
	log.info("simulated TTFT %s, ITL %s, jitter %g, seed %d, start-up %s",
		k.timing.ttft, k.timing.itl, k.timing.jitter, k.timing.seed, k.startup)
}

// die ends the process as vLLM does when its engine cannot go on: the cause in the log, then a traceback that does not name
// it.
func (p Process) die(log *logger, code int, cause string) int {
	log.error("EngineCore failed to start.\nTraceback (most recent call last):\n  profllm sim, simulated failure\n%s", cause)
	fmt.Fprintln(p.Stderr, "Traceback (most recent call last):\n  profllm sim, simulated failure\n"+
		"RuntimeError: Engine core initialization failed. See root cause above.")
	return code
}

// addresses are what a server listens on: the HTTP port, known to be free but not open yet, and the side channel.
type addresses struct {
	http string
	side net.Listener
}

func (a *addresses) close() {
	if a.side != nil {
		a.side.Close()
	}
}

// bind checks the HTTP port, as vLLM does before it loads the model, and opens the side channel.
func (p Process) bind(ctx context.Context, s *server) (*addresses, error) {
	c := s.config
	a := &addresses{http: net.JoinHostPort(nodeHost(c.host, s.knobs.nodeAddr), strconv.Itoa(c.port))}
	if !c.headless && c.port != 0 {
		l, err := net.Listen("tcp", a.http)
		if err != nil {
			return nil, fmt.Errorf("[Errno 98] Address already in use: %w", err)
		}
		l.Close()
	}
	if c.connector == "" {
		return a, nil
	}
	kv, err := newConnector(c, p.Env, uuid())
	if err != nil {
		return nil, err
	}
	a.side, err = net.Listen("tcp", net.JoinHostPort(nodeHost(kv.host, s.knobs.nodeAddr), strconv.Itoa(kv.port)))
	if err != nil {
		return nil, fmt.Errorf("side channel: %w", err)
	}
	if tcp, ok := a.side.Addr().(*net.TCPAddr); ok {
		kv.port = tcp.Port
	}
	s.engine.kv = kv
	go kv.announce(a.side)
	context.AfterFunc(ctx, a.close)
	return a, nil
}

// nodeHost keeps a server that wants every address to those of its simulated node.
func nodeHost(host, node string) string {
	if node != "" && (host == "" || host == "0.0.0.0" || host == "::") {
		return node
	}
	return host
}

// answer serves until ctx ends or a fault kills the process.
func (p Process) answer(ctx context.Context, s *server, l net.Listener, log *logger) int {
	requests, stop := context.WithCancel(context.Background())
	defer stop()
	srv := &http.Server{
		Handler:     s.handler(),
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    stdlog.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	engine := "vLLM"
	if s.config.sglang {
		engine = "SGLang"
	}
	log.info("Starting %s server (profllm sim) on http://%s", engine, l.Addr())
	log.info("Application startup complete.")
	if s.engine.kv != nil {
		log.info("KV connector %s: engine %s, side channel %s:%d", s.config.connector, s.engine.kv.id, s.engine.kv.host, s.engine.kv.port)
	}
	var logging sync.WaitGroup
	logging.Go(func() { s.logStats(requests, log) })
	defer logging.Wait()
	defer stop()

	var mortal <-chan time.Time
	if d := s.knobs.faults.dieAfter; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		mortal = t.C
	}
	select {
	case <-ctx.Done():
		log.info("[shutdown] API server: shutdown triggered")
		patience, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		if srv.Shutdown(patience) != nil {
			srv.Close()
		}
		log.info("Application shutdown complete.")
		return exitOK
	case err := <-served:
		return p.fail(exitFailed, fmt.Errorf("serve %s: %w", l.Addr(), err))
	case <-mortal:
	case <-s.die:
	}
	srv.Close()
	return p.dieServing(log, s.knobs.faults.exit)
}

func (p Process) dieServing(log *logger, code int) int {
	log.error("Traceback (most recent call last):\n  profllm sim, simulated failure\n" +
		"RuntimeError: simulated death of the engine\n" +
		"EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.")
	fmt.Fprintln(p.Stderr, "profllm sim: "+errors.New("engine is dead").Error())
	return code
}
