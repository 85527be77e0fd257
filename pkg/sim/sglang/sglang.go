// Package sglang stands in for SGLang's Python modules: server, router, load client and evaluation.
package sglang

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Run runs one of SGLang's Python modules.
func Run(ctx context.Context, p program.Process, module string, args []string) int {
	router, client := slices.Contains(routers, module), slices.Contains(clients, module)
	if real := p.Env(knobs.SGLangVar); real != "" && (router || client) {
		return runReal(p, real, client, append([]string{real, "-m", module}, args...))
	}
	switch {
	case module == "sglang.launch_server":
		return launchServer(ctx, p, args)
	case router && p.Proxy != nil:
		return launchRouter(ctx, p, args)
	case client:
		return benchServing(ctx, p, module, args)
	case module == "sglang.test.run_eval":
		return runEval(ctx, p, args)
	}
	return p.Fail(program.Missing,
		fmt.Errorf("python3 -m %s is not simulated: want sglang.launch_server, %s, %s or sglang.test.run_eval", module,
			strings.Join(routers, ", "), strings.Join(clients, ", ")))
}

// The modules of SGLang's router and of its client, under all their names: the router is smg since
// it left SGLang's repository, the client sglang.benchmark.serving since 0.5.15.
var (
	routers = []string{"sglang_router.launch_router", "smg.launch_router"}
	clients = []string{"sglang.bench_serving", "sglang.benchmark.serving"}
)

// runReal becomes SGLang's own program. Its client measures real time, so that a faster
// simulation would be its result.
func runReal(p program.Process, python string, client bool, argv []string) int {
	n, err := knobs.Speed(p.Env)
	if err == nil && client && n > 1 {
		err = fmt.Errorf("SGLang's real client knows nothing of simulated time that passes %d times faster\n"+
			"\thint: add --speed 1", n)
	}
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	return p.Fail(program.Failed, fmt.Errorf("run %s: %w", python, syscall.Exec(python, argv, p.Environ)))
}

// sglangConfig is what the simulated SGLang server takes from its flags beside those of every
// engine.
type sglangConfig struct {
	engine.Config
	dist        string // host:port of the rendezvous; empty for one node
	nodes, rank int
	bootstrap   int // prefill's bootstrap port
}

// Defaults of SGLang.
const (
	sglangPort      = 30000
	sglangBootstrap = 8998
)

// switches are options of SGLang that take no value (store_true). A value is what argparse
// calls unrecognized.
var switches = []string{
	"disable-cuda-graph", "disable-radix-cache", "enable-dp-attention", "enable-hierarchical-cache", "enable-metrics", "enable-mixed-chunk",
	"enable-torch-compile",
	"skip-server-warmup", "skip-tokenizer-init", "trust-remote-code", "disable-overlap-schedule",
	"enable-deterministic-inference",
}

// sglangFlags reads SGLang's command line, and refuses what its parser would.
func sglangFlags(args []string) (program.Flags, error) {
	f := program.ParseFlags(args)
	left := slices.Clone(f.Positional)
	for _, name := range switches {
		left = append(left, f.Values[name]...)
	}
	if len(left) > 0 {
		return f, fmt.Errorf("unrecognized arguments: %s", strings.Join(left, " "))
	}
	return f, nil
}

// spelling returns which of an option's names was used, else the first.
func spelling(f *program.Flags, names ...string) string {
	for _, n := range names {
		if f.Values[n] != nil {
			return n
		}
	}
	return names[0]
}

