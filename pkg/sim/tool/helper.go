package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Helper stands in for a process beside the servers, whatever its program is: it listens at
// the ports that it is given, if any, until it is told to end, and answers every GET with 200.
func Helper(ctx context.Context, p program.Process, args []string) int {
	var ports []string
	for len(args) > 1 && args[0] == "--port" {
		ports, args = append(ports, args[1]), args[2:]
	}
	if len(args) < 2 || args[0] != "--" {
		return p.Fail(program.Usage, errors.New("helper: want [--port PORT ...] -- COMMAND"))
	}
	fmt.Fprintf(p.Stdout, "profllm sim: nothing is stored or served; this stands for: %s\n",
		strings.Join(redact.Words(args[1:]), " "))
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "profllm sim\n") })
	for _, port := range ports {
		// Simulated nodes share a machine: each has an address of its own.
		l, err := net.Listen("tcp", net.JoinHostPort(p.Env("PROFLLM_NODE_ADDR"), port))
		if err != nil {
			return p.Fail(program.Failed, err)
		}
		server := &http.Server{Handler: answer}
		defer server.Close()
		go server.Serve(l)
		fmt.Fprintf(p.Stdout, "profllm sim: listening at port %s\n", port)
	}
	<-ctx.Done()
	return program.OK
}
