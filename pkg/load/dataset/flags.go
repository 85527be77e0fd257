package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Flags are the flags of "vllm bench serve" (vLLM 0.32) that choose a data set and shape its
// requests, by their names and with their defaults; and those of sonnet, which vLLM had until 0.31.
type Flags struct {
	DatasetName          string `name:"dataset-name" default:"random" help:"Where prompts come from: random, random-mm, prefix_repetition, random-rerank, custom, sharegpt, burstgpt, sonnet, spec_bench, speed_bench, timed_trace, hf."`
	DatasetPath          string `name:"dataset-path" help:"File or folder of the data set; sharegpt and sonnet are fetched if it is absent. Not for sets that are drawn."`
	NumPrompts           int    `name:"num-prompts" default:"1000" help:"Number of requests; -1 takes all of custom, spec_bench, speed_bench or timed_trace."`
	Seed                 int64  `name:"seed" default:"0" help:"Seed of prompts, lengths and arrivals: the same seed sends the same requests."`
	DisableShuffle       bool   `name:"disable-shuffle" help:"Take the entries of a file in their order."`
	NoOversample         bool   `name:"no-oversample" help:"Send no entry twice: where there are too few, send fewer requests."`
	NoStream             bool   `name:"no-stream" help:"Accepted, but has no effect: a whole set is always shuffled."`
	SkipChatTemplate     bool   `name:"skip-chat-template" help:"Send prompts of files as they are, without the model's chat template."`
	EnableMultimodalChat bool   `name:"enable-multimodal-chat" help:"Refused: random-mm sends pictures in chats by itself."`

	InputLen  *int `name:"input-len" help:"Same as --random-input-len."`
	OutputLen *int `name:"output-len" help:"Tokens to ask for: instead of the output length of random, sharegpt, custom, hf, spec_bench and prefix_repetition."`

	RandomInputLen   int        `name:"random-input-len" default:"1024" help:"Prompt tokens, without the prefix."`
	RandomOutputLen  int        `name:"random-output-len" default:"128" help:"Tokens to ask for."`
	RandomRangeRatio RangeRatio `name:"random-range-ratio" default:"0.0" placeholder:"R" help:"Spread of lengths: a number in [0,1) or {\"input\":R,\"output\":R}."`
	RandomPrefixLen  int        `name:"random-prefix-len" default:"0" help:"Tokens at the start that all prompts share, in addition to the prompt's own."`
	RandomBatchSize  int        `name:"random-batch-size" default:"1" help:"Prompts in one request, for backends that generate nothing."`
	NoReranker       bool       `name:"no-reranker" help:"random-rerank: the model scores pairs, so the query counts as one prompt."`

	PrefixRepetitionPrefixLen   int `name:"prefix-repetition-prefix-len" default:"256" help:"Tokens of each prefix."`
	PrefixRepetitionSuffixLen   int `name:"prefix-repetition-suffix-len" default:"256" help:"Tokens after the prefix."`
	PrefixRepetitionNumPrefixes int `name:"prefix-repetition-num-prefixes" default:"10" help:"Prefixes; each has as many prompts."`
	PrefixRepetitionOutputLen   int `name:"prefix-repetition-output-len" default:"128" help:"Tokens to ask for."`

	CustomOutputLen            int    `name:"custom-output-len" default:"256" help:"Tokens to ask for; -1 takes output_tokens of each line."`
	CustomEnsureClientSideData bool   `name:"custom-ensure-client-side-data" help:"Refused: no file here has images."`
	SharegptOutputLen          *int   `name:"sharegpt-output-len" help:"Tokens to ask for; default: the length of the recorded answer."`
	SonnetInputLen             int    `name:"sonnet-input-len" default:"550" help:"Prompt tokens, at most."`
	SonnetOutputLen            int    `name:"sonnet-output-len" default:"150" help:"Tokens to ask for."`
	SonnetPrefixLen            int    `name:"sonnet-prefix-len" default:"200" help:"Tokens at the start that all prompts share, about."`
	SpecBenchOutputLen         int    `name:"spec-bench-output-len" default:"256" help:"Tokens to ask for."`
	SpecBenchCategory          string `name:"spec-bench-category" help:"Take entries of this category only."`
	SpeedBenchDatasetSubset    string `name:"speed-bench-dataset-subset" default:"qualitative" help:"File in the folder: qualitative, throughput_1k, _2k, _8k, _16k or _32k."`
	SpeedBenchOutputLen        int    `name:"speed-bench-output-len" default:"4096" help:"Tokens to ask for."`
	SpeedBenchCategory         string `name:"speed-bench-category" help:"Take entries of this category only."`

	TimedTraceChunkHashSize     int     `name:"timed-trace-chunk-hash-size" default:"16" help:"Tokens for which one hash of the trace stands."`
	TimedTraceSecMultiplier     float64 `name:"timed-trace-sec-multiplier" default:"1.0" help:"Seconds in one unit of the trace's timestamps."`
	TimedTraceLabelTimestamp    string  `name:"timed-trace-label-timestamp" default:"timestamp" help:"Key of the timestamp."`
	TimedTraceLabelInputLength  string  `name:"timed-trace-label-input-length" default:"input_length" help:"Key of the prompt's length."`
	TimedTraceLabelOutputLength string  `name:"timed-trace-label-output-length" default:"output_length" help:"Key of the answer's length."`
	TimedTraceLabelHashIDs      string  `name:"timed-trace-label-hash-ids" default:"hash_ids" help:"Key of the list of hashes."`
	SelfTimed                   *bool   `name:"self-timed" negatable:"" help:"Send at the times of the trace; default for timed_trace, and for nothing else."`

	HFName         string `name:"hf-name" help:"Name at Hugging Face of the set in --dataset-path."`
	HFSubset       string `name:"hf-subset" help:"Folder or file name within --dataset-path."`
	HFSplit        string `name:"hf-split" help:"Split, such as train: a part of file names."`
	HFOutputLen    *int   `name:"hf-output-len" help:"Tokens to ask for; default: by the set."`
	BfclCategories string `name:"bfcl-categories" help:"BFCL: files to take, separated by commas."`

	RandomMMBaseItemsPerRequest  int     `name:"random-mm-base-items-per-request" default:"1" help:"random-mm: pictures in a request."`
	RandomMMNumMMItemsRangeRatio float64 `name:"random-mm-num-mm-items-range-ratio" default:"0.0" help:"random-mm: spread of the number of pictures, from 0 to 1."`
	RandomMMLimitMMPerPrompt     Limits  `name:"random-mm-limit-mm-per-prompt" placeholder:"JSON" default:"{\"image\": 255, \"video\": 1}" help:"random-mm: most items of each kind in a request."`
	RandomMMBucketConfig         Buckets `name:"random-mm-bucket-config" placeholder:"DICT" default:"{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}" help:"random-mm: {(HEIGHT, WIDTH, FRAMES): SHARE, ...}; FRAMES is 1, as there are no videos."`

	BlazeditMinDistance *float64 `name:"blazedit-min-distance" help:"Refused: Blazedit is not read."`
	BlazeditMaxDistance *float64 `name:"blazedit-max-distance" help:"Refused: Blazedit is not read."`
	AsrMinAudioLenSec   *float64 `name:"asr-min-audio-len-sec" help:"Refused: no data set here has sound."`
	AsrMaxAudioLenSec   *float64 `name:"asr-max-audio-len-sec" help:"Refused: no data set here has sound."`
}

