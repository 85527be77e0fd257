package campaign

import (
	"context"
	"errors"
	"strings"
)

// Interruption is err without Go's words for a command that was interrupted.
func Interruption(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	text := strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted")
	if said := err.Error(); strings.Contains(said, "interrupted") { // before, too
		text = strings.ReplaceAll(said, ": "+context.Canceled.Error(), "")
	}
	return &interruptedError{text, err}
}

// interruptedError says in plain words what err says.
type interruptedError struct {
	text string
	err  error
}

func (e *interruptedError) Error() string { return e.text }

func (e *interruptedError) Unwrap() error { return e.err }
