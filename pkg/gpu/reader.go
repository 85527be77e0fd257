package gpu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/capture"
)

// Bounds of the time that profllm-nvml may take. The driver needs seconds to wake GPUs
// that no daemon keeps awake. Variables for tests.
var (
	listLimit  = 20 * time.Second
	stallLimit = time.Minute // between two lines of samples, more than the longest interval
)

// child is a profllm-nvml that runs.
type child struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr capture.Output
}

// start calls profllm-nvml, which ends with ctx.
func (r Reader) start(ctx context.Context, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, r.NVML, args...), stderr: capture.Output{Most: 1 << 10}}
	c.cmd.WaitDelay = time.Second
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, longestJSON)
	switch err := c.cmd.Start(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no %s in %s", filepath.Base(r.NVML), filepath.Dir(r.NVML))
	case err != nil:
		return nil, err // names the path
	}
	return c, nil
}

// end waits for a child, and is err with what the child said and how it ended. The
// driver's own words need neither.
func (c *child) end(ctx context.Context, name string, err error) error {
	ended := c.cmd.Wait()
	if err == nil {
		err = ended
	}
	said, _, _ := strings.Cut(strings.TrimSpace(c.stderr.String()), "\n")
	switch {
	case err == nil:
		return nil
	case isDriver(err) || errors.Is(err, ErrNoDriver):
		return err
	case errors.Is(context.Cause(ctx), errSilent):
		return fmt.Errorf("%s: no sample for %s", name, stallLimit)
	case said != "":
		err = fmt.Errorf("%w: %s", err, clean(said))
	}
	if ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w (%v)", err, ended)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// errSilent is the cause that ends a child which prints nothing any more.
var errSilent = errors.New("it is silent")

// ask is List by profllm-nvml alone. It takes half of the time that ctx leaves, so that
// nvidia-smi has the other.
func (r Reader) ask(ctx context.Context) ([]Device, error) {
	limit := listLimit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	devices, err := within(ctx, r.list)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%s: no answer within %s", r.NVML, limit.Round(time.Millisecond))
	}
	return devices, err
}

func (r Reader) list(ctx context.Context) ([]Device, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := r.start(ctx, "list")
	if err != nil {
		return nil, err
	}
	h, err := readHello(c.out)
	var devices []Device
	if err == nil {
		devices, err = readDevices(c.out, h)
	}
	if err != nil {
		cancelAfter(err, cancel)
	}
	if err := c.end(ctx, r.NVML, err); err != nil {
		return nil, err
	}
	return devices, nil
}

// cancelAfter ends a child that said something wrong. One that has closed its output
// ends by itself, and its exit status says how.
func cancelAfter(err error, cancel context.CancelFunc) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errEnded) {
		cancel()
	}
}

// watch is Watch by profllm-nvml alone.
func (r Reader) watch(ctx context.Context, w Watching) error {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := r.start(within, "watch", strconv.FormatInt(w.Interval.Milliseconds(), 10))
	if err != nil {
		return err
	}
	dog := time.AfterFunc(stallLimit, func() { cancel(errSilent) })
	defer dog.Stop()
	h, err := readHello(c.out)
	if err == nil && h.GPUs == 0 {
		err = error(&noLibrary{"NVML sees no GPU"})
	}
	if err == nil {
		err = readLooks(c.out, h, func() { dog.Reset(stallLimit) }, w.Take)
	}
	cancelAfter(err, func() { cancel(nil) })
	over := ctx.Err() != nil
	err = c.end(within, r.NVML, err)
	if over {
		return nil
	}
	return err
}
