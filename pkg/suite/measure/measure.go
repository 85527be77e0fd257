// Package measure has a load client measure the runs of suites on a server that is up already,
// and keeps what it measured as run directories, which are collected like imported results.
//
// It starts no server and prints nothing. The client is profllm's own, which the caller runs, or a
// command.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// Session is one measurement of some loads on one server.
type Session struct {
	Dir       string   // of the run directories
	Name      string   // of all together
	Base      string   // address of the server, without /v1, for its clients
	URL       string   // the same without a password
	Model     string   // that requests ask for
	Host      string   // where the clients run
	Program   string   // the client, for the record
	Metadata  []string // KEY=VALUE, for every result
	Simulated bool     // the server

	Client client.Client
	// Empty empties the server's prefix cache; nil if it is kept.
	Empty func(ctx context.Context) error
	Now   func() time.Time
}

// Outcome is what came of a load.
type Outcome struct {
	Dir    string
	Kept   bool  // it was measured before
	Failed error // the client left no result, or none of its requests completed
}

// clientLog is what the client printed, in the run directory.
const clientLog = "logs/bench-0.log"

// Folder is the folder of a measurement that begins.
func Folder(parent, name string, at time.Time) string {
	return filepath.Join(parent, name+"_"+at.Format("2006-01-02_15-04-05"))
}

// What becomes of the prefix cache before each run.
const (
	CacheAuto  = "auto"  // it is emptied if the server can
	CacheEmpty = "empty" // a run fails if it is not emptied
	CacheKeep  = "keep"
)

// UseCache decides whether the runs begin with an empty prefix cache, which empty makes. kept says why
// the server cannot, with [CacheAuto].
func (s *Session) UseCache(
	ctx context.Context, what string, empty func(ctx context.Context) error,
) (kept, err error) {
	switch what {
	case CacheKeep:
		return nil, nil
	case CacheAuto:
		kept = empty(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if kept == nil {
		s.Empty = empty
	}
	return kept, nil
}

// Check refuses loads of which one was measured before with other arguments.
func (s *Session) Check(loads []Load) error {
	for i := range loads {
		if _, err := s.earlier(filepath.Join(s.Dir, loads[i].Name), &loads[i]); err != nil {
			return err
		}
	}
	return nil
}

// Measure measures a load, unless its directory has a result of the same arguments. What is
// returned as an error ends the session; a client that fails does not.
func (s *Session) Measure(ctx context.Context, l *Load) (Outcome, error) {
	o := Outcome{Dir: filepath.Join(s.Dir, l.Name)}
	earlier, err := s.earlier(o.Dir, l)
	if err != nil {
		return o, err
	}
	aside := ""
	if earlier != nil {
		if o.Kept, err = keeps(o.Dir, earlier); err != nil || o.Kept {
			return o, err
		}
		aside = o.Dir // it failed
	}
	err = run.Whole(o.Dir, func(temp string) error {
		o.Failed, err = s.fill(ctx, l, temp)
		if err == nil {
			err = lease.Check(ctx) // the run's name may be another's by now
		}
		if err != nil || aside == "" {
			return err
		}
		return setAside(aside, filepath.Join(temp, "attempts"))
	})
	return o, err
}

// errNone is of a result without a completed request.
var errNone = errors.New("no request completed")

// keeps reports whether an earlier measurement says anything: it has a result, and a request
// completed.
func keeps(dir string, mark *run.Import) (bool, error) {
	if mark.Measured.Error != "" {
		return false, nil
	}
	if mark.File != filepath.Base(mark.File) {
		return false, fmt.Errorf("%s: %q is no name of a file", filepath.Join(dir, run.ImportFile), mark.File)
	}
	data, _, err := packed.Read(regular.DirFS(dir), run.RawDir+"/"+mark.File, regular.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // it was removed; its record is there
	}
	return err == nil && !noneCompleted(data), err
}

// noneCompleted reports whether a result says that no request completed.
func noneCompleted(data []byte) bool {
	var r struct {
		Completed *int `json:"completed"`
	}
	return json.Unmarshal(data, &r) == nil && r.Completed != nil && *r.Completed == 0
}

// setAside moves a failed measurement below the one that takes its place.
func setAside(dir, attempts string) error {
	if err := os.MkdirAll(attempts, 0o755); err != nil {
		return err
	}
	for n := 1; ; n++ {
		older := filepath.Join(dir, "attempts", fmt.Sprint(n))
		if _, err := os.Lstat(older); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(dir, filepath.Join(attempts, fmt.Sprint(n)))
		}
		if err := os.Rename(older, filepath.Join(attempts, fmt.Sprint(n))); err != nil {
			return err
		}
	}
}

// earlier reads what is said of a load that was measured before, nil if it was not. It refuses one
// of other arguments, and a result of another client, server or state of the cache.
func (s *Session) earlier(dir string, l *Load) (*run.Import, error) {
	var mark run.Import
	switch err := run.ReadJSON(filepath.Join(dir, run.ImportFile), &mark); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case mark.Measured == nil:
		return nil, fmt.Errorf("%s: the run is not of profllm bench suite", dir)
	}
	differs := func(what string, was, is any) error {
		return fmt.Errorf("%s was measured with %s %v, not %v\n\thint: resume with the same arguments, or measure anew",
			dir, what, was, is)
	}
	was, is := plain(mark.Measured.Arguments), plain(l.Options())
	for _, key := range slices.Sorted(maps.Keys(merged(was, is))) {
		if !reflect.DeepEqual(was[key], is[key]) {
			return nil, differs(key, was[key], is[key])
		}
	}
	if mark.Measured.Model != s.Model {
		return nil, differs("model", mark.Measured.Model, s.Model)
	}
	if kept, err := keeps(dir, &mark); err != nil || !kept {
		return &mark, err // what failed may be measured again in another way
	}
	for _, f := range []struct {
		what    string
		was, is any
	}{
		{"client", mark.Measured.Client, s.Program}, {"server", mark.Measured.URL, s.URL},
		{"prefix cache", mark.Measured.Cache, s.cache()}, {"simulated", mark.Measured.Simulated, s.Simulated},
	} {
		if f.was != f.is {
			return nil, differs(f.what, f.was, f.is)
		}
	}
	return &mark, nil
}

