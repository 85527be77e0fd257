package dashboard_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/upload"
)

// site is a whole server of a store: its port, its uploads, and what works them off.
type site struct {
	t     *testing.T
	url   string
	addr  string
	box   string // the folder in which all of it is
	live  *dashboard.Live
	spool *upload.Spool
	end   func()
}

// config is how a site is started.
type config struct {
	store string // its place; "": a file in box
	spool string // "": a folder in box
	opts  dashboard.Options
	ups   upload.Options
	put   func(context.Context, []records.Run) error // is asked before runs are stored
	idle  bool                                       // nothing works uploads off
}

// start starts a server that ends with the test, or by end. A server of the same box has its store and spool.
func start(t *testing.T, box string, c config) *site {
	t.Helper()
	runtime.GC() // what earlier tests left is none of this server's memory
	s := &site{t: t, box: box}
	if c.store == "" {
		c.store = filepath.Join(box, "runs.db")
	}
	if c.spool == "" {
		c.spool = filepath.Join(box, "spool")
	}
	db, err := store.Open(t.Context(), c.store, store.Options{Create: true})
	require.NoError(t, err)
	s.live, err = dashboard.Load(t.Context(), db)
	require.NoError(t, err)
	c.ups.Collector = &collect.Collector{Version: "test", Bench: catalog.Benches, Eval: catalog.Evals, Causes: failure.Builtin}
	c.ups.Put, c.ups.Reason = putter(s.live, c.put), store.Reason
	if c.opts.Log == nil {
		c.opts.Log = t.Logf
	}
	s.spool, err = upload.Open(c.spool, c.ups)
	require.NoError(t, err)
	c.opts.Uploads = s.spool
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	s.url = "http://" + s.addr
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 3)
	running := 2
	go func() { ended <- dashboard.New(s.live, c.opts).Serve(ctx, l) }()
	go func() {
		s.live.Follow(ctx, 50*time.Millisecond, func(error) {})
		ended <- nil
	}()
	if !c.idle {
		running++
		go func() { ended <- s.spool.Work(ctx) }()
	}
	s.end = func() {
		cancel()
		for range running {
			require.NoError(t, <-ended)
		}
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, s.spool.Close())
		require.NoError(t, db.Close())
		s.end = func() {}
	}
	t.Cleanup(func() { s.end() })
	return s
}

// putter stores runs as profllm dashboard serve does.
func putter(l *dashboard.Live, ask func(context.Context, []records.Run) error) func(context.Context, []records.Run) ([]upload.Outcome, error) {
	return func(ctx context.Context, runs []records.Run) ([]upload.Outcome, error) {
		if ask != nil {
			if err := ask(ctx, runs); err != nil {
				return nil, err
			}
		}
		list, err := l.Put(ctx, runs)
		out := make([]upload.Outcome, len(list))
		for i, o := range list {
			out[i] = upload.Outcome{ID: o.ID, Did: string(o.Did), Why: o.Why}
		}
		return out, err
	}
}

// problemOf is an error as the API gives it.
type problemOf struct {
	Title, Detail string
	Status        int
}

// send sends a request and gives the status, the answer and its head.
func (s *site) send(method, path, kind string, body io.Reader, headers ...string) (int, []byte, http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	require.NoError(s.t, err)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer got.Body.Close()
	answer, err := io.ReadAll(got.Body)
	require.NoError(s.t, err)
	return got.StatusCode, answer, got.Header
}

// uploaded waits until an upload is worked off.
func (s *site) uploaded(job string) upload.Status {
	s.t.Helper()
	var st upload.Status
	await.True(s.t, func() bool {
		status, answer, _ := s.send("GET", "/api/upload/status/"+job, "", nil)
		require.Equal(s.t, 200, status, "%s", answer)
		st = upload.Status{}
		require.NoError(s.t, json.Unmarshal(answer, &st))
		return st.State == upload.Done
	}, "the upload is done: %+v", &st)
	return st
}

// runs is how many runs the server shows.
func (s *site) runs() int {
	s.t.Helper()
	status, answer, _ := s.send("POST", "/api/filters/apply", "application/json", strings.NewReader("{}"))
	require.Equal(s.t, 200, status, "%s", answer)
	var a query.Answer
	require.NoError(s.t, json.Unmarshal(answer, &a))
	return a.Runs
}

var heapSaid = regexp.MustCompile(`(?m)^profllm_dashboard_heap_bytes (\d+)$`)

// well requires that the server is alive, takes little memory, and has written nothing outside of its place.
func (s *site) well() {
	s.t.Helper()
	status, _, _ := s.send("GET", "/api/ready", "", nil)
	require.Equal(s.t, 200, status)
	_, page, _ := s.send("GET", "/metrics", "", nil)
	m := heapSaid.FindSubmatch(page)
	require.NotNil(s.t, m)
	heap, err := strconv.Atoi(string(m[1]))
	require.NoError(s.t, err)
	require.Less(s.t, heap, 512<<20)
	entries, err := os.ReadDir(s.box)
	require.NoError(s.t, err)
	for _, e := range entries {
		require.Regexp(s.t, `^(runs\.db(-wal|-shm)?|spool)$`, e.Name())
	}
	entries, err = os.ReadDir(filepath.Join(s.box, "spool"))
	require.NoError(s.t, err)
	for _, e := range entries {
		require.Regexp(s.t, `^(lease|job-.*)$`, e.Name(), "nothing is there in part")
	}
}
