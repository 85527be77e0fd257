// Package gpu reads the NVIDIA GPUs of this machine: what they are, how much of
// their memory is in use, and by which processes.
//
// A binary built with cgo asks the driver's library; a static one, or where the
// library is not there, asks nvidia-smi. It changes nothing on a GPU.
//
//	devices, err := gpu.List(ctx) // gpu.ErrNoDriver: no NVIDIA GPU that anybody could use
package gpu

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoDriver says that this machine has no NVIDIA driver.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Device is one GPU, or what this process may see of them.
type Device struct {
	Index     int       `json:"index"` // in the order of the PCI bus
	UUID      string    `json:"uuid"`
	Name      string    `json:"name"`
	Driver    string    `json:"driver"`
	Total     int64     `json:"memory"`      // bytes
	Used      int64     `json:"memory_used"` // bytes, without what the driver keeps for itself where it says so
	Processes []Process `json:"processes,omitempty"`
	Setup     *Setup    `json:"setup,omitempty"` // see AddSetup
}

// Process is one that computes on a GPU.
type Process struct {
	PID  int    `json:"pid"` // of this machine, also where the process is in a container
	Name string `json:"name,omitempty"`
	Used int64  `json:"memory_used,omitempty"` // bytes; 0 where the driver does not say
}

// A reader lists the GPUs, in order. ErrNoDriver passes the question on to the
// next one.
type reader func(ctx context.Context) ([]Device, error)

// List reads every GPU. A driver that hangs, because a GPU has fallen off the
// bus, is an error when ctx ends.
func List(ctx context.Context) ([]Device, error) {
	for _, read := range append(library(), smi) {
		devices, err := within(ctx, read)
		if !errors.Is(err, ErrNoDriver) {
			return devices, err
		}
	}
	return nil, ErrNoDriver
}

// within gives up on a reader that does not come back: a call into the driver
// cannot be ended.
func within(ctx context.Context, read reader) ([]Device, error) {
	type answer struct {
		devices []Device
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		devices, err := read(ctx)
		done <- answer{devices, err}
	}()
	select {
	case a := <-done:
		return a.devices, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the driver does not answer: %w", ctx.Err())
	}
}
