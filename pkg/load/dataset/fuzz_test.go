package dataset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// file writes an input where a data set can be read from.
func file(t *testing.T, data []byte) string {
	path := filepath.Join(t.TempDir(), "qualitative.jsonl")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// fuzzed asks for the requests of one data set. Whatever the file holds, what comes out is JSON, and
// asks for tokens.
func fuzzed(t *testing.T, name, path string, change func(*Source)) {
	requests, _, err := ask(t, name, path, func(s *Source) {
		s.NumPrompts = 3
		if change != nil {
			change(s)
		}
	})
	if err != nil {
		return
	}
	require.NotEmpty(t, requests)
	for _, r := range requests {
		require.True(t, json.Valid(r.Prompt.AppendJSON(nil)))
		require.Positive(t, r.Output)
		require.GreaterOrEqual(t, r.Input, Unknown)
		require.GreaterOrEqual(t, r.Due, 0*r.Due)
		for _, m := range r.Extra {
			require.True(t, json.Valid(m.Value), "%s", m.Value)
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"a","output_tokens":3}`, "{\"turns\":[\"a\"],\"category\":\"x\"}\n{}", `{"messages":[{"content":"\ud800"}]}`,
		`{"question":[[{"role":"user","content":1e400}]],"function":[{"type":"dict"}]}`, `[{"prompt":"x"}]`, "\x00", `{"prompt":NaN}`,
		`{"system_prompt":"a","question":"b","output":"c d e f g"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := file(t, data)
		fuzzed(t, "custom", path, func(s *Source) { s.CustomOutputLen = -1 })
		fuzzed(t, "spec_bench", path, nil)
		fuzzed(t, "speed_bench", filepath.Dir(path), nil)
		fuzzed(t, "sonnet", path, nil)
		for _, name := range []string{"openai/openai_humaneval", "mgoin/mlperf-inference-llama2-data",
			"philschmid/mt-bench"} {
			fuzzed(t, "hf", path, func(s *Source) { s.HFName = name })
		}
		require.NoError(t, os.Rename(path, filepath.Join(filepath.Dir(path), "BFCL_v3_a.json")))
		fuzzed(t, "hf", filepath.Dir(path), func(s *Source) {
			s.HFName, s.BfclCategories, s.Chat = bfclName, "a", true
		})
	})
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"timestamp":1,"input_length":20,"output_length":3,"hash_ids":[7,"8"]}`))
	f.Add([]byte(`{"timestamp":1e300,"input_length":1,"output_length":3}`))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, "timed_trace", file(t, data), nil) })
}

func FuzzShareGPT(f *testing.F) {
	f.Add([]byte(`[{"conversations":[{"value":"` + tenWords + `"},{"value":"a b c d e"}]}]`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, "sharegpt", file(t, data), nil) })
}

func FuzzBursts(f *testing.F) {
	f.Add([]byte("Model,Request tokens,Response tokens\nGPT-4,5,6\nGPT-4,\"0\",7\n"))
	f.Add([]byte("Model,Model,\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, "burstgpt", file(t, data), nil) })
}

func FuzzVocabulary(f *testing.F) {
	f.Add([]byte(`{"added_tokens":[{"id":7,"content":"<s>"}],"model":{"vocab":{"a":0,"b":1}}}`),
		[]byte(`{"eos_token":"<s>"}`))
	f.Add([]byte(`{"model":{"vocab":[["a",0]]},"post_processor":{"type":"BertProcessing"}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, raw, config []byte) {
		if v, err := parseVocabulary(raw, config); err == nil {
			require.NotEmpty(t, v.plain())
			require.Positive(t, v.Size)
		}
	})
}
