package runlog

import (
	"strings"

	"github.com/profllm/profllm/pkg/tail"
)

// Follower reads what is added to the logs of a run, also to logs that begin later.
type Follower struct {
	Dir   string
	Name  string // of the logs, as Choose takes it; "" for all
	Lines int    // that are read of the end of each log at first

	followers map[string]*tail.Follower // by path, without what says that it is packed
}

// NoLogError says that a run has no log of the name, and gets none.
type NoLogError struct{ Err error }

func (e *NoLogError) Error() string { return e.Err.Error() }

// More hands each log and its new lines to show; named says whether there are several. With last,
// nothing follows, and lines without an end are read as well.
func (f *Follower) More(last bool, show func(l Log, lines []string, named bool) error) error {
	logs, err := Choose(List(f.Dir), f.Name)
	if err != nil && (last || !MayCome(f.Dir, f.Name)) {
		return &NoLogError{err}
	}
	if f.followers == nil {
		f.followers = map[string]*tail.Follower{}
	}
	for _, l := range logs {
		key := strings.TrimSuffix(l.Path, ".xz")
		one := f.followers[key]
		if one == nil {
			one = &tail.Follower{Path: l.Path, Last: f.Lines}
			f.followers[key] = one
		}
		lines, err := one.More()
		if err != nil {
			return err
		}
		if last {
			lines = append(lines, one.Rest()...)
		}
		if err := show(l, lines, f.Name == "" || len(logs) > 1); err != nil {
			return err
		}
	}
	return nil
}
