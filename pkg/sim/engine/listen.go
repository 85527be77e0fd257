package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Logger writes lines in vLLM's form; where that names a source file, these say "profllm sim".
// It is safe for concurrent use.
type Logger struct {
	mu     sync.Mutex
	Writer io.Writer
	Now    func() time.Time
	PID    int
}

func (l *Logger) Info(format string, args ...any) { l.line("INFO", format, args...) }

func (l *Logger) error(format string, args ...any) { l.line("ERROR", format, args...) }

func (l *Logger) line(level, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(l.Writer, "(APIServer pid=%d) %s %s [profllm sim] %s\n", l.PID, level, l.Now().
			Format("01-02 15:04:05"), line)
	}
}

// shutdownGrace is how long running requests may finish after SIGTERM.
const shutdownGrace = 500 * time.Millisecond

// LogConfig tells what the server was given.
func LogConfig(p program.Process, log *Logger, c Config, k knobs.Settings, flags program.Flags) {
	var args []string
	for _, name := range flags.Names {
		args = append(append(args, "--"+name), flags.Values[name]...)
	}
	args = redact.Words(args)
	log.Info("non-default args: %s %s", c.Model, strings.Join(args, " "))
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "SLURM_PROCID", "SLURMD_NODENAME", "PROFLLM_ROLE"} {
		log.Info("env %s=%s", name, p.Env(name))
	}
	log.Info("simulated TTFT %s, ITL %s, jitter %g, seed %d, start-up %s",
		k.Timing.TTFT, k.Timing.ITL, k.Timing.Jitter, k.Timing.Seed, k.Startup)
}

// Memory of the simulated engine on each GPU, in GiB: that of a model of 8 billion weights in
// bfloat16, whose KV cache takes 128 KiB for each token.
const (
	weightsGiB = 14.99
	graphsGiB  = 0.5
	cacheGiB   = float64(cacheTokens) * 128 / (1 << 20)
)

// LogStart says what vLLM 0.32.0 says of its room and its start on a GPU, once the start is over,
// which took so long. The start is half loading, half warm-up.
func LogStart(log *Logger, c Config, took time.Duration) {
	half := took.Seconds() / 2
	log.Info("Loading weights took %.2f seconds", half)
	log.Info("Model loading took %.2f GiB memory and %.6f seconds", weightsGiB, half)
	log.Info("Available KV cache memory: %.2f GiB", cacheGiB)
	log.Info("GPU KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx",
		thousands(cacheTokens), thousands(c.MaxLen), float64(cacheTokens)/float64(c.MaxLen))
	log.Info("Graph capturing finished in %.0f secs, took %.2f GiB", half/2, graphsGiB)
	log.Info("init engine (profile, create kv cache, warmup model) took %.2f s", half)
}

// thousands writes a number as Python's {:,} does.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Die ends the process as vLLM does when its engine cannot go on: the cause in the log, then a
// traceback that does not name it.
func Die(p program.Process, log *Logger, code int, cause string) int {
	log.error("EngineCore failed to start.\nTraceback (most recent call last):\n  profllm sim, simulated failure\n%s",
		cause)
	fmt.Fprintln(p.Stderr, "Traceback (most recent call last):\n  profllm sim, simulated failure\n"+
		"RuntimeError: Engine core initialization failed. See root cause above.")
	return code
}

// Addresses are what a server listens on: the HTTP port, known to be free but not open yet, and
// the side channel.
type Addresses struct {
	HTTP string
	side net.Listener
}

func (a *Addresses) Close() {
	if a.side != nil {
		a.side.Close()
	}
}

// Bind checks the HTTP port, as vLLM does before it loads the model, and opens the side channel.
func Bind(ctx context.Context, p program.Process, s *Server) (*Addresses, error) {
	c := s.config
	a := &Addresses{HTTP: net.JoinHostPort(NodeHost(c.Host, s.knobs.NodeAddr), strconv.Itoa(c.Port))}
	if !c.Headless && c.Port != 0 {
		l, err := net.Listen("tcp", a.HTTP)
		if err != nil {
			return nil, fmt.Errorf("[Errno 98] Address already in use: %w", err)
		}
		l.Close()
	}
	if !c.transfers() {
		return a, nil
	}
	kv, err := newConnector(c, p.Env, program.UUID())
	if err != nil {
		return nil, err
	}
	a.side, err = net.Listen("tcp", net.JoinHostPort(NodeHost(kv.host, s.knobs.NodeAddr), strconv.Itoa(kv.port)))
	if err != nil {
		return nil, fmt.Errorf("side channel: %w", err)
	}
	if tcp, ok := a.side.Addr().(*net.TCPAddr); ok {
		kv.port = tcp.Port
	}
	s.engine.kv = kv
	go kv.announce(a.side)
	context.AfterFunc(ctx, a.Close)
	return a, nil
}

// NodeHost keeps a server that wants every address to those of its simulated node.
func NodeHost(host, node string) string {
	if node != "" && (host == "" || host == "0.0.0.0" || host == "::") {
		return node
	}
	return host
}

// An Answerer serves an engine that has started, and returns the exit code: Answer, or what calls it.
type Answerer func(ctx context.Context, p program.Process, s *Server, l net.Listener, log *Logger) int

// Answer serves until ctx ends or a fault kills the process.
func Answer(ctx context.Context, p program.Process, s *Server, l net.Listener, log *Logger) int {
	requests, stop := context.WithCancel(context.Background())
	defer stop()
	srv := &http.Server{
		Handler:     s.Handler(),
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    stdlog.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	engine := "vLLM"
	if s.config.SGLang {
		engine = "SGLang"
	}
	log.Info("Starting %s server (profllm sim) on http://%s", engine, l.Addr())
	log.Info("Application startup complete.")
	if s.engine.kv != nil {
		log.Info("KV connector %s: engine %s, side channel %s:%d", s.config.Connector, s.engine.kv.id, s.engine.kv.host,
			s.engine.kv.port)
	}
	var logging sync.WaitGroup
	logging.Go(func() { s.logStats(requests, log) })
	defer logging.Wait()
	defer stop()

	var mortal <-chan time.Time
	if d := s.knobs.Planted.DieAfter; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		mortal = t.C
	}
	select {
	case <-ctx.Done():
		log.Info("[shutdown] API server: shutdown triggered")
		patience, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		if srv.Shutdown(patience) != nil {
			srv.Close()
		}
		log.Info("Application shutdown complete.")
		return program.OK
	case err := <-served:
		return p.Fail(program.Failed, fmt.Errorf("serve %s: %w", l.Addr(), err))
	case <-mortal:
	case <-s.die:
	}
	srv.Close()
	return dieServing(p, log, s.knobs.Planted.Exit)
}

func dieServing(p program.Process, log *Logger, code int) int {
	log.error("Traceback (most recent call last):\n  profllm sim, simulated failure\n" +
		"RuntimeError: simulated death of the engine\n" +
		"EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.")
	fmt.Fprintln(p.Stderr, "profllm sim: "+errors.New("engine is dead").Error())
	return code
}
