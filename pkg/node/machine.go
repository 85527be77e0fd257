package node

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Machine describes a node, without its GPUs. A value that cannot be read is "" or 0.
type Machine struct {
	Kernel string `json:"kernel,omitempty"`
	OS     string `json:"os,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	CPUs   int    `json:"cpus,omitempty"`       // logical, that are on
	NUMA   int    `json:"numa_nodes,omitempty"` // with memory or without
	Memory int64  `json:"memory,omitempty"`     // bytes
}

// machine reads what the kernel says; root is "/", or a folder that takes its place.
func machine(root string) *Machine {
	at := func(elems ...string) string { return filepath.Join(append([]string{root}, elems...)...) }
	var m Machine
	m.Kernel = strings.TrimSpace(string(small(at("proc", "sys", "kernel", "osrelease"))))
	for line := range strings.Lines(string(small(at("etc", "os-release")))) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			m.OS = strings.Trim(name, `"'`)
		}
	}
	for line := range strings.Lines(string(small(at("proc", "meminfo")))) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 && n < 1<<50 {
				m.Memory = n * 1024
			}
		}
	}
	if f, err := os.Open(at("proc", "cpuinfo")); err == nil {
		m.CPU, m.CPUs = processors(f)
		f.Close()
	}
	nodes, _ := filepath.Glob(at("sys", "devices", "system", "node", "node[0-9]*"))
	m.NUMA = len(nodes)
	return &m
}

// processors reads /proc/cpuinfo: the name of the first, and how many there are. ARM's
// have a number in place of a name.
func processors(r io.Reader) (name string, n int) {
	var maker, part string
	scan := bufio.NewScanner(io.LimitReader(r, 16<<20))
	for scan.Scan() {
		key, value, _ := strings.Cut(scan.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			n++
		case "model name":
			if name == "" {
				name = shortened(value)
			}
		case "CPU implementer":
			maker = value
		case "CPU part":
			part = value
		}
	}
	if name == "" && maker != "" {
		name = shortened("ARM implementer " + maker + ", part " + part)
	}
	return name, n
}

// small is the beginning of a file, nothing if it cannot be read.
func small(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil
	}
	return data
}
