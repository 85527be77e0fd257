package render

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
)

// batchView is what the template of a batch sees.
type batchView struct {
	*plan.Batch
	Directives []string
	Digest     string
	Count      int
	Array      bool
	Limits     []int // s
}

// BatchScript prints the script of a batch, which runs the scripts of its runs:
// each as a task of an array, or one after the other in one allocation. The
// first layer that has the template wins.
func BatchScript(b *plan.Batch, layers ...fs.FS) ([]byte, error) {
	t, digest, err := load(BatchName, layers)
	if err != nil {
		return nil, err
	}
	if err := checkBatch(b); err != nil {
		return nil, err
	}
	v := batchView{Batch: b, Digest: digest, Count: len(b.Runs), Array: b.Kind == plan.Array}
	array, mark := "", ""
	if v.Array {
		array, mark = fmt.Sprintf("0-%d", len(b.Runs)-1), "-%a"
		if b.MaxParallel > 0 {
			array += fmt.Sprintf("%%%d", b.MaxParallel)
		}
	}
	for _, s := range b.Limits {
		v.Limits = append(v.Limits, int(time.Duration(s).Seconds()))
	}
	if v.Directives, err = directives(b.Job, array, b.Dir, mark); err != nil {
		return nil, err
	}
	return execute(t, v)
}

// checkBatch refuses a batch that cannot be printed or run.
func checkBatch(b *plan.Batch) error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(!safeName.MatchString(b.Scenario), "scenario name %q does not match %s", b.Scenario, safeName)
	complain(!safeName.MatchString(b.RunID), "run ID %q does not match %s", b.RunID, safeName)
	complain(!safeText.MatchString(b.Version), "version %q does not match %s", b.Version, safeText)
	complain(strings.ContainsRune(b.Dir, '%'), "the directory %q holds a %%, which Slurm expands in the names of logs",
		b.Dir)
	complain(b.Kind != plan.Array && b.Kind != plan.Sequence, "kind %q is neither %q nor %q", b.Kind, plan.Array,
		plan.Sequence)
	complain(len(b.Runs) == 0, "the batch has no runs")
	complain(b.MaxParallel < 0, "max_parallel is %d", b.MaxParallel)
	complain(len(b.Limits) != len(b.Runs), "%d runs have %d limits", len(b.Runs), len(b.Limits))
	for i, s := range b.Limits {
		complain(s < 0, "the limit of run %d is %s", i, time.Duration(s))
	}
	return errors.Join(errs...)
}
