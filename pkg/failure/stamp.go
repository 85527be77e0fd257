package failure

import (
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// The time stamps of the programs in a run, in the order in which they are
// tried. A stamp without a year is given the year 0.
var stamps = []struct {
	re     *lazyregexp.Regexp
	layout string
}{
	// vLLM: "INFO 11-21 01:22:00 [core.py:133] "
	{lazyregexp.New(`\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d-\d\d \d\d:\d\d:\d\d)`), "01-02 15:04:05"},
	// Dynamo, Slurm's own stamps: "2026-06-12T17:29:50.126353Z"
	{lazyregexp.New(`(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d))`), time.RFC3339},
	{lazyregexp.New(`(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?)`), "2006-01-02T15:04:05"},
	// Ray, NIXL: "2026-11-21 01:32:52,754"
	{lazyregexp.New(`(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)`), "2006-01-02 15:04:05"},
	// lm-eval: "2026-11-26:15:37:54 WARNING  [models.api_models:521] "
	{lazyregexp.New(`(\d{4}-\d\d-\d\d:\d\d:\d\d:\d\d) `), "2006-01-02:15:04:05"},
	// nginx: "2026/11/21 12:28:10"
	{lazyregexp.New(`(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)`), "2006/01/02 15:04:05"},
	// glog, PyTorch, NCCL: "[E1121 20:27:21.426415540 "
	{lazyregexp.New(`\b[IWEF](\d{4} \d\d:\d\d:\d\d(?:\.\d+)?)`), "0102 15:04:05"},
}

// UCX: "[1765653660.705652] ", seconds since 1970
var epoch = lazyregexp.New(`^\[(1\d{9})\.(\d{6})\]`)

// stampOf returns the time a line was written, in loc where it names no zone.
func stampOf(line string, loc *time.Location) (time.Time, bool) {
	const most = 200 // stamps stand at the front
	if len(line) > most {
		line = line[:most]
	}
	if !mayHaveStamp(line) {
		return time.Time{}, false
	}
	if m := epoch.FindStringSubmatch(line); m != nil {
		s, _ := strconv.ParseInt(m[1], 10, 64)
		us, _ := strconv.ParseInt(m[2], 10, 64)
		return time.Unix(s, us*1000).In(loc), true
	}
	for _, s := range stamps {
		if m := s.re.FindStringSubmatch(line); m != nil {
			if t, err := time.ParseInLocation(s.layout, m[1], loc); err == nil {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// mayHaveStamp is false for a line that has no time of day and does not begin as
// UCX's do: it spares most lines seven expressions.
func mayHaveStamp(line string) bool {
	if strings.HasPrefix(line, "[1") {
		return true
	}
	for i := 2; i+3 < len(line); i++ {
		if line[i] == ':' && line[i+3] == ':' && digit(line[i-2]) && digit(line[i-1]) && digit(line[i+1]) &&
			digit(line[i+2]) {
			return true
		}
	}
	return false
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// inYear gives a stamp without a year the year in which it is not after ref.
func inYear(t, ref time.Time) time.Time {
	if t.Year() != 0 || ref.IsZero() {
		return t
	}
	t = time.Date(ref.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location())
	if t.After(ref.AddDate(0, 1, 0)) { // December, read in January
		t = t.AddDate(-1, 0, 0)
	}
	return t
}
