package vllm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// It ends as argparse does, and says what it is.
func TestServeRefuses(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := Serve(t.Context(),
		program.Process{Env: func(string) string { return "" }, Stdout: &stdout, Stderr: &stderr},
		strings.Fields("m --tensor-paralel-size 2"))
	require.Equal(t, program.Usage, code)
	require.Contains(t, stderr.String(),
		"usage: vllm serve [model_tag] [options]\nvllm: error: unrecognized arguments: --tensor-paralel-size 2\n")
	require.Contains(t, stderr.String(), "profllm sim: ")
}

func TestServeReadsWhatTheParserReturns(t *testing.T) {
	release, err := arguments.Serve.One(Release)
	require.NoError(t, err)
	args, err := release.Parse(strings.Fields("m -tp 4 --max-num-se 8 --served-model-name a b --no-enable-prefix-caching"))
	require.NoError(t, err)
	c, flags, err := parseServe(args)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, c.Names)
	require.Equal(t, []int{4, 8}, []int{c.TP, c.MaxSeqs})
	require.False(t, c.Prefix)
	require.Equal(t, []string{"tensor-parallel-size", "max-num-seqs", "served-model-name", "enable-prefix-caching"},
		flags.Names)
}

// An engine of another release has other flags.
func TestServeTakesEveryFlag(t *testing.T) {
	run := func(flags string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := Serve(t.Context(), program.Process{
			Stdout: &stdout, Stderr: &stderr,
			Env: func(name string) string { return map[string]string{"PROFLLM_SIM_FLAGS": flags}[name] },
		}, strings.Fields("m --enable-reasoning --port 99999999"))
		return code, stdout.String() + stderr.String()
	}
	code, text := run("")
	require.Equal(t, program.Usage, code)
	require.Contains(t, text, "PROFLLM_SIM_FLAGS=any")
	code, text = run("any")
	require.Equal(t, program.Failed, code, "by its port")
	require.Contains(t, text, "non-default args: m --enable-reasoning --port 99999999")
	code, text = run("some")
	require.Equal(t, program.Usage, code)
	require.Contains(t, text, `PROFLLM_SIM_FLAGS="some"`)
}
