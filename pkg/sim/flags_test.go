package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseServe(t *testing.T) {
	base := serveConfig{
		model: "m", names: []string{"m"}, port: 8000, maxLen: 32768, maxSeqs: 256, blockSize: 16, tp: 1, pp: 1, prefix: true,
	}
	with := func(change func(*serveConfig)) serveConfig {
		c := base
		change(&c)
		return c
	}
	tests := map[string]struct {
		args string
		want serveConfig
	}{
		"defaults":           {"m", base},
		"model as a flag":    {"--model m", base},
		"equals":             {"m --port=9", with(func(c *serveConfig) { c.port = 9 })},
		"underscores":        {"m --max_num_seqs 9", with(func(c *serveConfig) { c.maxSeqs = 9 })},
		"suffix k":           {"m --max-model-len 2k", with(func(c *serveConfig) { c.maxLen = 2000 })},
		"suffix K":           {"m --max-model-len 2K", with(func(c *serveConfig) { c.maxLen = 2048 })},
		"decimal suffix":     {"m --max-model-len 25.6k", with(func(c *serveConfig) { c.maxLen = 25600 })},
		"automatic length":   {"m --max-model-len -1", base},
		"last one wins":      {"m --port 1 --port 2", with(func(c *serveConfig) { c.port = 2 })},
		"short":              {"m -tp 8 -pp 2 -O3 -cc.mode=none", with(func(c *serveConfig) { c.tp, c.pp = 8, 2 })},
		"several names":      {"m --served-model-name a b --port 1", with(func(c *serveConfig) { c.names, c.port = []string{"a", "b"}, 1 })},
		"boolean":            {"m --headless", with(func(c *serveConfig) { c.headless = true })},
		"boolean off":        {"m --no-enable-prefix-caching", with(func(c *serveConfig) { c.prefix = false })},
		"boolean with value": {"m --enable-prefix-caching false", with(func(c *serveConfig) { c.prefix = false })},
		"boolean equals":     {"m --enable-prefix-caching=False", with(func(c *serveConfig) { c.prefix = false })},
		"unknown flags":      {"m --no-such-thing 1 --seed -1", base},
		"ray":                {"m --distributed-executor-backend ray", with(func(c *serveConfig) { c.ray = true })},
		"kv producer": {`m --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_producer"}`,
			with(func(c *serveConfig) { c.connector = "NixlConnector" })},
		"kv dotted": {"m --kv-transfer-config.kv_connector NixlConnector --kv-transfer-config.kv_role=kv_both",
			with(func(c *serveConfig) { c.connector, c.consumer = "NixlConnector", true })},
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
	for _, want := range []string{"unrecognized arguments: extra", "--port", "--max-num-seqs", "--max-model-len", "--kv-transfer-config"} {
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
		set := parseFlags(args)
		words := len(set.positional)
		for _, name := range set.names {
			_, ok := set.values[name]
			require.True(t, ok, name)
			words++
		}
		require.LessOrEqual(t, words, len(args))
		c, _, err := parseServe(args)
		if err == nil {
			require.NotEmpty(t, c.model)
			require.Positive(t, c.maxSeqs)
			require.Positive(t, c.maxLen)
			require.Positive(t, c.blockSize)
		}
	})
}
