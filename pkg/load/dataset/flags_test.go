package dataset

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A flag of vLLM is honoured, or refused with the reason.
//
// covers: LBEN-2
func TestFlagsThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Flags){
		`"custom_audio" is not supported`:                              func(f *Flags) { f.DatasetName = "custom_audio" },
		`"lines" is unknown: known are burstgpt, custom, hf`:           func(f *Flags) { f.DatasetName = "lines" },
		"the random dataset reads no file":                             func(f *Flags) { f.DatasetPath = "x" },
		"--dataset-name custom needs --dataset-path":                   func(f *Flags) { f.DatasetName = "custom" },
		"--num-prompts is -1":                                          func(f *Flags) { f.NumPrompts = -1 },
		"--random-batch-size is 0":                                     func(f *Flags) { f.RandomBatchSize = 0 },
		"--no-reranker is refused: it is for random-rerank":            func(f *Flags) { f.NoReranker = true },
		"counts the query as a prompt":                                 func(f *Flags) { f.DatasetName, f.NoReranker = "random-rerank", true },
		"below --prefix-repetition-num-prefixes":                       func(f *Flags) { f.DatasetName, f.NumPrompts = "prefix_repetition", 2 },
		"--prefix-repetition-suffix-len is 0":                          func(f *Flags) { f.DatasetName, f.PrefixRepetitionSuffixLen = "prefix_repetition", 0 },
		"--custom-output-len is 0":                                     func(f *Flags) { f.DatasetName, f.DatasetPath, f.OutputLen = "custom", "x", new(0) },
		"--sharegpt-output-len is 0":                                   func(f *Flags) { f.DatasetName, f.SharegptOutputLen = "sharegpt", new(0) },
		"--sonnet-prefix-len 50 is above --sonnet-input-len 40":        func(f *Flags) { f.DatasetName, f.SonnetPrefixLen = "sonnet", 50 },
		"--speed-bench-dataset-subset \"x\"":                           func(f *Flags) { f.DatasetName, f.DatasetPath, f.SpeedBenchDatasetSubset = "speed_bench", "x", "x" },
		"--timed-trace-sec-multiplier is 0":                            func(f *Flags) { f.DatasetName, f.DatasetPath, f.TimedTraceSecMultiplier = "timed_trace", "x", 0 },
		"--self-timed is refused":                                      func(f *Flags) { f.SelfTimed = new(false) },
		"--hf-output-len is -1":                                        func(f *Flags) { f.DatasetName, f.DatasetPath, f.HFOutputLen = "hf", "x", new(-1) },
		`--hf-name "x": of Hugging Face's sets, these are read: AI-MO`: func(f *Flags) { f.DatasetName, f.DatasetPath = "hf", "x" },
		"yale-nlp/MMVU is not read: it has videos":                     func(f *Flags) { f.DatasetName, f.DatasetPath, f.HFName = "hf", "x", "yale-nlp/MMVU" },
		"vdaita/edit_5k_char is not read":                              func(f *Flags) { f.DatasetName, f.DatasetPath = "hf", "vdaita/edit_5k_char" },
		"--enable-multimodal-chat is refused":                          func(f *Flags) { f.EnableMultimodalChat = true },
		"share 0":                                                      func(f *Flags) { f.DatasetName, f.RandomMMBucketConfig = "random-mm", Buckets{{8, 8, 2, 1}} },
		"no size has a share above 0":                                  func(f *Flags) { f.DatasetName, f.RandomMMBucketConfig = "random-mm", nil },
		"the share -1 is no number":                                    func(f *Flags) { f.DatasetName, f.RandomMMBucketConfig = "random-mm", Buckets{{8, 8, 1, -1}} },
		"(8, 0, 1) has a zero":                                         func(f *Flags) { f.DatasetName, f.RandomMMBucketConfig = "random-mm", Buckets{{8, 0, 1, 1}} },
		"a side above 65535":                                           func(f *Flags) { f.DatasetName, f.RandomMMBucketConfig = "random-mm", Buckets{{8, 70000, 1, 1}} },
		`has no limit for "video"`:                                     func(f *Flags) { f.DatasetName, f.RandomMMLimitMMPerPrompt = "random-mm", Limits{"image": 3} },
		`the limit of "image" is -3`: func(f *Flags) {
			f.DatasetName, f.RandomMMLimitMMPerPrompt = "random-mm", Limits{"image": -3, "video": 1}
		},
		"allows 3 pictures, but a request is to have 4 or more": func(f *Flags) {
			f.DatasetName, f.RandomMMBaseItemsPerRequest, f.RandomMMLimitMMPerPrompt = "random-mm", 4, Limits{"image": 3, "video": 0}
		},
		"range-ratio is 1.5":                                  func(f *Flags) { f.DatasetName, f.RandomMMNumMMItemsRangeRatio = "random-mm", 1.5 },
		"a request of random-mm is one prompt":                func(f *Flags) { f.DatasetName, f.RandomBatchSize = "random-mm", 2 },
		"--asr-max-audio-len-sec is refused":                  func(f *Flags) { f.AsrMaxAudioLenSec = new(1.0) },
		"--blazedit-min-distance is refused":                  func(f *Flags) { f.BlazeditMinDistance = new(1.0) },
		"--bfcl-categories is refused: it is for gorilla-llm": func(f *Flags) { f.BfclCategories = "simple" },
	} {
		f := defaults("random", "")
		change(f)
		require.ErrorContains(t, f.Validate(), want)
	}
}

func TestFlagsThatPass(t *testing.T) {
	for name, change := range map[string]func(*Flags){
		"random": nil, "random-mm": nil, "prefix_repetition": nil, "sharegpt": nil, "sonnet": nil, "random-rerank": nil,
		"custom":      func(f *Flags) { f.DatasetPath, f.NumPrompts, f.CustomOutputLen = "x", -1, -1 },
		"hf":          func(f *Flags) { f.DatasetPath, f.HFName = "x", "openai/gsm8k" },
		"timed_trace": func(f *Flags) { f.DatasetPath, f.SelfTimed = "x", new(false) },
	} {
		f := defaults(name, "")
		if change != nil {
			change(f)
		}
		require.NoError(t, f.Validate(), name)
		require.False(t, f.Timed())
	}
	f := defaults("timed_trace", "x")
	require.True(t, f.Timed(), "by default")
	require.True(t, f.FullAnswers())
}
