package vllm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

func TestParseServe(t *testing.T) {
	base := engine.Config{
		Model: "m", Names: []string{"m"}, Port: 8000, MaxLen: 32768, MaxSeqs: 256, BlockSize: 16, TP: 1, PP: 1,
		Prefix: true,
	}
	with := func(change func(*engine.Config)) engine.Config {
		c := base
		change(&c)
		return c
	}
	tests := map[string]struct {
		args string
		want engine.Config
	}{
		"defaults":           {"m", base},
		"model as a flag":    {"--model m", base},
		"equals":             {"m --port=9", with(func(c *engine.Config) { c.Port = 9 })},
		"underscores":        {"m --max_num_seqs 9", with(func(c *engine.Config) { c.MaxSeqs = 9 })},
		"suffix k":           {"m --max-model-len 2k", with(func(c *engine.Config) { c.MaxLen = 2000 })},
		"suffix K":           {"m --max-model-len 2K", with(func(c *engine.Config) { c.MaxLen = 2048 })},
		"decimal suffix":     {"m --max-model-len 25.6k", with(func(c *engine.Config) { c.MaxLen = 25600 })},
		"automatic length":   {"m --max-model-len -1", base},
		"last one wins":      {"m --port 1 --port 2", with(func(c *engine.Config) { c.Port = 2 })},
		"short":              {"m -tp 8 -pp 2 -O3 -cc.mode=none", with(func(c *engine.Config) { c.TP, c.PP = 8, 2 })},
		"several names":      {"m --served-model-name a b --port 1", with(func(c *engine.Config) { c.Names, c.Port = []string{"a", "b"}, 1 })},
		"boolean":            {"m --headless", with(func(c *engine.Config) { c.Headless = true })},
		"boolean off":        {"m --no-enable-prefix-caching", with(func(c *engine.Config) { c.Prefix = false })},
		"boolean with value": {"m --enable-prefix-caching false", with(func(c *engine.Config) { c.Prefix = false })},
		"boolean equals":     {"m --enable-prefix-caching=False", with(func(c *engine.Config) { c.Prefix = false })},
		"unknown flags":      {"m --no-such-thing 1 --seed -1", base},
		"ray":                {"m --distributed-executor-backend ray", with(func(c *engine.Config) { c.Ray = true })},
		"kv producer": {`m --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_producer"}`,
			with(func(c *engine.Config) { c.Connector = "NixlConnector" })},
		"kv dotted": {"m --kv-transfer-config.kv_connector NixlConnector --kv-transfer-config.kv_role=kv_both",
			with(func(c *engine.Config) { c.Connector, c.Consumer = "NixlConnector", true })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := parseServe(strings.Fields(tt.args))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParseServeTellsEveryMistake(t *testing.T) {
	_, _, err := parseServe(strings.Fields(`m extra --port x --max-num-seqs 0 --max-model-len 1.5 --kv-transfer-config {`))
	for _, want := range []string{"unrecognized arguments: extra", "--port", "--max-num-seqs", "--max-model-len",
		"--kv-transfer-config"} {
		require.ErrorContains(t, err, want)
	}
}

func FuzzParseFlags(f *testing.F) {
	for _, s := range []string{
		"m --port 1", "--x=", "--no-", "-", "--", "-O3", "-cc.mode=none", "m --port 9999999999999999999k", "m --max-model-len 1e400K",
		"m --kv-transfer-config {}", "m --port\n-1", "m --block-size .", "--=", "m --port K",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		set := program.ParseFlags(args)
		words := len(set.Positional)
		for _, name := range set.Names {
			_, ok := set.Values[name]
			require.True(t, ok, name)
			words++
		}
		require.LessOrEqual(t, words, len(args))
		c, _, err := parseServe(args)
		if err == nil {
			require.NotEmpty(t, c.Model)
			require.Positive(t, c.MaxSeqs)
			require.Positive(t, c.MaxLen)
			require.Positive(t, c.BlockSize)
		}
	})
}
