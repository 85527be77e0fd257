package measure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/suite/measure"
)

// client leaves a result of some completed requests, and ends with an error.
func client(completed int, err error) func(context.Context, []string, io.Writer) error {
	return func(_ context.Context, args []string, _ io.Writer) error {
		value := func(flag string) string { return args[slices.Index(args, flag)+1] }
		file := filepath.Join(value("--result-dir"), value("--result-filename"))
		return errors.Join(os.WriteFile(file, fmt.Appendf(nil, `{"completed": %d}`, completed), 0o644), err)
	}
}

// A result is kept only for the client, the server and the use of the cache that it is of; one in which
// no request completed is measured again, and what the client said of it is kept.
func TestKept(t *testing.T) {
	loads, err := measure.Plan(measure.Options{Names: []string{"latency-short"}, Own: true})
	require.NoError(t, err)
	session := func(dir string) *measure.Session {
		return &measure.Session{Dir: dir, Name: "s", Base: "http://h:1", URL: "http://h:1", Model: "m", Host: "c", Program: "p",
			Client: client(3, nil), Now: time.Now}
	}
	dir := t.TempDir()
	s := session(dir)
	s.Client = client(0, errors.New("none of all"))
	o, err := s.Measure(t.Context(), &loads[0])
	require.NoError(t, err)
	require.ErrorContains(t, o.Failed, "none of all")
	var mark run.Import
	require.NoError(t, run.ReadJSON(filepath.Join(o.Dir, run.ImportFile), &mark))
	require.Equal(t, "the client failed: none of all", mark.Measured.Failure)

	s = session(dir)
	s.URL = "http://other:1"
	require.NoError(t, s.Check(loads), "what failed may be measured on another server")
	s = session(dir)
	for _, kept := range []bool{false, true} {
		o, err = s.Measure(t.Context(), &loads[0])
		require.NoError(t, err)
		require.NoError(t, o.Failed)
		require.Equal(t, kept, o.Kept)
	}
	require.FileExists(t, filepath.Join(o.Dir, "attempts/1", run.ImportFile))
	for want, change := range map[string]func(s *measure.Session){
		"model m, not n":                    func(s *measure.Session) { s.Model = "n" },
		"client p, not q":                   func(s *measure.Session) { s.Program = "q" },
		"server http://h:1, not http://h:2": func(s *measure.Session) { s.URL = "http://h:2" },
		"prefix cache kept, not emptied":    func(s *measure.Session) { s.Empty = func(context.Context) error { return nil } },
		"simulated false, not true":         func(s *measure.Session) { s.Simulated = true },
	} {
		s := session(dir)
		change(s)
		require.ErrorContains(t, s.Check(loads), "was measured with "+want)
	}
}

// The prefix cache is emptied before each run where that is asked for, or where the server can.
func TestUseCache(t *testing.T) {
	cannot := errors.New("no such path")
	for _, c := range []struct {
		what          string
		able          error
		kept, empties bool
	}{
		{measure.CacheAuto, nil, false, true}, {measure.CacheAuto, cannot, true, false},
		{measure.CacheKeep, nil, false, false}, {measure.CacheEmpty, cannot, false, true},
	} {
		s := new(measure.Session)
		kept, err := s.UseCache(t.Context(), c.what, func(context.Context) error { return c.able })
		require.NoError(t, err)
		require.Equal(t, c.kept, kept != nil, c)
		require.Equal(t, c.empties, s.Empty != nil, c)
	}
}

// Names stand before the first dash, flags of every run behind it.
func TestSplit(t *testing.T) {
	names, flags := measure.Split([]string{"a,b", " c", "--", "--seed", "1"})
	require.Equal(t, []string{"a", "b", "c"}, names)
	require.Equal(t, []string{"--seed", "1"}, flags)
	names, flags = measure.Split([]string{"", "--seed", "1"})
	require.Equal(t, []string{"bench"}, names)
	require.Equal(t, []string{"--seed", "1"}, flags)
}

// A client in a container is told the whole path of a file that is here; what is no file may be the
// name of a data set.
func TestFilesHere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("chats.json", []byte("[]"), 0o644))
	for file, want := range map[string]string{"chats.json": filepath.Join(dir, "chats.json"), "org/set": "org/set"} {
		loads, err := measure.Plan(measure.Options{Names: []string{"sharegpt-rateinf"}, Here: true,
			Files: map[string]string{"sharegpt": file}})
		require.NoError(t, err)
		require.Equal(t, want, loads[0].Options()["dataset_path"])
	}
}

// A run whose results were taken over by another command as it ended is not put under its name.
func TestLostLease(t *testing.T) {
	loads, err := measure.Plan(measure.Options{Names: []string{"latency-short"}, Own: true})
	require.NoError(t, err)
	dir := t.TempDir()
	at := filepath.Join(dir, ".lease")
	held, release, err := lease.Hold(t.Context(), at, dir, lease.Options{Now: time.Now, Renew: time.Hour})
	require.NoError(t, err)
	well := client(3, nil)
	s := &measure.Session{Dir: dir, Name: "s", Base: "http://h:1", URL: "http://h:1", Model: "m", Host: "c", Program: "p", Now: time.Now,
		Client: func(ctx context.Context, args []string, out io.Writer) error {
			require.NoError(t, os.WriteFile(filepath.Join(at, "lease-9.json"), []byte("{}"), 0o644))
			return well(ctx, args, out)
		}}
	o, err := s.Measure(held, &loads[0])
	require.ErrorIs(t, err, lease.ErrLost)
	require.NoDirExists(t, o.Dir)
	require.NoError(t, release())
}
