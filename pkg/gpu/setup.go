package gpu

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Setup is how a GPU is set. What its driver does not say is "" or 0.
type Setup struct {
	CUDA        string  `json:"cuda,omitempty"` // newest that the driver supports
	PowerLimit  float64 `json:"power_limit_w,omitempty"`
	MaxClock    float64 `json:"max_sm_clock_mhz,omitempty"`
	Persistence string  `json:"persistence,omitempty"` // Enabled or Disabled
	MIG         string  `json:"mig,omitempty"`         // Enabled or Disabled
}

// setupFields are apart from those that List needs: an older driver refuses a whole
// query for one field that it does not know.
const setupFields = "uuid,power.limit,clocks.max.sm,persistence_mode,mig.mode.current"

// AddSetup asks nvidia-smi how devices are set of which that is not known: NVML says it
// with all the rest. An error leaves the devices as they are, and is no reason not to
// use them.
func AddSetup(ctx context.Context, devices []Device) error {
	if !slices.ContainsFunc(devices, func(d Device) bool { return d.Setup == nil }) {
		return nil
	}
	out, err := runSMI(ctx, "--query-gpu="+setupFields, noUnits)
	if err != nil {
		return err
	}
	cuda := ""
	if text, err := runSMI(ctx, "--version"); err == nil { // drivers before 530 do not know it
		cuda = parseCUDA(text)
	}
	if err := parseSetups(out, cuda, devices); err != nil {
		return fmt.Errorf("nvidia-smi --query-gpu: %w", err)
	}
	return nil
}

func parseSetups(out []byte, cuda string, devices []Device) error {
	list, err := rows(out, 5)
	if err != nil {
		return err
	}
	for _, f := range list {
		s := &Setup{CUDA: cuda, PowerLimit: number(f[1]), MaxClock: number(f[2]), Persistence: said(f[3]),
			MIG: said(f[4])}
		for i := range devices {
			if devices[i].UUID == f[0] {
				devices[i].Setup = s
			}
		}
	}
	return nil
}

// number reads one without its unit; 0 for "[N/A]" and other words.
func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return sane(n)
}

// sane is a number of watts or megahertz, 0 for what is none.
func sane(n float64) float64 {
	if n > 0 && n < 1e6 {
		return n
	}
	return 0
}

// said is the driver's word, "" where that is "[N/A]" or the like.
func said(text string) string {
	if strings.HasPrefix(text, "[") || len(text) > 32 || !plainWord(text) {
		return ""
	}
	return text
}

// parseCUDA finds the line "CUDA Version : 12.8".
func parseCUDA(out []byte) string {
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if strings.TrimSpace(key) == "CUDA Version" && value != "" && strings.Trim(value, "0123456789.") == "" {
			return value
		}
	}
	return ""
}
