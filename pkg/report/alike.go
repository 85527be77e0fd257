package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/result"
)

// imageKey is the one setting that may differ between runs that are alike: an image
// that got slower is what a comparison looks for.
const imageKey = "cmd_args.docker_image_url"

// Key is the same for runs that measure the same: model, engine, topology, load,
// precision and kind of GPU. Image, driver and nodes are not in it; they are named
// where a number changed.
func (r *Run) Key() string {
	s := maps.Clone(r.Settings)
	if s == nil {
		s = map[string]string{}
	}
	delete(s, imageKey)
	s[" engine"], s[" gpu"] = r.engine(), r.gpu()
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(h, "%q=%q\n", k, s[k])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func (r *Run) engine() string {
	if r.Result == nil || r.Result.Provenance == nil {
		return ""
	}
	return r.Result.Provenance.Engine
}

func (r *Run) gpu() string {
	if r.Result == nil || r.Result.System == nil || r.Result.System.HardwareInfo == nil {
		return ""
	}
	return r.Result.System.HardwareInfo.GPU
}

// Surroundings lists what may make the number of a run another although it was
// asked for the same, always the same names; values are "" where they are not known.
func (r *Run) Surroundings() []Setting {
	var nodes, image, digest, version, driver string
	if res := r.Result; res != nil {
		if p := res.Placement; p != nil {
			nodes = hostlist.Format(p.Nodes)
		}
		if p := res.Provenance; p != nil {
			image, digest, version = p.Image, p.ImageDigest, p.EngineVersion
		}
		if s := res.System; s != nil && s.HardwareInfo != nil {
			driver = s.HardwareInfo.Driver
		}
	}
	return []Setting{{"nodes", nodes}, {"image", image}, {"digest", digest}, {"engine", version}, {"GPU", r.gpu()}, {"driver", driver}}
}

// required is what must be the same in two runs that are compared at all: a client
// that asks for something else, or another machine, makes other numbers.
var required = []struct {
	name string
	keys []string // of settings
	of   func(*result.Benchmark) string
}{
	{"endpoint", []string{"bench_cmd_args.endpoint"}, func(b *result.Benchmark) string { return b.Endpoint }},
	{"tokenizer", []string{"bench_cmd_args.tokenizer", "cmd_args.tokenizer", "cmd_args.decode.tokenizer", "cmd_args.model"}, none},
	{"data", []string{"bench_cmd_args.dataset_path", "bench_cmd_args.dataset_name"}, func(b *result.Benchmark) string { return b.DatasetName }},
	{"input tokens", []string{"bench_cmd_args.random_input_len", "bench_cmd_args.input_tokens"}, func(b *result.Benchmark) string { return whole(b.InputTokens) }},
	{"output tokens", []string{"bench_cmd_args.random_output_len", "bench_cmd_args.output_tokens"}, func(b *result.Benchmark) string { return whole(b.OutputTokens) }},
}

func none(*result.Benchmark) string { return "" }

func whole(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// Unlike is something in which two sets of runs differ.
type Unlike struct {
	Field  string `json:"field"`
	First  string `json:"first"` // several values behind commas; "" if it is not known
	Second string `json:"second"`
}

func (u Unlike) String() string {
	return fmt.Sprintf("%s: %s against %s", u.Field, cmp.Or(u.First, "unknown"), cmp.Or(u.Second, "unknown"))
}

// requirements are a run's values of what must be the same.
func (r *Run) requirements() []Setting {
	var list []Setting
	for _, f := range required {
		value := ""
		for _, k := range f.keys {
			value = cmp.Or(value, r.Settings[k])
		}
		if value == "" && r.Result != nil {
			value = f.of(&r.Result.Config.Benchmark)
		}
		list = append(list, Setting{f.name, value})
	}
	return append(list, Setting{"GPU", r.gpu()})
}

// unlike says what forbids to compare two sets of runs, and in what else they
// differ. What must be the same and is known of one side only differs, and forbids
// nothing.
func unlike(a, b []*Run) (refused, differs []Unlike) {
	within := func(field string, of func(*Run) string) {
		if !slices.ContainsFunc(refused, func(u Unlike) bool { return u.Field == field }) {
			refused = append(refused, Unlike{field, valuesOf(a, of), valuesOf(b, of)})
		}
	}
	for _, side := range [][]*Run{a, b} {
		for _, k := range differing(side) {
			within(k, func(r *Run) string { return r.Settings[k] })
		}
		for _, f := range recorded[:2] {
			if slices.ContainsFunc(side, func(r *Run) bool { return f.of(r) != f.of(side[0]) }) {
				within(f.name, f.of)
			}
		}
	}
	if len(refused) > 0 {
		return refused, nil // a side is no set of runs that are alike
	}
	covered := map[string]bool{}
	for i, name := range a[0].requirements() {
		x := valuesOf(a, func(r *Run) string { return r.requirements()[i].Value })
		y := valuesOf(b, func(r *Run) string { return r.requirements()[i].Value })
		u := Unlike{name.Key, x, y}
		switch {
		case x == y:
			continue
		case x != "" && y != "":
			refused = append(refused, u)
		default:
			differs = append(differs, u)
		}
		if i < len(required) {
			for _, k := range required[i].keys {
				covered[k] = true
			}
		}
	}
	for _, k := range differing([]*Run{a[0], b[0]}) {
		if !covered[k] {
			differs = append(differs, Unlike{k, settingOf(a, k), settingOf(b, k)})
		}
	}
	for _, f := range recorded[1:] {
		if x, y := valuesOf(a, f.of), valuesOf(b, f.of); x != y && x != "" && y != "" {
			differs = append(differs, Unlike{f.name, x, y})
		}
	}
	for i, s := range a[0].Surroundings() {
		if s.Key == "GPU" {
			continue // required
		}
		of := func(r *Run) string { return r.Surroundings()[i].Value }
		if x, y := valuesOf(a, of), valuesOf(b, of); x != y && x != "" && y != "" {
			differs = append(differs, Unlike{surroundingField[s.Key], x, y})
		}
	}
	slices.SortStableFunc(differs, func(a, b Unlike) int { return strings.Compare(a.Field, b.Field) })
	return refused, slices.CompactFunc(differs, func(a, b Unlike) bool { return a.Field == b.Field })
}

// recorded is what no setting says; the first two are part of a run's key.
var recorded = []struct {
	name string
	of   func(*Run) string
}{
	{"GPU", (*Run).gpu}, {"engine", (*Run).engine}, {"client", func(r *Run) string { return r.Result.Config.Benchmark.Kind }},
}

// surroundingField names a surrounding among settings.
var surroundingField = map[string]string{
	"nodes": nodesField, "image": imageKey, "digest": "image digest", "engine": "engine version", "driver": "driver",
}

const nodesField = "nodes"

// causes counts the differences that may each be the reason of another number: the
// digest and the version are of the image, and nodes are seldom the same twice.
func causes(differs []Unlike) int {
	n, image := 0, 0
	for _, u := range differs {
		switch u.Field {
		case nodesField:
		case imageKey, "image digest", "engine version":
			image = 1
		default:
			n++
		}
	}
	return n + image
}

func settingOf(runs []*Run, key string) string {
	return valuesOf(runs, func(r *Run) string { return r.Settings[key] })
}

// valuesOf lists the values of runs, each once, sorted.
func valuesOf(runs []*Run, of func(*Run) string) string {
	have := map[string]bool{}
	for _, r := range runs {
		have[of(r)] = true
	}
	delete(have, "")
	return strings.Join(slices.Sorted(maps.Keys(have)), ", ")
}
