package gpu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/textlines"
)

// Watching is how GPUs are looked at again and again.
type Watching struct {
	Interval time.Duration
	Now      func() time.Time
	Take     func([]Sample) error // is given each look at the GPUs; an error ends it
	Note     func(string)         // is told once why nvidia-smi takes the samples instead of NVML; nil: nobody
}

// Watch looks at every GPU once each interval until ctx ends, which is no error. Where
// NVML gives no samples, or no more, nvidia-smi does. Where a GPU has fallen off the
// bus, a call into the driver may never come back: who must go on does not wait for
// Watch.
func (r Reader) Watch(ctx context.Context, w Watching) error {
	if all := w.Take; r.View != nil {
		w.Take = func(look []Sample) error { return all(shownSamples(r.View, look)) }
	}
	var why error
	if r.NVML != "" {
		var taken *takenError
		if why = r.watch(ctx, w); why == nil {
			return nil
		} else if errors.As(why, &taken) {
			return taken.error
		}
	}
	if why != nil && w.Note != nil {
		take, once := w.Take, sync.OnceFunc(func() { w.Note(noteOf(why)) })
		w.Take = func(look []Sample) error {
			once() // not before: an nvidia-smi that fails as well is an error, and no note
			return take(look)
		}
	}
	err := watchProgram(ctx, w)
	if errors.Is(err, ErrNoDriver) && isDriver(why) {
		return why // there is a driver, and it does not work
	}
	return err
}

// sampleFields are what nvidia-smi is asked for, in the order in which it is read; the
// reasons come last. It has no counter of energy.
const sampleFields = "timestamp,index,uuid,utilization.gpu,memory.used,power.draw,clocks.sm,clocks.mem,temperature.gpu"

// reasonFields are the names of the reasons: since driver 535, and before. A driver
// that knows neither is asked for none.
var reasonFields = []string{",clocks_event_reasons.active", ",clocks_throttle_reasons.active", ""}

// errField says that nvidia-smi does not know what it was asked for.
var errField = errors.New("not a field of this nvidia-smi")

// watchProgram is Watch by nvidia-smi alone: one process of it for all the time.
func watchProgram(ctx context.Context, w Watching) error {
	for _, reasons := range reasonFields {
		err := watchSMI(ctx, w, sampleFields+reasons)
		if !errors.Is(err, errField) || reasons == "" {
			return err
		}
	}
	return nil // not reached: the last name is ""
}

func watchSMI(ctx context.Context, w Watching, fields string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu="+fields, noUnits, "-lms",
		strconv.FormatInt(w.Interval.Milliseconds(), 10))
	cmd.WaitDelay = time.Second
	stderr := capture.Output{Most: 1 << 10}
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); errors.Is(err, exec.ErrNotFound) {
		return ErrNoDriver
	} else if err != nil {
		return fmt.Errorf("nvidia-smi: %w", err)
	}
	said, taken := readSMI(bufio.NewReaderSize(out, longestLine), strings.Count(fields, ",")+1, w)
	over := ctx.Err() != nil
	if taken != nil {
		stop() // else it has ended by itself, and its exit status says how
	}
	err = cmd.Wait()
	if said == "" {
		said, _, _ = strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	}
	switch {
	case taken != nil:
		return taken
	case over:
		return nil
	case strings.Contains(said, "is not a valid field to query"):
		return fmt.Errorf("%w: %.200s", errField, said)
	case strings.Contains(said, "No devices were found"):
		return ErrNoDriver
	}
	return fmt.Errorf("nvidia-smi ended: %w: %.200s", errors.Join(err, errEnded), said)
}

// errEnded stands beside the exit status of a program that was to go on.
var errEnded = errors.New("it should have continued")

// readSMI hands over the lines of each look at the GPUs together. It returns the
// first line that is no sample, for nvidia-smi complains on stdout, and the error of
// Take.
func readSMI(in *bufio.Reader, fields int, w Watching) (said string, err error) {
	var look []Sample
	for {
		line, bad := in.ReadSlice('\n')
		if errors.Is(bad, bufio.ErrBufferFull) {
			bad = textlines.SkipRest(in)
		}
		if text := strings.TrimSpace(string(line)); text != "" {
			s, err := parseSMISample(text, fields, w.Now())
			switch {
			case err != nil && said == "":
				said = text
			case err == nil:
				look = append(look, s)
			}
		}
		if bad == nil && in.Buffered() > 0 && len(look) < mostGPUs {
			continue // another GPU of the same look, or a look that we are late for
		}
		if len(look) > 0 {
			if err := w.Take(look); err != nil {
				return said, err
			}
			look = nil
		}
		if bad != nil {
			return said, nil
		}
	}
}

// parseSMISample reads a line that arrived at a time.
func parseSMISample(line string, fields int, arrived time.Time) (Sample, error) {
	f := strings.Split(line, ",")
	if len(f) != fields {
		return Sample{}, fmt.Errorf("%d fields instead of %d", len(f), fields)
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	at, err := smiTime(f[0], arrived)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{Time: at, UUID: f[2]}
	if s.Index, err = strconv.Atoi(f[1]); err != nil || s.Index < 0 || s.Index >= mostGPUs {
		return Sample{}, fmt.Errorf("index %q is not a GPU", f[1])
	}
	for i, into := range []**float64{&s.Use, &s.Memory, &s.Power, &s.SM, &s.Mem, &s.Temp} {
		if strings.HasPrefix(f[3+i], "[") { // [N/A], [Not Supported], [Unknown Error]
			continue
		}
		if *into, err = parseNumber(f[3+i]); err != nil {
			return Sample{}, err
		}
	}
	if text := f[len(f)-1]; len(f) > 9 && strings.HasPrefix(text, "0x") {
		if s.Reasons, err = parseReasons(text); err != nil {
			return Sample{}, err
		}
	}
	return s, nil
}

// zoneStep is what all zones' distances from UTC are multiples of, farZone the
// largest.
const (
	zoneStep = 15 * time.Minute
	farZone  = 14 * time.Hour
)

// smiTime reads the local time that nvidia-smi says. Its zone is the one in which it
// is just before the line arrived: so no clock change and no setting of a zone counts.
func smiTime(text string, arrived time.Time) (time.Time, error) {
	at, err := time.Parse("2006/01/02 15:04:05.000", text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time of nvidia-smi", text)
	}
	zone := arrived.Sub(at).Round(zoneStep)
	if zone.Abs() > farZone {
		return time.Time{}, fmt.Errorf("%q is not the time of any zone", text)
	}
	return at.Add(zone), nil
}
