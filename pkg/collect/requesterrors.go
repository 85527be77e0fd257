package collect

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/run"
)

// requestsFile is AIPerf's file of single requests. If all of them failed, AIPerf 0.13 writes no summary, and says
// only here how the server answered.
const requestsFile = "profile_export.jsonl"

// requestErrors is AIPerf's file of requests as a log, nil unless a client of the load failed and left one.
func requestErrors(e *evidence) *failure.Log {
	if e.load == nil || e.sentinel == nil {
		return nil
	}
	failed := false
	for _, c := range e.load.Clients {
		for _, ph := range e.sentinel.Phases {
			failed = failed || ph.Name == e.load.Phase(c.Name) && ph.Code > 0
		}
	}
	path := filepath.Join(e.at, run.RawDir, requestsFile)
	if !failed || !readable(path) {
		return nil
	}
	rel, _ := filepath.Rel(e.dir, path)
	return &failure.Log{Role: "client", File: rel, Data: &failedOnly{from: &lazyFile{path: path}}}
}

// failedOnly passes on the lines of requests that failed, and an empty line for any other, so that lines keep their
// numbers. A line that is longer than its buffer is none.
type failedOnly struct {
	from  io.Reader
	lines *bufio.Reader
	left  []byte
}

// maxRequest is far above the length of a line of one request.
const maxRequest = 256 << 10

var failedRequest = []byte(`"error":{`)

func (f *failedOnly) Read(p []byte) (int, error) {
	if f.lines == nil {
		f.lines = bufio.NewReaderSize(f.from, maxRequest)
	}
	if len(f.left) == 0 {
		line, err := f.lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			line = nil
			var rest []byte
			if rest, err = f.lines.ReadSlice('\n'); err == nil {
				line = rest[len(rest)-1:]
			}
		}
		switch {
		case len(line) == 0:
			return 0, err
		case bytes.Contains(line, failedRequest):
			f.left = append(f.left[:0], line...)
		default:
			f.left = append(f.left[:0], '\n')
		}
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}
