package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// Owner says who holds a lock.
type Owner struct {
	Host         string    `json:"host"`
	PID          int       `json:"pid"`
	ProcessStart string    `json:"process_start"` // tells a PID from its reuse
	Job          string    `json:"job,omitempty"` // Slurm's, if the holder runs in one
	Time         time.Time `json:"time"`
}

func (o Owner) String() string {
	return fmt.Sprintf("%s, process %d, since %s", o.Host, o.PID, o.Time.Format(time.RFC3339))
}

// A holder touches its lock every beat. One of another host that has not done so
// for foreignLimit is dead; the margin is for file systems that show times late.
const (
	beat         = 30 * time.Second
	foreignLimit = 10 * time.Minute
)

// lock is a file that exists while its holder works. It saves a second import; it
// is not what keeps a file whole, the rename is.
type lock struct {
	file string
	data []byte
	stop chan struct{}
}

// acquire takes the lock, and answers nil if somebody else holds it.
func acquire(file string, o Owner) (*lock, *Owner, error) {
	for range 3 {
		err := run.CreateJSON(file, o)
		if err == nil {
			data, err := regular.ReadFile(file)
			if err != nil {
				return nil, nil, err
			}
			l := &lock{file: file, data: data, stop: make(chan struct{})}
			go l.touch()
			return l, nil, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, nil, fmt.Errorf("lock %s: %w", file, err)
		}
		holder, stale, data, err := read(file, o.Host)
		if errors.Is(err, fs.ErrNotExist) {
			continue // released meanwhile
		}
		if err != nil {
			return nil, nil, err
		}
		if !stale {
			return nil, &holder, nil
		}
		if err := breakLock(file, data, o); err != nil {
			return nil, nil, err
		}
	}
	return nil, &Owner{}, nil
}

// read looks at a lock. It is stale when its process of this host is gone, or when
// nobody touched it for long.
func read(file, host string) (o Owner, stale bool, data []byte, err error) {
	st, err := os.Stat(file)
	if err != nil {
		return o, false, nil, err
	}
	if data, err = regular.ReadFile(file); err != nil {
		return o, false, nil, err
	}
	idle := age(file, st.ModTime())
	if json.Unmarshal(data, &o) != nil || o.Host == "" { // cut short, or not ours
		return o, idle > foreignLimit, data, nil
	}
	if o.Host == host {
		return o, !process.Runs(o.PID, o.ProcessStart), data, nil
	}
	return o, idle > foreignLimit, data, nil
}

// age is by the clock of the file system, because a file server's and ours may differ.
func age(file string, t time.Time) time.Duration {
	now, err := durable.Clock(filepath.Dir(file))
	if err != nil {
		now = time.Now()
	}
	return now.Sub(t)
}

// breakLock takes a stale lock away. Of two that try, one may get hold of the
// other's fresh lock; it sees that by the content and puts it back.
func breakLock(file string, data []byte, o Owner) error {
	aside := fmt.Sprintf("%s.stale-%s-%d", file, o.Host, o.PID)
	if err := os.Rename(file, aside); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("break lock %s: %w", file, err)
	}
	defer os.Remove(aside)
	if got, err := regular.ReadFile(aside); err == nil && !bytes.Equal(got, data) {
		if err := os.Link(aside, file); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("release lock %s: %w", file, err)
		}
	}
	return nil
}

func (l *lock) touch() {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(beat):
			// A write, not a time: the file server's clock is what others compare.
			if f, err := os.OpenFile(l.file, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0); err == nil {
				_, _ = f.WriteAt(l.data[:1], 0)
				f.Close()
			}
		}
	}
}

// release removes the lock if it is still this one.
func (l *lock) release() {
	close(l.stop)
	if data, err := regular.ReadFile(l.file); err == nil && bytes.Equal(data, l.data) {
		os.Remove(l.file)
	}
}
