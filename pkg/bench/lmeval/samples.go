package lmeval

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// Bounds of a samples file. A line holds a question, its prompt and its answers.
const (
	longestLine   = 16 << 20
	mostQuestions = 1 << 20
)

// sample is what one line says of one question.
type sample struct {
	id    float64 // its number in the dataset
	hash  string
	right bool
}

// answers reads samples_<task>_<time>.jsonl, which --log_samples leaves beside
// results_<time>.json: which questions were answered right, by the metric and the
// filter of the score. Without the file it is nil; nil with a warning if the file says
// something else than the score.
func answers(dir fs.FS, f *clientfile.File, s result.Score) *result.Answers {
	folder, base := path.Split(f.Name)
	stem := strings.TrimSuffix(strings.TrimSuffix(base, ".xz"), ".json")
	at, isTime := strings.CutPrefix(stem, "results_")
	if !isTime {
		return nil
	}
	in, name, err := packed.Open(dir, folder+"samples_"+s.Task+"_"+at+".jsonl")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list []sample
	if err == nil {
		list, err = samples(in, s)
		in.Close()
	}
	var a *result.Answers
	if err == nil {
		a, err = pack(list, s)
	}
	if err != nil {
		f.Warnings = append(f.Warnings,
			result.Warning{Kind: result.BadValue, File: name,
				Text: err.Error() + "; the list of right questions was left out"})
		return nil
	}
	return a
}

// samples are the lines of the score's filter.
func samples(in io.Reader, s result.Score) ([]sample, error) {
	var list []sample
	r := bufio.NewReaderSize(in, 1<<16)
	for line := 1; ; line++ {
		text, err := readLine(r)
		if len(bytes.TrimSpace(text)) > 0 {
			x, of, bad := parse(text, s.Metric)
			if bad != nil {
				return nil, fmt.Errorf("line %d: %w", line, bad)
			}
			if of == "" || of == "none" || of == s.Filter {
				list = append(list, x)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		case len(list) > mostQuestions:
			return nil, fmt.Errorf("line %d: more than %d questions", line, mostQuestions)
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > longestLine {
			return nil, fmt.Errorf("longer than %d MiB", longestLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// parse reads one line, and the filter that it is of.
func parse(line []byte, metric string) (x sample, filter string, err error) {
	var right pyjson.Value
	r := pyjson.NewReader(bytes.NewReader(line))
	x.id = math.NaN()
	err = r.Object(func(key string) error {
		switch key {
		case "doc_id", "doc_hash", "filter", metric:
		default:
			return r.Skip()
		}
		v, err := r.Value()
		switch key {
		case "doc_id":
			if n, ok := v.Finite(); ok {
				x.id = n
			}
		case "doc_hash":
			x.hash = v.Str
		case "filter":
			filter = v.Str
		case metric:
			right = v
		}
		return err
	})
	if err == nil {
		err = r.End()
	}
	switch {
	case err != nil:
		return x, filter, err
	case math.IsNaN(x.id):
		return x, filter, errors.New("doc_id is missing")
	case right.Kind == pyjson.Bool:
		x.right = right.Str == "true"
	case right.Kind == pyjson.Number && (right.Num == 0 || right.Num == 1):
		x.right = right.Num == 1
	default:
		return x, filter, fmt.Errorf("%s is neither right nor wrong", metric)
	}
	return x, filter, nil
}

// pack puts the questions into the order of the dataset, and proves that they are the
// score's.
func pack(list []sample, s result.Score) (*result.Answers, error) {
	if len(list) == 0 || s.Questions != nil && *s.Questions != len(list) {
		return nil, fmt.Errorf("%d questions, but the result has others", len(list))
	}
	slices.SortStableFunc(list, func(a, b sample) int { return cmp.Compare(a.id, b.id) })
	ids, right, n := make([]string, len(list)), make([]bool, len(list)), 0
	for i, x := range list {
		if i > 0 && list[i-1].id == x.id {
			return nil, fmt.Errorf("question %g occurs twice", x.id)
		}
		if ids[i], right[i] = cmp.Or(x.hash, fmt.Sprint(x.id)), x.right; x.right {
			n++
		}
	}
	if got := float64(n) / float64(len(list)); math.Abs(got-s.Value) > 1e-6 {
		return nil, fmt.Errorf("%d of %d are right, but the result says %.6g", n, len(list), s.Value)
	}
	return result.NewAnswers(ids, right)
}
