package host

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Reader reads the counters of this machine. It is not safe for concurrent use.
type Reader struct {
	Proc string // "/proc"
	Sys  string // "/sys"

	physical map[string]bool // devices, by their folder below Sys: whether hardware is behind
}

// mostBytes bounds what is read of a file of the kernel.
const mostBytes = 4 << 20

// Sample looks at the machine. A file that cannot be read leaves its numbers out.
func (r *Reader) Sample(now time.Time) Sample {
	s := Sample{Time: now}
	s.cpus(r.read("stat"))
	s.memory(r.read("meminfo"))
	s.network(r.read("net/dev"), func(name string) bool { return r.isHardware("class/net/" + name) })
	s.disks(r.read("diskstats"), func(name string) bool { return r.isHardware("block/" + name) })
	return s
}

// read reads a file of the kernel, which has no size; "" if that fails.
func (r *Reader) read(name string) string {
	f, err := os.Open(r.Proc + "/" + name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return ""
	}
	return string(data)
}

// isHardware reports whether hardware is behind a device. A bridge, a bond, a partition or a
// device mapper would count again what its hardware counts.
func (r *Reader) isHardware(device string) bool {
	if known, ok := r.physical[device]; ok {
		return known
	}
	_, err := os.Stat(r.Sys + "/" + device + "/device")
	if r.physical == nil || len(r.physical) > 1<<12 {
		r.physical = map[string]bool{}
	}
	r.physical[device] = err == nil
	return err == nil
}

// cpus reads the first line of /proc/stat: user nice system idle iowait irq softirq steal, and the
// time of guests, which is in user and nice as well (proc(5)).
func (s *Sample) cpus(text string) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return
	}
	var all, idle uint64
	for i, word := range f[1:min(len(f), 9)] {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return
		}
		if all += n; i == 3 || i == 4 {
			idle += n
		}
	}
	s.Busy, s.Ticks = new(all-idle), &all
}

// memory reads /proc/meminfo.
func (s *Sample) memory(text string) {
	values := map[string]uint64{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && (f[0] == "MemTotal:" || f[0] == "MemAvailable:") {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				values[f[0]] = n
			}
		}
	}
	total, ok := values["MemTotal:"]
	free, also := values["MemAvailable:"]
	if ok && also && free <= total {
		s.Used, s.Total = new(total-free), &total
	}
}

// network adds up the devices of /proc/net/dev.
func (s *Sample) network(text string, counts func(string) bool) {
	var in, out uint64
	seen := false
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if name = strings.TrimSpace(name); !ok || len(f) < 9 || !plainName(name) || !counts(name) {
			continue
		}
		received, err := strconv.ParseUint(f[0], 10, 64)
		sent, err2 := strconv.ParseUint(f[8], 10, 64)
		if err == nil && err2 == nil {
			in, out, seen = in+received, out+sent, true
		}
	}
	if seen {
		s.In, s.Out = &in, &out
	}
}

// sector is the unit of /proc/diskstats, whatever the disk's own is.
const sector = 512

// disks adds up the disks of /proc/diskstats.
func (s *Sample) disks(text string, counts func(string) bool) {
	var read, written uint64
	seen := false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 || !plainName(f[2]) || !counts(f[2]) {
			continue
		}
		r, err := strconv.ParseUint(f[5], 10, 64)
		w, err2 := strconv.ParseUint(f[9], 10, 64)
		if err == nil && err2 == nil {
			read, written, seen = read+r*sector, written+w*sector, true
		}
	}
	if seen {
		s.Read, s.Write = &read, &written
	}
}

// plainName reports whether a name of a device is a name of a file.
func plainName(name string) bool {
	return name != "" && len(name) < 64 && !strings.ContainsAny(name, "/\x00") && name != "." && name != ".."
}
