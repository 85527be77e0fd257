// Package lmeval reads the accuracy that EleutherAI's lm-evaluation-harness leaves
// behind, results_<time>.json.
//
// A file may hold several tasks, each with several metrics, each by several filters:
// the ways in which the answer was looked for in the text. One is the record's
// accuracy: of gsm8k if it is there, else of the first group of tasks, such as mmlu, that
// is in no other, else of the first task; exact_match before the others; flexible-extract
// before strict-match. The others are kept beside it. With
// --log_samples it also says which questions were right. The package does not judge
// the value.
//
//	part, err := lmeval.Parser{}.Parse(os.DirFS("run/raw"))
package lmeval

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// program is what the record calls it.
const program = "lm-eval"

// patterns are the names of results: the program's own, and that of one who asked for
// another.
var patterns = []string{"results_*.json", "results_*.json.xz", "lm_eval*.json", "lm_eval*.json.xz"}

// A Parser reads the newest result of one folder.
type Parser struct {
	Dir string // below the folder given to Parse; default the folder itself
}

// errNoResult is a file of that name that is of another program.
var errNoResult = errors.New("no result of lm-eval")

// Parse returns the accuracy, and a warning for everything it had to go past. The error
// is fs.ErrNotExist if there is none.
func (p Parser) Parse(out fs.FS) (result.Part, error) {
	sub, err := fs.Sub(out, cmp.Or(p.Dir, "."))
	if err != nil {
		return result.Part{}, err
	}
	names := candidates(sub, ".")
	if p.Dir != "" { // a folder of its own, in which the program makes one for the model
		names = append(names, below(sub)...)
		slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	}
	if len(names) == 0 {
		return result.Part{}, fmt.Errorf("no results_*.json of lm-eval: %w", fs.ErrNotExist)
	}
	f := &clientfile.File{Name: names[len(names)-1]} // the names hold the time
	part := result.Part{}
	err = f.Read(sub, func(in *pyjson.Reader) error {
		doc, err := in.Value()
		if err == nil {
			err = read(f, doc, &part)
		}
		return err
	})
	if err != nil {
		return result.Part{Warnings: f.Warnings}, err
	}
	if len(names) > 1 {
		f.Warn(result.Appended, pyjson.Value{}, "", "%d results, the last by name was used", len(names))
	}
	a := part.Accuracy
	a.Answers = answers(sub, f,
		result.Score{Task: a.Task, Metric: a.Metric, Filter: a.Filter, Value: a.Value, Questions: a.Questions})
	part.Warnings = f.Warnings
	return part, nil
}

