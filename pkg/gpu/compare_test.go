package gpu

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/gputest"
)

// differences compares what nvidia-smi and NVML say of the same GPUs, one after the
// other. Memory in use may move by 64 MiB in between.
func differences(program, library []Device) (list []string) {
	differ := func(gpu int, what string, a, b any) {
		list = append(list, fmt.Sprintf("GPU %d: %s: nvidia-smi says %v, NVML says %v", gpu, what, a, b))
	}
	if len(program) != len(library) {
		differ(0, "number", len(program), len(library))
		return list
	}
	for i, a := range program {
		b := library[i]
		for what, x := range map[string][2]any{
			"index": {a.Index, b.Index}, "uuid": {a.UUID, b.UUID}, "name": {a.Name, b.Name}, "driver": {a.Driver, b.Driver},
			"CUDA": {a.Setup.CUDA, b.Setup.CUDA}, "persistence": {a.Setup.Persistence, b.Setup.Persistence}, "MIG": {a.Setup.MIG, b.Setup.MIG},
			"processes": {pids(a), pids(b)},
		} {
			if fmt.Sprint(x[0]) != fmt.Sprint(x[1]) {
				differ(i, what, x[0], x[1])
			}
		}
		for what, x := range map[string]struct{ a, b, most float64 }{
			"memory, bytes":                {float64(a.Total), float64(b.Total), mib},
			"memory in use, bytes":         {float64(a.Used), float64(b.Used), 64 * mib},
			"memory of processes, bytes":   {held(a), held(b), 64 * mib},
			"power limit, W":               {a.Setup.PowerLimit, b.Setup.PowerLimit, 0.01},
			"highest clock of the SM, MHz": {a.Setup.MaxClock, b.Setup.MaxClock, 0.01},
		} {
			if math.Abs(x.a-x.b) > x.most {
				differ(i, what, x.a, x.b)
			}
		}
	}
	slices.Sort(list)
	return list
}

func pids(d Device) (list []int) {
	for _, p := range d.Processes {
		list = append(list, p.PID)
	}
	slices.Sort(list)
	return list
}

func held(d Device) (sum float64) {
	for _, p := range d.Processes {
		sum += float64(p.Used)
	}
	return sum
}

// sampleDifferences compares what both took of one GPU at the same time: means, since a
// GPU changes between two looks. The counter of energy, which nvidia-smi lacks, is held
// against nvidia-smi's power over the same time.
func sampleDifferences(program, library []Sample) (list []string) {
	mean := func(of []Sample, value func(Sample) *float64) float64 {
		sum, n := 0.0, 0.0
		for _, s := range of {
			if v := value(s); v != nil {
				sum, n = sum+*v, n+1
			}
		}
		return sum / n // NaN where there is none: then it differs
	}
	compare := func(what string, a, b, most float64) {
		if !(math.Abs(a-b) <= most) {
			list = append(list, fmt.Sprintf("%s: nvidia-smi says %.1f, NVML says %.1f", what, a, b))
		}
	}
	power := func(s Sample) *float64 { return s.Power }
	watts := mean(program, power)
	compare("power, W", watts, mean(library, power), 0.35*watts)
	for what, x := range map[string]struct {
		value func(Sample) *float64
		most  float64
	}{
		"memory in use, MiB":       {func(s Sample) *float64 { return s.Memory }, 64},
		"clock of the SM, MHz":     {func(s Sample) *float64 { return s.SM }, 200},
		"clock of the memory, MHz": {func(s Sample) *float64 { return s.Mem }, 200},
		"temperature, °C":          {func(s Sample) *float64 { return s.Temp }, 10},
		"in use, percent":          {func(s Sample) *float64 { return s.Use }, 30},
	} {
		compare(what, mean(program, x.value), mean(library, x.value), x.most)
	}
	first, last := library[0], library[len(library)-1]
	if first.Energy == nil || last.Energy == nil {
		list = append(list, "NVML has no counter of energy")
	} else {
		compare("power by the counter of energy, W", watts, (*last.Energy-*first.Energy)/1000/last.Time.Sub(first.Time).
			Seconds(), 0.35*watts)
	}
	slices.Sort(list)
	return list
}

