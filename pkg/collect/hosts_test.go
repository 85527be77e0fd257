package collect_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/host"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
)

// hostSamples are samples every second from 04:55:58 on, while the client measures from
// 04:56:00.629 for 5.348 s: those of seconds 3 to 7 are in its window.
func hostSamples(edit func(i int, s *host.Sample)) string {
	lines := []byte(host.Header)
	begin := time.Date(2026, 11, 21, 4, 55, 58, 0, time.UTC)
	for i := range 12 {
		n := uint64(i)
		s := host.Sample{
			Time: begin.Add(time.Duration(i) * time.Second), Busy: new(1000 + 40*n), Ticks: new(9000 + 200*n),
			Used: new(uint64(1 << 20)), Total: new(uint64(4 << 20)), In: new(1000 * n), Out: new(10 * n), Read: new(uint64(512)),
		}
		if edit != nil {
			edit(i, &s)
		}
		lines = s.Append(lines)
	}
	return string(lines)
}

// covers: OUT-4, SCH-13
func TestHosts(t *testing.T) {
	dir := sampled(t)
	write(t, dir, "telemetry/"+job.HostFile("127.0.1.1"), hostSamples(func(i int, s *host.Sample) {
		if i > 4 { // a busy second in the window, and one after it
			s.Busy = new(*s.Busy + 100)
		}
		if i > 8 {
			s.Busy = new(*s.Busy + 60)
		}
		if i == 5 {
			s.Used = new(uint64(2 << 20))
		}
	}))
	r := only(t, collector(t), dir, completed())
	require.Len(t, r.System.Host, 1, "a node without samples is left out")
	h := r.System.Host[0]
	require.Equal(t, "127.0.1.1", h.Node)
	require.Equal(t, 5, h.Samples)
	require.InDelta(t, 32.5, *h.CPU, 1e-9, "4 x 40 and 100 of 800 ticks")
	require.InDelta(t, 70, *h.PeakCPU, 1e-9)
	require.InDelta(t, 2.147483648, *h.PeakMemory, 1e-9)
	require.InDelta(t, 4.294967296, *h.Memory, 1e-9)
	require.InDelta(t, 1000, *h.NetIn, 1e-9)
	require.InDelta(t, 10, *h.PeakOut, 1e-9)
	require.Zero(t, *h.DiskRead)
	require.Nil(t, h.DiskWrite)
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, result.Validate(data))
	again, err := result.Decode(data)
	require.NoError(t, err)
	require.Equal(t, r.System, again.System)
}

// Counters that begin anew and clocks that are set back leave those seconds out; a line that
// nobody understands is a warning.
func TestHostsWithFaults(t *testing.T) {
	dir := sampled(t)
	text := hostSamples(func(i int, s *host.Sample) {
		if i >= 5 {
			s.In, s.Busy, s.Ticks = new(uint64(i)), new(uint64(40*i)), new(uint64(200*i))
		}
		if i == 6 {
			s.Time = s.Time.Add(-time.Minute)
		}
	})
	write(t, dir, "telemetry/"+job.HostFile("127.0.1.1"), text+"what\n")
	write(t, dir, "telemetry/"+job.HostFile("127.0.1.2"), host.Header)
	r := only(t, collector(t), dir, completed())
	require.Len(t, r.System.Host, 1)
	h := r.System.Host[0]
	require.Equal(t, 4, h.Samples)
	require.InDelta(t, 20, *h.CPU, 1e-9)
	require.InDelta(t, 20, *h.PeakCPU, 1e-9)
	require.InDelta(t, 1002.0/3, *h.NetIn, 1e-9)
	require.Contains(t, r.Warnings, result.Warning{Kind: result.Unreadable,
		File: filepath.Join("telemetry", job.HostFile("127.0.1.1")), Text: "line 14: 1 fields instead of 9"})
}
