package inline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/query/querytest"
)

// script is the engine of the page, in a process of Node.
type script struct {
	mu     sync.Mutex
	in     io.Writer
	out    *bufio.Reader
	fields []*field.Field
}

// newScript starts an engine of some runs.
func newScript(t *testing.T, runs []query.Run) *script {
	d, err := pack(runs)
	require.NoError(t, err)
	cmd := exec.Command("node", filepath.Join("tests", "answers.mjs"))
	cmd.Dir, cmd.Stderr = filepath.Join("..", "..", "web"), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
	s := &script{in: in, out: bufio.NewReaderSize(out, 1<<20)}
	for _, f := range d.Options.Fields {
		s.fields = append(s.fields, f.Field)
	}
	require.NoError(t, s.say(d, &struct{}{}))
	return s
}

// say writes a line and reads one.
func (s *script) say(line, answer any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(text, '\n')); err != nil {
		return err
	}
	got, err := s.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(got, answer)
}

func (s *script) Query(ctx context.Context, q query.Query) (*query.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // the page does not interrupt a question
	}
	var a struct {
		Answer *query.Answer `json:"answer"`
		Error  string        `json:"error"`
	}
	if err := s.say(q, &a); err != nil {
		return nil, err
	}
	if a.Answer == nil {
		return nil, errors.New(a.Error)
	}
	return a.Answer, nil
}

func (s *script) Fields(context.Context) ([]*field.Field, error) { return s.fields, nil }

// needNode skips a test where the script cannot run.
func needNode(t *testing.T) {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("node"); err != nil {
		missing = "it needs Node"
	} else if _, err := os.Stat(filepath.Join("..", "..", "web", "node_modules", "vite")); err != nil {
		missing = "it needs web/node_modules: npm --prefix web ci"
	}
	if missing != "" && os.Getenv("PROFLLM_REQUIRE_WEB") == "1" {
		t.Fatal(missing)
	}
	if missing != "" {
		t.Skip(missing)
	}
}

// The page answers random questions as query.Naive does: filters, facets, statistics, rows in an order.
//
// covers: API-6
func TestWebAnswers(t *testing.T) {
	needNode(t)
	querytest.Run(t, func(t *testing.T, runs []query.Run) query.Engine { return newScript(t, runs) })
}

// The same values, however a question writes them: aliases of fields, numbers as texts, texts as numbers, times.
func TestWebAnswersToTyped(t *testing.T) {
	needNode(t)
	var runs []query.Run
	for _, r := range runsOf(120) {
		runs = append(runs, query.Run{ID: r.Run.Result.RunID, Cells: field.Of(r.Run)})
	}
	s, naive := newScript(t, runs), query.Naive(runs)
	matches := 0
	for _, text := range []string{
		`{"field":"max_concurrency","in":["8","1e1",64]}`, `{"field":"tensor_parallel_size","min":"2","max":"4.0"}`,
		`{"field":"cmd_args.seed","in":[0,"0"]}`, `{"field":"extra_env_vars.NCCL_DEBUG","in":["INFO",true]}`,
		`{"field":"request_rate","in":["inf"]}`, `{"field":"job","in":[1000000,12]}`, `{"field":"job","in":["1e+06"]}`,
		`{"field":"timestamp","min":"2025-06-01"}`, `{"field":"timestamp","below":"2025-06-01 12:30:00"}`,
		`{"field":"timestamp","above":"2025-06-01T12:30:00.25+02:00"}`, `{"field":"timestamp","max":"2025-02-30"}`,
		`{"field":"timestamp","max":"2025-06-01T12:30:00"}`, `{"field":"timestamp","max":"yesterday"}`,
		`{"field":"timestamp","max":"2025-13-01"}`, `{"field":"timestamp","max":"2025-06-01T24:00:00Z"}`,
		`{"field":"median_ttft_ms","max":"many"}`, `{"field":"median_ttft_ms","in":[null]}`, `{"field":"gpu","in":[""]}`,
		`{"field":"gpu"}`, `{"contains":"x"}`, `{"field":"gpu","contains":"h100","text":"x"}`, `{"and":[],"or":[]}`,
		`{"and":[{"not":{"field":"verdict","in":["valid"]}},{"or":[{"field":"gpu","contains":"H2"},{}]}]}`, `{"text":"LLAMA"}`, `{}`,
		`{"field":"no_such"}`, `{"field":"no_such","has":true}`, `{"field":"cmd_args.no_such","has":false}`, `{"field":"bench_cmd_args.","has":false}`,
	} {
		var q, again query.Query
		require.NoError(t, json.Unmarshal([]byte(`{"filter":`+text+`}`), &q))
		require.NoError(t, json.Unmarshal([]byte(`{"filter":`+text+`}`), &again))
		want, wantErr := naive.Query(t.Context(), q)
		got, err := s.Query(t.Context(), again)
		if wantErr != nil {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		matches += got.Matches
	}
	require.Greater(t, matches, 500)
}
