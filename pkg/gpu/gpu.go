// Package gpu reads the NVIDIA GPUs of this machine: what they are, how much of
// their memory is in use, by which processes, and what they do over time.
//
// It asks profllm-nvml, a program beside this one that calls the driver's library
// NVML, and where that gives no answer, nvidia-smi. It changes nothing on a GPU.
//
//	r := gpu.Beside("/opt/profllm/profllm")
//	list, err := r.List(ctx) // gpu.ErrNoDriver: no NVIDIA GPU that anybody could use
package gpu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrNoDriver says that this machine has no NVIDIA driver.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Device is one GPU, or what this process may see of them.
type Device struct {
	Index     int       `json:"index"` // in the order of the PCI bus
	UUID      string    `json:"uuid"`
	Name      string    `json:"name"`
	Driver    string    `json:"driver"`
	Reader    string    `json:"reader,omitempty"` // who said so: "nvml 12.570.86.15", or "nvidia-smi"
	Total     int64     `json:"memory"`           // bytes
	Used      int64     `json:"memory_used"`      // bytes, without what the driver keeps for itself where it says so
	Processes []Process `json:"processes,omitempty"`
	Setup     *Setup    `json:"setup,omitempty"` // see AddSetup
}

// Process is one that computes on a GPU.
type Process struct {
	PID  int    `json:"pid"` // of this machine, also where the process is in a container
	Name string `json:"name,omitempty"`
	Used int64  `json:"memory_used,omitempty"` // bytes; 0 where the driver does not say
}

// Shown is a GPU under the number by which a job knows it.
type Shown struct {
	Index int
	UUID  string
}

// Program is the name of the program that calls NVML.
const Program = "profllm-nvml"

// SMI is what Device.Reader says of a GPU that nvidia-smi described.
const SMI = "nvidia-smi"

// Reader is how the GPUs of this machine are read. The zero value asks nvidia-smi
// alone. It is safe for concurrent use.
type Reader struct {
	NVML string  // path of profllm-nvml; "": it is not asked
	View []Shown // the GPUs that are shown, as they are numbered; nil: all
}

// Beside is the reader that belongs to a program: profllm-nvml in the same folder.
func Beside(executable string) Reader {
	return Reader{NVML: filepath.Join(filepath.Dir(executable), Program)}
}

// Patience is how long a driver may take to list the GPUs: a broken one never answers.
const Patience = 30 * time.Second

// Listing is what a reader says of the GPUs.
type Listing struct {
	Devices []Device // in order
	Note    string   // why nvidia-smi was asked instead of NVML; "" where NVML was, or was not to be
}

// List reads every GPU, by nvidia-smi where NVML gives no answer. A driver that hangs,
// because a GPU has fallen off the bus, is an error when ctx ends.
func (r Reader) List(ctx context.Context) (Listing, error) {
	l, err := r.listAll(ctx)
	l.Devices = shown(r.View, l.Devices)
	return l, err
}

func (r Reader) listAll(ctx context.Context) (Listing, error) {
	var why error
	if r.NVML != "" {
		var devices []Device
		if devices, why = r.ask(ctx); why == nil {
			return Listing{Devices: devices}, nil
		}
	}
	devices, err := within(ctx, smi)
	switch {
	case err == nil:
		return Listing{devices, noteOf(why)}, nil
	case errors.Is(err, ErrNoDriver) && isDriver(why):
		return Listing{}, why // there is a driver, and it does not work
	}
	return Listing{}, err
}

// Which says who would be asked here, "" if nobody could answer, and why that is not
// NVML. It starts profllm-nvml, and not nvidia-smi.
func (r Reader) Which(ctx context.Context) (reader, note string) {
	var why error
	if r.NVML != "" {
		var devices []Device
		if devices, why = r.ask(ctx); why == nil {
			if len(devices) == 0 {
				return "", "NVML sees no GPU"
			}
			return devices[0].Reader, ""
		}
	}
	if _, err := exec.LookPath(SMI); err == nil {
		if why != nil {
			note = why.Error()
		}
		return SMI, note
	}
	if why == nil || errors.Is(why, ErrNoDriver) {
		return "", ErrNoDriver.Error()
	}
	return "", fmt.Sprintf("%v, and no %s", why, SMI)
}

// noteOf is the one sentence that says why nvidia-smi is asked.
func noteOf(why error) string {
	if why == nil {
		return ""
	}
	return fmt.Sprintf("%s is used, which has no energy counter: %v", SMI, why)
}

// within gives up on a program that does not come back: one that waits for a broken
// driver cannot be ended.
func within(ctx context.Context, read func(context.Context) ([]Device, error)) ([]Device, error) {
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
		if a.err == nil || ctx.Err() == nil {
			return a.devices, a.err
		}
	case <-ctx.Done():
	}
	return nil, fmt.Errorf("the driver does not answer: %w", ctx.Err())
}
