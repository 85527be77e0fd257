package report

import (
	"cmp"
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
const imageKey = result.ImageSetting

// Key is the same for runs that measure the same, see result.SeriesKey. Image, driver
// and nodes are not in it; they are named where a number changed.
func (r *Run) Key() string { return result.SeriesKey(r.Settings, r.Result) }

func (r *Run) engine() string {
	if r.Result == nil || r.Result.Provenance == nil {
		return ""
	}
	return r.Result.Provenance.Engine
}

func (r *Run) gpu() string { return r.Result.GPU() }

// Surroundings lists what may make the number of a run another although it was
// asked for the same, always the same names; values are "" where they are not known.
func (r *Run) Surroundings() []Setting {
	var nodes, image, digest, version, revision, driver, power string
	if res := r.Result; res != nil {
		if p := res.Placement; p != nil {
			nodes = hostlist.Format(p.Nodes)
		}
		if p := res.Provenance; p != nil {
			image, digest, version, revision = p.Image, p.ImageDigest, p.EngineVersion, p.ModelRevision
		}
		if s := res.System; s != nil && s.HardwareInfo != nil {
			if driver = s.HardwareInfo.Driver; s.HardwareInfo.GPUPowerLimitW != nil {
				power = fmt.Sprintf("%g W", *s.HardwareInfo.GPUPowerLimitW)
			}
		}
	}
	return []Setting{{"nodes", nodes}, {"image", image}, {"digest", digest}, {"engine", version}, {"GPU", r.gpu()}, {"driver", driver}, {"revision", revision}, {"power limit", power}}
}

// required is what must be the same in two runs that are compared at all: a client
// that asks for something else, or another machine, makes other numbers.
var required = []struct {
	name string
	keys []string // of settings
	of   func(*result.Benchmark) string
}{
	{"endpoint", []string{"bench_cmd_args.endpoint"}, func(b *result.Benchmark) string { return b.Endpoint }},
	{tokenizerField, tokenizerKeys, none},
	{"data", []string{"bench_cmd_args.dataset_path", "bench_cmd_args.dataset_name"}, func(b *result.Benchmark) string { return b.DatasetName }},
	{"input tokens", []string{"bench_cmd_args.random_input_len", "bench_cmd_args.input_tokens"}, func(b *result.Benchmark) string { return whole(b.InputTokens) }},
	{"output tokens", []string{"bench_cmd_args.random_output_len", "bench_cmd_args.output_tokens"}, func(b *result.Benchmark) string { return whole(b.OutputTokens) }},
}

const tokenizerField = "tokenizer"

// tokenizerKeys name the tokenizer; without one of the first it is the model's.
var tokenizerKeys = []string{"bench_cmd_args.tokenizer", "cmd_args.tokenizer", "cmd_args.decode.tokenizer", result.ModelSetting}

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

const notKnown = "unknown"

func (u Unlike) String() string {
	return fmt.Sprintf("%s: %s against %s", u.Field, cmp.Or(u.First, notKnown), cmp.Or(u.Second, notKnown))
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
			refused = append(refused, Unlike{field, mixture(a, of), mixture(b, of)})
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
		if name.Key == tokenizerField && sameTokenizer(a, b) {
			continue // another model, if it is one, is told as what it is
		}
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

// sameTokenizer reports whether two sets of runs cut text alike. The digest of the
// tokenizer's file decides where all runs have it. Else the names do, and models whose
// names differ in their precision and in who made them have one: quantizing changes
// weights (FP8 of a BF16 model).
func sameTokenizer(a, b []*Run) bool {
	runs := slices.Concat(a, b)
	digest := func(r *Run) string {
		if r.Result == nil || r.Result.Provenance == nil || r.Settings["bench_cmd_args.tokenizer"] != "" {
			return "" // the client has one of its own
		}
		return r.Result.Provenance.TokenizerDigest
	}
	value := func(r *Run) string {
		for _, k := range tokenizerKeys {
			if v := r.Settings[k]; v != "" {
				return weightless(v)
			}
		}
		return ""
	}
	if !slices.ContainsFunc(runs, func(r *Run) bool { return digest(r) == "" }) {
		value = digest
	}
	first := value(runs[0])
	return first != "" && !slices.ContainsFunc(runs, func(r *Run) bool { return value(r) != first })
}

// weightless is a model's name without whose it is, and without what says how its
// weights are stored.
func weightless(model string) string {
	name := strings.ToLower(result.ModelName(model))
	name = strings.TrimPrefix(name[strings.LastIndexByte(name, '/')+1:], "meta-") // as in Meta-Llama-3.1, which others call Llama-3.1
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' })
	kept := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(precisions, w) })
	if len(kept) == 0 {
		kept = words
	}
	return strings.Join(kept, "-")
}

// precisions are the words by which names tell how weights are stored.
var precisions = strings.Fields(`bf16 fp32 fp16 f16 fp8 fp4 nvfp4 mxfp4 mxfp8 int8 int4 w8a8 w8a16 w4a16 w4a8 w4a4 4bit 8bit
	awq gptq bnb gguf marlin quantized dynamic block`)

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
	"revision": "model revision", "power limit": "GPU power limit",
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

// causal says in a line what differences mean for whoever looks for a reason; "" if
// nothing differs that could be one.
func causal(differs []Unlike) string {
	var other []string
	for _, u := range differs {
		if u.Field != nodesField {
			other = append(other, u.String())
		}
	}
	switch n := causes(differs); n {
	case 0:
		return ""
	case 1:
		return "one setting differs: " + strings.Join(other, "; ")
	default:
		return fmt.Sprintf("%d settings differ: not causal, a change has no one reason", n)
	}
}

func settingOf(runs []*Run, key string) string {
	return valuesOf(runs, func(r *Run) string { return r.Settings[key] })
}

// mixture is valuesOf with a word for the runs of which it is not known, beside those of
// which it is.
func mixture(runs []*Run, of func(*Run) string) string {
	text := valuesOf(runs, of)
	if text != "" && slices.ContainsFunc(runs, func(r *Run) bool { return of(r) == "" }) {
		text += ", " + notKnown
	}
	return text
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
