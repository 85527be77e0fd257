package knobs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Moment is a time span at a time, as faults write them: 10s@5s.
type Moment struct {
	by    time.Duration // negative for a clock that is set back
	after time.Duration
}

func parseMoment(name, value string) (m Moment, err error) {
	by, after, ok := strings.Cut(value, "@")
	if m.by, err = time.ParseDuration(by); err == nil && ok {
		m.after, err = time.ParseDuration(after)
	}
	if err != nil || !ok || m.by == 0 || m.by < 0 && name != "step" || m.after < 0 {
		return Moment{}, fmt.Errorf("%s=%q: want a duration and when it begins, such as 10s@5s", name, value)
	}
	return m, nil
}

// Within returns how much of the moment is left at a time since it counts.
func (m Moment) Within(since time.Duration) (left time.Duration) {
	if m.by <= 0 || since < m.after {
		return 0
	}
	return max(0, m.after+m.by-since)
}

// Clock is the clock of a client under its faults, counted from the first look at it: on
// a busy machine the client's own start takes a while.
func (f *Planted) Clock() func() time.Time {
	first := sync.OnceValue(time.Now)
	return func() time.Time {
		begin := first()
		if left := f.freeze.Within(time.Since(begin)); left > 0 {
			time.Sleep(left) // whoever asks for the time stands still
		}
		now := time.Now()
		if f.step.by != 0 && now.Sub(begin) >= f.step.after {
			return now.Add(f.step.by)
		}
		return now
	}
}

// Paced lowers the rate among a client's arguments.
func (f *Planted) Paced(args []string) ([]string, error) {
	if f.pace == 0 {
		return args, nil
	}
	out := append([]string{}, args...)
	for i := range out {
		value, same := strings.CutPrefix(out[i], "--request-rate=")
		switch {
		case same:
		case out[i] == "--request-rate" && i+1 < len(out):
			value = out[i+1]
		default:
			continue
		}
		rate, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("--request-rate: %w", err)
		}
		value = strconv.FormatFloat(rate*f.pace, 'g', -1, 64)
		if same {
			out[i] = "--request-rate=" + value
		} else {
			out[i+1] = value
		}
		return out, nil
	}
	return nil, errors.New("the fault pace needs a --request-rate")
}
