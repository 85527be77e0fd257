package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// results unpacks the archive below temp. One that is damaged gives no file at all; an error is one
// of this machine, such as a full disk.
func (f *fetch) results() error {
	if !f.said.archive {
		return nil
	}
	files, err := f.unpack()
	if err == nil {
		f.unpacked, f.done.Files = files, len(files)
		return nil
	}
	if gone := os.RemoveAll(filepath.Join(f.temp, resultsDir)); gone != nil || ofThisMachine(err) {
		return errors.Join(err, gone)
	}
	f.said.archive, f.said.fault = false, fmt.Errorf("the archive of results cannot be unpacked: %w", err)
	return nil
}

// ofThisMachine reports whether a file could not be written for another reason than its name.
func ofThisMachine(err error) bool {
	if !errors.As(err, new(*fs.PathError)) && !errors.As(err, new(*os.LinkError)) {
		return false
	}
	return !slices.ContainsFunc([]error{fs.ErrExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EINVAL},
		func(e error) bool { return errors.Is(err, e) })
}

// resultsDir is where results are unpacked, below temp.
const resultsDir = "results"

func (f *fetch) unpack() ([]string, error) {
	in, err := regular.OpenLarge(filepath.Join(f.temp, "results.tgz"))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	at := filepath.Join(f.temp, resultsDir)
	if err := os.Mkdir(at, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var loads []string
	for i := range f.of.plan.Loads {
		if rel, err := filepath.Rel(f.of.plan.Dir, f.of.plan.Loads[i].Dir); err == nil && rel != "." && filepath.IsLocal(rel) {
			loads = append(loads, filepath.ToSlash(rel)+"/")
		}
	}
	return unpack(in, root, loads)
}

// write moves what was fetched into the run directory, and writes what the collector reads.
func (f *fetch) write(ctx context.Context) error {
	if err := f.results(); err != nil {
		return err
	}
	if err := f.still(ctx); err != nil {
		return err
	}
	if err := f.judge(); err != nil {
		return err
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	if err := f.publish(); err != nil {
		return err
	}
	return f.record(ctx)
}

// still makes sure, before results are called missing, that nobody has deleted the Job meanwhile.
func (f *fetch) still(ctx context.Context) error {
	if f.said.archive {
		return nil
	}
	have, err := f.get(ctx, f.of.at, []string{resources[kindJob]}, byLabel(f.of.runID))
	if err != nil {
		return f.plain(err, f.of.at)
	}
	if job := jobOf(have, f.id); job == nil || job.Metadata.Deleted != nil {
		return fmt.Errorf("job %s was deleted while its logs were read", f.jobName())
	}
	return nil
}

// faultLog is the log that says why there are no results.
const faultLog = run.LogDir + "/fetch-0.log"

// judge decides whether results are missing.
func (f *fetch) judge() error {
	f.done.Time = f.now().UTC()
	missing := errors.Is(f.said.fault, errNoArchive)
	if f.said.fault == nil || missing && f.st.State != run.Succeeded {
		return nil
	}
	if missing && len(f.lost) > 0 {
		f.said.fault = fmt.Errorf("%w (%s)", f.said.fault, strings.Join(f.lost, "; "))
	}
	f.done.Fault = fmt.Sprintf("%s: %v", f.said.word(), f.said.fault)
	return f.keep(faultLog, []byte("profllm kube: "+f.done.Fault+"\n"))
}

// publish moves logs, objects and results into the run directory. Doing so again replaces them.
func (f *fetch) publish() error {
	root, err := os.OpenRoot(f.of.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := publish(root, filepath.Base(f.temp)+"/"+resultsDir, f.unpacked); err != nil {
		return err
	}
	var fresh []string
	for _, name := range f.files { // the Job's own logs of the same name are the client's
		if !slices.Contains(f.unpacked, name) {
			fresh = append(fresh, name)
		}
	}
	if f.done.Fault == "" { // of an earlier try
		if err := root.Remove(faultLog); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return publish(root, filepath.Base(f.temp), fresh)
}

// record writes the end of the run, once.
func (f *fetch) record(ctx context.Context) error {
	if err := lease.Check(ctx); err != nil || f.of.fetched(f.id) {
		return err
	}
	if err := f.records(); err != nil {
		return err
	}
	return run.WriteJSON(filepath.Join(f.of.dir, run.SentinelFile), f.sentinel())
}
