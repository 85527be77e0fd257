package gpu

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/capture"
)

// What nvidia-smi is asked for, in the order in which it is read.
const (
	deviceFields  = "index,uuid,name,driver_version,memory.total,memory.used"
	processFields = "gpu_uuid,pid,process_name,used_memory"
)

// noUnits is the form in which nvidia-smi answers a query.
const noUnits = "--format=csv,noheader,nounits"

const mib = 1 << 20

// smi asks nvidia-smi twice: for the devices, and for who computes on them.
func smi(ctx context.Context) ([]Device, error) {
	out, err := runSMI(ctx, "--query-gpu="+deviceFields, noUnits)
	if err != nil {
		return nil, err
	}
	devices, err := parseDevices(out)
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi --query-gpu: %w", err)
	}
	if out, err = runSMI(ctx, "--query-compute-apps="+processFields, noUnits); err != nil {
		return nil, err
	}
	if err := parseProcesses(out, devices); err != nil {
		return nil, fmt.Errorf("nvidia-smi --query-compute-apps: %w", err)
	}
	return devices, nil
}

// runSMI calls nvidia-smi; no devices are no output.
func runSMI(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "nvidia-smi", args...)
	cmd.WaitDelay = time.Second
	stdout, stderr := capture.Output{Most: capture.Answer}, capture.Output{Most: capture.Complaint}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	switch err := cmd.Run(); {
	case errors.Is(err, exec.ErrNotFound):
		return nil, ErrNoDriver
	case err != nil && strings.Contains(stdout.String(), "No devices were found"):
		return nil, nil
	case err != nil:
		said := strings.TrimSpace(stdout.String() + stderr.String()) // it complains on stdout
		said, _, _ = strings.Cut(said, "\n")
		return nil, fmt.Errorf("nvidia-smi %s: %w: %.200s", args[0], err, said)
	}
	return stdout.Bytes(), stdout.Err()
}

// rows reads lines of at least n fields.
func rows(out []byte, n int) ([][]string, error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace, r.LazyQuotes, r.FieldsPerRecord = true, true, -1
	list, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	for line, row := range list {
		if len(row) < n {
			return nil, fmt.Errorf("line %d: %d fields instead of %d", line+1, len(row), n)
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
	}
	return list, nil
}

func parseDevices(out []byte) ([]Device, error) {
	list, err := rows(out, 6)
	if err != nil {
		return nil, err
	}
	devices := make([]Device, len(list))
	for i, f := range list {
		d := Device{UUID: f[1], Name: f[2], Driver: f[3], Reader: SMI}
		if d.Index, err = strconv.Atoi(f[0]); err != nil || d.Index < 0 {
			return nil, fmt.Errorf("line %d: index %q is not a number", i+1, f[0])
		}
		if d.Total, err = mebibytes(f[4]); err != nil {
			return nil, fmt.Errorf("line %d: memory.total: %w", i+1, err)
		}
		if d.Used, err = mebibytes(f[5]); err != nil {
			return nil, fmt.Errorf("line %d: memory.used: %w", i+1, err)
		}
		devices[i] = d
	}
	return devices, nil
}

// parseProcesses adds processes to the devices they compute on. The name of a
// process may hold commas, which nvidia-smi does not quote.
func parseProcesses(out []byte, devices []Device) error {
	list, err := rows(out, 4)
	if err != nil {
		return err
	}
	for i, f := range list {
		pid, err := strconv.Atoi(f[1])
		if err != nil || pid <= 0 {
			return fmt.Errorf("line %d: pid %q is not a number", i+1, f[1])
		}
		last := len(f) - 1
		used, err := mebibytes(f[last])
		if err != nil {
			return fmt.Errorf("line %d: used_memory: %w", i+1, err)
		}
		for j := range devices {
			if devices[j].UUID == f[0] {
				devices[j].Processes = append(devices[j].Processes,
					Process{PID: pid, Name: strings.Join(f[2:last], ", "), Used: used})
			}
		}
	}
	return nil
}

// mebibytes reads a number without its unit; "[N/A]", which the driver says where
// memory is shared with the host or hidden from the user, is 0.
func mebibytes(text string) (int64, error) {
	if strings.HasPrefix(text, "[") {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0, fmt.Errorf("%q is not a number of MiB", text)
	}
	return n * mib, nil
}
