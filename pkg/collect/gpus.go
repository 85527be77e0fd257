package collect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// place is one GPU of the job.
type place struct {
	node  int // in allocation order
	index int
}

// compare orders GPUs by their nodes.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.node, other.node), cmp.Compare(p.index, other.index))
}

// givenGPUs lists the GPUs that roles were given.
func givenGPUs(e *evidence) map[place]*plan.Role {
	givenGPUs := map[place]*plan.Role{}
	for i := range e.plan.Roles {
		r := &e.plan.Roles[i]
		for node := r.Nodes.Offset; node < r.Nodes.End(); node++ {
			for _, index := range r.GPUs {
				givenGPUs[place{node, index}] = r
			}
		}
	}
	return givenGPUs
}

// givenHardware lists the GPUs that roles were given, as their nodes saw them before the
// start.
func givenHardware(e *evidence) []validity.NodeGPU {
	if e.plan == nil {
		return nil
	}
	var list []validity.NodeGPU
	givenGPUs := givenGPUs(e)
	for node, n := range e.looked.Nodes {
		for _, d := range n.GPUs {
			if givenGPUs[place{node, d.Index}] != nil {
				list = append(list, validity.NodeGPU{Node: n.Host, Name: d.Name, Driver: d.Driver})
			}
		}
	}
	return list
}

// addGPUs adds what the nodes' GPUs did in the window of the client that measured, or
// says why that is not known.
func addGPUs(e *evidence, d *draft) {
	r, ev, w := d.record, &d.facts, &d.late
	if e.plan != nil {
		r.Results.GPUHourUSD = e.plan.GPUHourUSD
	}
	if e.plan == nil || e.place == nil || len(e.load.Clients) == 0 || e.load.Client == "" {
		return
	}
	if e.plan.Telemetry == nil {
		ev.NoGPUSamples = "enabled = false in [Tests.telemetry]"
		return
	}
	s := &result.GPUSamples{Interval: time.Duration(e.plan.Telemetry.Interval).Seconds()}
	if s.Begin, s.End, s.From = windowOf(e, w, r); s.From == "" {
		ev.NoGPUSamples = "the client's window is not known"
		return
	}
	givenGPUs, tracks := givenGPUs(e), map[place]*track{}
	for at, role := range givenGPUs {
		tracks[at] = newTrack(s,
			result.GPUUse{Node: e.place.Nodes[at.node].Host, Index: at.index, Role: role.KindName(),
				Replica: role.Replica})
	}
	notes, missing := readNodes(e, r, s, tracks)
	if len(missing) == len(e.place.Nodes) {
		ev.NoGPUSamples = strings.Join(missing[:min(len(missing), 3)], "; ")
		return
	}
	s.Notes = ofHosts(notes)
	for _, at := range slices.SortedFunc(maps.Keys(tracks), place.compare) {
		if t := tracks[at]; t.finish() || givenGPUs[at] != nil {
			s.GPUs = append(s.GPUs, t.use)
		}
	}
	r.SetGPUs(s)
}

// readNodes reads the samples of all nodes into tracks. It returns the hosts by what they
// noted, and why hosts have no samples.
func readNodes(e *evidence, r *result.Result, s *result.GPUSamples, tracks map[place]*track) (
	notes map[string][]string, missing []string) {
	notes = map[string][]string{}
	for node, n := range e.place.Nodes {
		found, err := readSamples(e, n.Host, func(x gpu.Sample) {
			at := place{node, x.Index}
			if tracks[at] == nil {
				tracks[at] = newTrack(s, result.GPUUse{Node: n.Host, Index: x.Index})
			}
			tracks[at].add(x)
		})
		if err != nil {
			r.Warnings = append(r.Warnings,
				result.Warning{Kind: result.Unreadable, File: run.TelemetryDir + "/" + job.GPUFile(n.Host),
					Text: err.Error()})
		}
		note := noted(e, n.Host)
		if note != "" {
			notes[note] = append(notes[note], n.Host)
		}
		if !found {
			missing = append(missing, n.Host+": "+cmp.Or(note, unsampled(e)))
		}
	}
	return notes, missing
}

// ofHosts are notes with the hosts that they are of.
func ofHosts(notes map[string][]string) (list []string) {
	for _, note := range slices.Sorted(maps.Keys(notes)) {
		hosts := notes[note]
		if len(hosts) > 1 {
			note = fmt.Sprintf("%s and %d more: %s", hosts[0], len(hosts)-1, note)
		} else {
			note = hosts[0] + ": " + note
		}
		list = append(list, note)
	}
	return list
}

// readSamples reads what was sampled on a node; found is false if there is no such file.
func readSamples(e *evidence, host string, each func(gpu.Sample)) (found bool, err error) {
	f, err := regular.Open(filepath.Join(e.dir, run.TelemetryDir, job.GPUFile(host)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return true, gpu.Read(f, each)
}

// noted is what a node said of its samples, "" for nothing.
func noted(e *evidence, host string) string {
	data, err := regular.ReadFile(filepath.Join(e.dir, run.TelemetryDir, job.GPUNote(host)))
	_, why, _ := strings.Cut(strings.TrimSpace(string(data)), ": ")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.300s", why)
}

// unsampled is why there are no samples of a node that noted nothing.
func unsampled(e *evidence) string {
	if e.plan.Simulated {
		return "the simulated engine needs no GPU, and has none without " + job.SimGPUs
	}
	return "no samples were found"
}

// windowOf is when the client that measured did so, and who said it: the client itself;
// else its window ends with the last second in which the engines were busy; else with
// its process. "" if nobody knows.
func windowOf(e *evidence, w *warnings, r *result.Result) (begin, end time.Time, from string) {
	if r.Results.Duration == nil || !(*r.Results.Duration > 0 && *r.Results.Duration < 1e9) {
		return begin, end, ""
	}
	took := time.Duration(*r.Results.Duration * float64(time.Second))
	if c := r.Results.Client; c != nil && c.Started != nil {
		return c.Started.UTC(), c.Started.Add(took).UTC(), "client"
	}
	client := e.load.Clients[0].Name
	if points := busyOf(e, w); len(points) > 0 {
		end = time.UnixMilli(int64(1000 * points[len(points)-1].at)).UTC()
		return end.Add(-took), end, "engines"
	}
	for _, x := range e.events {
		if x.Event == job.ClientEnded && x.Text == e.load.Phase(client) {
			return x.Time.Add(-took).UTC(), x.Time.UTC(), "job"
		}
	}
	return begin, end, ""
}
