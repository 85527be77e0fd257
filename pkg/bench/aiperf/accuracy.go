package aiperf

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// accuracyFile is the table of AIPerf's accuracy mode, and of any program that CloudAI runs in its place.
const accuracyFile = "accuracy_results.csv"

// accuracyDirs are where CloudAI looks for the table, in this order.
var accuracyDirs = []string{".", "aiperf_accuracy_artifacts", "aiperf_artifacts"}

// overall is the row of all tasks together.
const overall = "OVERALL"

// An AccuracyParser reads the table of accuracies. Its columns have had three sets of names.
type AccuracyParser struct {
	Dir string // below the folder given to Parse; "": the folders of CloudAI
}

// Parse returns the accuracy. The error is fs.ErrNotExist if there is no table with one.
func (p AccuracyParser) Parse(out fs.FS) (result.Part, error) {
	dirs := accuracyDirs
	if p.Dir != "" {
		dirs = []string{p.Dir}
	}
	s := &summary{}
	for _, dir := range dirs {
		data, read, err := load(out, path.Join(dir, accuracyFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return result.Part{Warnings: s.warnings}, fmt.Errorf("read %s: %w", read, err)
		}
		s.file = read
		if a := s.accuracy(data); a != nil {
			return result.Part{Accuracy: a, Warnings: s.warnings}, nil
		}
	}
	return result.Part{Warnings: s.warnings}, fmt.Errorf("no %s with an accuracy: %w", accuracyFile, fs.ErrNotExist)
}

// accuracy is that of all tasks, or else of the first that has one; nil if none has.
func (s *summary) accuracy(data []byte) *result.Accuracy {
	in := csv.NewReader(bytes.NewReader(data))
	in.FieldsPerRecord = -1
	rows, err := in.ReadAll()
	if err != nil {
		s.warn(result.Unreadable, "", "%v", err)
	}
	if len(rows) == 0 {
		return nil
	}
	columns := map[string]int{}
	for i, name := range rows[0] {
		columns[strings.ToLower(strings.TrimSpace(name))] = i
	}
	var all []accuracyRow
	for _, cells := range rows[1:] {
		if row, ok := s.accuracyRow(columns, cells); ok {
			all = append(all, row)
		}
	}
	if len(all) == 0 {
		return nil
	}
	best := max(slices.IndexFunc(all, func(r accuracyRow) bool { return strings.EqualFold(r.task, overall) }), 0)
	a := &result.Accuracy{Program: kind, Task: all[best].task, Value: all[best].rate, Questions: all[best].questions,
		InvalidRate: all[best].unparsed, Source: s.file}
	for i, r := range all {
		if i != best {
			a.Others = append(a.Others, result.Score{Task: r.task, Metric: "accuracy", Value: r.rate, Questions: r.questions})
		}
	}
	if len(a.Others) == 1 && strings.EqualFold(a.Task, overall) { // all of one task
		a.Task, a.Others = a.Others[0].Task, nil
	}
	return a
}

// accuracyRow is one task.
type accuracyRow struct {
	task      string
	rate      float64
	questions *int
	unparsed  *float64 // share of answers in which nothing was found
}

// accuracyRow reads a row: its share of right answers as a percentage or a fraction, or else as two counts.
func (s *summary) accuracyRow(columns map[string]int, cells []string) (accuracyRow, bool) {
	cell := func(names ...string) string {
		for _, name := range names {
			if i, ok := columns[name]; ok && i < len(cells) && strings.TrimSpace(cells[i]) != "" {
				return strings.TrimSpace(cells[i])
			}
		}
		return ""
	}
	r := accuracyRow{task: cell("task", "metric")}
	if n, err := strconv.Atoi(cell("total")); err == nil && n >= 0 {
		r.questions = &n
	}
	if v, err := strconv.ParseFloat(cell("unparsed_rate"), 64); err == nil && v >= 0 && v <= 1 {
		r.unparsed = &v
	}
	if v, err := strconv.ParseFloat(cell("accuracy_rate"), 64); err == nil {
		return r, s.share(&r, v)
	}
	text := cell("accuracy", "value")
	number, percent := strings.CutSuffix(text, "%")
	if v, err := strconv.ParseFloat(number, 64); err == nil {
		if percent || v > 1 {
			v /= 100
		}
		return r, s.share(&r, v)
	}
	right, err := strconv.ParseFloat(cell("correct", "passed"), 64)
	if err != nil || r.questions == nil || *r.questions == 0 {
		return r, false
	}
	return r, s.share(&r, right/float64(*r.questions))
}

// share takes a share of right answers that can be one.
func (s *summary) share(r *accuracyRow, v float64) bool {
	if !(v >= 0 && v <= 1) {
		s.warn(result.BadValue, cmp.Or(r.task, "accuracy"), "not a share of right answers: %v", v)
		return false
	}
	r.rate = v
	return true
}
