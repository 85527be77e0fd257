package gpu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	json "github.com/go-json-experiment/json/v1"
)

// Format is the version of the lines between profllm and profllm-nvml. The first line
// is a Hello. The lines behind it are a Device each, as JSON, or samples as in a file
// of samples, Hello.GPUs of them for each look. The last line of a reader that gives up
// is {"error": …}.
const Format = 1

// Hello is the first line that profllm-nvml prints.
type Hello struct {
	Format   int    `json:"profllm_nvml"`
	Version  string `json:"version"`         // of profllm-nvml
	NVML     string `json:"nvml,omitempty"`  // version of the library
	Driver   string `json:"driver"`          // version
	CUDA     string `json:"cuda,omitempty"`  // newest that the driver supports
	GPUs     int    `json:"gpus"`            // number of devices
	Error    string `json:"error,omitempty"` // why nothing follows
	NoDriver bool   `json:"no_driver,omitempty"`
}

const (
	longestJSON   = 64 << 10 // bytes of a line: a GPU with a thousand processes
	longestWord   = 200      // bytes of a name or version
	mostProcesses = 1 << 12  // of one GPU
)

// driverError is what NVML itself says; other errors are of the program that asked.
type driverError struct{ text string }

func (e *driverError) Error() string { return e.text }

func isDriver(err error) bool {
	var d *driverError
	return errors.As(err, &d)
}

// noLibrary is an ErrNoDriver as NVML says it: nvidia-smi may know better.
type noLibrary struct{ text string }

func (e *noLibrary) Error() string        { return Program + ": " + e.text }
func (e *noLibrary) Is(target error) bool { return target == ErrNoDriver }

// errLong is a line of more bytes than a reader prints.
var errLong = fmt.Errorf("a line is longer than %d bytes", longestJSON)

// nextLine returns a line without its end. A last line without one was cut short, and
// is io.ErrUnexpectedEOF.
func nextLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errLong
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return line[:len(line)-1], nil
}

// readHello reads the first line of a reader.
func readHello(in *bufio.Reader) (Hello, error) {
	var h Hello
	line, err := nextLine(in)
	if err != nil {
		return h, fmt.Errorf("no first line: %w", err)
	}
	var of struct {
		Format int `json:"profllm_nvml"`
	}
	switch err := json.Unmarshal(line, &of); {
	case err != nil || of.Format == 0:
		return h, fmt.Errorf("the first line is not a greeting of %s: %.60q", Program, line)
	case of.Format != Format:
		return h, fmt.Errorf("it speaks format %d, this profllm reads format %d: install both from one release",
			of.Format, Format)
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("the first line: %w", err)
	}
	switch {
	case h.NoDriver:
		return h, &noLibrary{clean(h.Error)}
	case h.Error != "":
		return h, &driverError{clean(h.Error)}
	case h.GPUs < 0 || h.GPUs > mostGPUs:
		return h, fmt.Errorf("%d is not a possible number of GPUs", h.GPUs)
	}
	for _, word := range []string{h.NVML, h.Driver, h.CUDA} {
		if !plainWord(word) {
			return h, fmt.Errorf("version %.60q is invalid", word)
		}
	}
	return h, nil
}

// reader is how a record calls NVML.
func (h Hello) reader() string { return strings.TrimSpace("nvml " + h.NVML) }

// readDevices reads what follows a Hello up to the end.
func readDevices(in *bufio.Reader, h Hello) ([]Device, error) {
	devices := make([]Device, 0, h.GPUs)
	for {
		line, err := nextLine(in)
		if errors.Is(err, io.EOF) && len(devices) == h.GPUs {
			return devices, nil
		}
		if err != nil {
			return nil, fmt.Errorf("GPU %d of %d: %w", len(devices), h.GPUs, err)
		}
		d, err := parseDevice(line, len(devices))
		if err != nil {
			return nil, err
		}
		if len(devices) == h.GPUs {
			return nil, fmt.Errorf("more than %d GPUs", h.GPUs)
		}
		d.Driver, d.Reader = h.Driver, h.reader()
		if d.Setup != nil {
			d.Setup.CUDA = h.CUDA
		}
		devices = append(devices, d)
	}
}

// parseDevice reads the line of the GPU with that index.
func parseDevice(line []byte, index int) (Device, error) {
	var x struct {
		Device
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &x); err != nil {
		return Device{}, fmt.Errorf("GPU %d: %.60q is not a device: %w", index, line, err)
	}
	d := x.Device
	switch {
	case x.Error != "":
		return d, &driverError{clean(x.Error)}
	case d.Index != index:
		return d, fmt.Errorf("GPU %d, but GPU %d was expected", d.Index, index)
	case d.UUID == "" || len(d.UUID) > longestUUID || !plainWord(d.UUID):
		return d, fmt.Errorf("GPU %d: uuid %.60q is invalid", index, d.UUID)
	case d.Name == "" || !plainWord(d.Name):
		return d, fmt.Errorf("GPU %d: name %.60q is invalid", index, d.Name)
	case !bytesOfMemory(d.Total) || !bytesOfMemory(d.Used):
		return d, fmt.Errorf("GPU %d: %d of %d bytes in use is impossible", index, d.Used, d.Total)
	case len(d.Processes) > mostProcesses:
		return d, fmt.Errorf("GPU %d: %d processes", index, len(d.Processes))
	}
	for _, p := range d.Processes {
		if p.PID <= 0 || !bytesOfMemory(p.Used) || !plainWord(p.Name) {
			return d, fmt.Errorf("GPU %d: process %d with %d bytes is invalid", index, p.PID, p.Used)
		}
	}
	if s := d.Setup; s != nil {
		*s = Setup{PowerLimit: sane(s.PowerLimit), MaxClock: sane(s.MaxClock), Persistence: said(s.Persistence),
			MIG: said(s.MIG)}
	}
	return d, nil
}

func bytesOfMemory(n int64) bool { return n >= 0 && n <= 1<<60 }

// plainWord reports whether text is short and has no control characters.
func plainWord(text string) bool {
	return len(text) <= longestWord &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '�' })
}

// clean is one line of foreign text.
func clean(text string) string {
	return fmt.Sprintf("%.200s", strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " "))
}

// readLooks hands over the samples behind a Hello, h.GPUs for each look, until the
// reader ends or says something else. heard is called for each line.
func readLooks(in *bufio.Reader, h Hello, heard func(), take func([]Sample) error) error {
	for {
		look := make([]Sample, 0, h.GPUs)
		for len(look) < h.GPUs {
			line, err := nextLine(in)
			if errors.Is(err, io.EOF) {
				return errEnded
			}
			if err != nil {
				return err
			}
			heard()
			s, err := parseLook(line, len(look))
			if err != nil {
				return err
			}
			look = append(look, s)
		}
		if err := take(look); err != nil {
			return &takenError{err}
		}
	}
}

// parseLook reads the sample of the GPU with that index.
func parseLook(line []byte, index int) (Sample, error) {
	if len(line) > 0 && line[0] == '{' {
		var x struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(line, &x) == nil && x.Error != "" {
			return Sample{}, &driverError{clean(x.Error)}
		}
	}
	if len(line) >= longestLine {
		return Sample{}, errLong
	}
	s, err := parseLine(string(line))
	if err != nil {
		return s, fmt.Errorf("%.60q is not a sample: %w", line, err)
	}
	if s.Index != index {
		return s, fmt.Errorf("a sample of GPU %d, but GPU %d was expected", s.Index, index)
	}
	return s, nil
}

// takenError is an error of whom the samples are for.
type takenError struct{ error }

func (e *takenError) Unwrap() error { return e.error }
