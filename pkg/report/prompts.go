package report

import (
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
)

// clientPrefix is what the keys of a client's options begin with.
const clientPrefix = "bench_cmd_args."

// endpointType says what AIPerf and GenAI-Perf ask for. The settings of their loads always have it.
const endpointType = clientPrefix + "endpoint_type"

// What a load has that says nothing else.
const (
	anyData     = "random" // the data set of every client that profllm starts
	aiperfInput = "550"    // tokens of AIPerf's prompts
)

// shapeOptions are further options that say which prompts a load has, and how long its answers are: a line
// for each, with all of its names, of which the first stands for it. They are those of vLLM's and SGLang's
// clients, of AIPerf and of GenAI-Perf.
const shapeOptions = `
random_range_ratio
random_batch_size
prompt_input_tokens_stddev synthetic_input_tokens_stddev isl_stddev
prompt_input_tokens_block_size synthetic_input_tokens_block_size isl_block_size
prompt_output_tokens_stddev output_tokens_stddev osl_stddev
seq_dist sequence_distribution
custom_dataset_type
dataset_filter
prompt_corpus
random_corpus_style
prompt_batch_size batch_size_text batch_size
prompt_prefix_pool_size prefix_prompt_pool_size num_prefix_prompts
prompt_prefix_length prefix_prompt_length
system_prompt
system_prompt_file
conversation_turn_mean session_turns_mean
conversation_turn_stddev session_turns_stddev
audio_batch_size batch_size_audio
image_batch_size batch_size_image
video_batch_size batch_size_video
`

// shapePrefixes and shapeSuffixes are what names of such options begin and end with, where each has one name.
var (
	shapePrefixes = []string{"hf_", "gsp_", "random_mm_", "prefix_repetition_", "synthesis_", "rankings_", "image_",
		"audio_", "video_"}
	shapeSuffixes = []string{"_len", "_length"}
)

// optionFields maps the settings of `required` and of shapeOptions to their fields.
var optionFields = sync.OnceValue(func() map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(shapeOptions) {
		names := strings.Fields(line)
		for _, name := range names {
			fields[clientPrefix+name] = names[0]
		}
	}
	for _, f := range required {
		for _, k := range f.keys {
			fields[k] = f.name
		}
	}
	return fields
})

// optionKeys are the settings of a client's options.
func optionKeys(names string) []string {
	keys := strings.Fields(names)
	for i := range keys {
		keys[i] = clientPrefix + keys[i]
	}
	return keys
}

// keysOf are the settings of a field of `required`.
func keysOf(field string) []string {
	for _, f := range required {
		if f.name == field {
			return f.keys
		}
	}
	return nil
}

// fieldOf is the requirement that a setting speaks of, "" if it is none.
func fieldOf(key string) string {
	name, ours := strings.CutPrefix(key, clientPrefix)
	if !ours {
		return optionFields()[key]
	}
	name, part, nested := strings.Cut(strings.ReplaceAll(name, "-", "_"), ".")
	field := optionFields()[clientPrefix+name]
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	ends := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
	if field == "" && (slices.ContainsFunc(shapePrefixes, begins) || slices.ContainsFunc(shapeSuffixes, ends)) {
		field = name
	}
	if field != "" && nested {
		field += "." + part
	}
	return field
}

// shapesPrompts reports whether a field is of the prompts or the answers. A load that sets no option for one of
// them has the client's default, so that it differs from a load that sets one.
func shapesPrompts(field string) bool {
	return !slices.Contains([]string{endpointField, tokenizerField, gpuField}, field)
}

// shapes are what shapeOptions says of a run, sorted. Zero is as good as nothing.
func shapes(r *records.Run) []records.Setting {
	fixed := "0"
	if r.Settings[clientPrefix+"random_input"] != "" {
		fixed = "1" // SGLang's ratio of the shortest prompt to the longest
	}
	var list []records.Setting
	for k, v := range r.Settings {
		field := fieldOf(k)
		if field == "" || slices.ContainsFunc(required, func(q requirement) bool { return q.name == field }) {
			continue
		}
		same := "0"
		if field == "random_range_ratio" {
			same = fixed
		}
		if v != same && v != "" && v != "false" {
			list = append(list, records.Setting{Key: field, Value: v})
		}
	}
	slices.SortFunc(list, func(a, b records.Setting) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// promptsOf are what the prompts and the answers of a run are: other prompts make other numbers, of
// which none are better.
func promptsOf(r *records.Run) []records.Setting {
	return slices.DeleteFunc(requirements(r), func(q records.Setting) bool {
		return q.Key == tokenizerField || q.Key == gpuField
	})
}

// promptKey tells prompts apart.
func promptKey(r *records.Run) string { return records.Join(promptsOf(r)) }

// promptsDiffer are the fields in which the prompts of runs differ.
func promptsDiffer(entries []*Entry) []string {
	var fields []string
	if len(entries) == 0 {
		return nil
	}
	first := promptsOf(entries[0].Run)
	for _, e := range entries[1:] {
		own := promptsOf(e.Run)
		for _, s := range slices.Concat(first, own) {
			if valueOf(first, s.Key) != valueOf(own, s.Key) && !slices.Contains(fields, s.Key) {
				fields = append(fields, s.Key)
			}
		}
	}
	slices.Sort(fields)
	return fields
}

// apart divides the phases of a test, or the settings of a sweep, by their prompts. Those that have their
// prompts alone are one choice, which ranks nothing.
func (c *Choice) apart() []*Choice {
	fields := promptsDiffer(c.entries)
	if len(fields) == 0 {
		return []*Choice{c}
	}
	var keys []string
	dims, groups := chosenKeys(c.entries), map[string][]*Entry{}
	for _, e := range c.entries {
		k := promptKey(e.Run)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], e)
	}
	rest := &Choice{About: c.About, Noun: c.Noun, Kind: c.Kind, Unlike: fields}
	var list []*Choice
	for _, k := range keys {
		entries := groups[k]
		first, _ := c.nameOf(entries[0], dims)
		other := func(e *Entry) bool {
			name, _ := c.nameOf(e, dims)
			return name != first
		}
		if !slices.ContainsFunc(entries, other) {
			rest.entries = append(rest.entries, entries...)
			continue
		}
		about := strings.TrimSpace(c.About + " with " + quantity.List(withFields(entries[0].Run, fields)))
		list = append(list, &Choice{About: about, Noun: c.Noun, Kind: c.Kind, entries: entries})
	}
	if len(rest.entries) > 0 {
		list = append(list, rest)
	}
	return list
}

// withFields says what a run has of some fields of prompts.
func withFields(r *records.Run, fields []string) []string {
	var list []string
	own := promptsOf(r)
	for _, field := range fields {
		text := field + "=" + valueOf(own, field)
		if valueOf(own, field) == "" {
			text = field + " " + absentWord(r, field)
		}
		list = append(list, text)
	}
	return list
}

// absentWord is what is said of a field without a value.
func absentWord(r *records.Run, field string) string {
	if allAsked([]*records.Run{r}) && shapesPrompts(field) {
		return notSet
	}
	return notKnown
}
