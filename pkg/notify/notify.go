// Package notify runs a command of the user when something happened, which can send a chat
// message, a mail or a ticket. The package knows no such service and decides nothing; a
// hook that fails changes no exit code.
//
//	hook, err := notify.Parse("/usr/local/bin/tell 'bench bot'")
//	hook.Environ, hook.Log = environ, logf
//	hook.Send(ctx, notify.Event{Kind: "night", …})
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/config"
)

// DefaultLimit bounds a hook, which may wait for a server.
const DefaultLimit = 30 * time.Second

// pause is between the two tries of a hook.
const pause = time.Second

// shown is how much of what a failed hook printed is shown, bytes.
const shown = 2000

// Event is what happened. The hook gets it as JSON on standard input.
type Event struct {
	Schema   string    `json:"schema"` // profllm.event/1, set by Send
	Kind     string    `json:"event"`  // "submission": its jobs are over; "night": there is news
	Time     time.Time `json:"time"`
	Scenario string    `json:"scenario"`
	Run      string    `json:"run"`       // the scenario's directory
	Code     int       `json:"exit_code"` // of the command, unless something else fails
	Lines    []string  `json:"lines"`     // what happened, a line for each run or error, without an end of line
}

// Hook is the command to run.
type Hook struct {
	Argv    []string
	Environ []string      // its environment, before PROFLLM_EVENT and its like
	Limit   time.Duration // of one try; 0: DefaultLimit
	Log     func(format string, args ...any)

	pause time.Duration // 0: the constant
}

// Parse splits a command as a shell would, without expansion of any kind: no
// shell runs.
func Parse(command string) (*Hook, error) {
	argv, err := config.SplitWords(command)
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, fmt.Errorf("no command in %q", command)
	}
	return &Hook{Argv: argv}, nil
}

// Send runs the hook, and once more if it fails. It logs each failure with what the hook
// printed, and reports whether the hook succeeded.
func (h *Hook) Send(ctx context.Context, e Event) bool {
	e.Schema = "profllm.event/1"
	data, err := json.Marshal(e)
	if err != nil { // a time beyond the year 9999
		h.Log("note: no notification was sent: %v", err)
		return false
	}
	wait := h.pause
	if wait == 0 {
		wait = pause
	}
	for try := 1; ; try++ {
		if err = h.run(ctx, e, data); err == nil {
			return true
		}
		if try == 2 || ctx.Err() != nil {
			h.Log("note: the notify command failed; no notification was sent: %v", err)
			return false
		}
		h.Log("note: the notify command failed and is tried once more: %v", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (h *Hook) run(ctx context.Context, e Event, data []byte) error {
	limit := h.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Argv[0], h.Argv[1:]...)
	cmd.Env = append(append([]string(nil), h.Environ...),
		"PROFLLM_EVENT="+e.Kind, "PROFLLM_SCENARIO="+e.Scenario, "PROFLLM_RUN="+e.Run,
		"PROFLLM_EXIT_CODE="+strconv.Itoa(e.Code))
	cmd.Stdin = bytes.NewReader(append(data, '\n'))
	out := capture.Tail{Most: capture.Complaint}
	cmd.Stdout, cmd.Stderr = &out, &out
	// A group of its own, so that the time limit ends what the hook started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil:
		err = fmt.Errorf("timed out after %s", limit)
	case errors.Is(err, exec.ErrWaitDelay), errors.Is(err, syscall.EPIPE) && !errors.As(err, &exit):
		err = nil // it is over and succeeded; it left a child, or did not read the event
	}
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(out.String())
	if len(text) > shown {
		text = "…" + text[len(text)-shown:]
	}
	if text != "" {
		return fmt.Errorf("%s: %w: %s", strings.Join(h.Argv, " "), err, text)
	}
	return fmt.Errorf("%s: %w", strings.Join(h.Argv, " "), err)
}
