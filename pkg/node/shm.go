package node

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/quantity"
)

// segment is a file of this user in /dev/shm that an engine or a library of its
// would create.
type segment struct {
	Name  string
	Bytes int64
}

// engineSegment knows them: vLLM, NCCL, PyTorch, Python's semaphores and shared
// memory, SGLang.
var engineSegment = lazyregexp.New(`^(?:vllm|nccl-|torch_|sem\.|psm_|wnsm_|sgl)`)

// segments lists the segments of the user that no living process has open or mapped, but for those of
// the names there.
func segments(shm, proc string, uid int, there map[string]bool) []segment {
	entries, _ := os.ReadDir(shm)
	var list []segment
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !engineSegment.MatchString(e.Name()) || owner(info) != uid ||
			there[e.Name()] {
			continue
		}
		list = append(list, segment{e.Name(), info.Size()})
	}
	if len(list) == 0 {
		return nil
	}
	used := inUse(shm, proc)
	return slices.DeleteFunc(list, func(s segment) bool { return used[s.Name] })
}

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// inUse names the files of a folder that some process has mapped or open.
func inUse(shm, proc string) map[string]bool {
	used := map[string]bool{}
	note := func(path string) {
		if name, ok := strings.CutPrefix(path, shm+"/"); ok {
			used[name] = true
		}
	}
	maps, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "maps"))
	for _, file := range maps {
		if f, err := os.Open(file); err == nil {
			for lines := bufio.NewScanner(f); lines.Scan(); {
				if i := strings.IndexByte(lines.Text(), '/'); i >= 0 {
					note(lines.Text()[i:])
				}
			}
			f.Close()
		}
		fds, _ := os.ReadDir(filepath.Join(filepath.Dir(file), "fd"))
		for _, fd := range fds {
			if to, err := os.Readlink(filepath.Join(filepath.Dir(file), "fd", fd.Name())); err == nil {
				note(to)
			}
		}
	}
	return used
}

// describe names the first few, with what all of them hold.
func describe(list []segment) string {
	var names []string
	bytes := int64(0)
	for _, s := range list {
		bytes += s.Bytes
		if len(names) < 4 {
			names = append(names, s.Name)
		}
	}
	more := ""
	if n := len(list) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s%s, %s", strings.Join(names, " "), more, quantity.Bytes(bytes))
}

// A Snapshot is the content of /dev/shm before a job.
type Snapshot struct {
	shm, proc string
	uid       int
	there     map[string]bool
}

// NewSnapshot remembers every file of a folder.
func NewSnapshot(shm, proc string) Snapshot {
	s := Snapshot{shm, proc, os.Getuid(), map[string]bool{}}
	entries, _ := os.ReadDir(shm)
	for _, e := range entries {
		s.there[e.Name()] = true
	}
	return s
}

// Clean removes the files that were created since the snapshot and that no process uses.
// If another job of this user runs on the node, the owner of a file cannot be told, and
// Clean removes nothing.
func (s Snapshot) Clean(job, host string) (removed string) {
	for _, p := range readProcesses(s.proc) {
		if p.job != "" && p.job != job && p.here(host) {
			return ""
		}
	}
	var gone []segment
	for _, x := range segments(s.shm, s.proc, s.uid, s.there) {
		if os.Remove(filepath.Join(s.shm, x.Name)) == nil {
			gone = append(gone, x)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return describe(gone)
}
