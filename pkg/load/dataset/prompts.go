package dataset

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/profllm/profllm/pkg/pyjson"
)

// An entry is a prompt of a file, and the tokens that its answer is to have; -1 is not said.
type entry struct {
	prompt string
	output int
}

// custom makes the requests of a file with one prompt in each line.
func (s *Source) custom(d drawing) ([]Request, error) {
	var entries []entry
	perLine := s.customOutput() == -1
	err := eachObject(d.path, func(v pyjson.Value) error {
		prompt, err := text(v, "prompt")
		if err != nil {
			return err
		}
		e := entry{prompt, s.customOutput()}
		if perLine {
			if e.output, err = whole(v, "output_tokens", 1); err != nil {
				return fmt.Errorf("%w: with --custom-output-len -1 each line says how many tokens to ask for", err)
			}
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.fromPrompts(d, entries, s.Seed)
}

// vLLM shuffles these two sets with seed 0, whatever --seed says.
const benchSeed = 0

// specBench makes the requests of SpecBench's file: the first turn of each question.
func (s *Source) specBench(d drawing) ([]Request, error) {
	var entries []entry
	err := eachObject(d.path, func(v pyjson.Value) error {
		turns := v.At("turns")
		if turns.Kind != pyjson.List || len(turns.Items) == 0 || turns.Items[0].Kind != pyjson.Text {
			return fmt.Errorf("the entry has no list of strings %q", "turns")
		}
		if ok, err := inCategory(v, s.SpecBenchCategory); !ok {
			return err
		}
		entries = append(entries, entry{turns.Items[0].Str, s.specOutput()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.fromPrompts(d, entries, benchSeed)
}

var speedSubsets = []string{"qualitative", "throughput_1k", "throughput_2k", "throughput_8k", "throughput_16k",
	"throughput_32k"}

// speedBench makes the requests of one file of SPEED-Bench: the first message of each entry.
func (s *Source) speedBench(d drawing) ([]Request, error) {
	if st, err := os.Stat(d.path); err != nil {
		return nil, unreadable(d.path, err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%s is no folder: --dataset-path is the folder of SPEED-Bench, with %s.jsonl in it",
			d.path, s.SpeedBenchDatasetSubset)
	}
	d.path = filepath.Join(d.path, s.SpeedBenchDatasetSubset+".jsonl")
	var entries []entry
	err := eachObject(d.path, func(v pyjson.Value) error {
		messages := v.At("messages")
		if messages.Kind != pyjson.List || len(messages.Items) == 0 {
			return fmt.Errorf("the entry has no list %q", "messages")
		}
		prompt, err := text(messages.Items[0], "content")
		if err != nil {
			return fmt.Errorf("the first message: %w", err)
		}
		if ok, err := inCategory(v, s.SpeedBenchCategory); !ok {
			return err
		}
		entries = append(entries, entry{prompt, s.SpeedBenchOutputLen})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.fromPrompts(d, entries, benchSeed)
}

// inCategory reports whether an entry is of a category; "" is any.
func inCategory(v pyjson.Value, category string) (bool, error) {
	if category == "" {
		return true, nil
	}
	of, err := text(v, "category")
	return of == category && err == nil, err
}

// fromPrompts makes requests of the entries of a file that are prompts.
func (s *Source) fromPrompts(d drawing, entries []entry, seed int64) ([]Request, error) {
	shuffle(s, seed, entries)
	n := s.wanted(len(entries))
	entries = entries[:min(n, len(entries))]
	requests := make([]Request, len(entries))
	texts := make([]string, len(entries))
	for i, e := range entries {
		texts[i] = e.prompt
		requests[i] = Request{Input: Unknown, Output: cmp.Or(e.output, 1)}
	}
	if err := s.prompted(d.ctx, requests, users(texts), texts); err != nil {
		return nil, err
	}
	return s.more(requests, n, seed), nil
}
