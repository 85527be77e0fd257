package upload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/printable"
)

// How an upload that met an error of this machine is tried again.
const (
	firstPause   = time.Minute // doubled with each try; for a store that does not answer, the same each time
	longestPause = time.Hour
	giveUp       = 7 * 24 * time.Hour // of tries by one program; never if it is the store
	mostStarts   = 5                  // of programs that were killed while they read it
)

// attempt is what is known of an upload in trouble. It is in memory alone: another program tries at once.
type attempt struct {
	tries  int
	first  time.Time
	next   time.Time
	gone   bool // given up
	why    string
	active bool // it is being tried
}

// storeError is an error of the store: not of the upload, nor of the folder that it is in.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// addTrouble adds to a status what is known of an upload in trouble.
func (s *Spool) addTrouble(st *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.tried[st.Job]
	if a == nil || st.State == Done {
		return
	}
	st.Trouble, st.Tries = a.why, a.tries
	switch {
	case a.active:
	case a.gone:
		st.State = Failed
	default:
		st.State, st.NextTry = Waiting, &a.next
	}
}

// due reports whether an upload may be tried now, and notes that it is.
func (s *Spool) due(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.tried[job]
	if a == nil {
		return true
	}
	a.active = !a.gone && !s.opts.Now().Before(a.next)
	return a.active
}

// settled notes how a try ended.
func (s *Spool) settled(ctx context.Context, job string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.tried, job)
		return
	}
	now := s.opts.Now()
	a := s.tried[job]
	if a == nil {
		a = &attempt{first: now}
		s.tried[job] = a
	}
	a.active = false
	if ctx.Err() != nil || errors.Is(err, lease.ErrLost) {
		return
	}
	a.tries++
	pause := min(firstPause<<min(a.tries-1, 10), longestPause)
	a.why = s.plain(err, "", "")
	var fault storeError
	ofStore := errors.As(err, &fault)
	if ofStore {
		pause, a.why = firstPause, s.opts.Reason(fault.error)
	}
	a.next = now.Add(pause)
	if a.gone = errors.Is(err, errKills) || !ofStore && now.Sub(a.first) > giveUp; a.gone {
		until := " until the next start"
		if errors.Is(err, errKills) {
			until = ""
		}
		s.opts.Log("upload %s: given up%s, its files are kept: %s", job, until, a.why)
	}
}

var errKills = fmt.Errorf("the server was killed %d times while it read this upload", mostStarts)

// mostTexts bounds the texts of a status, in bytes.
const mostTexts = 1 << 20

// budget is how many bytes of texts a status may still get.
type budget int

// text is a text as a status may have it: without what a terminal obeys, and short.
func (b *budget) text(s string) string {
	most := 1000
	if *b <= 0 {
		most = 100
	}
	s = short(printable.Text(strings.ToValidUTF8(s, "\uFFFD")), most)
	*b -= budget(len(s))
	return s
}

func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
