package planner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

// A value in a list of a sweep is refused, at its own place, if it would be refused alone.
func TestCheckLooksAtEachValueOfAList(t *testing.T) {
	t.Parallel()
	const (
		client = "[Tests.bench_cmd_args]\nnum_prompts = 100\n"
		server = "[Tests.cmd_args.decode]\n"
	)
	for _, c := range []struct{ table, key, good, bad string }{
		{client, "max_concurrency", "1", "0"},
		{client, "max_concurrency", "1", "-3"},
		{client, "max_concurrency", "1", `"x"`},
		{client, "max_concurrency", "1", "2.5"},
		{client, "max_concurrency", "1", "true"},
		{client, "random_input_len", "1", "-1"},
		{client, "request_rate", "1", `"x"`},
		{server, "tensor_parallel_size", "1", "0"},
		{server, "tensor_parallel_size", "1", `"x"`},
		{"", "num_nodes", "1", "0"},
		{"", "num_nodes", "1", "-1"},
	} {
		check := func(value string) error {
			table := c.table
			if table == "" {
				table = "time_limit = '20m'\n"
			}
			text := "name = 's'\n[[Tests]]\nid = 'a'\ntest_template_name = 'vllm'\n" + table + c.key + " = " + value + "\n"
			s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte(text)}, nil, scenario.HookFiles{})
			if err != nil {
				return err
			}
			return planner.Check(s.Tests[0])
		}
		name := fmt.Sprintf("%s = %s", c.key, c.bad)
		require.NoError(t, check(c.good), name)
		require.Error(t, check(c.bad), name)
		for _, order := range []string{"[" + c.good + ", " + c.bad + "]", "[" + c.bad + ", " + c.good + "]"} {
			err := check(order)
			require.ErrorContains(t, err, c.key, "%s in %s", name, order)
			line, at := 6, len(c.key)+len(" = [")+1
			if c.table == client {
				line = 7
			}
			if order[1] == c.good[0] {
				at += len(c.good + ", ")
			}
			require.ErrorContains(t, err, fmt.Sprintf("s.toml:%d:%d: ", line, at), "%s in %s", name, order)
		}
	}
}

// What is zipped is checked as well.
func TestCheckOfZippedValues(t *testing.T) {
	t.Parallel()
	check := func(text string) error {
		s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte(
			"name = 's'\n[[Tests]]\nid = 'a'\ntest_template_name = 'vllm'\n" + text)}, nil, scenario.HookFiles{})
		require.NoError(t, err)
		return planner.Check(s.Tests[0])
	}
	require.ErrorContains(t, check("[Tests.sweep]\nzip = [['bench_cmd_args.max_concurrency', 'bench_cmd_args.num_prompts']]\n"+
		"[Tests.bench_cmd_args]\nmax_concurrency = [1, 2]\nnum_prompts = [10, 0]\n"), "s.toml:9:20: ")
	require.NoError(t, check("[Tests.sweep]\nzip = [['bench_cmd_args.max_concurrency', 'bench_cmd_args.num_prompts']]\n"+
		"[Tests.bench_cmd_args]\nmax_concurrency = [1, 2]\nnum_prompts = [10, 20]\n"))
}