// A set is what is known of a data set before its file is read.
type set struct {
	drawn  bool // it reads no file
	fetch  bool // its file has a known place
	all    bool // --num-prompts -1 takes every entry
	prompt bool // its entries are prompts that the model's chat template goes around, at least some
	draw   func(*Source, drawing) ([]Request, error)
}

// media are the sets of vLLM that need pictures or sound.
var media = []string{"custom_image", "custom_audio"}

// setNames are the data sets.
func setNames() []string { return slices.Sorted(maps.Keys(sets())) }

// Validate returns every complaint about f at once.
func (f *Flags) Validate() error {
	c := complaints{}
	s, ok := sets()[f.DatasetName]
	switch {
	case slices.Contains(media, f.DatasetName):
		c.add("--dataset-name %q is not supported: this client sends no pictures of files and no sound", f.DatasetName)
	case !ok:
		c.add("--dataset-name %q is unknown: known are %s", f.DatasetName, strings.Join(setNames(), ", "))
	default:
		f.checkFile(s, &c)
		f.checkLengths(&c)
	}
	f.checkRefused(&c)
	return errors.Join(c...)
}

// complaints are errors about flags.
type complaints []error

func (c *complaints) add(format string, args ...any) { *c = append(*c, fmt.Errorf(format, args...)) }

