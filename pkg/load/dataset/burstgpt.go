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
	rows, err := readBursts(d.path, mostBursts)
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
	prompts := make([]ramp, len(picked))
	lo, size := s.rampIDs()
	for i, row := range picked {
		r := rows[row]
		prompts[i] = ramp{lo, size, i, int(r.input)}
		requests[i] = Request{Prompt: &prompts[i], Input: int(r.input), Output: int(r.output)}
	}
	if s.Local == nil && !s.Chat {
		return requests, nil
	}
	if err := s.checkTexts(requests); err != nil || s.Local == nil {
		return requests, err
	}
	return requests, s.decoded(d, requests)
}

// rampIDs are the ids that prompts count in: size of them from lo.
func (s *Source) rampIDs() (lo, size int) {
	if s.Local != nil {
		return 0, s.Local.Size
	}
	return idRange(s.Vocabulary)
}

// A ramp is a prompt of ids that count upwards and start again at the end of the vocabulary. None
// are kept.
type ramp struct{ lo, size, first, length int }

func (r *ramp) at(k int) int { return r.lo + (r.first+k)%r.size }

// AppendJSON implements [Prompt].
func (r *ramp) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for k := range r.length {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(r.at(k)), 10)
	}
	return append(dst, ']')
}

// List implements [Tokens]. Beyond its end, the prompt starts again.
func (r *ramp) List(n int) []int {
	ids := make([]int, n)
	for k := range ids {
		ids[k] = r.at(k % r.length)
	}
	return ids
}

// checkTexts refuses prompts whose texts do not fit into memory.
func (s *Source) checkTexts(requests []Request) error {
	h := s.holding()
	for i, r := range requests {
		if err := h.add(r.Input + heldRequest); err != nil {
			return fewer(err, i)
		}
	}
	return nil
}

// decodedTokens is how many tokens are turned into text at a time, about.
const decodedTokens = 1 << 20

// decoded puts the text of token ids in place of the ids.
func (s *Source) decoded(d drawing, requests []Request) error {
	for start := 0; start < len(requests); {
		var lists [][]int
		tokens := 0
		for _, r := range requests[start:] {
			if tokens += r.Input; tokens > decodedTokens && len(lists) > 0 {
				break
			}
			lists = append(lists, r.Prompt.(Tokens).List(r.Input))
		}
		texts, err := s.Tokenizer.Decode(d.ctx, lists)
		if err != nil {
			return fmt.Errorf("turn token ids into text: %w", err)
		}
		for i, text := range texts {
			requests[start+i].Prompt = s.plain(text)
		}
		start += len(lists)
	}
	return nil
}

// burst is a row of BurstGPT's table, in tokens.
type burst struct{ input, output int32 }

// Bounds of a table: its rows are held, as one has to know how many there are before some are taken.
// BurstGPT's own has 5 million.
const (
	mostBursts = 16 << 20
	rowLimit   = 1 << 20 // bytes in one row
)

// A table is a CSV file that is read row by row. It bounds what is read between two rows: a quote
// that nobody closes would take the rest of the file for one.
type table struct {
	path string
	in   io.Reader
	left int // bytes until the row is too long
	rows *csv.Reader
}

func newTable(path string, in io.Reader) *table {
	t := &table{path: path, in: in}
	t.rows = csv.NewReader(t)
	t.rows.ReuseRecord = true
	return t
}

// Read implements [io.Reader].
func (t *table) Read(p []byte) (int, error) {
	if t.left <= 0 {
		return 0, io.ErrShortBuffer // the parser may take it for the end of the file
	}
	n, err := t.in.Read(p)
	t.left -= n
	return n, err
}

// row returns the next row, or [io.EOF].
func (t *table) row() ([]string, error) {
	t.left = rowLimit
	record, err := t.rows.Read()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return record, err
	case t.left <= 0:
		return nil, fmt.Errorf("%s: a row is longer than %d MiB", t.path, rowLimit>>20)
	}
	return nil, fmt.Errorf("%s: %w", t.path, err)
}

// readBursts reads at most that many rows.
func readBursts(path string, most int) ([]burst, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	t := newTable(path, regular.Limit(f, regular.Result))
	head, err := t.row()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:1: the file is empty", path)
	}
	if err != nil {
		return nil, err
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
		record, err := t.row()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		if record[columns[0]] != "GPT-4" {
			continue
		}
		var n [2]int
		for i, c := range columns[1:] {
			if n[i], err = strconv.Atoi(record[c]); err != nil || n[i] < 0 || n[i] > longest {
				line, _ := t.rows.FieldPos(c)
				return nil, fmt.Errorf("%s:%d: %s is %q, no number of tokens", path, line, head[c], record[c])
			}
		}
		if n[1] == 0 {
			continue
		}
		if len(rows) == most {
			return nil, fmt.Errorf("%s: the table has more than %d rows of GPT-4: --dataset-path needs a part of it",
				path, most)
		}
		rows = append(rows, burst{int32(max(n[0], 1)), int32(n[1])})
	}
}

// longest bounds the prompts that a file can ask for, in tokens.
const longest = 10 << 20
