package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// imageKey is the one setting that may differ between runs that are alike: an image
// that got slower is what a comparison looks for.
const imageKey = result.ImageSetting

// A requirement is one field of what must be the same.
type requirement struct {
	name string
	keys []string // of settings, under all names that clients have for it
	of   func(*result.Benchmark) string
}

// required is what must be the same in two runs that are compared at all, beside the options that shape
// prompts: a client that asks for something else, or another machine, makes other numbers.
var required = []requirement{
	{endpointField, optionKeys("endpoint custom_endpoint"), func(b *result.Benchmark) string { return b.Endpoint }},
	{tokenizerField, tokenizerKeys, none},
	{dataField, optionKeys("dataset_path dataset_name input_file public_dataset hf_weka_dataset"),
		func(b *result.Benchmark) string { return b.DatasetName }},
	{inputField, optionKeys("random_input_len random_input input_tokens " +
		"prompt_input_tokens_mean synthetic_input_tokens_mean isl"),
		func(b *result.Benchmark) string { return whole(b.InputTokens) }},
	{outputField, optionKeys("random_output_len random_output output_tokens " +
		"prompt_output_tokens_mean output_tokens_mean osl"),
		func(b *result.Benchmark) string { return whole(b.OutputTokens) }},
}

const (
	endpointField  = "endpoint"
	tokenizerField = "tokenizer"
	dataField      = "data"
	inputField     = "input tokens"
	outputField    = "output tokens"
	gpuField       = "GPU"
)

// tokenizerKeys name the tokenizer; without one of the first it is the model's.
var tokenizerKeys = []string{
	"bench_cmd_args.tokenizer", "cmd_args.tokenizer", "cmd_args.decode.tokenizer", result.ModelSetting,
}

// endpointOf is the path that a client takes which is told none, where its backend says which: the
// same load has other numbers as a chat and as a completion. It is "" where nothing says the
// backend, so that a record that says little forbids nothing.
func endpointOf(r *records.Run) string {
	backend := r.Settings["bench_cmd_args.backend"]
	if r.Result != nil {
		backend = cmp.Or(backend, r.Result.Config.Benchmark.Backend)
	}
	switch kind := r.Settings[endpointType]; cmp.Or(kind, backend) {
	case "openai", "vllm", "completions":
		return "/v1/completions"
	case "openai-chat", "vllm-chat", "chat":
		return "/v1/chat/completions"
	default:
		return kind
	}
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
	First  string `json:"first"` // several values are separated by commas; "" if not known
	Second string `json:"second"`

	none [2]string // what is said of a side without a value; "" is the same as notKnown
}

// What is said in the place of a value.
const (
	notKnown = "unknown"
	notSet   = "not set" // in the place of a setting
)

func (u Unlike) String() string {
	if u.First == u.Second && u.First != "" { // several values
		return fmt.Sprintf("%s: %s on each side", u.Field, u.First)
	}
	return fmt.Sprintf("%s: %s against %s", u.Field, cmp.Or(u.First, u.none[0], notKnown),
		cmp.Or(u.Second, u.none[1], notKnown))
}

// absent are what is said of two sides without a value: a setting that the records would have
// is not set, and of anything else, the first record that lacks it is named.
func absent(a, b []*records.Run, setting bool, of func(*records.Run) string) (none [2]string) {
	for i, side := range [][]*records.Run{a, b} {
		none[i] = notSet
		for _, r := range side {
			if of(r) == "" && !(setting && allAsked([]*records.Run{r})) {
				none[i] = notKnown + " (the record of " + r.Dir + " does not have it)"
				break
			}
		}
	}
	return none
}

// allAsked reports whether runs have all that was asked, so that a setting that is not among
// theirs was not set.
func allAsked(runs []*records.Run) bool {
	return !slices.ContainsFunc(runs, func(r *records.Run) bool { return r.Pieced || len(r.Settings) == 0 })
}

// requirements are a run's values of what must be the same.
func requirements(r *records.Run) []records.Setting {
	var list []records.Setting
	for _, f := range required {
		value := ""
		for _, k := range f.keys {
			value = cmp.Or(value, r.Settings[k])
		}
		if value == "" && r.Result != nil {
			value = f.of(&r.Result.Config.Benchmark)
		}
		if value == "" {
			value = withoutOption(r, f.name)
		}
		list = append(list, records.Setting{Key: f.name, Value: value})
	}
	list = append(list, shapes(r)...)
	return append(list, records.Setting{Key: gpuField, Value: r.GPU()})
}

