// Package host samples what a Linux machine does over time: CPUs, memory, network and disks, from
// /proc. Its samples are lines of a CSV file. Like the counters of the kernel, most numbers only
// grow; what happened between two samples is their difference.
//
//	r := host.Reader{Proc: "/proc", Sys: "/sys"}
//	s := r.Sample(time.Now())
//	line := s.Append(nil)
//	err := host.Read(file, func(s host.Sample) { … })
package host

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/textlines"
)

// Sample is one machine at one moment. What the kernel does not say is nil.
type Sample struct {
	Time  time.Time // to the millisecond
	Busy  *uint64   // time of all CPUs in use, in ticks of 1/100 s
	Ticks *uint64   // time of all CPUs, in use or not
	Used  *uint64   // memory that is not available, KiB
	Total *uint64   // memory, KiB
	In    *uint64   // bytes received by the network devices
	Out   *uint64   // bytes sent
	Read  *uint64   // bytes read from the disks
	Write *uint64   // bytes written
}

// Header is the first line of a file of samples.
const Header = "time_ms,cpu_busy_ticks,cpu_ticks,memory_used_kib,memory_kib,net_in_bytes,net_out_bytes," +
	"disk_read_bytes,disk_write_bytes\n"

const (
	columns     = 9
	longestLine = 512
	mostTime    = 1e15 // ms
)

// numbers are the fields of a sample, in the order of the columns from the second on.
func (s *Sample) numbers() []**uint64 {
	return []**uint64{&s.Busy, &s.Ticks, &s.Used, &s.Total, &s.In, &s.Out, &s.Read, &s.Write}
}

// Empty reports whether the sample says nothing but its time.
func (s Sample) Empty() bool {
	for _, v := range s.numbers() {
		if *v != nil {
			return false
		}
	}
	return true
}

// Append adds the sample as one line; an absent number is an empty field.
func (s Sample) Append(b []byte) []byte {
	b = strconv.AppendInt(b, s.Time.UnixMilli(), 10)
	for _, v := range s.numbers() {
		b = append(b, ',')
		if *v != nil {
			b = strconv.AppendUint(b, **v, 10)
		}
	}
	return append(b, '\n')
}

// Read hands over the samples of a file, in its order. A last line without its end was cut short
// by a crash and is left out. So are lines that nobody understands, but then the error at the end
// says which was the first.
func Read(r io.Reader, each func(Sample)) error {
	return textlines.Each(r, longestLine, func(line string) error {
		if line+"\n" == Header {
			return nil
		}
		s, err := parseLine(line)
		if err == nil {
			each(s)
		}
		return err
	})
}

func parseLine(line string) (Sample, error) {
	f := strings.Split(line, ",")
	if len(f) != columns {
		return Sample{}, fmt.Errorf("%d fields instead of %d", len(f), columns)
	}
	ms, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || ms < 0 || ms > mostTime {
		return Sample{}, fmt.Errorf("time_ms %q is not a time", f[0])
	}
	s := Sample{Time: time.UnixMilli(ms).UTC()}
	for i, into := range s.numbers() {
		if f[1+i] == "" {
			continue
		}
		v, err := strconv.ParseUint(f[1+i], 10, 64)
		if err != nil {
			return Sample{}, fmt.Errorf("%s: %q is not a whole number", strings.Split(Header, ",")[1+i], f[1+i])
		}
		*into = &v
	}
	return s, nil
}
