package gsm8k

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/eval"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/result"
)

// answered takes what profllm's own evaluation says besides the script's keys: a request that failed
// is neither right nor wrong.
func answered(a *result.Accuracy, own *eval.Own, name string, part *result.Part) {
	a.Program = own.Program
	if own.Failed == 0 || own.Answered < 1 {
		return
	}
	invalid := float64(own.Invalid) / float64(own.Answered)
	a.Value, a.InvalidRate, a.Questions = own.Accuracy, &invalid, &own.Answered
	part.Warnings = append(part.Warnings, result.Warning{Kind: result.Incomplete, File: name, Key: "accuracy",
		Text: fmt.Sprintf("%d of %d requests failed and are not counted", own.Failed, own.Answered+own.Failed)})
}

// AnswersFile is the file of the answers beside a result of profllm's own evaluation.
func AnswersFile(resultFile string) string {
	return strings.TrimSuffix(strings.TrimSuffix(resultFile, ".xz"), ".json") + ".answers.jsonl"
}

// addAnswers adds which questions were answered right, if the file of the answers is there and says
// the same as the result.
func addAnswers(out fs.FS, name string, part *result.Part) {
	in, file, err := packed.Open(out, AnswersFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var book *eval.Book
	if err == nil {
		book, err = eval.ParseBook(in)
		in.Close()
	}
	if err == nil {
		part.Accuracy.Answers, err = pack(book, part.Accuracy)
	}
	if err != nil {
		part.Warnings = append(part.Warnings, result.Warning{Kind: result.BadValue, File: file,
			Text: err.Error() + "; the list of right questions was left out"})
	}
}

// pack lists the answers in the order of their questions.
func pack(b *eval.Book, a *result.Accuracy) (*result.Answers, error) {
	var ids []string
	var right []bool
	n := 0
	for _, i := range slices.Sorted(maps.Keys(b.Answers)) {
		x := b.Answers[i]
		if x.Error != "" {
			continue
		}
		ids, right = append(ids, x.ID), append(right, x.Right)
		if x.Right {
			n++
		}
	}
	if a.Questions == nil || *a.Questions != len(ids) || !alike(float64(n)/float64(max(len(ids), 1)), a.Value) {
		return nil, fmt.Errorf("%d of %d are right, but the result says otherwise", n, len(ids))
	}
	return result.NewAnswers(ids, right)
}

func alike(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
