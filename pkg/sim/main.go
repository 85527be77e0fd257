package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/sim/client"
	"github.com/profllm/profllm/pkg/sim/dynamo"
	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/sim/ray"
	"github.com/profllm/profllm/pkg/sim/sglang"
	"github.com/profllm/profllm/pkg/sim/tool"
	"github.com/profllm/profllm/pkg/sim/vllm"
)

// Main runs the simulated command and returns its exit code. Cancelling ctx is its SIGTERM.
func Main(ctx context.Context, p program.Process) int {
	if len(p.Args) == 0 {
		return p.Fail(program.Usage, errors.New("no command: want vllm, ray, python3, nsys, viztracer or nvidia-smi"))
	}
	switch name := filepath.Base(p.Args[0]); {
	case name == "vllm":
		return runVLLM(ctx, p, p.Args[1:])
	case name == "ray":
		return ray.Run(ctx, p, p.Args[1:])
	case name == "nsys":
		return tool.Nsys(ctx, p, p.Args[1:])
	case name == "viztracer":
		return tool.VizTracer(ctx, p, p.Args[1:])
	case name == "aiperf" || name == "genai-perf":
		return client.AIPerf(ctx, p, name, p.Args[1:])
	case name == "helper":
		return tool.Helper(ctx, p, p.Args[1:])
	case name == "nvidia-smi":
		return tool.SMI(ctx, p, p.Args[1:])
	case strings.HasPrefix(name, "python"):
		return runPython(ctx, p, p.Args[1:])
	case tool.Named(p, name) != nil:
		return tool.Named(p, name)(ctx, p.Args[1:])
	default:
		return p.Fail(program.Missing,
			fmt.Errorf("%q is not simulated: want vllm, ray, python3, nsys, viztracer or nvidia-smi", name))
	}
}

func runVLLM(ctx context.Context, p program.Process, args []string) int {
	switch {
	case len(args) >= 1 && (args[0] == "--version" || args[0] == "-v"):
		fmt.Fprintln(p.Stdout, program.Version)
		return program.OK
	case len(args) >= 1 && args[0] == "serve":
		return vllm.Serve(ctx, p, args[1:])
	case len(args) >= 2 && args[0] == "bench" && args[1] == "serve":
		return client.Bench(ctx, p, args[2:])
	case len(args) >= 2 && args[0] == "bench" && slices.Contains(tool.OfflineBenchmarks, args[1]):
		return tool.Offline(ctx, p, args[1], args[2:])
	default:
		last := len(tool.OfflineBenchmarks) - 1
		return p.Fail(program.Usage, fmt.Errorf("vllm %s is not simulated: want serve, or bench with serve, %s or %s",
			strings.Join(args, " "), strings.Join(tool.OfflineBenchmarks[:last], ", "), tool.OfflineBenchmarks[last]))
	}
}

func runPython(ctx context.Context, p program.Process, args []string) int {
	for len(args) > 0 && args[0] == "-u" {
		args = args[1:]
	}
	if len(args) == 0 {
		return p.Fail(program.Missing, errors.New("python3 without a script is not simulated"))
	}
	if args[0] == "-c" && len(args) > 1 && strings.HasPrefix(args[1], tool.RequestsProgram) {
		return tool.Offline(ctx, p, "requests", args[2:])
	}
	if args[0] == "-m" && len(args) > 1 && strings.HasPrefix(args[1], dynamo.Prefix) {
		return dynamo.Run(ctx, p, args[1], args[2:])
	}
	if args[0] == "-m" && len(args) > 1 {
		return sglang.Run(ctx, p, args[1], args[2:])
	}
	switch script := filepath.Base(args[0]); {
	case script == "gsm8k_eval.py":
		return client.GSM8K(ctx, p, args[1:])
	case script == "toy_proxy_server.py" && p.Proxy != nil:
		return p.Proxy(ctx, args[1:], p.Stdout, p.Stderr)
	default:
		return p.Fail(program.Missing,
			fmt.Errorf("%q is not simulated: want gsm8k_eval.py, toy_proxy_server.py or -m and a module of SGLang or "+
				"Dynamo", args[0]))
	}
}
