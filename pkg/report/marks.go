package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
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
func mixed(runs []*records.Run) []string {
	var lines []string
	for _, name := range []string{"GPU", "driver"} {
		count := map[string]int{}
		for _, r := range runs {
			if v := r.Surrounding(name); v != "" {
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

// served is the same for runs that asked the same server: image and version, model,
// flags, environment and nodes, whatever load they put on it.
func served(r *records.Run) string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(r.Settings)) {
		if k != imageKey && !strings.HasPrefix(k, "bench_cmd_args.") {
			fmt.Fprintf(h, "%q=%q\n", k, r.Settings[k])
		}
	}
	image := cmp.Or(r.Surrounding("digest"), r.Surrounding("image"), r.Settings[imageKey])
	fmt.Fprintf(h, "%q %q %q", r.Engine(), image, r.Surrounding("engine"))
	return hex.EncodeToString(h.Sum(nil))
}

// Proven is the servers, by image and flags, of which an accuracy is known.
type Proven map[string]bool

// ProvenBy lists the servers that valid runs looked at the answers of.
func ProvenBy(runs []*records.Run) Proven {
	p := Proven{}
	for _, r := range runs {
		if e := newEntry(r); r.Result != nil && e.Best() && metric.Accuracy.Of(r.Result).Number != nil {
			p[served(r)] = true
		}
	}
	return p
}

// Covers reports whether a gain of speed of the second runs over the first counts:
// there are accuracies of each server of the second, and of one of the first's at
// least.
func (p Proven) Covers(first, second []*records.Run) bool {
	is := func(r *records.Run) bool { return p[served(r)] }
	return slices.ContainsFunc(first, is) && !slices.ContainsFunc(second, func(r *records.Run) bool { return !is(r) })
}