// cache is what becomes of the prefix cache before each run, for the record.
func (s *Session) cache() string {
	if s.Empty == nil {
		return "kept"
	}
	return "emptied"
}

func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// plain is what JSON makes of arguments.
func plain(m map[string]any) map[string]any {
	out := map[string]any{}
	if data, err := json.Marshal(m); err == nil {
		_ = json.Unmarshal(data, &out) // it was just written
	}
	return out
}

// fill has the client measure, and writes the directory. failed says that the client left no result,
// or one without a completed request.
func (s *Session) fill(ctx context.Context, l *Load, temp string) (failed, err error) {
	m := &run.Measured{
		Client: s.Program, URL: s.URL, Host: s.Host, Cache: "kept", Arguments: l.Options(), Expect: l.Expect(),
		Model: s.Model, Started: s.Now().UTC(), Simulated: s.Simulated,
	}
	file := interchange.FileName(l.Label) + ".json"
	raw := filepath.Join(temp, run.RawDir)
	if err := os.MkdirAll(raw, 0o755); err != nil {
		return nil, err
	}
	if failed = s.empty(ctx, m); failed == nil {
		failed = s.client(ctx, l, m, temp, file)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	mark := run.Import{Schema: "profllm.import/1", Suite: s.Name + "/" + l.Name, Format: string(interchange.VLLMServe),
		Path: l.Name + "/" + file, Measured: m}
	mark.RunID = fmt.Sprintf("suite_%s_%s", m.Started.Format("20060102_150405"), l.Name)
	data, err := run.ReadFile(filepath.Join(raw, file))
	switch {
	case err == nil:
		mark.File, mark.Digest = file, collect.Digest(data)
		if failed != nil {
			m.Failure = failed.Error()
		}
		if !noneCompleted(data) {
			failed = nil // what is wrong with its numbers, the judgement says
		} else if failed == nil {
			failed = errNone
		}
	case errors.Is(err, fs.ErrNotExist):
		if failed == nil {
			failed = errors.New("the client ended without a result")
		}
		m.Error = failed.Error()
	default:
		return nil, err
	}
	return failed, run.WriteJSON(filepath.Join(temp, run.ImportFile), mark)
}

// empty empties the prefix cache.
func (s *Session) empty(ctx context.Context, m *run.Measured) error {
	if s.Empty == nil {
		return nil
	}
	if err := s.Empty(ctx); err != nil {
		return fmt.Errorf("the prefix cache was not emptied: %w", err)
	}
	m.Cache = s.cache()
	return nil
}

// client runs the client with its log.
func (s *Session) client(ctx context.Context, l *Load, m *run.Measured, temp, file string) error {
	log := filepath.Join(temp, filepath.FromSlash(clientLog))
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	metadata := append(slices.Clone(s.Metadata), "scenario="+s.Name, "suite="+l.Suite, "run="+l.Name,
		"client_host="+s.Host, "prefix_cache="+m.Cache)
	if endpoint, ok := m.Arguments["endpoint"].(string); ok {
		metadata = append(metadata, "endpoint="+endpoint)
	}
	args := l.words(s.Base, s.Model, filepath.Join(temp, run.RawDir), file, metadata)
	if err := (client.Load{Args: args, Log: log}).Measure(ctx, s.Client); err != nil {
		return fmt.Errorf("the client failed: %s", strings.TrimSpace(err.Error()))
	}
	return nil
}

// WriteParameters writes what the loads differ in beside their results, unless a measurement is
// continued.
func (s *Session) WriteParameters(loads []Load) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	err := run.CreateJSON(filepath.Join(s.Dir, "bench_params.json"), parameters(loads))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// parameters is what the loads differ in, in the form that `vllm bench sweep serve --bench-params`
// reads: a list of objects, each with its name.
func parameters(loads []Load) []map[string]any {
	var list []map[string]any
	for i := range loads {
		m := loads[i].Arguments.Plain()
		if m["max_concurrency"] == "none" {
			delete(m, "max_concurrency")
		}
		m["_benchmark_name"] = loads[i].Name
		list = append(list, m)
	}
	return list
}