// must adds a complaint unless a number is at least least.
func (c *complaints) must(flag string, n, least int) {
	if n < least {
		c.add("--%s is %d, must be %d or more", flag, n, least)
	}
}

func (f *Flags) checkFile(s set, c *complaints) {
	switch {
	case s.drawn && f.DatasetPath != "":
		c.add("--dataset-path %q: the %s dataset reads no file", f.DatasetPath, f.DatasetName)
	case !s.drawn && !s.fetch && f.DatasetPath == "":
		c.add("--dataset-name %s needs --dataset-path", f.DatasetName)
	}
	if s.all && f.NumPrompts <= 0 {
		return // all
	}
	c.must("num-prompts", f.NumPrompts, 1)
}

// checkLengths looks at the lengths of the chosen set only, as vLLM does.
func (f *Flags) checkLengths(c *complaints) {
	switch f.DatasetName {
	case "random", "random-mm", "random-rerank":
		if f.RandomInput() < 0 || f.RandomPrefixLen < 0 || f.RandomInput()+f.RandomPrefixLen == 0 {
			c.add("--random-input-len %d with --random-prefix-len %d makes an empty prompt", f.RandomInput(),
				f.RandomPrefixLen)
		}
		c.must("random-output-len", f.RandomOutput(), 1)
		c.must("random-batch-size", f.RandomBatchSize, 1)
		if f.NoReranker && f.DatasetName == "random-rerank" && (f.RandomBatchSize < 2 || f.NumPrompts < 2) {
			c.add("--no-reranker counts the query as a prompt: --random-batch-size and --num-prompts must be 2 or more")
		}
		if f.DatasetName == "random-mm" {
			f.checkPictures(c)
		}
	case "prefix_repetition":
		c.must("prefix-repetition-prefix-len", f.PrefixRepetitionPrefixLen, 0)
		c.must("prefix-repetition-suffix-len", f.PrefixRepetitionSuffixLen, 1)
		c.must("prefix-repetition-num-prefixes", f.PrefixRepetitionNumPrefixes, 1)
		c.must("prefix-repetition-output-len", f.prefixOutput(), 1)
		if f.PrefixRepetitionNumPrefixes > 0 && f.NumPrompts > 0 && f.NumPrompts < f.PrefixRepetitionNumPrefixes {
			c.add("--num-prompts %d is below --prefix-repetition-num-prefixes %d", f.NumPrompts,
				f.PrefixRepetitionNumPrefixes)
		}
	case "custom":
		if n := f.customOutput(); n != -1 {
			c.must("custom-output-len", n, 1)
		}
	case "sharegpt":
		if n := f.sharegptOutput(); n != nil {
			c.must("sharegpt-output-len", *n, 1)
		}
	case "sonnet":
		c.must("sonnet-input-len", f.SonnetInputLen, 1)
		c.must("sonnet-output-len", f.sonnetOutput(), 1)
		if f.SonnetPrefixLen > f.SonnetInputLen {
			c.add("--sonnet-prefix-len %d is above --sonnet-input-len %d", f.SonnetPrefixLen, f.SonnetInputLen)
		}
	case "spec_bench":
		c.must("spec-bench-output-len", f.specOutput(), 1)
	case "speed_bench":
		c.must("speed-bench-output-len", f.SpeedBenchOutputLen, 1)
		if !slices.Contains(speedSubsets, f.SpeedBenchDatasetSubset) {
			c.add("--speed-bench-dataset-subset %q: known are %s", f.SpeedBenchDatasetSubset,
				strings.Join(speedSubsets, ", "))
		}
	case "timed_trace":
		c.must("timed-trace-chunk-hash-size", f.TimedTraceChunkHashSize, 1)
		if m := f.TimedTraceSecMultiplier; !(m > 0) || math.IsInf(m, 0) {
			c.add("--timed-trace-sec-multiplier is %v, must be above 0", m)
		}
	case "hf":
		if n := f.hfOutput(); n != nil {
			c.must("hf-output-len", *n, 1)
		}
		c.addIf(hfCheck(f))
	}
}

