//go:build linux && cgo

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	library "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
)

// missing is a library that is not there.
func missing() *dgxa100.Server {
	s := dgxa100.New()
	s.InitFunc = func() library.Return { return library.ERROR_LIBRARY_NOT_FOUND }
	return s
}

func TestArguments(t *testing.T) {
	for args, want := range map[string]int{"": exitUsage, "help": exitUsage, "list all": exitUsage, "watch": exitUsage,
		"watch 9": exitUsage, "watch 60001": exitUsage,
		"watch 1s": exitUsage, "--version": 0, "list": exitInternal, "watch 1000": exitInternal} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, want, run(t.Context(), missing(), strings.Fields(args), &stdout, &stderr), args)
		require.Equal(t, want == exitUsage, strings.Contains(stderr.String(), "usage: profllm-nvml list"), args)
	}
}

// Without a library one line says so, for profllm, and another for people.
func TestWithoutLibrary(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInternal, run(t.Context(), missing(), []string{"list"}, &stdout, &stderr))
	var h gpu.Hello
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &h), "one line")
	require.Equal(t, gpu.Hello{Format: gpu.Format, Version: version(),
		Error: "libnvidia-ml.so.1 is not here, or cannot be opened", NoDriver: true}, h)
	require.Equal(t, "profllm-nvml: libnvidia-ml.so.1 is not here, or cannot be opened\n", stderr.String())
}

// What fails behind the first line is a last line.
func TestErrorBehindTheFirstLine(t *testing.T) {
	s := dgxa100.New()
	s.Devices[0].(*dgxa100.Device).GetUUIDFunc = func() (string, library.Return) {
		return "",
			library.ERROR_GPU_IS_LOST
	}
	for _, args := range [][]string{{"list"}, {"watch", "1000"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitInternal, run(t.Context(), s, args, &stdout, &stderr))
		require.Regexp(t, `^\{"profllm_nvml":1,.*"gpus":8\}\n\{"error":"nvml: device 0: uuid: .+"\}\n$`,
			stdout.String())
	}
}

// closed is a pipe that nobody reads any more.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestNobodyReads(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitInternal, run(context.Background(), dgxa100.New(), []string{"watch", "10"}, closed{}, &stderr))
	require.Equal(t, "profllm-nvml: broken pipe\n", stderr.String())
}
