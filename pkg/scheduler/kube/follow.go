package kube

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/redact"
)

// Line is a line of the log of one container.
type Line struct {
	Step string // the role, or run.JobStep
	Rank int
	Text string
}

// Following says what Follow reads.
type Following struct {
	Lines int                              // of the end of each log, at first
	Wants func(step string, rank int) bool // nil: all logs
	Ended func() (bool, error)             // whether the run is over; asked at each look
}

// followEach is the pause between two looks for pods and for the end of the run, in pauses.
const followEach = 2

// Follow hands the lines of a run's containers to show as they are printed, also of pods that begin
// later. A connection that drops is made again, and no line is handed over twice. Follow returns once
// the run is over and all that its containers had printed was handed over, with an error of show or
// of Ended, or with that of ctx. If the last lines of a container cannot be read, also not at a second try, the
// others are handed over, and Follow returns why.
func (k *Kube) Follow(ctx context.Context, id string, f Following, show func(Line) error) error {
	of, err := k.ofJob(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &follower{Kube: k, of: of, Following: f, lines: make(chan Line), over: make(chan struct{}),
		begun: map[string]bool{}}
	looked := make(chan error, 1)
	go func() {
		err := w.look(ctx)
		close(w.over)
		if err != nil { // else the logs are read to their ends
			cancel()
		}
		w.streams.Wait()
		close(w.lines)
		looked <- cmp.Or(err, ctx.Err(), errors.Join(w.lost...))
	}()
	var failed error
	for l := range w.lines {
		if failed == nil {
			if failed = show(l); failed != nil {
				cancel()
			}
		}
	}
	if err := <-looked; failed == nil {
		return err
	}
	return failed
}

// follower follows the logs of one run.
type follower struct {
	*Kube
	Following
	of      known
	lines   chan Line
	over    chan struct{} // closed once the run is over
	streams sync.WaitGroup
	begun   map[string]bool // containers that are followed

	mu   sync.Mutex
	lost []error // why lines may be missing
}

// misses notes why lines may be missing.
func (w *follower) misses(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, err)
}

// twice tries again after a pause what failed once.
func (w *follower) twice(ctx context.Context, try func() error) error {
	err := try()
	if err == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(w.pause):
		return try()
	}
}

// look begins to follow what there is to follow, until the run is over.
func (w *follower) look(ctx context.Context) error {
	for first := true; ; first = false {
		over, err := w.Ended()
		if err != nil || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		look := func() error {
			have, err := w.get(ctx, w.of.at, []string{resources[kindPod], resources[kindJob]}, byLabel(w.of.runID))
			if err == nil {
				w.begin(ctx, have, first)
			}
			return err
		}
		if over {
			if err := w.twice(ctx, look); err != nil {
				w.misses(fmt.Errorf("logs of pods that began last may be missing: %w", w.plain(err, w.of.at)))
			}
			return nil
		}
		_ = look() // else with the next look
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEach * w.pause):
		}
	}
}

// begin follows the containers that have begun since the last look. Of those that were there at the
// first one, it reads the last lines only.
func (w *follower) begin(ctx context.Context, have objects, first bool) {
	for _, c := range containersOf(have, w.of) {
		key := c.pod.Metadata.UID + "/" + c.name
		if c.waits || w.begun[key] || w.Wants != nil && !w.Wants(c.step, c.rank) {
			continue
		}
		w.begun[key] = true
		s := &stream{follower: w, ran: c}
		if first {
			s.tail = fmt.Sprintf("--tail=%d", w.Lines)
		}
		w.streams.Go(func() { s.follow(ctx) })
	}
}

// stream follows the log of one container.
type stream struct {
	*follower
	ran
	tail  string
	at    time.Time // of the last line
	n     int       // lines of that time that were handed over
	fresh bool      // a line was handed over since the last look at the container
	veil
}

// mostPause bounds the pause before a log that has ended is asked for again, in pauses.
const mostPause = 16

// follow reads the log until the container or the run is over, or the pod is gone.
func (s *stream) follow(ctx context.Context) {
	for pause := s.pause; ; pause = min(2*pause, mostPause*s.pause) {
		select {
		case <-s.over:
			s.rest(ctx) // what it printed since
			return
		default:
		}
		live, done := context.WithCancel(ctx)
		stop := make(chan struct{})
		go func() {
			select {
			case <-s.over:
				done()
			case <-stop:
			}
		}()
		_ = s.read(live, "--follow")
		close(stop)
		done()
		if ctx.Err() != nil || !s.goesOn(ctx) {
			return
		}
		if s.fresh {
			s.fresh, pause = false, s.pause
		}
		select {
		case <-ctx.Done():
		case <-s.over:
		case <-time.After(pause):
		}
	}
}

