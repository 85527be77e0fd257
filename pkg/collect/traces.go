package collect

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
)

// addTraces looks for what the profilers of the servers left. A planned trace that is
// missing is a missing file. The first trace is also the record's trace_file_path.
func addTraces(e *evidence, d *draft) {
	if e.plan == nil {
		return
	}
	for _, role := range e.plan.Reporters(e.load) {
		d.traced(e, role.ReportPattern(), reports(e, &role))
	}
	for i := range e.plan.Roles {
		role := &e.plan.Roles[i]
		if role.TraceDir != "" && e.load != nil && len(e.load.Clients) > 0 {
			d.traced(e, role.TraceDir+"/"+plan.TraceFiles, torchTraces(e, role))
		}
	}
	for _, x := range e.events {
		if x.Event == job.TraceFailed && e.load != nil && x.Load == e.load.Name {
			d.late = append(d.late, result.Warning{Kind: result.TraceFailed, File: "events.jsonl", Key: x.Role,
				Text: fmt.Sprintf("profiler of %s: %s", x.Role, x.Text)})
		}
	}
}

// traced adds a server's traces, or that the planned ones are missing.
func (d *draft) traced(e *evidence, planned string, found []result.Trace) {
	d.facts.Profiled = true
	r := d.record
	if r.Profiling == nil {
		r.Profiling = &result.Profiling{Enabled: true}
	}
	if len(found) == 0 {
		if e.sentinel != nil || e.over() {
			d.facts.Missing = append(d.facts.Missing, planned)
		}
		return
	}
	r.Profiling.Traces = append(r.Profiling.Traces, found...)
	if r.Profiling.TraceFilePath == "" {
		r.Profiling.TraceFilePath, r.Profiling.TraceFileSizeMB = found[0].Path, found[0].SizeMB
	}
}

// reports are those of a profiler around each rank of a server. Without that of the first
// profiled rank, the server has none.
func reports(e *evidence, role *plan.Role) (found []result.Trace) {
	kind := result.NsysTrace
	if role.ReportKind == plan.VizReport {
		kind = result.VizTrace
	}
	for i, rank := range role.Profiled() {
		of := reportsOf(e, role, rank)
		if i == 0 && len(of) == 0 {
			return nil
		}
		for _, t := range of {
			t.Kind, t.Role, t.Rank = kind, role.Name, &rank
			found = append(found, t)
		}
	}
	return found
}

// reportsOf are the files that a profiler around one rank left, by name and size: one for each
// capture range, or one.
func reportsOf(e *evidence, role *plan.Role, rank int) (found []result.Trace) {
	folder := filepath.Dir(role.ReportStem(rank))
	at := folder
	if !filepath.IsAbs(at) {
		at = filepath.Join(e.dir, at)
	}
	files, _ := os.ReadDir(at) // what cannot be read is missing
	for _, f := range files {
		if name := filepath.Join(folder, f.Name()); role.IsReport(f.Name(), rank) {
			if size := sizeOf(e, name); size != nil {
				found = append(found, result.Trace{Path: name, SizeMB: size})
			}
		}
	}
	return found
}

// torchTraces are those of a server that no event says to be another load's.
func torchTraces(e *evidence, role *plan.Role) (found []result.Trace) {
	others := map[string]bool{}
	for _, x := range e.events {
		if x.Event == job.TraceWritten && x.Load != e.load.Name {
			others[x.File] = true
		}
	}
	for _, name := range job.TracesBelow(e.dir, role.TraceDir) {
		size := sizeOf(e, name)
		if others[name] || size == nil {
			continue
		}
		t := result.Trace{Kind: result.TorchTrace, Path: name, SizeMB: size, Role: role.Name}
		t.Rank, t.Process = writerOf(filepath.Base(name))
		found = append(found, t)
	}
	return found
}

var (
	// vLLM 0.11.1 to 0.16 name traces ID-rank-0.TIME, later releases dp0_pp0_tp0_dcp0_ep0_rank0.TIME
	// (v1/worker/gpu_worker.py). Before, PyTorch's HOST_PID.TIME says no rank.
	traceRank = lazyregexp.New(`(?:^|[-_])rank[-_]?(\d{1,6})\.`)
	// HOST_PID.async_llm.TIME (v1/engine/async_llm.py)
	traceFrontend = lazyregexp.New(`\.async_llm\.`)
)

// writerOf tells from a trace's name which process of the server wrote it.
func writerOf(name string) (rank *int, process string) {
	if traceFrontend.MatchString(name) {
		return nil, "frontend"
	}
	if m := traceRank.FindStringSubmatch(name); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return &n, "worker"
		}
	}
	return nil, ""
}

// sizeOf is the size of a file of the run in MB, nil if there is none or it is empty.
func sizeOf(e *evidence, name string) *float64 {
	if !filepath.IsAbs(name) {
		name = filepath.Join(e.dir, name)
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() == 0 || info.Mode()&fs.ModeType != 0 {
		return nil
	}
	mb := float64(info.Size()) / 1e6
	return &mb
}
