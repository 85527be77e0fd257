//go:build linux && cgo

// Command profllm-nvml says what NVIDIA's library NVML knows of the GPUs of this
// machine, in lines that profllm reads (package gpu). It is a program of its own because
// profllm is static and cannot open a library. It changes nothing on a GPU.
//
//	profllm-nvml list        # a greeting, then one JSON line for each GPU
//	profllm-nvml watch 1000  # a greeting, then a line for each GPU every 1000 ms
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	library "github.com/NVIDIA/go-nvml/pkg/nvml"
	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/gpu/nvml"
)

const usage = `usage: profllm-nvml list          describe each GPU: a greeting, then one JSON line each
       profllm-nvml watch MS      sample each GPU every MS milliseconds, 10 to 60000
       profllm-nvml --version     print the version
`

// Exit codes are those of profllm.
const (
	exitInternal = 1
	exitUsage    = 2
)

func main() {
	// Slurm sends TERM to every process of a step, and profllm then still wants samples. It
	// ends this program itself; where it was killed, the pipe is closed.
	signal.Ignore(syscall.SIGTERM)
	os.Exit(run(context.Background(), library.New(), os.Args[1:], os.Stdout, os.Stderr))
}

// version comes from the build: a tag, or the revision.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func run(ctx context.Context, lib library.Interface, args []string, stdout, stderr io.Writer) int {
	interval := time.Duration(0)
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(stdout, version())
		return 0
	case len(args) == 1 && args[0] == "list":
	case len(args) == 2 && args[0] == "watch":
		ms, err := strconv.Atoi(args[1])
		if err != nil || ms < 10 || ms > 60_000 {
			fmt.Fprintf(stderr, "profllm-nvml: %q is not a number of milliseconds from 10 to 60000\n%s", args[1], usage)
			return exitUsage
		}
		interval = time.Duration(ms) * time.Millisecond
	default:
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	if err := read(ctx, lib, interval, stdout); err != nil {
		fmt.Fprintln(stderr, "profllm-nvml:", err)
		return exitInternal
	}
	return 0
}

// read prints the greeting and what follows it; interval is 0 for the list. An error is
// on stdout too, for profllm.
func read(ctx context.Context, lib library.Interface, interval time.Duration, stdout io.Writer) error {
	h, shut := nvml.Open(lib, version())
	defer shut()
	if err := line(stdout, h); err != nil {
		return err
	}
	if h.Error != "" {
		return errors.New(h.Error)
	}
	var err error
	if interval == 0 {
		err = nvml.List(lib, h.GPUs, func(d gpu.Device) error { return line(stdout, d) })
	} else {
		err = nvml.Watch(ctx, lib, h.GPUs, interval, time.Now, func(look []gpu.Sample) error {
			var b []byte
			for _, s := range look {
				b = s.Append(b)
			}
			_, err := stdout.Write(b) // one write: whoever reads gets whole looks
			return err
		})
	}
	if err != nil {
		_ = line(stdout, struct {
			Error string `json:"error"`
		}{err.Error()})
	}
	return err
}

// line prints a value as one line of JSON.
func line(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}