func (c *complaints) addIf(err error) {
	if err != nil {
		*c = append(*c, err)
	}
}

// checkRefused complains about flags that the chosen data set cannot honour.
func (f *Flags) checkRefused(c *complaints) {
	const noMedia = "this client sends no pictures of files and no sound"
	for _, r := range []struct {
		given     bool
		flag, why string
	}{
		{f.EnableMultimodalChat, "enable-multimodal-chat", noMedia},
		{f.CustomEnsureClientSideData, "custom-ensure-client-side-data", noMedia},
		{f.AsrMinAudioLenSec != nil, "asr-min-audio-len-sec", noMedia},
		{f.AsrMaxAudioLenSec != nil, "asr-max-audio-len-sec", noMedia},
		{f.BlazeditMinDistance != nil, "blazedit-min-distance", "this client does not read Blazedit"},
		{f.BlazeditMaxDistance != nil, "blazedit-max-distance", "this client does not read Blazedit"},
		{f.SelfTimed != nil && f.DatasetName != "timed_trace", "self-timed",
			"only the entries of timed_trace have times"},
		{f.NoReranker && f.DatasetName != "random-rerank", "no-reranker", "it is for random-rerank"},
		{f.BfclCategories != "" && !f.bfcl(), "bfcl-categories", "it is for " + bfclName},
	} {
		if r.given {
			c.add("--%s is refused: %s", r.flag, r.why)
		}
	}
}

// RandomInput returns the length of random prompts, in tokens.
func (f *Flags) RandomInput() int { return or(f.InputLen, f.RandomInputLen) }

// RandomOutput returns the length of the answers to random prompts, in tokens.
func (f *Flags) RandomOutput() int { return or(f.OutputLen, f.RandomOutputLen) }

func (f *Flags) prefixOutput() int    { return or(f.OutputLen, f.PrefixRepetitionOutputLen) }
func (f *Flags) customOutput() int    { return or(f.OutputLen, f.CustomOutputLen) }
func (f *Flags) specOutput() int      { return or(f.OutputLen, f.SpecBenchOutputLen) }
func (f *Flags) sonnetOutput() int    { return or(f.OutputLen, f.SonnetOutputLen) }
func (f *Flags) sharegptOutput() *int { return cmp.Or(f.OutputLen, f.SharegptOutputLen) }
func (f *Flags) hfOutput() *int       { return cmp.Or(f.OutputLen, f.HFOutputLen) }

func or(n *int, other int) int {
	if n != nil {
		return *n
	}
	return other
}

// Templated reports whether prompts are put into the model's chat template before they are sent.
func (f *Flags) Templated() bool { return sets()[f.DatasetName].prompt && !f.SkipChatTemplate }

// FullAnswers reports whether answers have the length that is asked for, whatever the model would
// write, as in vLLM: for random prompts and for the replay of a trace.
func (f *Flags) FullAnswers() bool {
	return f.DatasetName == "random" || f.DatasetName == "random-mm" || f.DatasetName == "timed_trace"
}

// NeedsChat reports whether requests have members that only a chat has.
func (f *Flags) NeedsChat() bool { return f.bfcl() }

// Timed reports whether the data set says when its requests are sent.
func (f *Flags) Timed() bool {
	return f.DatasetName == "timed_trace" && (f.SelfTimed == nil || *f.SelfTimed)
}
