package collect

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Causes is the table for the runs of a site: its own signatures, then the
// built-in ones. Every signature that breaks a rule is a complaint.
func Causes(site []plan.Signature) (*failure.Table, error) {
	list := make([]failure.Signature, len(site))
	for i, s := range site {
		list[i] = failure.Signature{
			ID: s.ID, Area: s.Area, Kind: failure.Kind(s.Kind), Regex: s.Regex, Sample: s.Sample,
			Role: s.Role, Next: s.Next, Source: "site", Where: s.Where,
		}
	}
	return failure.With(list)
}

// table returns the table for a run. A plan of another version may have
// signatures that this one refuses: then the built-in ones have to do.
func (c *Collector) table(p *plan.Plan) (*failure.Table, error) {
	switch {
	case c.Causes == nil:
		return nil, nil
	case p == nil || len(p.Signatures) == 0:
		return c.Causes()
	}
	key, _ := json.Marshal(p.Signatures)
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.own[string(key)]; ok {
		return t, nil
	}
	t, err := Causes(p.Signatures)
	if err != nil {
		if t, err = c.Causes(); err != nil {
			return nil, err
		}
	}
	if c.own == nil {
		c.own = map[string]*failure.Table{}
	}
	c.own[string(key)] = t
	return t, nil
}

// causeOf looks through every log of the run. Of logs that cannot be read the
// error says so, and the others decide. Of a run that ended before its servers
// started, the preflight knows.
func (c *Collector) causeOf(e *evidence) (*result.Failure, error) {
	if f := unfit(e.events, e.plan != nil && e.plan.Rehearsal != nil); f != nil {
		return f, nil
	}
	table, err := c.table(e.plan)
	if table == nil || err != nil {
		return nil, err
	}
	f, err := table.Explain(logsOf(e), jobFacts(e))
	if known := causeOfState(e.state); known != nil && (f == nil || f.Cause == "unknown") {
		f = known
	}
	return ofAPICheck(e.events, f), err
}

// causeOfState is the cause of a run whose state alone says it, nil for others.
func causeOfState(st *run.State) *result.Failure {
	switch {
	case st == nil:
		return nil
	case st.Note == run.Lost:
		return &result.Failure{
			Cause: "lost", Confidence: result.FromState,
			Next: "what became of the job is unknown: ask the admin, then run it again", Command: result.ResumeFailed,
		}
	case st.State == run.Cancelled && st.Note == run.NeverRan:
		return &result.Failure{
			Cause: "never-started", Confidence: result.FromState,
			Next:    "the job was cancelled before it started, so there is nothing to read; run it again",
			Command: result.Resume,
		}
	}
	return nil
}

// redactRecord takes out of a record what the run was given as secrets, and what has the
// shape of one, wherever it repeats what a process wrote.
func redactRecord(e *evidence, r *result.Result) {
	var secrets redact.Values
	if p := e.plan; p != nil && hasSecrets(p) {
		secrets = run.Secrets(e.dir)
	}
	for i := range r.Warnings {
		r.Warnings[i].Text = secrets.Text(r.Warnings[i].Text)
	}
	for i := range r.Validity.Checks {
		r.Validity.Checks[i].Detail = secrets.Text(r.Validity.Checks[i].Detail)
	}
	for k, v := range r.Config.Settings {
		r.Config.Settings[k] = secrets.Text(v)
	}
	for _, env := range r.Provenance.Environment {
		for k, v := range env.Vars {
			env.Vars[k] = secrets.Text(v)
		}
	}
	if r.APICheck != nil {
		for i := range r.APICheck.Failed {
			r.APICheck.Failed[i].Text = secrets.Text(r.APICheck.Failed[i].Text)
		}
	}
	f := r.Failure
	if f == nil {
		return
	}
	f.Line, f.About = secrets.Text(f.Line), secrets.Text(f.About)
	for i := range f.Tail {
		f.Tail[i] = secrets.Text(f.Tail[i])
	}
	for i := range f.Others {
		f.Others[i].Line = secrets.Text(f.Others[i].Line)
	}
}

// jobFacts is what is known of the run as a whole.
func jobFacts(e *evidence) failure.Job {
	j := failure.Job{Location: time.Local}
	if e.state != nil && e.state.Source != "local" {
		if j.State = e.state.Raw; strings.HasPrefix(e.state.JobID, run.KubePrefix) {
			j.State = slurmState(e.state)
		}
		if end, err := time.ParseInLocation("2006-01-02T15:04:05", e.state.End, time.Local); err == nil {
			j.Ended = end
		}
	}
	if e.sentinel != nil {
		j.Ended = e.sentinel.Time
	}
	for _, x := range e.events {
		switch x.Event {
		case job.AllReady:
			j.Ready = x.Time
		case job.NotReady:
			j.NotReady = append(j.NotReady, failure.Unready{Role: x.Role, Lacks: x.Text})
		case job.Stopping:
			if j.Teardown.IsZero() {
				j.Teardown = x.Time
			}
		}
	}
	return j
}

