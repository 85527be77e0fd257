package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

func parseServe(args []string) (engine.Config, program.Flags, error) {
	f := program.ParseFlags(args)
	c := engine.Config{
		Host:     f.Text("host", ""),
		Prefix:   f.Bool("enable-prefix-caching", true),
		APIKeys:  f.Values["api-key"],
		Headless: f.Bool("headless", false),
		Ray:      f.Text("distributed-executor-backend", "") == "ray",
		Pooling:  pools(f),
	}
	c.Model = f.Text("model", "")
	if len(f.Positional) > 0 {
		c.Model = f.Positional[0]
	}
	var errs []error
	if c.Model == "" {
		errs = append(errs, errors.New("no model: write it right after serve"))
	}
	if len(f.Positional) > 1 {
		errs = append(errs, fmt.Errorf("unrecognized arguments: %s", strings.Join(f.Positional[1:], " ")))
	}
	if _, ok := f.Values["config"]; ok {
		errs = append(errs, errors.New("--config is not simulated: give the flags themselves"))
	}
	c.Names = f.Values["served-model-name"]
	if len(c.Names) == 0 {
		c.Names = []string{c.Model}
	}
	if v := f.Text("max-model-len", ""); v == "auto" || v == "-1" {
		f.Values["max-model-len"] = nil
	}
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
		least    int
	}{
		{&c.Port, "port", engine.DefaultPort, 0},
		{&c.MaxLen, "max-model-len", engine.DefaultMaxLen, 1},
		{&c.MaxSeqs, "max-num-seqs", engine.DefaultMaxSeqs, 1},
		{&c.BlockSize, "block-size", engine.DefaultBlockSize, 1},
		{&c.TP, "tensor-parallel-size", 1, 1},
		{&c.PP, "pipeline-parallel-size", 1, 1},
	} {
		n, err := f.Size(x.name, x.fallback, x.least)
		if err != nil {
			errs = append(errs, err)
		}
		*x.to = n
	}
	for _, read := range []func(*engine.Config, *program.Flags) error{readConnector, readProfiler,
		readAdapters, readDraft} {
		if err := read(&c, &f); err != nil {
			errs = append(errs, err)
		}
	}
	return c, f, errors.Join(errs...)
}

// readProfiler takes the profiler from the JSON of --profiler-config or its dotted form.
func readProfiler(c *engine.Config, f *program.Flags) error {
	gzip := f.Bool("profiler-config.torch-profiler-use-gzip", true)
	v := struct {
		Profiler       string `json:"profiler"`
		Dir            string `json:"torch_profiler_dir"`
		UseGzip        *bool  `json:"torch_profiler_use_gzip"`
		IgnoreFrontend bool   `json:"ignore_frontend"`
	}{
		f.Text("profiler-config.profiler", ""), f.Text("profiler-config.torch-profiler-dir", ""), &gzip,
		f.Bool("profiler-config.ignore-frontend", false),
	}
	if text := f.Text("profiler-config", ""); text != "" {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return fmt.Errorf("--profiler-config: %w", err)
		}
	}
	switch {
	case v.Profiler == "" && v.Dir == "":
		return nil
	case v.Profiler == "torch" && v.Dir == "":
		return errors.New("--profiler-config: torch_profiler_dir must be set when profiler is 'torch'")
	case v.Profiler != "torch" && v.Dir != "":
		return errors.New("--profiler-config: torch_profiler_dir is only applicable when profiler is set to 'torch'")
	}
	c.Profile = engine.Profile{Kind: v.Profiler, Dir: v.Dir, Plain: v.UseGzip != nil && !*v.UseGzip,
		Frontend: !v.IgnoreFrontend}
	return nil
}

// profilerOfEnv takes the profiler of releases before 0.13.0 from its variables.
func profilerOfEnv(env func(string) string) engine.Profile {
	off := func(name string) bool { return env(name) == "0" }
	switch dir := env("VLLM_TORCH_PROFILER_DIR"); {
	case dir != "":
		return engine.Profile{Kind: "torch", Dir: dir, Plain: off("VLLM_TORCH_PROFILER_USE_GZIP"),
			Frontend: env("VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM") == "" || off("VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM")}
	case env("VLLM_TORCH_CUDA_PROFILE") != "" && !off("VLLM_TORCH_CUDA_PROFILE"):
		return engine.Profile{Kind: "cuda"}
	}
	return engine.Profile{}
}
