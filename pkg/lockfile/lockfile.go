// Package lockfile reads and writes lock files, which reproduce a run: such a file has
// the definitions that the run was planned from, and what must be found as it was.
//
// It compares plans with the file. It is pure, and neither plans nor submits anything.
//
//	f, err := lockfile.Parse("run.lock.toml", data)
//	for _, d := range f.Compare(plans) { … } // what would not be as it was
package lockfile

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/source"
)

// Schema is the version of the file.
const Schema = "profllm.lock/1"

// File is a lock.
type File struct {
	Schema    string       `toml:"schema,required"`
	Profllm   string       `toml:"profllm"`   // version that planned the runs
	Scenario  string       `toml:"scenario"`  // name
	Git       string       `toml:"git"`       // commit of the definitions, "" if there was none
	Simulated bool         `toml:"simulated"` // the engine was a simulator
	Speed     int          `toml:"speed"`     // of a rehearsal; 0: no rehearsal
	Launcher  string       `toml:"launcher"`  // that replaced every other, "" for none
	Single    bool         `toml:"single_sbatch"`
	WorkDir   string       `toml:"work_dir"` // what relative paths of the system file mean
	Whole     bool         `toml:"whole"`    // every run of the scenario is locked
	Runs      []Run        `toml:"runs,required"`
	Files     []Definition `toml:"files,required"`
}

// Run is one run and what it must find again; "" is not known, and not asked for.
type Run struct {
	RunID         string        `toml:"run_id"`
	Test          string        `toml:"test,required"`
	Iteration     int           `toml:"iteration"`
	Step          int           `toml:"step"`
	Engine        string        `toml:"engine"`
	EngineVersion string        `toml:"engine_version"`
	Model         string        `toml:"model"`
	ModelRevision string        `toml:"model_revision"`
	Image         string        `toml:"image"`
	ImageDigest   string        `toml:"image_digest"`
	Fingerprint   string        `toml:"fingerprint"` // of its first load
	Plan          string        `toml:"plan"`        // digest, see Printed
	Script        string        `toml:"script"`      // likewise
	Repositories  *source.Table `toml:"repositories"`
	Settings      *source.Table `toml:"settings"` // of its first load
}

// Definition is a file that the runs were planned from, by its name below definitions.
type Definition struct {
	Name string `toml:"name,required"`
	Text string `toml:"text,required"`
}

// head is how a lock begins, and how it is told from a scenario.
const head = "# A lock of profllm"

// Output is a lock file to write.
func Output(path string) durable.Output {
	return durable.Output{Option: "--save", Path: path, Kind: "a lock file", Ours: Is}
}

// Is reports whether a file is a lock.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(head)) }

// digestKey begins the last line: the digest of all before it.
const digestKey = "# sha256:"

// Parse reads a lock. One that was changed since it was written is refused, wherever
// the change is.
func Parse(name string, data []byte) (*File, error) {
	if !Is(data) {
		return nil, source.Errorf(source.Pos{File: name, Line: 1, Col: 1},
			"this is not a lock file: it does not begin with %q", head).Hintf("profllm lock RUN > run.lock.toml")
	}
	at := bytes.LastIndex(data, []byte("\n"+digestKey)) + 1
	if at == 0 || string(data[at:]) != digestLine(data[:at]) {
		return nil, source.Errorf(source.Pos{File: name},
			"the lock file was changed or truncated after it was written: its digest does not match").
			Hintf("write it again: profllm lock RUN > %s", path.Base(name))
	}
	t, err := source.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var f File
	if err := source.Decode(t, &f); err != nil {
		return nil, err
	}
	if f.Schema != Schema {
		return nil, source.Errorf(t.PosOf("schema"), "schema %q, this program reads %q", f.Schema, Schema).
			Hintf("use the profllm that wrote it: %s", f.Profllm)
	}
	for i, d := range f.Files {
		if d.Name == "" || path.Clean(d.Name) != d.Name || path.IsAbs(d.Name) || strings.HasPrefix(d.Name, "..") ||
			strings.ContainsAny(d.Name, "\\\x00") {
			return nil, source.Errorf(t.PosOf("files"), "files[%d]: %q names no file below definitions", i, d.Name)
		}
	}
	return &f, nil
}