// logsOf lists what processes of this run wrote, with what is known of their ends.
func logsOf(e *evidence) []failure.Log {
	dirs := []string{filepath.Join(e.dir, run.LogDir)}
	if e.plan == nil { // CloudAI's logs lie beside its results
		dirs = []string{e.dir}
	}
	if e.at != e.dir {
		dirs = append(dirs, filepath.Join(e.at, run.LogDir))
	}
	hooks := failedHooks(e.dir, e.sentinel)
	for _, hook := range hooks {
		dirs = append(dirs, filepath.Join(hook, run.LogDir))
	}
	var logs []failure.Log
	for _, dir := range dirs {
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if name := f.Name(); strings.HasSuffix(strings.TrimSuffix(name, ".xz"), ".log") {
				logs = append(logs, logOf(e, filepath.Join(dir, name)))
			}
		}
	}
	for _, dir := range append([]string{e.dir}, hooks...) {
		if path := filepath.Join(dir, "stderr.txt"); readable(path) {
			rel, _ := filepath.Rel(e.dir, path)
			logs = append(logs, failure.Log{Role: "job", File: rel, Data: &lazyFile{path: path}})
		}
	}
	if path := filepath.Join(e.dir, run.RawDir, job.AnswerFile); readable(path) {
		logs = append(logs, failure.Log{Role: "client", File: run.RawDir + "/" + job.AnswerFile,
			Data: &lazyFile{path: path}})
	}
	if l := requestErrors(e); l != nil {
		logs = append(logs, *l)
	}
	return logs
}

// logOf describes one file of a logs directory.
func logOf(e *evidence, path string) failure.Log {
	rel, _ := filepath.Rel(e.dir, path)
	role, rank := roleOf(rel)
	l := failure.Log{Role: role, Rank: rank, Node: hostOf(e, role, rank), File: rel, Argv: argvOf(e, role),
		Data: &lazyFile{path: path}}
	for _, x := range e.events {
		if x.Event == job.RoleDied && x.Role == role {
			l.Ended, l.Exit = x.Time, max(0, e.exitOf(role))
		}
	}
	if e.load != nil && e.sentinel != nil {
		for _, ph := range e.sentinel.Phases {
			if ph.Name == e.load.Phase(role) && ph.Code > 0 {
				l.Exit = ph.Code
			}
		}
	}
	return l
}

// argvOf is the command of a role or of a client, without what only the allocation knows.
func argvOf(e *evidence, name string) []string {
	if e.plan == nil {
		return nil
	}
	var words []plan.Word
	if r := e.plan.Role(name); r != nil {
		words = r.Step.Argv
	} else if e.load != nil {
		for _, c := range e.load.Clients {
			if c.Name == name {
				words = c.Argv
			}
		}
	}
	argv := make([]string, len(words))
	for i, word := range words {
		for _, part := range word {
			argv[i] += part.Text
		}
	}
	return argv
}

// failedHooks lists the directories of the hooks that failed.
func failedHooks(dir string, s *run.Sentinel) []string {
	if s == nil {
		return nil
	}
	var dirs []string
	for _, ph := range s.Phases {
		kind, name, ok := strings.Cut(ph.Name, "/")
		if ok && ph.Code != 0 && (kind == run.PreTestDir || kind == run.PostTestDir) && filepath.IsLocal(name) {
			dirs = append(dirs, filepath.Join(dir, kind, name))
		}
	}
	return dirs
}

// hostOf is the node that a task of a role or of a client ran on, if it is known.
func hostOf(e *evidence, name string, rank int) string {
	if e.plan == nil || e.place == nil {
		return ""
	}
	var slice plan.Slice
	if r := e.plan.Role(name); r != nil {
		slice = r.Nodes
	} else if e.load != nil {
		for _, c := range e.load.Clients {
			if c.Name == name {
				slice = c.Nodes
			}
		}
	}
	if slice.Count == 0 {
		return ""
	}
	if i := slice.Offset + min(rank, slice.Count-1); i < len(e.place.Nodes) {
		return e.place.Nodes[i].Host
	}
	return ""
}

func readable(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lazyFile is open only while it is read: a run may have thousands of logs.
type lazyFile struct {
	path string
	file *regular.File
	over bool
}

func (l *lazyFile) Read(p []byte) (int, error) {
	if l.over {
		return 0, io.EOF
	}
	if l.file == nil {
		f, err := regular.Open(l.path)
		if err != nil {
			return 0, err
		}
		l.file = f
	}
	n, err := l.file.Read(p)
	if err != nil {
		l.over = true
		l.file.Close()
	}
	return n, err
}

// roleOf reads logs/<role>-<rank>.log, packed or not.
func roleOf(file string) (string, int) {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".xz"), ".log")
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		if rank, err := strconv.Atoi(name[i+1:]); err == nil {
			return name[:i], rank
		}
	}
	return strings.TrimPrefix(name, "vllm-"), 0
}
