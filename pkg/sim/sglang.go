package sim

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sglang runs one of SGLang's Python modules.
func (p Process) sglang(ctx context.Context, module string, args []string) int {
	switch {
	case module == "sglang.launch_server":
		return p.launchServer(ctx, args)
	case module == "sglang_router.launch_router" && p.Proxy != nil:
		return p.launchRouter(ctx, args)
	case module == "sglang.bench_serving":
		return p.benchServing(ctx, args)
	case module == "sglang.test.run_eval":
		return p.runEval(ctx, args)
	}
	return p.fail(exitMissing, fmt.Errorf("python3 -m %s is not simulated: want sglang.launch_server, sglang_router.launch_router, "+
		"sglang.bench_serving or sglang.test.run_eval", module))
}

// sglangConfig is what the simulated SGLang server takes from its flags beside those of every engine.
type sglangConfig struct {
	serveConfig
	dist        string // host:port of the rendezvous; empty for one node
	nodes, rank int
	bootstrap   int // prefill's bootstrap port
}

// Defaults of SGLang.
const (
	sglangPort      = 30000
	sglangBootstrap = 8998
)

// switches are options of SGLang that take no value (store_true). A value is what argparse calls unrecognized.
var switches = []string{
	"disable-cuda-graph", "disable-radix-cache", "enable-dp-attention", "enable-metrics", "enable-mixed-chunk", "enable-torch-compile",
	"skip-server-warmup", "skip-tokenizer-init", "trust-remote-code", "disable-overlap-schedule", "enable-deterministic-inference",
}

// sglangFlags reads SGLang's command line, and refuses what its parser would.
func sglangFlags(args []string) (flagSet, error) {
	f := parseFlags(args)
	left := slices.Clone(f.positional)
	for _, name := range switches {
		left = append(left, f.values[name]...)
	}
	if len(left) > 0 {
		return f, fmt.Errorf("unrecognized arguments: %s", strings.Join(left, " "))
	}
	return f, nil
}

// spelling returns which of an option's names was used, else the first.
func (f *flagSet) spelling(names ...string) string {
	for _, n := range names {
		if f.values[n] != nil {
			return n
		}
	}
	return names[0]
}

func parseLaunch(args []string) (sglangConfig, flagSet, error) {
	f, err := sglangFlags(args)
	errs := []error{err}
	c := sglangConfig{dist: f.text("dist-init-addr", "")}
	c.sglang = true
	c.host = f.text("host", "127.0.0.1")
	_, off := f.values["disable-radix-cache"]
	c.prefix = !off
	c.apiKeys = f.values["api-key"]
	if c.model = f.text(f.spelling("model-path", "model"), ""); c.model == "" {
		errs = append(errs, errors.New("the following arguments are required: --model-path/--model"))
	}
	c.names = []string{f.text("served-model-name", c.model)}
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
		least    int
	}{
		{&c.port, "port", sglangPort, 0},
		{&c.maxLen, "context-length", defaultMaxLen, 1},
		{&c.maxSeqs, "max-running-requests", defaultMaxSeqs, 1},
		{&c.blockSize, "page-size", defaultBlockSize, 1},
		{&c.tp, f.spelling("tensor-parallel-size", "tp-size", "tp"), 1, 1},
		{&c.pp, f.spelling("pipeline-parallel-size", "pp-size", "pp"), 1, 1},
		{&c.nodes, "nnodes", 1, 1},
		{&c.rank, "node-rank", 0, 0},
		{&c.bootstrap, "disaggregation-bootstrap-port", sglangBootstrap, 1},
	} {
		n, err := f.size(x.name, x.fallback, x.least)
		errs = append(errs, err)
		*x.to = n
	}
	switch mode := f.text("disaggregation-mode", "null"); mode {
	case "null":
	case "prefill", "decode":
		c.connector, c.consumer = f.text("disaggregation-transfer-backend", "mooncake"), mode == "decode"
	default:
		errs = append(errs, fmt.Errorf("--disaggregation-mode=%q: want null, prefill or decode", mode))
	}
	if c.nodes > 1 && c.dist == "" {
		errs = append(errs, errors.New("--nnodes above 1 needs --dist-init-addr"))
	}
	if c.rank >= c.nodes {
		errs = append(errs, fmt.Errorf("--node-rank=%d: want less than --nnodes, %d", c.rank, c.nodes))
	}
	return c, f, errors.Join(errs...)
}

