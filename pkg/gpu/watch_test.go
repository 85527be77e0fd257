package gpu

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program puts an nvidia-smi on PATH.
func program(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// twoLooks is what a real program prints for two GPUs, made by hand after its fields.
const twoLooks = `2026/11/22 17:15:00.120, 0, GPU-aaaa, 97, 70123, 689.25, 1980, 2619, 61, 0x0000000000000004
2026/11/22 17:15:00.120, 1, GPU-bbbb, 0, 3, [N/A], 345, [Not Supported], 28, 0x0000000000000001
2026/11/22 17:15:01.121, 0, GPU-aaaa, 98, 70123, 690.00, 1980, 2619, 61, 0x0000000000000004
2026/11/22 17:15:01.121, 1, GPU-bbbb, 0, 3, [N/A], 345, [Not Supported], 28, 0x0000000000000001
`

// then is when they arrive: a line from another day is no sample.
func then() time.Time { return time.Date(2026, 11, 22, 16, 15, 3, 0, time.UTC) }

// covers: PL-V26, PL-V27, PL-V33
func TestWatchProgram(t *testing.T) {
	dir := program(t, `echo "$@" >'`+"$DIR"+`/asked'
cat <<'END'
`+twoLooks+`END
exec sleep 60
`)
	rewrite(t, dir)
	var list []Sample
	ctx, cancel := context.WithCancel(t.Context())
	err := watchProgram(ctx, Watching{
		Interval: 500 * time.Millisecond, Now: then,
		Take: func(look []Sample) error {
			if list = append(list, look...); len(list) == 4 {
				cancel()
			}
			return nil
		},
	})
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, Sample{
		Time: time.Date(2026, 11, 22, 16, 15, 0, 120e6, time.UTC), Index: 0, UUID: "GPU-aaaa",
		Use: new(97.0), Memory: new(70123.0), Power: new(689.25), SM: new(1980.0), Mem: new(2619.0), Temp: new(61.0),
		Reasons: new(SWPowerCap),
	}, list[0])
	require.Equal(t, Sample{
		Time: time.Date(2026, 11, 22, 16, 15, 1, 121e6, time.UTC), Index: 1, UUID: "GPU-bbbb",
		Use: new(0.0), Memory: new(3.0), SM: new(345.0), Temp: new(28.0), Reasons: new(Idle),
	}, list[3], "what the driver does not say is absent")
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	require.NoError(t, err)
	require.Equal(t, "--query-gpu=timestamp,index,uuid,utilization.gpu,memory.used,power.draw,clocks.sm,clocks.mem,temperature.gpu,clocks_event_reasons.active --format=csv,noheader,nounits -lms 500\n", string(asked))
}

// rewrite puts the folder of a program into its text.
func rewrite(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "nvidia-smi")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "$DIR", dir)), 0o755))
}

// Before driver 535 the reasons have another name.
func TestWatchOldDriver(t *testing.T) {
	program(t, `case $1 in *clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
*clocks_throttle_reasons.active) echo '2026/11/22 17:15:00.120, 0, GPU-aaaa, 97, 70123, 689.25, 1980, 2619, 61, 0x0000000000000040';; esac
`)
	var list []Sample
	err := watchProgram(t.Context(),
		Watching{Interval: time.Second, Now: then,
			Take: func(look []Sample) error { list = append(list, look...); return nil }})
	require.ErrorContains(t, err, "nvidia-smi ended: it should have continued")
	require.Len(t, list, 1)
	require.Equal(t, new(HWThermal), list[0].Reasons)
}

func TestWatchProgramComplaints(t *testing.T) {
	watch := func(take error) error {
		return watchProgram(t.Context(),
			Watching{Interval: time.Second, Now: then, Take: func([]Sample) error { return take }})
	}
	program(t, "echo 'Unable to determine the device handle for GPU 0000:18:00.0: GPU is lost.'; exit 15\n")
	err := watch(nil)
	require.ErrorContains(t, err, "exit status 15")
	require.ErrorContains(t, err, "GPU is lost")
	program(t, "echo oops >&2; exit 1\n")
	require.ErrorContains(t, watch(nil), "oops")
	program(t, "echo 'Field \"index\" is not a valid field to query.'; exit 2\n")
	require.ErrorIs(t, watch(nil), errField)
	program(t, "echo 'No devices were found'; exit 6\n")
	require.ErrorIs(t, watch(nil), ErrNoDriver)
	program(t, "cat <<'END'\n"+twoLooks+"END\nexec sleep 60\n")
	full := errors.New("disk full")
	require.ErrorIs(t, watch(full), full)
	t.Setenv("PATH", t.TempDir())
	require.ErrorIs(t, watch(nil), ErrNoDriver)
}

// The zone of the machine does not matter, nor does a line that comes late.
func TestSMITime(t *testing.T) {
	arrived := time.Date(2026, 11, 22, 16, 15, 2, 5e6, time.UTC)
	for text, want := range map[string]string{
		"2026/11/22 16:15:02.000": "16:15:02.000", // UTC
		"2026/11/22 17:15:01.990": "16:15:01.990", // Berlin
		"2026/11/22 10:45:00.000": "16:15:00.000", // half an hour
		"2026/11/23 06:10:00.000": "16:10:00.000", // late, on the next day
		"2026/11/22 16:15:03.000": "16:15:03.000",
	} {
		got, err := smiTime(text, arrived)
		require.NoError(t, err)
		require.Equal(t, want, got.Format("15:04:05.000"))
	}
	_, err := smiTime("Sun Nov 22", arrived)
	require.ErrorContains(t, err, "is not a time of nvidia-smi")
	_, err = smiTime("0001/11/22 16:15:02.000", arrived)
	require.ErrorContains(t, err, "is not the time of any zone")
}

func FuzzSMISamples(f *testing.F) {
	f.Add([]byte(twoLooks))
	f.Add([]byte("2026/11/22 17:15:00.120, 0, GPU-aaaa, -97, 1e400, x, 1980, 2619, 61, 0xffffffffffffffff1\nend"))
	f.Fuzz(func(t *testing.T, data []byte) {
		now := time.Date(2026, 11, 22, 16, 15, 2, 5e6, time.UTC)
		_, err := readSMI(bufio.NewReaderSize(strings.NewReader(string(data)), longestLine), 10, Watching{
			Now: func() time.Time { return now },
			Take: func(look []Sample) error {
				for _, s := range look {
					require.Less(t, now.Sub(s.Time).Abs(), zoneStep)
					for _, v := range s.numbers() {
						require.True(t, *v == nil || **v >= 0 && **v <= mostNumber)
					}
				}
				return nil
			},
		})
		require.NoError(t, err)
	})
}
