package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Marked lists the processes of this machine that have a variable, NAME=VALUE, in the
// environment with which they were started. The environment of another user's process cannot be
// read; such a process is not listed.
func Marked(variable string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	entry := []byte("\x00" + variable + "\x00")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append(append([]byte{0}, env...), 0), entry) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
