package collect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/regular"
)

const (
	// mostLogs is how many logs of one folder are read, and deepest how far below it
	// they are looked for.
	mostLogs, deepest = 2000, 8
	// pipeHead is how much of a pipe is looked at to guess who writes it.
	pipeHead = 64 << 10
)

// noLog are the extensions of files that lie beside logs and are none.
var noLog = []string{".json", ".jsonl", ".csv", ".tsv", ".toml", ".yaml", ".yml", ".py", ".sh", ".js", ".css", ".html",
	".htm", ".md", ".xml", ".svg",
	".png", ".jpg", ".gif", ".pdf", ".gz", ".zip", ".tar", ".zst", ".parquet", ".safetensors", ".pt", ".bin", ".db",
	".sqlite", ".nsys-rep", ".pyc", ".so", ".lock"}

// FindLogs returns the logs at and below a path, a folder, a file or a pipe, "-" for
// stdin, with the role that each was probably written by. Notes say what was left out.
func FindLogs(path string, stdin io.Reader) (logs []failure.Log, notes []string, err error) {
	if path == "-" {
		return []failure.Log{pipe("stdin", stdin)}, nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return logsBelow(path)
	case info.Mode()&fs.ModeNamedPipe != 0:
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		return []failure.Log{pipe(path, f)}, nil, nil
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s is neither a file, a folder nor a pipe", path)
	}
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".html" || ext == ".htm" {
		return nil, nil, fmt.Errorf("%s is an HTML page, not a log\n\thint: name the run's directory", path)
	}
	l, err := logFile(path, filepath.Base(path))
	return []failure.Log{l}, nil, err
}

// logsBelow lists the files of a folder that look like logs, in order of their names.
func logsBelow(dir string) (logs []failure.Log, notes []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil && path == dir:
			return err
		case err != nil:
			notes = append(notes, err.Error())
			return nil
		case d.IsDir():
			if strings.Count(rel, string(filepath.Separator)) >= deepest ||
				strings.HasPrefix(d.Name(), ".") && path != dir {
				return filepath.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || !mayBeLog(d.Name()):
			return nil
		}
		l, err := logFile(path, rel)
		switch {
		case errors.Is(err, errNoText):
		case err != nil:
			notes = append(notes, err.Error())
		default:
			logs = append(logs, l)
		}
		if len(logs) == mostLogs {
			notes = append(notes, fmt.Sprintf("only the first %d logs were read", mostLogs))
			return filepath.SkipAll
		}
		return nil
	})
	return logs, notes, err
}

func mayBeLog(name string) bool {
	ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(name, ".xz")))
	return !strings.HasPrefix(name, ".") && !slices.Contains(noLog, ext)
}

// errNoText is a file that holds no text.
var errNoText = errors.New("no text")

// logFile describes one file; name is how it is shown.
func logFile(path, name string) (failure.Log, error) {
	f, err := regular.Open(path)
	if err != nil {
		return failure.Log{}, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, pipeHead)
	head, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return failure.Log{}, err
	}
	if !failure.IsText(head) {
		return failure.Log{}, fmt.Errorf("%s: %w", path, errNoText)
	}
	role, _ := failure.Origin(in, name) // what is damaged is read as far as it goes
	return failure.Log{Role: role, File: name, Data: &lazyFile{path: path}}, nil
}

// pipe describes a log that can be read once only.
func pipe(name string, r io.Reader) failure.Log {
	in := bufio.NewReaderSize(r, pipeHead)
	head, _ := in.Peek(pipeHead) // what cannot be read is an error of the scan
	role, _ := failure.Origin(strings.NewReader(string(head)), "")
	return failure.Log{Role: role, File: name, Data: io.LimitReader(in, regular.Most)}
}
