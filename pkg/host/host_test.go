package host_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/host"
)

// machine is the files of a machine: two disks of which one has a partition, two network devices
// of which one has hardware.
func machine(t *testing.T) *host.Reader {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"proc/stat":    "cpu  100 10 50 800 40 3 2 5 90 9\ncpu0 1 1 1 1 1\nintr 5\n",
		"proc/meminfo": "MemTotal:       16000 kB\nMemFree:  1 kB\nMemAvailable:    4000 kB\n",
		"proc/net/dev": "Inter-|   Receive                                                |  Transmit\n" +
			" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
			"    lo: 19214 5 0 0 0 0 0 0 19214 5 0 0 0 0 0 0\n  eth0:5449 1 0 0 0 0 0 0  4869 6 0 0 0 0 0 0\n" +
			"  bond0:5449 1 0 0 0 0 0 0  4869 6 0 0 0 0 0 0\n",
		"proc/diskstats": " 7 0 loop0 9 9 9 9 9 9 9 9 9 9 9\n 254 0 vda 22 23 100 14 58 17 200 18 0 63 36\n" +
			" 254 1 vda1 22 23 100 14 58 17 200 18 0 63 36\n 259 0 nvme0n1 1 1 10 1 1 1 20 1 0 1 1\n",
		"sys/class/net/eth0/device/x": "", "sys/block/vda/device/x": "", "sys/block/nvme0n1/device/x": "",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return &host.Reader{Proc: dir + "/proc", Sys: dir + "/sys"}
}

// covers: OUT-4, PERF-4, LIB-8
func TestSample(t *testing.T) {
	s := machine(t).Sample(time.UnixMilli(1795364100000))
	require.Equal(t, "1795364100000,170,1010,12000,16000,5449,4869,56320,112640\n", string(s.Append(nil)))
	var again []host.Sample
	require.NoError(t, host.Read(strings.NewReader(host.Header+string(s.Append(nil))+"17953641"), func(s host.Sample) {
		again = append(again, s)
	}))
	s.Time = s.Time.UTC()
	require.Equal(t, []host.Sample{s}, again, "a line that was cut short is left out")
}

// A machine without such files says nothing.
func TestSampleOfNothing(t *testing.T) {
	r := host.Reader{Proc: t.TempDir(), Sys: t.TempDir()}
	s := r.Sample(time.UnixMilli(5))
	require.True(t, s.Empty())
	require.Equal(t, "5,,,,,,,,\n", string(s.Append(nil)))
}

func TestThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	r := host.Reader{Proc: "/proc", Sys: "/sys"}
	s := r.Sample(time.Now())
	require.NotNil(t, s.Busy)
	require.Less(t, *s.Busy, *s.Ticks)
	require.NotNil(t, s.Used)
	require.Less(t, *s.Used, *s.Total)
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"1,2\n":                               "line 1: 2 fields instead of 9",
		"x,,,,,,,,\n":                         `line 1: time_ms "x" is not a time`,
		"-1,,,,,,,,\n":                        `line 1: time_ms "-1" is not a time`,
		"1,-2,,,,,,,\n":                       `line 1: cpu_busy_ticks: "-2" is not a whole number`,
		strings.Repeat("1", 600) + "\nx\n":    "line 1: longer than 512 bytes; 2 lines in all were left out",
		host.Header + "1,,,,,,,,\n1,,,,,,,\n": "line 3: 8 fields instead of 9",
	} {
		require.EqualError(t, host.Read(strings.NewReader(text), func(host.Sample) {}), want, text)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(host.Header + "1795364100000,170,1010,12000,16000,5449,4869,56320,112640\n5,,,,,,,,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = host.Read(bytes.NewReader(data), func(s host.Sample) {
			line := s.Append(nil)
			n := 0
			require.NoError(t, host.Read(bytes.NewReader(line), func(again host.Sample) { n++; require.Equal(t, s, again) }))
			require.Equal(t, 1, n)
		})
	})
}

// FuzzSample reads any text as the files of a kernel.
func FuzzSample(f *testing.F) {
	f.Add("cpu  100 10 50 800 40 3 2 5 90 9\n", "MemTotal: 16000 kB\nMemAvailable: 4000 kB\n",
		"eth0:5449 1 0 0 0 0 0 0  4869 6 0 0 0 0 0 0\n", " 254 0 vda 22 23 100 14 58 17 200 18 0 63 36\n")
	f.Fuzz(func(t *testing.T, stat, meminfo, dev, disks string) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(dir+"/net", 0o755))
		for name, text := range map[string]string{"stat": stat, "meminfo": meminfo, "net/dev": dev, "diskstats": disks} {
			require.NoError(t, os.WriteFile(dir+"/"+name, []byte(text), 0o644))
		}
		r := host.Reader{Proc: dir, Sys: dir}
		s := r.Sample(time.UnixMilli(5))
		require.NoError(t, host.Read(bytes.NewReader(s.Append(nil)), func(host.Sample) {}))
	})
}

// BenchmarkSample prints what one sample of this machine costs, in CPU time.
func BenchmarkSample(b *testing.B) {
	r := host.Reader{Proc: "/proc", Sys: "/sys"}
	used := func() int64 {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	var line []byte
	for b.Loop() {
		line = r.Sample(time.Now()).Append(line[:0])
	}
	b.ReportMetric(float64(used()-before)/float64(b.N)/1e3, "CPU-µs/sample")
	b.ReportMetric(float64(len(line)), "B/sample")
}