// candidates are the names of results, in the order of their times.
func candidates(dir fs.FS, folder string) []string {
	entries, err := fs.ReadDir(dir, folder)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		for _, pattern := range patterns {
			if ok, _ := path.Match(pattern, e.Name()); ok && !e.IsDir() { // the patterns are ours
				names = append(names, path.Join(folder, strings.TrimSuffix(e.Name(), ".xz")))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mostFolders bounds the folders that are looked into.
const mostFolders = 64

// below are the candidates in the folders of a folder.
func below(dir fs.FS) []string {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil
	}
	var names []string
	n := 0
	for _, e := range entries {
		if e.IsDir() && n < mostFolders {
			n++
			names = append(names, candidates(dir, e.Name())...)
		}
	}
	return names
}

// read takes the scores and chooses one of them.
func read(f *clientfile.File, doc pyjson.Value, part *result.Part) error {
	results := doc.At("results")
	if results.Kind != pyjson.Object || doc.At("n-shot").Kind != pyjson.Object && doc.At("versions").
		Kind != pyjson.Object {
		return fmt.Errorf("%w: neither results with n-shot nor with versions: %w", errNoResult, fs.ErrNotExist)
	}
	var all []result.Score
	for _, task := range results.Fields {
		all = append(all, scores(f, doc, task)...)
	}
	best := choose(doc, all)
	if best < 0 {
		f.Warn(result.BadValue, results, "results", "no metric that is a share of right answers")
		return fmt.Errorf("no accuracy in the file: %w", fs.ErrNotExist)
	}
	s := all[best]
	a := &result.Accuracy{
		Program: program, Task: s.Task, Metric: s.Metric, Filter: s.Filter, Value: s.Value, Stderr: s.Stderr,
		Questions: s.Questions, Source: f.Name,
		Others: slices.Delete(all, best, best+1),
	}
	a.TaskQuestions = whole(f, doc, s)
	if v := doc.At("n-shot", s.Task); v.Kind == pyjson.Number {
		a.Shots = f.Int(v, "n-shot."+s.Task)
	}
	if limit, ok := doc.At("config", "limit").Finite(); ok && limit >= 1 && s.Questions != nil &&
		*s.Questions > int(limit) {
		f.Warn(result.Contradicts, doc.At("n-samples", s.Task), "n-samples."+s.Task,
			"%d questions were evaluated, under a limit of %g", *s.Questions, limit)
	}
	a.Duration = duration(f, doc.At("total_evaluation_time_seconds"))
	if len(a.Others) == 0 {
		a.Others = nil
	}
	part.Accuracy = a
	if v := doc.At("model_name"); v.Kind == pyjson.Text {
		part.Model = v.Str
	}
	return nil
}

// scores lists the metrics of one task. Their keys are "metric,filter", those of their
// errors "metric_stderr,filter"; before 0.4 there was no filter.
func scores(f *clientfile.File, doc pyjson.Value, task pyjson.Field) []result.Score {
	var list []result.Score
	questions := f.Int(doc.At("n-samples", task.Key, "effective"), "n-samples."+task.Key)
	for _, x := range task.Value.Fields {
		metric, filter, _ := strings.Cut(x.Key, ",")
		if strings.HasSuffix(metric, "_stderr") || metric == "sample_len" || metric == "sample_count" ||
			metric == "alias" {
			continue
		}
		key := task.Key + "." + x.Key
		if x.Value.Kind != pyjson.Number && filter == "" {
			continue // before 0.4 anything may stand beside the metrics
		}
		v := f.Number(x.Value, key)
		if v == nil {
			continue
		}
		s := result.Score{Task: task.Key, Metric: metric, Value: *v, Questions: questions}
		if n := task.Value.At("sample_count", x.Key); n.Kind == pyjson.Number { // of a group, by metric
			s.Questions = f.Int(n, "sample_count."+x.Key)
		}
		if filter != "none" {
			s.Filter = filter
		}
		name := metric + "_stderr"
		if filter != "" {
			name += "," + filter
		}
		if e := task.Value.At(name); e.Kind == pyjson.Number { // it may be the text N/A
			s.Stderr = f.Number(e, key)
		}
		list = append(list, s)
	}
	return list
}

// isShare reports whether a score can be a share of right answers.
func isShare(doc pyjson.Value, s result.Score) bool {
	higher := doc.At("higher_is_better", s.Task, s.Metric)
	return s.Value >= 0 && s.Value <= 1 && !(higher.Kind == pyjson.Bool && higher.Str == "false")
}

// choose is the place of the record's accuracy, -1 if none is a share of right answers.
func choose(doc pyjson.Value, all []result.Score) int {
	best, bestOrder := -1, [4]int{}
	first := map[string]int{} // by task: its place in the file
	for i, s := range all {
		if !isShare(doc, s) {
			continue
		}
		if _, seen := first[s.Task]; !seen {
			first[s.Task] = len(first)
		}
		if o := order(doc, s, first[s.Task]); best < 0 || slices.Compare(o[:], bestOrder[:]) < 0 {
			best, bestOrder = i, o
		}
	}
	return best
}

// order is smaller for a score that is chosen before others. A group follows its tasks in the
// file.
func order(doc pyjson.Value, s result.Score, place int) [4]int {
	o := [4]int{2, place, 1, 1}
	switch {
	case s.Task == "gsm8k":
		o[0] = 0
	case isOutermost(doc, s.Task):
		o[0] = 1
	}
	if s.Metric == "exact_match" {
		o[2] = 0
	}
	if s.Filter == "flexible-extract" {
		o[3] = 0
	}
	return o
}

// isOutermost reports whether a task is a group that is in no other group.
func isOutermost(doc pyjson.Value, task string) bool {
	groups := doc.At("group_subtasks")
	if len(groups.At(task).Items) == 0 {
		return false
	}
	for _, g := range groups.Fields {
		if g.Key != task && slices.ContainsFunc(g.Value.Items, func(v pyjson.Value) bool { return v.Str == task }) {
			return false
		}
	}
	return true
}

// whole is how many questions a score's task has: of a group, those of its tasks, if the score
// is of all that were asked of them.
func whole(f *clientfile.File, doc pyjson.Value, s result.Score) *int {
	if v := doc.At("n-samples", s.Task, "original"); v.Kind != pyjson.Absent {
		return f.Int(v, "n-samples."+s.Task)
	}
	groups, waiting, seen := doc.At("group_subtasks"), []string{s.Task}, map[string]bool{}
	asked, all := 0, 0
	for len(waiting) > 0 {
		name := waiting[0]
		waiting = waiting[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, v := range groups.At(name).Items {
			waiting = append(waiting, v.Str)
		}
		n := f.Int(doc.At("n-samples", name, "effective"), "n-samples."+name)
		original := f.Int(doc.At("n-samples", name, "original"), "n-samples."+name)
		if n != nil && original != nil {
			asked, all = asked+*n, all+*original
		}
	}
	if s.Questions == nil || *s.Questions != asked || asked == 0 {
		return nil
	}
	return &all
}

// duration is a number that is written as a text.
func duration(f *clientfile.File, v pyjson.Value) *float64 {
	if v.Kind != pyjson.Text {
		return f.Number(v, "total_evaluation_time_seconds")
	}
	x, err := strconv.ParseFloat(v.Str, 64)
	if err != nil || x < 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		f.Warn(result.NoNumber, v, "total_evaluation_time_seconds", "not a number: %.40q", v.Str)
		return nil
	}
	return &x
}
