package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A phase that fails has a record that says so. The next ones run if it says that the job goes on, and not if the test or
// the phase says that a failure is the last. Also a failure of the last phase fails the run.
//
// covers: U-35, U-38
func TestRehearsePhasesThatFail(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	const head = `name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
stop_on_failure = true
[Tests.bench_cmd_args]
max_concurrency = 4
num_prompts = 20
random_input_len = 16
random_output_len = 4
`
	phase := func(name, more string) string {
		return "[[Tests.phases]]\nname = \"" + name + "\"\n" + more + "bench_cmd_args = { seed = " + name[1:] + " }\n"
	}
	const bad, goOn = "before_load = \"exit 3\"\n", "stop_on_failure = false\n"
	for _, c := range []struct {
		text   string
		valid  []string
		failed []string
		absent string // the first that has no file of its client, "" for none
	}{
		{phase("p1", bad+goOn) + phase("p2", "") + phase("p3", bad) + phase("p4", ""), []string{"p2"}, []string{"p1", "p3"}, "p4"},
		{phase("p1", "") + phase("p2", bad+goOn), []string{"p1"}, []string{"p2"}, ""},
	} {
		t.Run(strings.Join(c.failed, " "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(head+c.text), 0o644))
			o := profllm(t, dir, nil, "rehearse", "s.toml")
			require.NotEqual(t, exitOK, o.code, o.stdout+o.stderr)
			all := runs(t, dir)
			require.Len(t, all, 1)
			for d := range all {
				for _, name := range c.valid {
					require.Equal(t, 20, *readResult(t, filepath.Join(d, name)).Results.CompletedRequests, name)
				}
				for _, name := range c.failed {
					r := readResult(t, filepath.Join(d, name))
					require.False(t, r.Validity.Valid, name)
					require.Contains(t, r.Validity.Check("phase-failed").Detail, name+"/bench ended with 3")
				}
				if c.absent != "" {
					files, err := filepath.Glob(filepath.Join(d, c.absent, "raw", "*"))
					require.NoError(t, err)
					require.Empty(t, files, "%s did not run", c.absent)
				}
			}
		})
	}
}