// Encode writes the lock, the digest last.
func (f *File) Encode() ([]byte, error) {
	var b strings.Builder
	w := writer{&b, nil}
	fmt.Fprintf(&b, "%s: profllm slurm submit THIS_FILE plans and submits the same again, or says what is not as it was.\n", head)
	w.text("schema", Schema)
	w.text("profllm", f.Profllm)
	w.text("scenario", f.Scenario)
	w.text("git", f.Git)
	w.flag("simulated", f.Simulated)
	if f.Speed > 0 {
		fmt.Fprintf(&b, "speed = %d\n", f.Speed)
	}
	w.text("launcher", f.Launcher)
	w.flag("single_sbatch", f.Single)
	w.text("work_dir", f.WorkDir)
	w.flag("whole", f.Whole)
	for _, r := range f.Runs {
		b.WriteString("\n[[runs]]\n")
		w.text("run_id", r.RunID)
		w.text("test", r.Test)
		fmt.Fprintf(&b, "iteration = %d\nstep = %d\n", r.Iteration, r.Step)
		for _, x := range []struct{ key, value string }{
			{"engine", r.Engine}, {"engine_version", r.EngineVersion}, {"model", r.Model},
			{"model_revision", r.ModelRevision},
			{"image", r.Image}, {"image_digest", r.ImageDigest}, {"fingerprint", r.Fingerprint}, {"plan", r.Plan},
			{"script", r.Script},
		} {
			w.text(x.key, x.value)
		}
		w.table("runs.repositories", r.Repositories)
		w.table("runs.settings", r.Settings)
	}
	for _, d := range f.Files {
		b.WriteString("\n[[files]]\n")
		w.text("name", d.Name)
		w.lines("text", d.Text)
	}
	b.WriteString("\n")
	if w.err != nil {
		return nil, w.err
	}
	return []byte(b.String() + digestLine([]byte(b.String()))), nil
}

func digestLine(before []byte) string {
	return fmt.Sprintf("%s%x\n", digestKey, sha256.Sum256(before))
}

// writer writes TOML.
type writer struct {
	b   *strings.Builder
	err error
}

func (w *writer) text(key, value string) {
	if value != "" {
		fmt.Fprintf(w.b, "%s = %s\n", key, w.quoted(value, false))
	}
}

func (w *writer) flag(key string, value bool) {
	if value {
		fmt.Fprintf(w.b, "%s = true\n", key)
	}
}

func (w *writer) lines(key, value string) {
	fmt.Fprintf(w.b, "%s = \"\"\"\n%s\"\"\"\n", key, w.quoted(value, true))
}

func (w *writer) table(name string, t *source.Table) {
	if t == nil || len(t.Keys()) == 0 {
		return
	}
	fmt.Fprintf(w.b, "\n[%s]\n", name)
	for _, k := range slices.Sorted(slices.Values(t.Keys())) {
		value, _ := t.Get(k).Text()
		fmt.Fprintf(w.b, "%s = %s\n", w.quoted(k, false), w.quoted(value, false))
	}
}

// quoted writes a basic string of TOML 1.0, or what stands within one of several
// lines.
func (w *writer) quoted(s string, lines bool) string {
	if !utf8.ValidString(s) {
		w.err = fmt.Errorf("lock: %q is not UTF-8", s[:min(len(s), 40)])
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n' && lines, r == '\t' && lines:
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	if lines {
		return b.String()
	}
	return `"` + b.String() + `"`
}

// Table makes one of texts, for a Run.
func Table(texts map[string]string) *source.Table {
	t := source.NewTable(source.Pos{})
	for _, k := range slices.Sorted(maps.Keys(texts)) {
		t.Set(k, &source.Value{Any: texts[k]})
	}
	return t
}

// texts is the reverse of Table.
func texts(t *source.Table) map[string]string {
	m := map[string]string{}
	for _, k := range t.Keys() {
		m[k], _ = t.Get(k).Text()
	}
	return m
}

// Name is the run in words.
func (r Run) Name() string {
	s := r.Test + "/" + strconv.Itoa(r.Iteration)
	if r.Step > 0 {
		s += "/" + strconv.Itoa(r.Step)
	}
	return s
}
