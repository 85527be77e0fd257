package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/tier"
)

// What a plan says of a port is what becomes of the run, here a rehearsal: a plan that
// is accepted measures, and no other is begun. Where the note says that an outgoing
// connection may take the port, one of this machine's may: that run says so, and
// another one measures.
//
// covers: CD-45, PL-G11
func TestPortsPlannedAreRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	type expected string
	const (
		runs    expected = "runs"
		noted   expected = "runs, with a note"
		refused expected = "refused"
	)
	shapes := []struct{ name, test string }{
		{"aggregated", "num_nodes = 1\n[Tests.cmd_args.decode]\n"},
		{"disaggregated", "num_nodes = 1\n[Tests.cmd_args.prefill]\n[Tests.cmd_args.decode]\n"},
		{"aggregated on Ray", "num_nodes = 2\n[Tests.cmd_args.decode]\n"},
		{"disaggregated on Ray", "num_nodes = 4\n[Tests.cmd_args.prefill]\nnum_nodes = 2\n[Tests.cmd_args.decode]\nnum_nodes = 2\n"},
	}
	inner := []int{8000, 15000, 20000, 40000} // not at the edge of a range
	for _, c := range []struct {
		port int
		want [4]expected // by shape
	}{
		{1024, [4]expected{runs, runs, runs, runs}},
		{8000, [4]expected{runs, runs, runs, runs}},
		{9999, [4]expected{runs, runs, runs, refused}}, // prefill is 100 above
		{10002, [4]expected{runs, runs, refused, refused}},
		{15000, [4]expected{runs, runs, refused, refused}},
		{19999, [4]expected{runs, runs, runs, runs}}, // in every slot but the first
		{20000, [4]expected{runs, runs, runs, runs}},
		{32768, [4]expected{noted, noted, noted, noted}},
		{40000, [4]expected{noted, noted, noted, noted}},
		{60999, [4]expected{runs, runs, runs, runs}}, // in every slot but the first
		{65000, [4]expected{runs, runs, runs, runs}},
	} {
		for i, shape := range shapes {
			t.Run(fmt.Sprintf("%d %s", c.port, shape.name), func(t *testing.T) {
				t.Parallel()
				if slices.Contains(inner, c.port) {
					tier.NeedsWhole(t)
				}
				dir := t.TempDir()
				require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), fmt.Appendf(nil, `name = "ports"
[[Tests]]
id = "t"
name = "t"
description = "d"
test_template_name = "vllm"
cmd_args.port = %d
bench_cmd_args = { num_prompts = 2, random_input_len = 8, random_output_len = 2 }
%s`, c.port, shape.test), 0o644))
				const note = "Linux uses ports 32768-60999 for outgoing connections"
				o := profllm(t, dir, nil, "rehearse", "s.toml", "--output-dir", "results")
				for again := 0; c.want[i] == noted && o.code == exitJobFailed && again < 3; again++ {
					require.Regexp(t, `cause port-in-use.*\b(?:3[2-9]|4\d)\d{3}\b`, o.stdout+o.stderr,
						"no other port may be taken")
					require.Contains(t, o.stdout+o.stderr, note)
					o = profllm(t, dir, nil, "rehearse", "s.toml", "--output-dir", fmt.Sprintf("again-%d", again))
				}
				if c.want[i] == refused {
					require.Equal(t, exitDefinition, o.code, o.stderr)
					require.Contains(t, o.stderr, "of Ray's workers")
					require.NoDirExists(t, filepath.Join(dir, "results"))
					return
				}
				require.Equal(t, exitOK, o.code, o.stdout+o.stderr)
				require.Contains(t, o.stdout, "2/2")
				if c.want[i] == noted {
					require.Contains(t, o.stdout+o.stderr, note)
				} else {
					require.NotContains(t, o.stdout+o.stderr, note)
				}
			})
		}
	}
}
