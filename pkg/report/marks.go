package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
)

// Mark is a word beside a verdict that says why it counts for less.
type Mark string

// The marks.
const (
	// AccuracyUnchecked: a gain of speed, and no accuracy before and after it that was
	// measured with the same image and the same flags of the server.
	AccuracyUnchecked Mark = "accuracy-unchecked"
	// MixedHardware: runs that count as alike had different GPUs or drivers.
	MixedHardware Mark = "mixed-hardware"
)

// mixed says which GPUs and drivers stand in one set of runs, a line for each of the
// two that is not the same in all; what is not known is no other.
func mixed(runs []*Run) []string {
	var lines []string
	for _, name := range []string{"GPU", "driver"} {
		count := map[string]int{}
		for _, r := range runs {
			if v := r.surrounding(name); v != "" {
				count[v]++
			}
		}
		if len(count) < 2 {
			continue
		}
		var parts []string
		for _, v := range slices.Sorted(maps.Keys(count)) {
			parts = append(parts, fmt.Sprintf("%s (%s)", v, quantity.Count(count[v], "run")))
		}
		lines = append(lines, name+": "+strings.Join(parts, ", "))
	}
	return lines
}

func (r *Run) surrounding(name string) string {
	for _, s := range r.Surroundings() {
		if s.Key == name {
			return s.Value
		}
	}
	return ""
}

// served is the same for runs that asked the same server: image and version, model,
// flags, environment and nodes, whatever load they put on it.
func (r *Run) served() string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(r.Settings)) {
		if k != imageKey && !strings.HasPrefix(k, "bench_cmd_args.") {
			fmt.Fprintf(h, "%q=%q\n", k, r.Settings[k])
		}
	}
	image := cmp.Or(r.surrounding("digest"), r.surrounding("image"), r.Settings[imageKey])
	fmt.Fprintf(h, "%q %q %q", r.engine(), image, r.surrounding("engine"))
	return hex.EncodeToString(h.Sum(nil))
}

// Proven is the servers, by image and flags, of which an accuracy is known.
type Proven map[string]bool

// ProvenBy lists the servers that valid runs looked at the answers of.
func ProvenBy(runs []*Run) Proven {
	p := Proven{}
	for _, r := range runs {
		if e := newEntry(r); r.Result != nil && e.best() && accuracy.Of(r.Result).Number != nil {
			p[r.served()] = true
		}
	}
	return p
}

// Covers reports whether a gain of speed of the second runs over the first counts:
// there are accuracies of each server of the second, and of one of the first's at
// least.
func (p Proven) Covers(first, second []*Run) bool {
	is := func(r *Run) bool { return p[r.served()] }
	return slices.ContainsFunc(first, is) && !slices.ContainsFunc(second, func(r *Run) bool { return !is(r) })
}

// Unfit says in a word why a run is no baseline among runs of that kind and no part
// of their series; "" if it is completed and valid.
func (r *Run) Unfit(k Kind) string {
	switch res := r.Result; {
	case res == nil:
		return "no record"
	case !KindOf(res).alike(k):
		return kindWord(KindOf(res))
	case res.Status != result.Completed:
		return string(res.Status)
	case res.Validity == nil:
		return "not judged"
	case res.Validity.Verdict != result.VerdictValid:
		return string(res.Validity.Verdict)
	case res.Provenance.From() != "" && !r.Baseline:
		return "imported"
	}
	return ""
}
