package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// ErrNoMatch says that no line of a log matches the pattern for success.
var ErrNoMatch = errors.New("no line of the log matches")

// lateFiles is how long a shared file system may hide from this node what another
// one wrote: NFS believes a listing for up to 60 s (acdirmax, nfs(5)).
const lateFiles = 60 * time.Second

// Check searches a phase's log for a line that matches pattern. log is absolute or
// relative to the run directory; %t stands for any rank, and a match in one rank's log is
// enough. Check waits for logs of other nodes that are not visible yet. Without a match,
// it records why and returns ErrNoMatch.
func (j *Job) Check(ctx context.Context, phase, log, pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(log) {
		log = j.path(log)
	}
	expected, logs := j.logsElsewhere(phase), 0
	for end := j.Now().Add(lateFiles); ; {
		var found bool
		if found, logs, err = search(log, re); found || err != nil {
			return err
		}
		if logs >= expected || j.Now().After(end) {
			break
		}
		if !sleep(ctx, poll) {
			return ctx.Err()
		}
	}
	name := filepath.Base(log)
	text := fmt.Sprintf("no line of %s (%s) matches %s", name, quantity.Count(logs, "file"), pattern)
	return errors.Join(fmt.Errorf("%w: %s: %s", ErrNoMatch, phase, text),
		j.event(Event{Event: CheckFailed, Phase: phase, Text: text}))
}

// logsElsewhere is how many logs a phase leaves if nodes other than this, the first,
// write some of them, else 0.
func (j *Job) logsElsewhere(phase string) int {
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return 0
	}
	for i := range p.Loads {
		for _, step := range p.Loads[i].Clients {
			if p.Loads[i].Phase(step.Name) == phase && step.Nodes.End() > 1 {
				return step.Tasks()
			}
		}
	}
	return 0
}

// search looks for a line in every log that is there, and counts them.
func search(log string, re *regexp.Regexp) (found bool, logs int, err error) {
	dir, name := filepath.Split(log)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, 0, err
	}
	for _, e := range entries {
		if !isLog(e.Name(), name) {
			continue
		}
		logs++
		if found, err := hasMatch(filepath.Join(dir, e.Name()), re); found || err != nil {
			return found, logs, err
		}
	}
	return false, logs, nil
}

// isLog reports whether a file is the log of some rank. Names are compared rather
// than globbed, since a pattern would give a meaning to what is in them.
func isLog(file, log string) bool {
	before, after, ranks := strings.Cut(log, "%t")
	if !ranks {
		return file == log
	}
	rank, ok := strings.CutPrefix(file, before)
	if !ok {
		return false
	}
	rank, ok = strings.CutSuffix(rank, after)
	return ok && rank != "" && strings.Trim(rank, "0123456789") == ""
}

// longLine bounds what is kept of a line; a line that says how a benchmark ended
// is short.
const longLine = 64 << 10

// hasMatch reports whether a line of the file matches, its end as a terminal shows
// it: without newline and carriage return. Of a longer line, longLine bytes count.
func hasMatch(file string, re *regexp.Regexp) (bool, error) {
	f, err := regular.OpenLarge(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, longLine)
	for {
		line, isPrefix, err := r.ReadLine()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if re.Match(line) {
			return true, nil
		}
		for isPrefix && err == nil {
			_, isPrefix, err = r.ReadLine()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
	}
}