func parseLaunch(args []string) (sglangConfig, program.Flags, error) {
	f, err := sglangFlags(args)
	errs := []error{err}
	c := sglangConfig{dist: f.Text("dist-init-addr", "")}
	c.SGLang = true
	c.Host = f.Text("host", "127.0.0.1")
	_, off := f.Values["disable-radix-cache"]
	c.Prefix = !off
	c.APIKeys = f.Values["api-key"]
	if c.Model = f.Text(spelling(&f, "model-path", "model"), ""); c.Model == "" {
		errs = append(errs, errors.New("the following arguments are required: --model-path/--model"))
	}
	c.Names = []string{f.Text("served-model-name", c.Model)}
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
		least    int
	}{
		{&c.Port, "port", sglangPort, 0},
		{&c.MaxLen, "context-length", engine.DefaultMaxLen, 1},
		{&c.MaxSeqs, "max-running-requests", engine.DefaultMaxSeqs, 1},
		{&c.BlockSize, "page-size", engine.DefaultBlockSize, 1},
		{&c.TP, spelling(&f, "tensor-parallel-size", "tp-size", "tp"), 1, 1},
		{&c.PP, spelling(&f, "pipeline-parallel-size", "pp-size", "pp"), 1, 1},
		{&c.nodes, "nnodes", 1, 1},
		{&c.rank, "node-rank", 0, 0},
		{&c.bootstrap, "disaggregation-bootstrap-port", sglangBootstrap, 1},
	} {
		n, err := f.Size(x.name, x.fallback, x.least)
		errs = append(errs, err)
		*x.to = n
	}
	switch mode := f.Text("disaggregation-mode", "null"); mode {
	case "null":
	case "prefill", "decode":
		c.Connector, c.Consumer = f.Text("disaggregation-transfer-backend", "mooncake"), mode == "decode"
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
func launchServer(ctx context.Context, p program.Process, args []string) int {
	return Start(ctx, p, args, engine.Answer)
}

// Start starts SGLang's engine, and has answer serve it.
func Start(ctx context.Context, p program.Process, args []string, answer engine.Answerer) int {
	start := time.Now()
	c, flags, err := parseLaunch(args)
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("launch_server: %w", err))
	}
	k, err := knobs.Read(p.Env)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	log := &engine.Logger{Writer: p.Stdout, Now: time.Now, PID: os.Getpid()}
	log.Info("SGLang server %s (simulated by profllm, no model is loaded), model %s, node %d of %d", program.Version,
		c.Model, c.rank, c.nodes)
	engine.LogConfig(p, log, c.Config, k, flags)
	if k.Planted.DieAtStart {
		return engine.Die(p, log, k.Planted.Exit,
			"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
	}
	if engine.Absent(p, log, k) {
		<-ctx.Done()
		return program.OK
	}
	ctx, end, err := rendezvous(ctx, c)
	if err != nil {
		return engine.Die(p, log, program.Failed, "torch.distributed.DistNetworkError: "+err.Error())
	}
	defer end()
	if c.rank > 0 {
		log.Info("joined %s as node %d of %d", c.dist, c.rank, c.nodes)
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), engine.ErrFirstGone) {
			return engine.Die(p, log, program.Failed,
				"torch.distributed.DistBackendError: the head at "+c.dist+" is gone")
		}
		return program.OK
	}
	s := engine.NewServer(c.Config, k, start)
	p.Env = sideChannel(p.Env, c)
	listeners, err := engine.Bind(ctx, p, s)
	if err != nil {
		return engine.Die(p, log, program.Failed, "OSError: "+err.Error())
	}
	defer listeners.Close()
	if k.Planted.NeverReady || !program.Wait(ctx, k.Startup) {
		<-ctx.Done()
		log.Info("Shutting down before the server was ready.")
		return program.OK
	}
	l, err := net.Listen("tcp", listeners.HTTP)
	if err != nil {
		return engine.Die(p, log, program.Failed, "OSError: "+err.Error())
	}
	return answer(ctx, p, s, l, log)
}

// sideChannel gives the simulated connector its address: prefill's bootstrap port, and any port
// for decode, from which nobody fetches.
func sideChannel(env func(string) string, c sglangConfig) func(string) string {
	host, _, err := net.SplitHostPort(c.dist)
	if err != nil {
		host = env("SGLANG_HOST_IP")
	}
	port := c.bootstrap
	if c.Consumer {
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

// rendezvous plays torch.distributed: node 0 listens at --dist-init-addr until every other rank
// has said its number, and each once; the others connect and stay connected. The context it
// returns ends with ctx, and on a worker with the head.
func rendezvous(ctx context.Context, c sglangConfig) (context.Context, func(), error) {
	if c.nodes == 1 {
		return ctx, func() {}, nil
	}
	peers := engine.Peers{Address: c.dist, Patience: rendezvousTime}
	for rank := 1; rank < c.nodes; rank++ {
		peers.Expected = append(peers.Expected, rank)
	}
	if c.rank > 0 {
		peers.Own = []int{c.rank}
	}
	joined, end, err := peers.Meet(ctx)
	missing, isMissing := errors.AsType[*engine.MissingError](err)
	stranger, isStranger := errors.AsType[*engine.StrangerError](err)
	switch {
	case isStranger:
		err = fmt.Errorf("node rank %d from %s: want each of 1-%d once (%v)", stranger.Rank, stranger.From, c.nodes-1,
			stranger.Err)
	case isMissing && c.rank > 0:
		err = fmt.Errorf("no node 0 at %s after %s: %w", c.dist, rendezvousTime, missing.Err)
	case isMissing:
		err = fmt.Errorf("%d of %d nodes joined at %s: %w", 1+missing.Joined, c.nodes, c.dist, missing.Err)
	}
	return joined, end, err
}

// launchRouter is python3 -m sglang_router.launch_router: profllm's proxy, which moves a
// request through prefill and then decode, where the real router sends it to both at once.
func launchRouter(ctx context.Context, p program.Process, args []string) int {
	f := program.ParseFlags(args)
	var servers []string
	seen := map[string]bool{}
	for i, a := range args[:max(len(args)-1, 0)] { // a kind is repeated for each of its servers
		if a == "--prefill" || a == "--decode" {
			servers, seen[a] = append(servers, a, args[i+1]), true
		}
	}
	if _, ok := f.Values["pd-disaggregation"]; !ok || !seen["--prefill"] || !seen["--decode"] {
		return p.Fail(program.Usage,
			errors.New("launch_router: only --pd-disaggregation with --prefill URL [PORT] and --decode URL is simulated"))
	}
	k, err := knobs.Read(p.Env)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	fmt.Fprintf(p.Stdout, "profllm sim: SGLang's router, simulated by profllm's proxy: %s\n",
		strings.Join(servers, " "))
	host := engine.NodeHost(f.Text("host", "127.0.0.1"), k.NodeAddr)
	return p.Proxy(ctx, append([]string{"--host", host, "--port", f.Text("port", "30000")}, servers...), p.Stdout,
		p.Stderr)
}
