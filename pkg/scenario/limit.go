package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/source"
)

// Limit is a time limit in CloudAI's spellings: "<n>s|m|h|d|w", "D-HH:MM:SS",
// "HH:MM:SS" or "HH:MM" (hours and minutes; Slurm would read minutes and
// seconds). Bare numbers are refused, because their unit is not clear.
type Limit time.Duration

// UnmarshalSource reads the spelling.
func (l *Limit) UnmarshalSource(v *source.Value) error {
	s, ok := v.Any.(string)
	if !ok {
		return source.Errorf(v.Pos, "time_limit must be a string such as \"30m\" or \"01:30:00\", not the %s %v", v.Kind(), v.Plain())
	}
	d, err := ParseLimit(s)
	if err != nil {
		return source.Errorf(v.Pos, "time_limit %v", err).Hintf("write \"30m\", \"HH:MM:SS\" or \"D-HH:MM:SS\"; \"20:00\" means 20 hours")
	}
	*l = Limit(d)
	return nil
}

var (
	limitUnits = regexp.MustCompile(`^(\d{1,9})([smhdw])$`)
	limitClock = regexp.MustCompile(`^(?:(\d{1,5})-)?(\d{1,5}):(\d{1,5})(?::(\d{1,5}))?$`)
)

// ParseLimit reads a time limit.
func ParseLimit(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if m := limitUnits.FindStringSubmatch(strings.ToLower(s)); m != nil {
		n, _ := strconv.Atoi(m[1])
		unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[m[2]]
		if n == 0 || time.Duration(n) > 10*365*24*time.Hour/unit {
			return 0, fmt.Errorf("%q is out of range", s)
		}
		return time.Duration(n) * unit, nil
	}
	m := limitClock.FindStringSubmatch(s)
	if m == nil || m[1] != "" && m[4] == "" {
		return 0, fmt.Errorf("%q is not understood", s)
	}
	field := func(i int) time.Duration { n, _ := strconv.Atoi(m[i]); return time.Duration(n) }
	d := field(1)*24*time.Hour + field(2)*time.Hour + field(3)*time.Minute + field(4)*time.Second
	if d == 0 {
		return 0, fmt.Errorf("%q is zero", s)
	}
	return d, nil
}

// FormatLimit writes d as Slurm's [D-]HH:MM:SS, rounded up to a second.
func FormatLimit(d time.Duration) string {
	s := int64((d + time.Second - 1) / time.Second)
	clock := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		return fmt.Sprintf("%d-%s", days, clock)
	}
	return clock
}