// withoutOption is what a load has that sets no option for a field; "" if that is not known.
func withoutOption(r *records.Run, field string) string {
	asked := allAsked([]*records.Run{r})
	switch {
	case field == endpointField:
		return endpointOf(r)
	case field == dataField && asked:
		return anyData
	case field == inputField && r.Settings[endpointType] != "" && !slices.ContainsFunc(keysOf(dataField),
		func(k string) bool { return r.Settings[k] != "" }):
		return aiperfInput
	}
	return ""
}

// unlike says what forbids to compare two sets of runs, and in what else they
// differ. What must be the same and is known of one side only differs, and forbids
// nothing.
func unlike(a, b []*records.Run) (refused, differs []Unlike) {
	if refused = mixtures(a, b); len(refused) > 0 {
		return refused, nil // a side is no set of runs that are alike
	}
	refused, differs, covered := unmet(a, b)
	for _, k := range records.Differing([]*records.Run{a[0], b[0]}) {
		if !covered[fieldOf(k)] {
			of := func(r *records.Run) string { return r.Settings[k] }
			differs = append(differs,
				Unlike{Field: k, First: valuesOf(a, of), Second: valuesOf(b, of), none: absent(a, b, true, of)})
		}
	}
	known := func(field string, of func(*records.Run) string) {
		if x, y := valuesOf(a, of), valuesOf(b, of); x != y && x != "" && y != "" {
			differs = append(differs, Unlike{Field: field, First: x, Second: y})
		}
	}
	for _, f := range recorded[1:] {
		known(f.name, f.of)
	}
	for i, s := range a[0].Surroundings() {
		if s.Key != gpuField { // required
			known(surroundingField[s.Key], func(r *records.Run) string { return r.Surroundings()[i].Value })
		}
	}
	slices.SortStableFunc(differs, func(a, b Unlike) int { return strings.Compare(a.Field, b.Field) })
	return refused, slices.CompactFunc(differs, func(a, b Unlike) bool { return a.Field == b.Field })
}

// mixtures are the settings, and what the key of a run has, that are not the same
// within one of two sets.
func mixtures(a, b []*records.Run) (list []Unlike) {
	within := func(field string, setting bool, of func(*records.Run) string) {
		if !slices.ContainsFunc(list, func(u Unlike) bool { return u.Field == field }) {
			none := absent(a, b, setting, of)
			list = append(list,
				Unlike{Field: field, First: mixture(a, none[0], of), Second: mixture(b, none[1], of), none: none})
		}
	}
	for _, side := range [][]*records.Run{a, b} {
		for _, k := range records.Differing(side) {
			within(k, true, func(r *records.Run) string { return r.Settings[k] })
		}
		for _, f := range recorded[:2] {
			if slices.ContainsFunc(side, func(r *records.Run) bool { return f.of(r) != f.of(side[0]) }) {
				within(f.name, false, f.of)
			}
		}
	}
	return list
}

// unmet are the requirements that two sets of runs do not share, and those of which it
// is not known whether they do. covered are the fields that differ, see fieldOf.
func unmet(a, b []*records.Run) (refused, differs []Unlike, covered map[string]bool) {
	covered = map[string]bool{}
	asked := allAsked(a) && allAsked(b)
	fields, values := allRequirements(slices.Concat(a, b))
	for _, field := range fields {
		of := func(r *records.Run) string { return valueOf(values[r], field) }
		x, y := valuesOf(a, of), valuesOf(b, of)
		if x == y || field == tokenizerField && sameTokenizer(a, b) {
			continue // another model, if it is one, is told as what it is
		}
		u := Unlike{Field: field, First: x, Second: y, none: absent(a, b, field != gpuField, of)}
		if x != "" && y != "" || asked && shapesPrompts(field) {
			refused = append(refused, u)
		} else {
			differs = append(differs, u)
		}
		covered[field] = true
	}
	delete(covered, gpuField) // no setting is of it
	return refused, differs, covered
}

// allRequirements are the requirements of runs, and the fields that some of them have, in their order: that
// of the GPU is the last.
func allRequirements(runs []*records.Run) (fields []string, values map[*records.Run][]records.Setting) {
	values = map[*records.Run][]records.Setting{}
	for _, r := range runs {
		values[r] = requirements(r)
		for _, q := range values[r] {
			if !slices.Contains(fields, q.Key) && q.Key != gpuField {
				fields = append(fields, q.Key)
			}
		}
	}
	return append(fields, gpuField), values
}

