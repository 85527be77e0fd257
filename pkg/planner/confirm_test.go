package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

const oldTest = "[[Tests]]\nid = \"old\"\ntest_template_name = \"vllm\"\ntime_limit = \"10m\"\nbench_cmd_args = { num_prompts = 80 }\n"

// confirmed plans two pairs of the test in each of two scenarios.
func confirmed(t *testing.T, c planner.Confirmation, first, second string) (*planner.Set, error) {
	t.Helper()
	sys, err := config.Parse("site.toml", []byte(site))
	require.NoError(t, err)
	c.Name, c.Pairs = "confirm-s", 4
	for i, text := range []string{first, second} {
		s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte("name = \"s\"\n" + text)}, nil,
			scenario.HookFiles{})
		require.NoError(t, err)
		c.Sides[i] = planner.Side{Scenario: s, System: sys, Test: s.Tests[0]}
	}
	return planner.Confirm(c, options)
}

func short(dirs ...string) string {
	return strings.ReplaceAll(strings.Join(dirs, " "), "/out/confirm-s_2026-03-04_05-06-07/", "")
}

// Turns in the order A B B A, in one allocation where the two ask for the same.
//
// covers: PL-Q13
func TestConfirm(t *testing.T) {
	newTest := strings.Replace(oldTest, `"old"`, `"new"`, 1) + "iterations = 3\nrepeat = 6\n"
	got, err := confirmed(t, planner.Confirmation{}, oldTest, newTest)
	require.NoError(t, err)
	require.Len(t, got.Batches, 1)
	b := got.Batches[0]
	require.Equal(t, plan.Sequence, b.Kind)
	require.Equal(t, "first/old/0 second/new/0 second/new/1 first/old/1 first/old/2 second/new/2 second/new/3 first/old/3", short(b.Runs...))
	require.Empty(t, b.Job.After)
	ids := map[string]bool{}
	for i, p := range got.Plans {
		require.Equal(t, b.Runs[i], p.Dir)
		require.Len(t, p.Loads, 1, "every run measures once")
		require.Len(t, p.Job.After, min(i, 2))
		ids[p.RunID] = true
	}
	require.Len(t, ids, 8)
	require.Equal(t, []plan.After{{Type: "afterok", Dir: b.Runs[0]}, {Type: "afterok", Dir: b.Runs[1]}},
		got.Plans[7].Job.After)
	require.Equal(t, []string{`s.toml:2:3: iterations of test "new" has no effect on a confirmation`,
		`s.toml:2:3: repeat of test "new" has no effect on a confirmation`}, got.Plans[0].Notes)

	// What does not fit into one allocation is a chain of jobs.
	for name, second := range map[string]string{
		"the first test needs 1 nodes, the second 2": strings.Replace(newTest, "time_limit", "num_nodes = 2\ntime_limit", 1),
		`asks for partition "q"`:                     newTest + "[Tests.slurm]\npartition = \"q\"\n",
		"one after the other, on the nodes":          "",
	} {
		c := planner.Confirmation{Jobs: second == ""}
		if c.Jobs {
			second = newTest
		}
		got, err := confirmed(t, c, oldTest, second)
		require.NoError(t, err, name)
		require.Empty(t, got.Batches)
		require.Contains(t, strings.Join(got.Plans[0].Notes, "\n"), name)
		var waits []string
		for _, a := range got.Plans[3].Job.After {
			waits = append(waits, a.Type+":"+short(a.Dir))
		}
		require.Equal(t, []string{"afterok:first/old/0", "afterok:second/new/0", "afterany:second/new/1"}, waits)
	}

	// Where a scenario goes on after failures, so does this.
	got, err = confirmed(t, planner.Confirmation{Jobs: true}, "job_status_check = false\n"+oldTest, newTest)
	require.NoError(t, err)
	require.Equal(t, "afterany:first/old/0", got.Plans[1].Job.After[0].Type+":"+short(got.Plans[1].Job.After[0].Dir))
	require.Len(t, got.Plans[5].Job.After, 1)

	_, err = confirmed(t, planner.Confirmation{}, oldTest, grid)
	require.ErrorContains(t, err, "s.toml:2:3: test \"a\" is a sweep, but confirm compares single points\n\thint: ")
}

// Of a series that may end early every repeat is planned.
//
// covers: PL-Q14
func TestRepeatUntil(t *testing.T) {
	got, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nrepeat = { precision = \"1%\", max = 9, time = \"20m\" }\n", scenario.HookFiles{}, options)
	require.NoError(t, err)
	loads := got.Plans[0].Loads
	require.Len(t, loads, 9)
	for i, l := range loads {
		require.Equal(t, &plan.Repeat{
			Group: loads[0].Repeat.Group, Index: i, Of: 9,
			Until: &plan.Until{Percent: 1, Metrics: []string{"output_throughput"}, Time: plan.Seconds(20 * 60e9)},
		}, l.Repeat)
	}
}
