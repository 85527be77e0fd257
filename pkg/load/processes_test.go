package load

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/load/loadtest"
)

// sharing returns options whose other processes are this test binary.
func sharing(t *testing.T, s *loadtest.Server, line string) Options {
	t.Helper()
	o := against(t, s, line)
	args := strings.Fields("--model tiny --base-url " + s.URL() +
		" --num-prompts 20 --random-input-len 8 --random-output-len 4 " + line)
	o.Again = func(ctx context.Context, more ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0], slices.Concat(args, more)...)
		cmd.Env = append(os.Environ(), "PROFLLM_LOAD_ROLE=client")
		return cmd
	}
	return o
}

// Several processes send the requests of one, each once, and the result is over all of them.
func TestProcessesShareALoad(t *testing.T) {
	const line = "--num-prompts 50 --max-concurrency 7 --save-detailed --random-range-ratio 0.5 --seed 3"
	alone := start(t, loadtest.Options{Keep: true})
	one, err := Run(t.Context(), against(t, alone, line), time.Now, io.Discard, io.Discard)
	require.NoError(t, err)

	together := start(t, loadtest.Options{Keep: true})
	r, err := Run(t.Context(), sharing(t, together, line+" --processes 3"), time.Now, io.Discard, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, 3, r.Client.Processes)
	require.Equal(t, 3, r.Client.Loops)
	require.Positive(t, r.Client.ClockError)
	require.Equal(t, 50, r.Completed)
	require.LessOrEqual(t, r.PeakRequests, 7)
	require.Equal(t, one.InputTokens, r.InputTokens)
	require.Equal(t, one.OutputTokens, r.OutputTokens)
	for i := range r.ended {
		require.Equal(t, one.ended[i].Input, r.ended[i].Input)
		require.Equal(t, one.ended[i].Output, r.ended[i].Output)
		require.GreaterOrEqual(t, r.ended[i].Tokens[0], r.ended[i].Start)
	}
	require.ElementsMatch(t, alone.Bodies(), together.Bodies())
}

// A rate is that of all processes, and a schedule that of one.
func TestProcessesShareARate(t *testing.T) {
	s := start(t, loadtest.Options{})
	r, err := Run(t.Context(), sharing(t, s, "--num-prompts 60 --request-rate 200 --processes 2"), time.Now,
		io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 60, r.Completed)
	require.InDelta(t, 0.3, r.Client.LastSend, 0.3) // it may be late
	for i := 1; i < len(r.ended); i++ {
		require.GreaterOrEqual(t, r.ended[i].Due, r.ended[i-1].Due)
	}
}

// A load ends when one of its processes does, and says which.
func TestLostProcess(t *testing.T) {
	s := start(t, loadtest.Options{TTFT: time.Millisecond, ITL: time.Hour})
	o := sharing(t, s, "--max-concurrency 20 --processes 2")
	var child atomic.Pointer[exec.Cmd]
	again := o.Again
	o.Again = func(ctx context.Context, more ...string) *exec.Cmd {
		child.Store(again(ctx, more...))
		return child.Load()
	}
	kill := make(chan struct{})
	go func() {
		defer close(kill)
		await.True(t, func() bool { return s.Truth().MaxInFlight == 20 }, "all requests are in flight")
		child.Load().Process.Kill()
	}()
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	<-kill
	require.ErrorIs(t, err, ErrInterrupted)
	require.ErrorContains(t, err, "client process 1")
	require.True(t, r.Client.Partial)
}

// A process that cannot take part ends the load before it begins.
func TestUnfitProcess(t *testing.T) {
	s := start(t, loadtest.Options{})
	for why, again := range map[string]func(o *Options){
		"exit status 1": func(o *Options) {
			o.Again = func(ctx context.Context, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "false") }
		},
		"executable file not found": func(o *Options) {
			o.Again = func(ctx context.Context, _ ...string) *exec.Cmd {
				return exec.CommandContext(ctx, "no-such-program")
			}
		},
		"has other options": func(o *Options) {
			again := o.Again
			o.Again = func(ctx context.Context, more ...string) *exec.Cmd {
				return again(ctx, append(more, "--seed", "77")...)
			}
		},
	} {
		t.Run(why, func(t *testing.T) {
			o := sharing(t, s, "--processes 2")
			again(&o)
			_, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
			require.ErrorContains(t, err, why)
		})
	}
	require.Zero(t, s.Truth().Streams)
}

func TestProcessOptions(t *testing.T) {
	for line, want := range map[string]string{
		"--processes 2":                              "",
		"--processes 0":                              "must be 1 or more",
		"--processes 21":                             "each needs one",
		"--processes 3 --max-concurrency 2":          "each needs one",
		"--rank 1":                                   "need --rendezvous",
		"--rendezvous x --ranks 2 --rank 2":          "must be 0 to 1",
		"--rendezvous x --ranks 2 --processes 2":     "exclude each other",
		"--rendezvous x --ranks 2 --rank 1":          "",
		"--rendezvous x":                             "",
		"--rendezvous x --rank 1":                    "--rank needs --ranks",
		"--rendezvous x --ranks 20 --rank 19":        "",
		"--rendezvous x --ranks 21 --rank 19":        "each needs one",
		"--rendezvous x --ranks 2 --rank -1":         "must be 0 to 1",
		"--num-prompts 20 --processes 20 --seed 1":   "",
		"--processes 2 --max-concurrency 2 --seed 2": "",
	} {
		o, err := ParseArgs(strings.Fields("--model tiny --num-prompts 20 " + line))
		if err == nil {
			err = o.Validate()
		}
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

func TestRanksFromSlurm(t *testing.T) {
	env := map[string]string{"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}
	lookUp := func(name string) string { return env[name] }
	p := Shared{Rendezvous: filepath.Join(t.TempDir(), "r")}
	require.NoError(t, p.InSlurm(lookUp))
	require.Equal(t, 2, p.Rank)
	require.Equal(t, 4, p.Ranks)
	given := Shared{Rendezvous: "r", Rank: 1, Ranks: 2}
	require.NoError(t, given.InSlurm(lookUp))
	require.Equal(t, 1, given.Rank)
	outside := Shared{}
	require.NoError(t, outside.InSlurm(lookUp))
	require.Zero(t, outside.Ranks)
	delete(env, "SLURM_NTASKS")
	require.ErrorContains(t, (&Shared{Rendezvous: "r"}).InSlurm(lookUp), `SLURM_NTASKS is ""`)
}

// Command lines that send the same load have the same digest, wherever results and servers are.
func TestCommandDigest(t *testing.T) {
	of := func(line string) string { return CommandDigest(strings.Fields(line), "base-url", "port") }
	want := of("vllm bench serve --model m --base-url http://a --random-input-len 8")
	for _, same := range []string{
		"vllm bench serve --model m --base-url=http://b:2 --random-input-len 8 --result-dir x --save-result",
		"vllm bench serve --save-result --model m --port 9 --result_dir=y --random-input-len 8",
		"vllm bench serve --model m --metadata tp=4 note=x --label l --random-input-len 8",
	} {
		require.Equal(t, want, of(same), same)
	}
	for _, other := range []string{
		"vllm bench serve --model n --base-url http://a --random-input-len 8", "vllm bench serve --model m --random-input-len 9",
		"other --model m --base-url http://a --random-input-len 8",
	} {
		require.NotEqual(t, want, of(other), other)
	}
}