// launchServer is python3 -m sglang.launch_server.
func (p Process) launchServer(ctx context.Context, args []string) int {
	start := time.Now()
	c, flags, err := parseLaunch(args)
	if err != nil {
		return p.fail(exitUsage, fmt.Errorf("launch_server: %w", err))
	}
	k, err := readKnobs(p.Env)
	if err != nil {
		return p.fail(exitUsage, err)
	}
	log := &logger{w: p.Stdout, now: time.Now, pid: os.Getpid()}
	log.info("SGLang server %s (simulated by profllm, no model is loaded), model %s, node %d of %d", Version, c.model, c.rank, c.nodes)
	p.logConfig(log, c.serveConfig, k, flags)
	if k.faults.dieAtStart {
		return p.die(log, k.faults.exit, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
	}
	ctx, end, err := rendezvous(ctx, c)
	if err != nil {
		return p.die(log, exitFailed, "torch.distributed.DistNetworkError: "+err.Error())
	}
	defer end()
	if c.rank > 0 {
		log.info("joined %s as node %d of %d", c.dist, c.rank, c.nodes)
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), errHeadGone) {
			return p.die(log, exitFailed, "torch.distributed.DistBackendError: the head at "+c.dist+" is gone")
		}
		return exitOK
	}
	s := newServer(c.serveConfig, k, start)
	p.Env = sideChannel(p.Env, c)
	listeners, err := p.bind(ctx, s)
	if err != nil {
		return p.die(log, exitFailed, "OSError: "+err.Error())
	}
	defer listeners.close()
	if k.faults.neverReady || !wait(ctx, k.startup) {
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

// sideChannel gives the simulated connector its address: prefill's bootstrap port, and any port for decode, from which
// nobody fetches.
func sideChannel(env func(string) string, c sglangConfig) func(string) string {
	host, _, err := net.SplitHostPort(c.dist)
	if err != nil {
		host = env("SGLANG_HOST_IP")
	}
	port := c.bootstrap
	if c.consumer {
		port = 0
	}
	return func(name string) string {
		switch name {
		case "VLLM_NIXL_SIDE_CHANNEL_HOST":
			return host
		case "VLLM_NIXL_SIDE_CHANNEL_PORT":
			return strconv.Itoa(port)
		}
		return env(name)
	}
}

// rendezvousTime is how long the nodes of a role wait for each other.
const rendezvousTime = 60 * time.Second

var errHeadGone = errors.New("the head is gone")

// rendezvous plays torch.distributed: node 0 listens at --dist-init-addr until every other rank has said its number, and
// each once; the others connect and stay connected. The context it returns ends with ctx, and on a worker with the head.
func rendezvous(ctx context.Context, c sglangConfig) (context.Context, func(), error) {
	if c.nodes == 1 {
		return ctx, func() {}, nil
	}
	limit, cancel := context.WithTimeout(ctx, rendezvousTime)
	defer cancel()
	if c.rank > 0 {
		return join(ctx, limit, c)
	}
	l, err := net.Listen("tcp", c.dist)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(limit, func() { l.Close() })
	defer stop()
	var conns []net.Conn
	end := func() {
		l.Close()
		for _, c := range conns {
			c.Close()
		}
	}
	seen := map[int]bool{}
	for len(seen) < c.nodes-1 {
		conn, err := l.Accept()
		if err != nil {
			end()
			return nil, nil, fmt.Errorf("%d of %d nodes joined at %s: %w", 1+len(seen), c.nodes, c.dist, err)
		}
		conns = append(conns, conn)
		conn.SetReadDeadline(time.Now().Add(handshakeTimeout))
		var rank int
		if _, err := fmt.Fscanln(bufio.NewReader(conn), &rank); err != nil || rank < 1 || rank >= c.nodes || seen[rank] {
			end()
			return nil, nil, fmt.Errorf("node rank %d from %s: want each of 1-%d once (%v)", rank, conn.RemoteAddr(), c.nodes-1, err)
		}
		seen[rank] = true
	}
	return ctx, end, nil
}

// join connects to node 0, which may start later.
func join(ctx, limit context.Context, c sglangConfig) (context.Context, func(), error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(limit, "tcp", c.dist)
		if err == nil {
			fmt.Fprintln(conn, c.rank)
			joined, cancel := context.WithCancelCause(ctx)
			go func() {
				io.Copy(io.Discard, conn) // node 0 says nothing until it ends
				cancel(errHeadGone)
			}()
			return joined, func() { conn.Close() }, nil
		}
		if !wait(limit, 200*time.Millisecond) {
			return nil, nil, fmt.Errorf("no node 0 at %s after %s: %w", c.dist, rendezvousTime, err)
		}
	}
}

