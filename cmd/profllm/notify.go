package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/nightly"
	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/run"
)

// hookCommand is a flag that holds a command to tell; nil without it.
type hookCommand struct{ *notify.Hook }

// UnmarshalText splits the command and looks for its program, so that a wrong one fails before
// any work.
func (h *hookCommand) UnmarshalText(text []byte) (err error) {
	if h.Hook, err = notify.Parse(string(text)); err == nil {
		err = h.Check()
	}
	return err
}

// notifyFlags name a command of the user's that is told what happened.
type notifyFlags struct {
	Notify      hookCommand   `placeholder:"COMMAND" help:"Command to run on each event; it reads the event as JSON from standard input. The command is split into words as in a shell, but runs without one."`
	NotifyLimit time.Duration `type:"limit" default:"30s" help:"Time limit of the notify command."`
}

// tell runs the hook, if there is one. A hook that fails says so itself, and
// changes nothing else.
func (a *app) tell(ctx context.Context, f notifyFlags, e notify.Event) {
	h := f.Notify.Hook
	if h == nil {
		return
	}
	h.Environ, h.Limit, h.Log = a.environ, f.NotifyLimit, a.logf
	e.Time = a.now().UTC()
	h.Send(ctx, e)
}

// tellEnd tells how the jobs of a scenario ended, and returns ended. An
// interrupted wait is no end: the jobs go on.
func (a *app) tellEnd(ctx context.Context, f notifyFlags, root string, ended error) error {
	code := codeOf(ended)
	if code == exitInterrupted {
		return ended
	}
	e := notify.Event{Kind: "submission", Scenario: filepath.Base(root), Run: root, Code: code, Lines: []string{}}
	if s, err := run.ReadScenario(root); err == nil {
		e.Scenario = s.Name
	}
	switch code {
	case exitOK:
		e.Lines = append(e.Lines, "every job is done and every result is valid")
	case exitJobFailed:
		e.Lines = append(e.Lines, "a job failed")
	case exitInvalid:
		e.Lines = append(e.Lines, "a result is invalid")
	default:
		e.Lines = append(e.Lines, eventLines(ended)...)
	}
	if code != exitOK {
		e.Lines = append(e.Lines, nightly.ProblemsBelow(root)...)
	}
	a.tell(ctx, f, e)
	return ended
}

// tellUnsent tells why there are no jobs to wait for, to a command that would have waited, and
// returns err. scenario is its file.
func (a *app) tellUnsent(ctx context.Context, f submitFlags, scenario, root string, err error) error {
	code := codeOf(err)
	if err == nil || !f.Wait && !f.Watch || code == exitInterrupted || ctx.Err() != nil {
		return err
	}
	e := notify.Event{Kind: "submission", Scenario: scenario, Run: root, Code: code, Lines: eventLines(err)}
	if s, err := run.ReadScenario(root); root != "" && err == nil {
		e.Scenario = s.Name
	}
	a.tell(ctx, f.notifyFlags, e)
	return err
}

// scenarioName is the name by which an event calls a scenario: its file, if that cannot be read.
func scenarioName(file string, in definitionFlags) string {
	if s, _, err := definition.Load(file, definition.Folders(in)); err == nil {
		return s.Name
	}
	return file
}

// eventLines has each message of an error on a line of its own, with its hint.
func eventLines(err error) []string {
	return strings.Split(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n\t", "; "), "\n")
}

// kindCodes are the exit codes of the kinds of a campaign's errors.
var kindCodes = map[campaign.Kind]int{
	campaign.Usage: exitUsage, campaign.Definition: exitDefinition, campaign.NotSubmitted: exitNotSubmit,
	campaign.JobOpen: exitJobFailed, campaign.Interrupted: exitInterrupted,
}

// codeOf is the exit code that an error leads to.
func codeOf(err error) int {
	if err == nil {
		return exitOK
	}
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	var k *campaign.Error
	if errors.As(err, &k) {
		return kindCodes[k.Kind]
	}
	return exitInternal
}
