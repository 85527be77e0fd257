package dataset

import (
	"errors"
	"fmt"
)

// Flags are the flags of "vllm bench serve" that choose a data set and shape its requests, by
// their names and with their defaults.
type Flags struct {
	DatasetName      string     `name:"dataset-name" default:"random" help:"Only random is supported."`
	DatasetPath      string     `name:"dataset-path" help:"Not supported: random reads no file."`
	DisableShuffle   bool       `name:"disable-shuffle" help:"Accepted, but has no effect on random."`
	NoOversample     bool       `name:"no-oversample" help:"Accepted, but has no effect on random."`
	NumPrompts       int        `name:"num-prompts" default:"1000" help:"Number of requests."`
	Seed             int64      `name:"seed" default:"0" help:"Seed of prompts, lengths and arrivals: the same seed sends the same requests."`
	RandomInputLen   int        `name:"random-input-len" default:"1024" help:"Prompt tokens, without the prefix."`
	RandomOutputLen  int        `name:"random-output-len" default:"128" help:"Tokens to ask for."`
	RandomRangeRatio RangeRatio `name:"random-range-ratio" default:"0.0" placeholder:"R" help:"Spread of lengths: a number in [0,1) or {\"input\":R,\"output\":R}."`
	RandomPrefixLen  int        `name:"random-prefix-len" default:"0" help:"Tokens at the start that all prompts share, in addition to the prompt's own."`
	InputLen         *int       `name:"input-len" help:"Same as --random-input-len."`
	OutputLen        *int       `name:"output-len" help:"Same as --random-output-len."`
}

// Validate returns every complaint about f at once.
func (f *Flags) Validate() error {
	var bad []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	check(f.DatasetName == "random", "--dataset-name %q is not supported: this client makes random prompts only",
		f.DatasetName)
	check(f.DatasetPath == "", "--dataset-path %q: the random dataset reads no file", f.DatasetPath)
	check(f.NumPrompts > 0, "--num-prompts is %d, must be 1 or more", f.NumPrompts)
	check(f.RandomInput() >= 0 && f.RandomPrefixLen >= 0 && f.RandomInput()+f.RandomPrefixLen > 0,
		"--random-input-len %d with --random-prefix-len %d makes an empty prompt", f.RandomInput(), f.RandomPrefixLen)
	check(f.RandomOutput() > 0, "--random-output-len is %d, must be 1 or more", f.RandomOutput())
	return errors.Join(bad...)
}

// RandomInput returns the length of random prompts, in tokens.
func (f *Flags) RandomInput() int {
	if f.InputLen != nil {
		return *f.InputLen
	}
	return f.RandomInputLen
}

// RandomOutput returns the length of the answers to random prompts, in tokens.
func (f *Flags) RandomOutput() int {
	if f.OutputLen != nil {
		return *f.OutputLen
	}
	return f.RandomOutputLen
}