// routesOfSGLang adds what SGLang answers and vLLM does not. It has no /metrics without --enable-metrics, and its names
// are not simulated.
func (s *server) routesOfSGLang(route func(method, path string, h http.HandlerFunc)) {
	route("GET", "/health_generate", func(http.ResponseWriter, *http.Request) {})
	route("POST", "/flush_cache", func(w http.ResponseWriter, _ *http.Request) {
		if s.engine.blocks != nil {
			s.engine.blocks.reset()
		}
		io.WriteString(w, "Cache flushed (profllm sim).\n")
	})
	model := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"model_path": cmp.Or(s.knobs.faults.root, s.config.model), "tokenizer_path": s.config.model, "is_generation": true, "version": s.version(), "simulated": true,
		})
	}
	route("GET", "/get_model_info", model)
	route("GET", "/model_info", model)
	info := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"model_path": cmp.Or(s.knobs.faults.root, s.config.model), "tp_size": s.config.tp, "pp_size": s.config.pp, "max_running_requests": s.config.maxSeqs,
			"internal_states": []map[string]any{{}}, "version": s.version(), "simulated": true,
		})
	}
	route("GET", "/get_server_info", info)
	route("GET", "/server_info", info)
}

// launchRouter is python3 -m sglang_router.launch_router: profllm's proxy, which moves a request through prefill and then
// decode, where the real router sends it to both at once.
func (p Process) launchRouter(ctx context.Context, args []string) int {
	f := parseFlags(args)
	var servers []string
	seen := map[string]bool{}
	for i, a := range args[:max(len(args)-1, 0)] { // a kind is repeated for each of its servers
		if a == "--prefill" || a == "--decode" {
			servers, seen[a] = append(servers, a, args[i+1]), true
		}
	}
	if _, ok := f.values["pd-disaggregation"]; !ok || !seen["--prefill"] || !seen["--decode"] {
		return p.fail(exitUsage, errors.New("launch_router: only --pd-disaggregation with --prefill URL [PORT] and --decode URL is simulated"))
	}
	k, err := readKnobs(p.Env)
	if err != nil {
		return p.fail(exitUsage, err)
	}
	fmt.Fprintf(p.Stdout, "profllm sim: SGLang's router, simulated by profllm's proxy: %s\n", strings.Join(servers, " "))
	host := nodeHost(f.text("host", "127.0.0.1"), k.nodeAddr)
	return p.Proxy(ctx, append([]string{"--host", host, "--port", f.text("port", "30000")}, servers...), p.Stdout, p.Stderr)
}
