package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
)

// Joined errors are problems of their own, each once, with its place in a file and its hint.
func TestProblems(t *testing.T) {
	at := &source.Error{Pos: source.Pos{File: "s.toml", Line: 5, Col: 1}, Msg: "unknown key", Hint: "num_nodes"}
	plain := errors.New("no disk\n\thint: buy one\n\tor two")
	for name, err := range map[string]error{
		"joined":      errors.Join(at, plain, at),
		"with a kind": &campaign.Error{Kind: campaign.Usage, Err: errors.Join(at, plain)},
	} {
		require.Equal(t, []Problem{
			{What: "unknown key", File: "s.toml", Line: 5, Column: 1, Hint: "num_nodes"},
			{What: "no disk", Hint: "buy one\nor two"},
		}, Problems(err), name)
	}
	require.Equal(t, []Problem{{What: "read: no disk", Hint: "buy one\nor two"}},
		Problems(fmt.Errorf("read: %w", plain)))
}

// What is printed as it comes is the document.
func TestCollectWriter(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		var out bytes.Buffer
		w := &CollectWriter{Head: NewHead("collect"), Out: &out}
		want := Collect{Head: NewHead("collect"), Results: []Row{}}
		for i := range n {
			r := Row{Dir: fmt.Sprint(i), Result: &result.Result{RunID: fmt.Sprint(i)}}
			want.Results = append(want.Results, r)
			require.NoError(t, w.Add(r))
		}
		w.End(6, []Problem{{What: "a <b>"}})
		want.End(6, []Problem{{What: "a <b>"}})
		require.NoError(t, w.Close())
		var got Collect
		require.NoError(t, json.Unmarshal(out.Bytes(), &got))
		require.Equal(t, want, got)
	}
}
