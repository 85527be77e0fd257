package serving_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

func options(t *testing.T, text string, b serving.Booleans) []string {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(text))
	require.NoError(t, err)
	var words []string
	for _, w := range serving.Options(table, b) {
		s, ok := w.Literal()
		require.True(t, ok)
		words = append(words, s)
	}
	return words
}

// Two spellings of one option are refused in one file; of two files, the later counts.
func TestOnce(t *testing.T) {
	parse := func(file, text string) *source.Table {
		table, err := source.Parse(file, []byte(text))
		require.NoError(t, err)
		return table
	}
	const base = "max_model_len = 2048\nseed = 1\n'hf_overrides.a-b' = 1\n'hf_overrides.a_b' = 2\n"
	var c source.Complaints
	over := serving.Once(source.Merge(parse("test.toml", base), parse("s.toml", "max-model-len = 4096")), &c)
	require.NoError(t, c.Err())
	require.Equal(t, []string{"seed", "hf_overrides.a-b", "hf_overrides.a_b", "max-model-len"}, over.Keys())

	serving.Once(parse("s.toml", base+"max-model-len = 4096\n\"hf-overrides.a_b\" = 3\n"), &c)
	require.ErrorContains(t, c.Err(), "s.toml:5:1: max-model-len is written a second time, with another spelling (s.toml:1:1)\n\thint: keep one of the two")
	require.ErrorContains(t, c.Err(), "s.toml:6:1: hf-overrides.a_b is written a second time, with another spelling (s.toml:4:1)")
}

// covers: C.6, CD-9
func TestOptions(t *testing.T) {
	const text = `enable_x = true
y = false
flag = ""
n = 4
f = 0.9
quoted = '''{"a": 1}'''
user_quoted = "'{\"a\": 1}'"
table = { b = 1, a = { c = "x <y>" } }
list = [1, "two"]
`
	rest := []string{
		"--flag", "--n", "4", "--f", "0.9", "--quoted", `{"a": 1}`, "--user-quoted", `{"a": 1}`,
		"--table", `{"b":1,"a":{"c":"x <y>"}}`, "--list", "1", "two",
	}
	require.Equal(t, append([]string{"--enable-x", "--no-y"}, rest...), options(t, text, serving.Negatable))
	require.Equal(t, []string{"--eplb-config.num_redundant_experts", "2"}, options(t, "'eplb_config.num_redundant_experts' = 2", serving.Negatable))
	require.Equal(t, append([]string{"--enable-x"}, rest...), options(t, text, serving.StoreTrue))
	require.Empty(t, options(t, "", serving.StoreTrue))

	// In JSON, numbers keep their type, as Python writes them: a float is no integer there.
	require.Equal(t, []string{"--o", `{"factor":4.0,"theta":1000000.0,"small":1e-05,"n":4,"list":[1.0,2],"top":Infinity}`},
		options(t, "o = { factor = 4.0, theta = 1e6, small = 0.00001, n = 4, list = [1.0, 2], top = inf }", serving.Negatable))
}
