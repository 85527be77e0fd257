package records

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/result"
)

// Run is one record, where it was found, and what was asked for.
type Run struct {
	Dir     string // as the path was given
	Case    Case
	Result  *result.Result // nil if there is none that can be read
	Problem string         // why there is none
	Remark  string         // what could not be read beside the record
	NoJob   string         // why a run that is not over never will be: refused, not submitted; "" otherwise
	Refusal string         // of a run that was refused: the reason
	// by key, as CloudAI spells it: NUM_NODES, cmd_args.…, bench_cmd_args.…, extra_env_vars.…
	Settings map[string]string
	Pieced   bool           // Settings are what a record has of its own, and not all that was asked
	Values   []Setting      // what a sweep chose, in its order
	Zips     map[string]int // the zip group of a setting that a sweep chose together with others
	Reward   *float64       // of the sweep's trajectory
	Baseline bool           // it may be a baseline although another program measured
	Job      string         // the runs of one job have the same
	Series   string         // the points of one sweep have the same
	Place    int            // among the loads of its run

	gpus    int // that the job held, used or not; 0: not known
	ordinal []string
}

// Key is the same for runs that measure the same, see result.SeriesKey. Image, driver
// and nodes are not in it; they are named where a number changed.
func (r *Run) Key() string { return result.SeriesKey(r.Settings, r.Result) }

// ServerStart is the same for runs of one start of a server: of one job, or of one run whose job is not known.
func (r *Run) ServerStart() string { return cmp.Or(r.Job, r.Dir) }

// Engine is the engine's name, "" if it is not known.
func (r *Run) Engine() string {
	if r.Result == nil || r.Result.Provenance == nil {
		return ""
	}
	return r.Result.Provenance.Engine
}

// GPU is the model of the GPUs, "" if it is not known.
func (r *Run) GPU() string { return r.Result.GPU() }

// Nodes are the hosts of the run; none if they are not known.
func (r *Run) Nodes() []string {
	if r.Result == nil || r.Result.Placement == nil {
		return nil
	}
	return r.Result.Placement.Nodes
}

// Began is the start of the run; zero without a record.
func (r *Run) Began() time.Time {
	if r.Result == nil {
		return time.Time{}
	}
	return r.Result.Timestamp
}

// HeldGPUs is how many GPUs the job of a run with a record held: all of its nodes
// where that is known, else those that served. It is 0 if neither is known.
func (r *Run) HeldGPUs() int {
	switch {
	case r.gpus > 0:
		return r.gpus
	case r.Result.Results.GPUs != nil:
		return *r.Result.Results.GPUs
	}
	return 0
}

// Surroundings lists what may make the number of a run another although it was
// asked for the same, always the same names; values are "" where they are not known.
func (r *Run) Surroundings() []Setting {
	var image, digest, version, revision, driver, power string
	if res := r.Result; res != nil {
		if p := res.Provenance; p != nil {
			image, digest, version, revision = p.Image, p.ImageDigest, p.EngineVersion, p.ModelRevision
		}
		if s := res.System; s != nil && s.HardwareInfo != nil {
			if driver = s.HardwareInfo.Driver; s.HardwareInfo.GPUPowerLimitW != nil {
				power = fmt.Sprintf("%g W", *s.HardwareInfo.GPUPowerLimitW)
			}
		}
	}
	return []Setting{
		{"nodes", hostlist.Format(r.Nodes())}, {"image", image}, {"digest", digest}, {"engine", version},
		{"GPU", r.GPU()},
		{"driver", driver}, {"revision", revision}, {"power limit", power},
	}
}

// Surrounding is the value of one of the surroundings.
func (r *Run) Surrounding(name string) string {
	for _, s := range r.Surroundings() {
		if s.Key == name {
			return s.Value
		}
	}
	return ""
}

// Unfit says in a word why a run is no baseline among runs of that kind and no part
// of their series; "" if it is completed and valid.
func (r *Run) Unfit(k Kind) string {
	switch res := r.Result; {
	case r.NoJob != "":
		return r.NoJob
	case res == nil:
		return "no record"
	case !KindOf(res).Alike(k):
		return KindOf(res).Word()
	case res.Status != result.Completed:
		return res.Status.String()
	case res.Validity == nil:
		return "not judged"
	case res.Validity.Verdict != result.VerdictValid:
		return string(res.Validity.Verdict)
	case res.Provenance.From() != "" && !r.Baseline:
		return "imported"
	}
	return ""
}

// Rebase names the run as if it had been read from another folder: every path below from is one below to.
func (r *Run) Rebase(from, to string) {
	for _, path := range []*string{&r.Dir, &r.Job, &r.Series} {
		switch rest, below := strings.CutPrefix(*path, from); {
		case below && (rest == "" || rest[0] == filepath.Separator):
			*path = filepath.ToSlash(to + rest)
		case *path == filepath.Dir(from):
			*path = filepath.ToSlash(filepath.Dir(to))
		}
	}
	r.order()
}

// order takes the run's place among others from its folder.
func (r *Run) order() { r.ordinal = strings.Split(filepath.ToSlash(r.Dir), "/") }
