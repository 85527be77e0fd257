package upload

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/interchange/importer"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// reader reads one file or folder that was sent.
type reader struct {
	collector *collect.Collector
	work      string // an empty folder
	from      string // what was sent
	name      string // as it was called
	notes     []string
	fault     error // of this machine: what was sent may be good
}

var errNothing = errors.New("no record of profllm, and no result of a program that profllm imports")

// read finds the runs, judged as collect judges them.
func (r *reader) read() (runs []records.Run, err error) {
	info, err := os.Stat(r.from)
	switch {
	case err != nil:
		r.fault = err
	case info.IsDir():
		runs, err = r.folder(r.from)
	default:
		runs, err = r.file()
	}
	if r.fault == nil && ofMachine(err) {
		r.fault = err
	}
	return runs, err
}

// file reads a single record, or a result of another program.
func (r *reader) file() ([]records.Run, error) {
	data, err := regular.ReadFile(r.from)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty")
	}
	if !bytes.Contains(data, []byte(`"`+schemaHead)) {
		return r.imported(r.from)
	}
	record, err := result.Decode(data)
	if err != nil {
		return nil, err
	}
	if err := result.Validate(data); err != nil {
		return nil, fmt.Errorf("%w\n\thint: a record of a newer release needs a server of that release", err)
	}
	dir := filepath.Join(r.work, testOf(record))
	if err := os.Mkdir(dir, 0o700); err != nil {
		r.fault = err
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, recordFile), data, 0o600); err != nil {
		r.fault = err
		return nil, err
	}
	return r.load(dir)
}

// testOf is a name for the folder of a record that has none: that of its test, as its run directory had it.
func testOf(r *result.Result) string {
	name := r.Suite[strings.LastIndexByte(r.Suite, '/')+1:]
	if name == "." || !filepath.IsLocal(name) || len(name) > 200 || strings.ContainsRune(name, 0) {
		return "record"
	}
	return name
}

const (
	schemaHead = "profllm.result/"
	recordFile = "result.json"
)

// folder reads a folder of runs. Those with their files are collected again.
func (r *reader) folder(dir string) ([]records.Run, error) {
	dirs, err := run.Find(dir)
	if err != nil {
		r.note(err)
	}
	var nothing cache.Cache
	for _, d := range dirs {
		if !hasFiles(d) {
			continue
		}
		if got := nothing.Collect(r.collector, d, nil); got.Err != nil {
			r.note(got.Err)
		}
	}
	runs, err := r.load(dir)
	if err == nil && len(runs) == 0 {
		return r.imported(dir)
	}
	return runs, err
}

// hasFiles reports whether a run has the files that its record was made of.
func hasFiles(dir string) bool {
	for _, name := range []string{"raw", "logs"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			return true
		}
	}
	_, err := os.Stat(filepath.Join(dir, recordFile))
	return errors.Is(err, fs.ErrNotExist)
}

// load reads records, and names their folders as the sender knows them.
func (r *reader) load(dir string) ([]records.Run, error) {
	runs, err := records.Load(dir)
	if err != nil {
		return nil, err
	}
	with := runs[:0]
	for _, x := range runs {
		if x.Result == nil {
			if _, err := regular.ReadFile(filepath.Join(x.Dir, recordFile)); ofMachine(err) {
				return nil, err
			}
		}
		x.Rebase(dir, r.name)
		if x.Result == nil {
			r.note(fmt.Errorf("%s: %s", x.Dir, x.Problem))
			continue
		}
		if v := x.Result.Validity; v == nil || len(v.Checks) == 0 { // a verdict that rests on nothing
			x.Result.Validity = validity.Judge(x.Result, validity.Evidence{})
		}
		with = append(with, x)
	}
	if len(with) == 0 && len(runs) > 0 {
		return nil, errors.New("no record that can be read")
	}
	return with, nil
}

// imported reads results of other programs.
func (r *reader) imported(path string) ([]records.Run, error) {
	into := filepath.Join(r.work, "imported")
	if err := os.Mkdir(into, 0o700); err != nil {
		r.fault = err
		return nil, err
	}
	s := interchange.Scan{Name: r.called, Spoilt: func(_ string, err error) { r.note(err) }}
	found, err := s.Path(path)
	if err != nil {
		return nil, err
	}
	m := importer.Importer{Collector: r.collector, Dir: into, Relative: r.called}
	files, left := interchange.Once(found)
	for _, why := range left {
		r.note(errors.New("left out " + why))
	}
	made := false
	for _, f := range files {
		for _, it := range f.Items {
			if _, _, err := m.Import(f, it); err != nil {
				r.note(err)
				continue
			}
			made = true
		}
	}
	if !made {
		if len(r.notes) > 0 {
			return nil, errors.New(r.notes[0])
		}
		return nil, errNothing
	}
	return r.load(into)
}

// called is a path as the sender knows it.
func (r *reader) called(path string) string {
	if rest, ok := strings.CutPrefix(path, r.from); ok {
		return filepath.ToSlash(r.name + rest)
	}
	return path
}

// note keeps what is wrong with one run or file.
func (r *reader) note(err error) {
	if r.fault == nil && ofMachine(err) {
		r.fault = err
	}
	if len(r.notes) < most {
		text := strings.ReplaceAll(err.Error(), r.from, r.name)
		r.notes = append(r.notes, strings.ReplaceAll(text, r.work+string(filepath.Separator), ""))
	}
}

// machine are the errors of a system that is short of something or broken. Others, such as a name that is too
// long, come of what was sent.
var machine = []error{
	fs.ErrPermission, // the spool is this program's own, whatever modes an archive asks for
	syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
	syscall.ENOBUFS, syscall.EAGAIN, syscall.EINTR, syscall.ESTALE, syscall.ENODEV, syscall.ENXIO, syscall.ENOTCONN,
	syscall.ESHUTDOWN, syscall.EHOSTDOWN, syscall.ETIMEDOUT, syscall.EREMOTEIO, syscall.ENOMEDIUM, syscall.EUCLEAN,
}

// ofMachine reports whether an error is of this machine: the same content may be read without it later.
func ofMachine(err error) bool {
	return slices.ContainsFunc(machine, func(m error) bool { return errors.Is(err, m) })
}
