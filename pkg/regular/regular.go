// Package regular opens files that somebody else can write: what lies in a run
// directory, and what a user names. It reads regular files only, never waits for
// one, and bounds what is read of it.
//
// Links are followed, because results, datasets and caches are often linked; what
// counts is the file at their end. A named pipe, a socket, a device or a folder
// there is ErrKind, found on the open file, so that nobody can exchange it between
// a look and the reading. It is not for files of the kernel such as those below
// /proc, nor for files that profllm itself has just created.
//
//	data, err := regular.ReadFile("results/run/plan.json") // at most regular.Record bytes
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const (
	// Record is the most that ReadFile reads: 64 MiB. The largest records that we know
	// are the plans of sweeps with a thousand loads, with some 10 MB.
	Record = 64 << 20
	// Result is the most that is held in memory of what a client wrote: 1 GiB. The detailed
	// result of 50,000 requests of 1,000 tokens has as much.
	Result = 1 << 30
	// Most is the most that is read of any file: 4 GiB.
	Most = 4 << 30
)

var (
	// ErrKind is something in the place of a file that is no regular file.
	ErrKind = errors.New("not a regular file")
	// ErrLarge is a file that is larger than its reader takes.
	ErrLarge = errors.New("the file is too large")
)

// A File is a regular file that is open for reading. Read returns ErrLarge behind
// Most bytes. It is as safe for concurrent use as an *os.File, Read excepted.
type File struct {
	file *os.File
	text io.Reader // of it, with its limit
}

// Open opens a regular file of at most Most bytes.
func Open(path string) (*File, error) {
	fd, st, err := open(path)
	if err != nil {
		return nil, err
	}
	if st.Size > Most {
		syscall.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: path, Err: TooLarge(Most)}
	}
	f := os.NewFile(uintptr(fd), path)
	return &File{f, Limit(f, Most)}, nil
}

// OpenLarge opens a regular file whose reader bounds what it takes by itself: an
// image, an archive, a log of which the end is read.
func OpenLarge(path string) (*os.File, error) {
	fd, _, err := open(path)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenDir opens a directory so that it can be listed. os.Open would wait for a pipe in its
// place, and asks the kernel six times.
func OpenDir(path string) (*os.File, error) {
	for {
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_DIRECTORY, 0)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case syscall.EINTR: // on network file systems
		default:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// Read reads on from where the last Read ended.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.text.Read(p)
	if errors.Is(err, ErrLarge) {
		err = &fs.PathError{Op: "read", Path: f.file.Name(), Err: err}
	}
	return n, err
}

// ReadAt reads from an offset.
func (f *File) ReadAt(p []byte, offset int64) (int, error) { return f.file.ReadAt(p, offset) }

// Seek sets where the next Read begins, see io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.file.Seek(offset, whence) }

// Stat returns what the file system says of the open file.
func (f *File) Stat() (fs.FileInfo, error) { return f.file.Stat() }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// ReadFile reads a file of at most Record bytes.
func ReadFile(path string) ([]byte, error) { return ReadAtMost(path, Record) }

// ReadAtMost reads a file of at most that many bytes. One that is larger, or grows
// beyond it while it is read, is ErrLarge and takes no memory.
func ReadAtMost(path string, most int64) ([]byte, error) {
	fd, st, err := open(path)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	data, err := readAll(fd, st.Size, most)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

// readAll reads from a descriptor: with thousands of small files the system calls
// by which an os.File asks whether it can be waited for are most of the time.
func readAll(fd int, size, most int64) ([]byte, error) {
	if size > most {
		return nil, TooLarge(most)
	}
	data := make([]byte, 0, size+512) // some files say 0 and have a content
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := syscall.Read(fd, data[len(data):cap(data)])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return data, nil
		}
		if data = data[:len(data)+n]; int64(len(data)) > most {
			return nil, TooLarge(most)
		}
	}
}

// open opens a file without waiting for anybody, and makes sure of its kind.
// O_NONBLOCK is for pipes without a writer, O_NOCTTY for terminals.
func open(path string) (fd int, st syscall.Stat_t, err error) {
	for {
		fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		if err != syscall.EINTR { // on network file systems
			break
		}
	}
	if err == syscall.ENXIO { // a socket, or a device without a driver
		err = notRegular("socket or a device")
	}
	if err != nil {
		return -1, st, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err = syscall.Fstat(fd, &st); err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = notRegular(kind(uint32(st.Mode)))
	}
	if err != nil {
		syscall.Close(fd)
		return -1, st, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, st, nil
}

// Limit is a reader that returns ErrLarge where there is more than most bytes.
func Limit(r io.Reader, most int64) io.Reader { return &limited{r, most, most} }

type limited struct {
	r          io.Reader
	left, most int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left > 0 {
		n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
		l.left -= int64(n)
		return n, err
	}
	if n, err := l.r.Read(make([]byte, 1)); n == 0 {
		return 0, err
	}
	return 0, TooLarge(l.most)
}

func notRegular(what string) error { return fmt.Errorf("%w but a %s", ErrKind, what) }

// TooLarge is the ErrLarge of a file with more bytes than that.
func TooLarge(most int64) error {
	return fmt.Errorf("%w: more than %d MiB", ErrLarge, most>>20)
}

// kind is the word for a file that is not regular, by the bits of stat(2).
func kind(mode uint32) string {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return "folder"
	case syscall.S_IFIFO:
		return "named pipe"
	case syscall.S_IFSOCK:
		return "socket"
	}
	return "device"
}

var _ io.ReadSeekCloser = (*File)(nil)
