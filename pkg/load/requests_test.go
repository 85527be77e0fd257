package load

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/loadtest"
)

// lines reads a file of --save-requests.
func lines(t *testing.T, name string) (list []map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	for d := json.NewDecoder(bytes.NewReader(raw)); d.More(); {
		var one map[string]any
		require.NoError(t, d.Decode(&one))
		list = append(list, one)
	}
	require.Equal(t, len(list), bytes.Count(raw, []byte("\n")))
	return list
}

func TestSavedRequests(t *testing.T) {
	onAll(t, func(t *testing.T, run func(context.Context, Options) (*Report, string, error)) {
		s := start(t, loadtest.Options{TTFT: 2 * time.Millisecond, ITL: time.Millisecond,
			Fault: func(n int) loadtest.Fault {
				return []loadtest.Fault{{}, {Status: 500}, {CutAfter: 2}}[n%3]
			}})
		dir := filepath.Join(t.TempDir(), "new")
		o := against(t, s,
			"--max-concurrency 3 --request-id-prefix id- --lora-modules l --save-detailed --save-requests r.jsonl --result-dir "+dir)
		r, _, err := run(t.Context(), o)
		require.NoError(t, err)
		list := lines(t, filepath.Join(dir, "r.jsonl"))
		require.Len(t, list, 20)
		completed := 0
		for i, l := range list {
			require.EqualValues(t, i, l["request"])
			require.Equal(t, "id-"+string(requestNumber(i)), l["id"])
			require.Equal(t, "l", l["model"])
			due, sent, ended := l["due_s"].(float64), l["sent_s"].(float64), l["ended_s"].(float64)
			require.True(t, due <= sent && sent < ended && ended <= r.Duration+1e-6, "%v", l)
			_, err := time.Parse(time.RFC3339Nano, l["sent_at"].(string))
			require.NoError(t, err)
			if l["state"] != "completed" {
				require.Equal(t, "failed", l["state"])
				require.NotEmpty(t, l["error"])
				require.NotContains(t, l, "first_token_s")
				continue
			}
			completed++
			require.EqualValues(t, 200, l["http_status"])
			first, last := l["first_token_s"].(float64), l["last_token_s"].(float64)
			require.True(t, sent+0.0019 <= first && first <= last && last <= ended, "%v", l)
			require.Len(t, l["token_events_s"], 4)
			require.EqualValues(t, 4, l["output_tokens"])
			require.EqualValues(t, 8, l["input_tokens"])
		}
		require.Equal(t, r.Completed, completed)
	})
}

func requestNumber(i int) []byte { raw, _ := json.Marshal(i); return raw }

func TestSavedRequestsOfAnInterruptedRun(t *testing.T) {
	s := start(t, loadtest.Options{TTFT: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for s.Requests() < 6 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	name := filepath.Join(t.TempDir(), "r.jsonl")
	_, err := driveOn(ctx, t, "pool", against(t, s, "--max-concurrency 6 --save-requests "+name), new(bytes.Buffer),
		new(bytes.Buffer))
	require.ErrorIs(t, err, ErrInterrupted)
	states := map[any]int{}
	for _, l := range lines(t, name) {
		states[l["state"]]++
		require.Equal(t, l["state"] == "unsent", l["sent_s"] == nil)
	}
	require.Equal(t, map[any]int{"interrupted": 6, "unsent": 14}, states)
}

func TestSavedRequestsReplaceOnlyTheirKind(t *testing.T) {
	s := start(t, loadtest.Options{})
	name := filepath.Join(t.TempDir(), "r.jsonl")
	o := against(t, s, "--save-requests "+name)
	for range 2 {
		_, err := driveOn(t.Context(), t, "loop", o, new(bytes.Buffer), new(bytes.Buffer))
		require.NoError(t, err)
		require.NoError(t, o.CheckOutput())
	}
	require.NoError(t, os.WriteFile(name, []byte("my notes"), 0o644))
	require.ErrorContains(t, o.CheckOutput(), "is not a list of requests")
}
