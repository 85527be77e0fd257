package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// Limit is a time limit in CloudAI's spellings: "<n>s|m|h|d|w", "D-HH:MM:SS",
// "HH:MM:SS" or "HH:MM" (hours and minutes; Slurm would read minutes and
// seconds). Bare numbers, D-HH and D-HH:MM are refused, because CloudAI refuses
// them.
type Limit time.Duration

// MaxLimit bounds a time limit, so that a typo is no job of a century.
const MaxLimit = 10 * 365 * 24 * time.Hour

// timeLimit is the key of a job's limit, which has a default.
const timeLimit = "time_limit"

// UnmarshalKey reads the spelling.
func (l *Limit) UnmarshalKey(key string, v *source.Value) error {
	own := key[strings.LastIndexByte(key, '.')+1:]
	s, ok := v.Any.(string)
	if !ok {
		err := source.Errorf(v.Pos, "%s must be a string such as \"30m\" or \"01:30:00\", not %s", key, v.Describe())
		word, _ := v.Word()
		switch n, ok := v.Int(); {
		case v.Kind() == "date":
			err = err.Hintf("strings need quotes: %s = %q", own, word)
		case ok && n > 0:
			err = err.Hintf("for %d minutes (as in Slurm), write %s = \"%dm\"", n, own, n)
		}
		return err
	}
	d, err := parseLimit(strings.TrimSpace(s))
	switch {
	case err != nil && err.zero && key != timeLimit:
		return source.Errorf(v.Pos, "%s %q is zero", key, s).Hintf("remove %s: it is no limit then", own)
	case err != nil:
		return source.Errorf(v.Pos, "%s %v", key, err).Hintf("%s", err.hint)
	}
	*l = Limit(d)
	return nil
}

var (
	limitUnits = lazyregexp.New(`^(\d{1,9})([smhdw])$`)
	limitClock = lazyregexp.New(`^(?:(\d{1,5})-)?(\d{1,5}):(\d{1,5})(?::(\d{1,5}))?$`)
	limitShort = lazyregexp.New(`^(?:(\d{1,5})|(\d{1,5}-\d{1,5})|(\d{1,5}-\d{1,5}:\d{1,5}))$`)
	hourMinute = lazyregexp.New(`^\d{1,5}:\d{1,5}$`)
)

var unitOf = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	"w": 7 * 24 * time.Hour}

// ParseLimit reads a time limit of at least a second and at most MaxLimit.
func ParseLimit(s string) (time.Duration, error) {
	d, err := parseLimit(strings.TrimSpace(s))
	if err != nil {
		return 0, err
	}
	return d, nil
}

// limitError is a limit that cannot be, and the spelling that was probably meant.
type limitError struct {
	msg, hint string
	zero      bool // it is understood, but no limit
}

func (e *limitError) Error() string { return e.msg }

func parseLimit(s string) (time.Duration, *limitError) {
	var d time.Duration
	if m := limitUnits.FindStringSubmatch(strings.ToLower(s)); m != nil {
		unit := unitOf[m[2]]
		d = min(fieldOf(m[1]), MaxLimit/unit+1) * unit
	} else if m := limitClock.FindStringSubmatch(s); m != nil && (m[1] == "" || m[4] != "") {
		d = fieldOf(m[1])*24*time.Hour + fieldOf(m[2])*time.Hour + fieldOf(m[3])*time.Minute + fieldOf(m[4])*time.Second
	} else {
		return 0, &limitError{msg: fmt.Sprintf("%q is not understood", s), hint: limitHint(s)}
	}
	switch {
	case d == 0:
		return 0, &limitError{msg: fmt.Sprintf("%q is zero, which means no limit to Slurm", s),
			hint: "remove time_limit to use the partition's default", zero: true}
	case d > MaxLimit:
		return 0, &limitError{msg: fmt.Sprintf("%q is above ten years", s), hint: "\"20:00\" means 20 hours, \"20m\" 20 minutes"}
	}
	return d, nil
}

// fieldOf reads digits that a pattern has found, "" as 0.
func fieldOf(digits string) time.Duration {
	n, _ := strconv.Atoi(digits)
	return time.Duration(n)
}

// limitHint names the spelling that was probably meant by a text of no known form.
func limitHint(s string) string {
	m := limitShort.FindStringSubmatch(s)
	switch {
	case m == nil:
		return `write "30m", "HH:MM:SS" or "D-HH:MM:SS"; "20:00" means 20 hours`
	case m[1] != "":
		return fmt.Sprintf("add a unit: \"%sm\" is minutes (as in Slurm), \"%sh\" is hours", m[1], m[1])
	case m[2] != "":
		return fmt.Sprintf("write minutes and seconds as well: \"%s:00:00\"", s)
	}
	return fmt.Sprintf("write the seconds as well: \"%s:00\"", s)
}

// limitNote says what HH:MM means here, where Slurm reads minutes and seconds:
// the same text in a batch script asks for a sixtieth of it. "" if v is written
// otherwise, or not at all.
func limitNote(v *source.Value) string {
	s, _ := v.Text()
	s = strings.TrimSpace(s)
	d, err := ParseLimit(s)
	if err != nil || !hourMinute.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("%s: time_limit %q means hours and minutes (%s), as in CloudAI; Slurm would read minutes and seconds", v.Pos, s, FormatLimit(d))
}

// FormatLimit writes d as Slurm's [D-]HH:MM:SS, rounded up to a second. Slurm
// itself rounds up to a minute.
func FormatLimit(d time.Duration) string {
	s := int64((d + time.Second - 1) / time.Second)
	clock := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		return fmt.Sprintf("%d-%s", days, clock)
	}
	return clock
}
