package vllm

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/sim/ray"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Release is the release of vLLM whose command line the simulation reads.
const Release = "0.32.0"

// Serve is `vllm serve`.
func Serve(ctx context.Context, p program.Process, args []string) int {
	args, code, ok := accepted(p, args)
	if !ok {
		return code
	}
	return Start(ctx, p, args, engine.Answer)
}

// Start starts the engine of a command line whose options were looked at, and has answer serve it.
func Start(ctx context.Context, p program.Process, args []string, answer engine.Answerer) int {
	start := time.Now()
	set, err := readSettings(p, args)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	c, k := set.config, set.knobs
	log := &engine.Logger{Writer: p.Stdout, Now: time.Now, PID: os.Getpid()}
	logStart(p, log, c, k, set.flags)

	if c.Ray && p.Env(ray.Real) == "" { // a real cluster was counted by whoever started us
		nodes, err := ray.Nodes(ctx, p)
		if err != nil {
			return engine.Die(p, log, program.Failed, "ConnectionError: "+err.Error())
		}
		log.Info("Connected to Ray cluster with %d nodes.", len(nodes))
	}
	if k.Planted.DieAtStart {
		return engine.Die(p, log, k.Planted.Exit, "ValueError: No available memory for the cache blocks. "+
			"Try increasing `gpu_memory_utilization` when initializing the engine.")
	}
	if engine.Absent(p, log, k) {
		<-ctx.Done()
		return program.OK
	}
	if err := findCache(ctx, p, &set.flags); err != nil {
		return engine.Die(p, log, program.Failed, err.Error())
	}
	end, err := meet(ctx, log, c, set.around)
	switch {
	case ctx.Err() != nil:
		log.Info("Shutting down before all nodes joined.")
		return program.OK
	case err != nil:
		return engine.Die(p, log, program.Failed, err.Error())
	}
	defer end()
	s := engine.NewServer(c, k, start)
	s.Dev = p.Env("VLLM_SERVER_DEV_MODE") == "1"
	listeners, err := engine.Bind(ctx, p, s)
	if err != nil {
		return engine.Die(p, log, program.Failed, "OSError: "+err.Error())
	}
	defer listeners.Close()
	if k.Planted.NeverReady || c.Headless || !program.Wait(ctx, k.Startup) {
		<-ctx.Done()
		log.Info("Shutting down before the server was ready.")
		return program.OK
	}
	engine.LogStart(log, c, time.Since(start))
	l, err := net.Listen("tcp", listeners.HTTP)
	if err != nil {
		return engine.Die(p, log, program.Failed, "OSError: "+err.Error())
	}
	return answer(ctx, p, s, l, log)
}

// releaseOf is a release, and behind commas the options that the engine has besides its own. They
// take whatever is given.
func releaseOf(s string) (*arguments.Release, error) {
	version, more, _ := strings.Cut(s, ",")
	var own []arguments.Difference
	for name := range strings.SplitSeq(more, ",") {
		if name != "" {
			own = append(own, arguments.Difference{Option: "--" + strings.ReplaceAll(name, "_", "-"), Form: arguments.Form{Values: "*"}, Whole: true})
		}
	}
	return arguments.Serve.With(own).One(cmp.Or(version, Release))
}

// accepted are the arguments as the simulated release of vLLM takes them; ok is false, with an
// exit code, if it refuses them.
func accepted(p program.Process, args []string) (_ []string, code int, ok bool) {
	s := cmp.Or(p.Env("PROFLLM_SIM_FLAGS"), Release)
	if s == "any" {
		return args, program.OK, true
	}
	release, err := releaseOf(s)
	if err != nil {
		return nil, p.Fail(program.Usage, knobs.Named("PROFLLM_SIM_FLAGS", s, "any, or a release of vLLM", err)), false
	}
	if args, err = release.Parse(args); err != nil {
		return nil, refuse(p, release.Version, err), false
	}
	if err := arguments.Startable(args); err != nil {
		return nil, p.Fail(program.Failed, fmt.Errorf("ValueError: %w", err)), false
	}
	return args, program.OK, true
}

// settings are what the command line and the environment say of a server.
type settings struct {
	config engine.Config
	flags  program.Flags
	around span
	knobs  knobs.Settings
}

func readSettings(p program.Process, args []string) (s settings, err error) {
	if s.config, s.flags, err = parseServe(args); err != nil {
		return s, fmt.Errorf("vllm serve: %w", err)
	}
	if s.around, err = parseSpan(&s.flags); err != nil {
		return s, fmt.Errorf("vllm serve: %w", err)
	}
	if s.knobs, err = knobs.Read(p.Env); err != nil {
		return s, err
	}
	release, _, _ := strings.Cut(p.Env("PROFLLM_SIM_FLAGS"), ",")
	if release != "" && release != "any" && arguments.Before(release, "0.13.0") {
		s.config.Profile = profilerOfEnv(p.Env)
	}
	s.config.Profile.Ranges = p.Env(engine.RangesVar)
	if key := p.Env("VLLM_API_KEY"); key != "" && len(s.config.APIKeys) == 0 {
		s.config.APIKeys = []string{key}
	}
	return s, nil
}

// refuse ends the process as argparse does.
func refuse(p program.Process, release string, err error) int {
	fmt.Fprintf(p.Stderr, "profllm sim: the flags are those of vllm "+release+"; PROFLLM_SIM_FLAGS=any takes those of every release\n"+
		"usage: vllm serve [model_tag] [options]\n%v\n", err)
	return program.Usage
}

func logStart(p program.Process, log *engine.Logger, c engine.Config, k knobs.Settings, flags program.Flags) {
	log.Info("vLLM API server version %s (simulated by profllm, no model is loaded), model %s", program.Version,
		c.Model)
	engine.LogConfig(p, log, c, k, flags)
}
