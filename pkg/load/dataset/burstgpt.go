package dataset

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/pyrand"
	"github.com/profllm/profllm/pkg/regular"
)

// burstgpt makes the requests of a table of recorded lengths: BurstGPT's CSV file, of which vLLM
// takes the answers of GPT-4. The prompts are made up: token ids that count upwards.
func (s *Source) burstgpt(d drawing) ([]Request, error) {
	rows, err := readBursts(d.path)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var picked []int
	draws := pyrand.NewLegacy(uint32(s.Seed))
	switch {
	case s.NumPrompts <= len(rows):
		picked = draws.Permutation(len(rows))[:s.NumPrompts]
	case s.NoOversample:
		picked = draws.Permutation(len(rows))
	default:
		picked = draws.Ints(len(rows), s.NumPrompts)
	}
	requests := make([]Request, len(picked))
	lists := make([][]int, len(picked))
	for i, row := range picked {
		r := rows[row]
		lists[i] = s.ramp(i, r.input)
		requests[i] = Request{Prompt: IDs(lists[i]), Input: r.input, Output: r.output}
	}
	if s.Local == nil {
		return requests, nil
	}
	return requests, s.decoded(d, requests, lists)
}

// ramp returns n ids from first upwards, which start again at the end of the vocabulary.
func (s *Source) ramp(first, n int) []int {
	lo, size := idRange(s.Vocabulary)
	if s.Local != nil {
		lo, size = 0, s.Local.Size
	}
	ids := make([]int, n)
	for k := range ids {
		ids[k] = lo + (first+k)%size
	}
	return ids
}

// decoded puts the text of token ids in place of the ids.
func (s *Source) decoded(d drawing, requests []Request, ids [][]int) error {
	texts, err := s.Tokenizer.Decode(d.ctx, ids)
	if err != nil {
		return fmt.Errorf("turn token ids into text: %w", err)
	}
	for i := range requests {
		requests[i].Prompt = s.plain(texts[i])
	}
	return nil
}

// burst is a row of BurstGPT's table, in tokens.
type burst struct{ input, output int }

func readBursts(path string) ([]burst, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	in := csv.NewReader(regular.Limit(f, regular.Result))
	in.ReuseRecord = true
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:1: the file is empty", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	head = slices.Clone(head) // the reader uses its own again
	var columns [3]int
	for i, name := range []string{"Model", "Request tokens", "Response tokens"} {
		if columns[i] = slices.Index(head, name); columns[i] < 0 {
			return nil, fmt.Errorf("%s:1: the table has no column %q", path, name)
		}
	}
	var rows []burst
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if record[columns[0]] != "GPT-4" {
			continue
		}
		var n [2]int
		for i, c := range columns[1:] {
			if n[i], err = strconv.Atoi(record[c]); err != nil || n[i] < 0 || n[i] > longest {
				line, _ := in.FieldPos(c)
				return nil, fmt.Errorf("%s:%d: %s is %q, no number of tokens", path, line, head[c], record[c])
			}
		}
		if n[1] > 0 {
			rows = append(rows, burst{max(n[0], 1), n[1]})
		}
	}
}

// longest bounds the prompts that a file can ask for, in tokens.
const longest = 10 << 20