// valueOf is the value of one of the requirements, "" if it is not among them.
func valueOf(list []records.Setting, field string) string {
	i := slices.IndexFunc(list, func(s records.Setting) bool { return s.Key == field })
	if i < 0 {
		return ""
	}
	return list[i].Value
}

// sameTokenizer reports whether two sets of runs cut text alike. The digest of the
// tokenizer's file decides where all runs have it. Else the names do, and models whose
// names differ in their precision and in who made them have one: quantizing changes
// weights (FP8 of a BF16 model).
func sameTokenizer(a, b []*records.Run) bool {
	runs := slices.Concat(a, b)
	digest := func(r *records.Run) string {
		if r.Result == nil || r.Result.Provenance == nil || r.Settings["bench_cmd_args.tokenizer"] != "" {
			return "" // the client has one of its own
		}
		return r.Result.Provenance.TokenizerDigest
	}
	value := func(r *records.Run) string {
		for _, k := range tokenizerKeys {
			if v := r.Settings[k]; v != "" {
				return weightless(v)
			}
		}
		return ""
	}
	if !slices.ContainsFunc(runs, func(r *records.Run) bool { return digest(r) == "" }) {
		value = digest
	}
	first := value(runs[0])
	return first != "" && !slices.ContainsFunc(runs, func(r *records.Run) bool { return value(r) != first })
}

// weightless is a model's name without whose it is, and without what says how its
// weights are stored.
func weightless(model string) string {
	name := strings.ToLower(result.ModelName(model))
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.TrimPrefix(name, "meta-") // as in Meta-Llama-3.1, which others call Llama-3.1
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' })
	kept := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(precisions, w) })
	if len(kept) == 0 {
		kept = words
	}
	return strings.Join(kept, "-")
}

// precisions are the words by which names tell how weights are stored.
var precisions = strings.Fields(`bf16 fp32 fp16 f16 fp8 fp4 nvfp4 mxfp4 mxfp8 int8 int4 w8a8 w8a16 w4a16 w4a8 w4a4
	4bit 8bit awq gptq bnb gguf marlin quantized dynamic block`)

// recorded is what no setting says; the first two are part of a run's key.
var recorded = []struct {
	name string
	of   func(*records.Run) string
}{
	{gpuField, (*records.Run).GPU},
	{"engine", (*records.Run).Engine},
	{"client", func(r *records.Run) string { return r.Result.Config.Benchmark.Kind }},
}

// surroundingField names a surrounding among settings.
var surroundingField = map[string]string{
	"nodes": nodesField, "image": imageKey, "digest": "image digest", "engine": "engine version", "driver": "driver",
	"revision": "model revision", "power limit": "GPU power limit",
}

const nodesField = "nodes"

// OfNodes reports whether the nodes differ: they are seldom the same twice, and no
// cause.
func (u Unlike) OfNodes() bool { return u.Field == nodesField }

// Causes counts the differences that may each be the reason of another number: the
// digest and the version are of the image.
func Causes(differs []Unlike) int {
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

// Causal says in a line what differences mean for whoever looks for a reason; "" if
// nothing differs that could be one.
func Causal(differs []Unlike) string {
	var other []string
	for _, u := range differs {
		if !u.OfNodes() {
			other = append(other, u.String())
		}
	}
	switch n := Causes(differs); n {
	case 0:
		return ""
	case 1:
		return "one setting differs: " + strings.Join(other, "; ")
	default:
		return fmt.Sprintf("%d settings differ; not causal: a change has no single reason", n)
	}
}

// mixture is valuesOf with what is said of the runs without a value, beside those that have one.
func mixture(runs []*records.Run, none string, of func(*records.Run) string) string {
	text := valuesOf(runs, of)
	if text != "" && slices.ContainsFunc(runs, func(r *records.Run) bool { return of(r) == "" }) {
		text += ", " + none
	}
	return text
}

// valuesOf lists the values of runs, each once, sorted.
func valuesOf(runs []*records.Run, of func(*records.Run) string) string {
	have := map[string]bool{}
	for _, r := range runs {
		have[of(r)] = true
	}
	delete(have, "")
	return strings.Join(slices.Sorted(maps.Keys(have)), ", ")
}

// Differences says what forbids to compare two sets of runs, each of which was asked for the same, and
// in what else they differ.
func Differences(a, b []*records.Run) (refused, differs []Unlike) { return unlike(a, b) }