// watchBoth returns the samples of GPU 0 of so many looks by both readers at the same
// time, after enough said that the first of them may be taken.
func watchBoth(t *testing.T, program, library Reader, looks int, enough func(Sample) bool) (one, other []Sample) {
	t.Helper()
	watch := func(r Reader) (list []Sample, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		note := ""
		err = r.Watch(ctx, Watching{Interval: 200 * time.Millisecond, Now: time.Now,
			Note: func(text string) { note = text }, Take: func(look []Sample) error {
				for _, s := range look {
					if s.Index == 0 && len(list) < looks && (len(list) > 0 || enough(s)) {
						list = append(list, s)
					}
				}
				if len(list) == looks {
					cancel()
				}
				return nil
			}})
		if err == nil && (note != "" || len(list) < looks) {
			err = fmt.Errorf("%d samples of %d: %s", len(list), looks, note)
		}
		return list, err
	}
	done := make(chan error, 1)
	go func() {
		var err error
		one, err = watch(program)
		done <- err
	}()
	other, err := watch(library)
	require.NoError(t, <-done)
	require.NoError(t, err)
	return one, other
}

// simulatedSMI answers like the simulated library does, whatever that is asked.
const simulatedSMI = `case $* in
--version) echo 'CUDA Version : 12.8';;
*lms*) while :; do date -u '+%Y/%m/%d %H:%M:%S.000, 0, GPU-00000000-0000-0000-0000-000000000000, 97, 4000, 350.00, 1980, 2619, 61, 0x4'; sleep 0.2; done;;
--query-gpu=index*) for i in 0 1; do echo "$i, GPU-00000000-0000-0000-0000-00000000000$i, Simulated GPU, 0.0.1, 81559, 400$i"; done;;
--query-gpu=uuid*) for i in 0 1; do echo "GPU-00000000-0000-0000-0000-00000000000$i, 700.00, 1980, Enabled, Disabled"; done;;
--query-compute*) for i in 0 1; do echo "GPU-00000000-0000-0000-0000-00000000000$i, 471$((1 + i)), python3, 3900"; done;;
esac
`

// The comparison that a machine with a GPU is put to finds what is wrong. Both sides are
// simulated here.
func TestSimulatedComparison(t *testing.T) {
	library := Reader{NVML: gputest.Reader(t, os.Environ())}
	t.Setenv("LD_LIBRARY_PATH", gputest.Library(t, os.Environ()))
	program(t, simulatedSMI)
	compared := func() []string {
		one, other := watchBoth(t, Reader{}, library, 5, func(Sample) bool { return true })
		return append(differences(listed(t, Reader{}), listed(t, library)), sampleDifferences(one, other)...)
	}
	list := compared()
	// the simulated counter follows the clock, which a busy machine may read late
	for try := 0; len(list) > 0 && try < 5; try++ {
		list = compared()
	}
	require.Empty(t, list)
	for words, want := range map[string]string{
		"gpus=1":           "GPU 0: number: nvidia-smi says 2, NVML says 1",
		"memory=9000":      "memory in use, MiB: nvidia-smi says 4000.0, NVML says 9000.0",
		"power=1000":       "power, W: nvidia-smi says 350.0, NVML says 1.0",
		"energy=1":         "power by the counter of energy, W: nvidia-smi says 350.0, NVML says ",
		"clock=990":        "clock of the SM, MHz: nvidia-smi says 1980.0, NVML says 990.0",
		"pid=0":            "GPU 1: processes: nvidia-smi says [4712], NVML says []",
		"pid=99 memory=70": "GPU 0: processes: nvidia-smi says [4711], NVML says [99]",
	} {
		t.Run(words, func(t *testing.T) {
			t.Setenv("SIMULATED_NVML", words)
			require.Contains(t, strings.Join(compared(), "\n"), want)
		})
	}
}