// goesOn reports whether a container whose log has ended may print more: it runs, is started again, or
// nobody says. What it printed while the connection was lost is read.
func (s *stream) goesOn(ctx context.Context) bool {
	out, err := s.kubectl(ctx, s.of.at, nil, "get", "pod", s.pod.Metadata.Name, "--output=json")
	if err != nil {
		return !asError(err).says("NotFound")
	}
	p, err := parseObject(out)
	if err != nil {
		return true
	}
	if p.Metadata.UID != s.pod.Metadata.UID {
		return false
	}
	for _, c := range slices.Concat(p.Status.Containers, p.Status.Init) {
		if c.Name != s.name {
			continue
		}
		if c.Restarts > s.restarts {
			s.restarts = c.Restarts
			s.rest(ctx, "--previous")
		}
		if ended := c.State.Terminated != nil; ended && (p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed") {
			s.rest(ctx)
			return false
		}
	}
	return true
}

// rest reads a log that gets no more lines. One that is gone has none.
func (s *stream) rest(ctx context.Context, more ...string) {
	err := s.twice(ctx, func() error {
		err := s.read(ctx, more...)
		if err != nil && asError(err).gone() {
			return nil
		}
		return err
	})
	if err != nil {
		s.misses(fmt.Errorf("the last lines of %s may be missing: %w", s.step, s.plain(err, s.of.at)))
	}
}

// read hands over the lines of the log that were not handed over before.
func (s *stream) read(ctx context.Context, more ...string) error {
	args := append([]string{"logs", s.pod.Metadata.Name, "--container=" + s.name, "--timestamps"}, more...)
	switch {
	case !s.at.IsZero():
		args = append(args, "--since-time="+s.at.UTC().Truncate(time.Second).Format(time.RFC3339)) // whole seconds count
	case s.tail != "":
		args = append(args, s.tail)
	}
	follow := slices.Contains(more, "--follow")
	if !follow {
		limited, done := context.WithTimeout(ctx, logLimit)
		defer done()
		ctx = limited
	}
	argv, cmd, err := s.command(ctx, s.of.at, 0, args...)
	if err != nil {
		return err
	}
	stderr := capture.Output{Most: capture.Complaint}
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = s.take(ctx, out, !follow)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if ended := cmd.Wait(); ended != nil {
		return &CommandError{Argv: argv, Stderr: redact.Complaint(stderr.String(), cmd.Env), Err: ended}
	}
	return err
}

// take hands over lines. The last line may have no end: it is handed over if it is the last of the
// log, and comes whole with the next connection otherwise.
func (s *stream) take(ctx context.Context, r io.Reader, whole bool) error {
	again, same := s.at, 0
	for in := bufio.NewReaderSize(r, 64<<10); ; {
		line, err := boundedLine(in)
		if len(line) == 0 || err != nil && !whole {
			return err
		}
		stamp, text, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), " ")
		at, bad := time.Parse(time.RFC3339Nano, stamp)
		if at.Equal(again) {
			same++
		}
		switch {
		case bad != nil, at.IsZero(), at.Before(again), at.Equal(again) && same <= s.n:
			continue // none of the container's, or handed over before
		case at.Equal(s.at):
			s.n++
		case at.After(s.at):
			s.at, s.n = at, 1
		}
		if s.fresh = true; s.hides(text) {
			continue
		}
		select {
		case s.lines <- Line{s.step, s.rank, text}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// packed is a line of an archive of results, as base64 prints it.
var packed = lazyregexp.New(`^[A-Za-z0-9+/]{76}$`)

// veil hides the archive of results among the lines of a log, which may begin within it.
type veil struct{ begun, inside bool }

// hides reports whether a line is of the archive. Its markers are shown.
func (v *veil) hides(text string) bool {
	if !v.begun {
		v.begun, v.inside = true, packed.MatchString(text)
	}
	switch {
	case text == plan.ArchiveEnds:
		v.inside = false
	case v.inside:
		return true
	case strings.HasPrefix(text, plan.ArchiveBegins):
		v.inside = true
	}
	return false
}
