package vllm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

// How long a process waits for others. A head of data-parallel engines waits without a limit.
const (
	handshakeTime = 5 * time.Minute  // HANDSHAKE_TIMEOUT_MINS of v1/engine/core.py, 0.32
	storeTime     = 10 * time.Minute // torch.distributed's with NCCL
)

// Defaults of vLLM 0.32.0 (config/parallel.py).
const (
	loopback          = "127.0.0.1"
	defaultMasterPort = 29501
	defaultRPCPort    = 29550
)

// A span says how a process is one of a server's, on several nodes.
type span struct {
	nodes, node int    // --nnodes, --node-rank
	master      string // host:port at which nodes meet
	dp          int    // --data-parallel-size
	local       int    // data-parallel engines of this process
	start       int    // the first of them
	head        string // host:port at which data-parallel engines meet
	ray         bool   // Ray places the engines
	balanced    bool   // each process has an API server for its own engines
}

func parseSpan(f *program.Flags) (span, error) {
	s := span{ray: f.Text("data-parallel-backend", "mp") == "ray"}
	var masterPort, rpcPort int
	var errs []error
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
		least    int
	}{
		{&s.nodes, "nnodes", 1, 1},
		{&s.node, "node-rank", 0, 0},
		{&s.dp, "data-parallel-size", 1, 1},
		{&s.start, "data-parallel-start-rank", 0, 0},
		{&masterPort, "master-port", defaultMasterPort, 1},
		{&rpcPort, "data-parallel-rpc-port", defaultRPCPort, 1},
	} {
		n, err := f.Size(x.name, x.fallback, x.least)
		errs = append(errs, err)
		*x.to = n
	}
	local, err := f.Size("data-parallel-size-local", s.dp, 0)
	s.local = local
	master := f.Text("master-addr", loopback)
	s.master = net.JoinHostPort(master, strconv.Itoa(masterPort))
	s.head = net.JoinHostPort(f.Text("data-parallel-address", master), strconv.Itoa(rpcPort))
	errs = append(errs, err, s.balance(f))
	return s, errors.Join(errs...)
}

// balance reads how several API servers share the ranks (engine/arg_utils.py, 0.32): each has one
// with --data-parallel-rank, and with --data-parallel-start-rank those from there on.
func (s *span) balance(f *program.Flags) error {
	_, hasRank := f.Values["data-parallel-rank"]
	_, hasStart := f.Values["data-parallel-start-rank"]
	_, hasLocal := f.Values["data-parallel-size-local"]
	external := hasRank || f.Bool("data-parallel-external-lb", false)
	s.balanced = external || f.Bool("data-parallel-hybrid-lb", false) ||
		hasStart && hasLocal && !f.Bool("headless", false)
	if !external {
		return nil
	}
	rank, err := f.Size("data-parallel-rank", 0, 0)
	s.start, s.local = rank, 1
	return err
}

// meet waits for the other processes of a server over several nodes, in vLLM's ways: those of
// --nnodes at the master's address, data-parallel engines at that of the head.
func meet(ctx context.Context, log *engine.Logger, c engine.Config, s span) (end func(), err error) {
	switch {
	case s.nodes > 1:
		return meetMaster(ctx, log, c, s)
	case s.dp > 1 && c.Headless:
		log.Info("Launching %d data parallel engine(s) in headless mode, with head node address tcp://%s.", s.local,
			s.head)
		return meetHead(ctx, s)
	case s.dp > s.local && s.balanced && s.start > 0:
		return meetHead(ctx, s)
	case s.dp > s.local && !c.Ray && !s.ray:
		return meetEngines(ctx, log, s)
	}
	return func() {}, nil
}

// meetHead is a process whose engines announce themselves to the head: a headless one, or one that
// has an API server for its own engines.
func meetHead(ctx context.Context, s span) (func(), error) {
	peers := engine.Peers{Address: s.head, Own: numbers(s.start, s.start+s.local), Patience: handshakeTime}
	_, end, err := peers.Meet(ctx)
	if _, missing := errors.AsType[*engine.MissingError](err); missing {
		err = fmt.Errorf("RuntimeError: Did not receive response from front-end process within %g minutes",
			handshakeTime.Minutes())
	}
	return end, err
}

// meetEngines is the head of data-parallel engines.
func meetEngines(ctx context.Context, log *engine.Logger, s span) (func(), error) {
	waiting := func(missing int) { // vLLM says so at the level DEBUG
		log.Info("Waiting for 0 local, %d remote core engine proc(s) to connect.", missing)
	}
	_, end, err := engine.Peers{Address: s.head, Expected: numbers(s.local, s.dp), Waiting: waiting}.Meet(ctx)
	if stranger, is := errors.AsType[*engine.StrangerError](err); is {
		err = fmt.Errorf("RuntimeError: Message from engine with unexpected data parallel rank: %d", stranger.Rank)
	}
	if err == nil {
		log.Info("%d local and %d remote core engine proc(s) are connected.", s.local, s.dp-s.local)
	}
	return end, err
}

// meetMaster is a node of --nnodes.
func meetMaster(ctx context.Context, log *engine.Logger, c engine.Config, s span) (func(), error) {
	peers := engine.Peers{Address: s.master, Expected: numbers(1, s.nodes), Patience: storeTime}
	if s.node > 0 {
		peers.Own = []int{s.node}
		log.Info("Launching vLLM (v%s) headless multiproc executor, with head node address %s for torch.distributed process group.",
			Release, s.master)
	}
	_, end, err := peers.Meet(ctx)
	missing, isMissing := errors.AsType[*engine.MissingError](err)
	_, isStranger := errors.AsType[*engine.StrangerError](err)
	switch workers := c.TP * c.PP * s.dp; {
	case isStranger:
		err = fmt.Errorf("torch.distributed.DistNetworkError: %w", err)
	case isMissing && s.node > 0:
		host, port, _ := net.SplitHostPort(s.master)
		err = inTorch("DistNetworkError: The client socket has timed out after %dms while trying to connect to (%s, %s).",
			storeTime.Milliseconds(), host, port)
	case isMissing:
		err = inTorch("DistStoreError: Timed out after %d seconds waiting for clients. %d/%d clients joined.",
			int(storeTime.Seconds())+1, workers/s.nodes*(1+missing.Joined), workers)
	}
	return end, err
}

// inTorch is an error in the words of torch.distributed, which are sentences.
func inTorch(format string, args ...any) error {
	return errors.New("torch.distributed." + fmt.Sprintf(format, args...))
}

// numbers are those from first to before end.
func numbers(first, end int) []int {
	list := []int{}
	for i := first; i < end; i++ {
		list = append(list, i)
	}
	return list
}
