package stage

import (
	"context"
	"errors"
	"os"
)

// More states of an Outcome.
const (
	WouldStage = "would stage" // a dry run
	Failed     = "failed"
)

// StageAll fetches items one after the other. An item that fails does not keep the rest from
// being fetched, and the errors are joined. A dry run fetches nothing, and says what would be
// fetched.
func (s *Stager) StageAll(ctx context.Context, items []Item, dry bool) ([]Outcome, error) {
	outcomes := []Outcome{}
	var errs []error
	for _, item := range items {
		if dry {
			outcomes = append(outcomes, s.expected(item))
			continue
		}
		o, err := s.Stage(ctx, item)
		if err != nil {
			o.State = Failed
			errs = append(errs, err)
		}
		outcomes = append(outcomes, o)
		if errors.Is(err, context.Canceled) {
			break
		}
	}
	return outcomes, errors.Join(errs...)
}

// expected is what Stage would do with an item.
func (s *Stager) expected(item Item) Outcome {
	o := Outcome{Item: item, State: WouldStage, Detail: item.Skip}
	if item.Skip != "" {
		o.State = Skipped
	} else if _, err := os.Stat(item.Path); err == nil && !(s.Force && item.Kind == Image) {
		o.State = Present
	}
	return o
}

// VerifyAll reads every good image of a cache and compares it with its digest. Those that
// differ get the state Differs, and the errors are joined.
func VerifyAll(entries []Entry) error {
	var errs []error
	for i, e := range entries {
		if e.State != Good {
			continue
		}
		if _, err := Verify(Item{Kind: Image, Path: e.Path}); err != nil {
			entries[i].State = Differs
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
