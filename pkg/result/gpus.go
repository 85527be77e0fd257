package result

import (
	"time"
)

// GPUSamples is what a job sampled of the GPUs of its nodes, in the window of the
// client that measured.
type GPUSamples struct {
	Begin    time.Time `json:"begin" jsonschema:"start of the client's window, RFC 3339, UTC"`
	End      time.Time `json:"end"`
	From     string    `json:"window_from" jsonschema:"source of the window: client; engines (the last second in which they were busy); job (the end of the client's process)"`
	Interval float64   `json:"interval_s" jsonschema:"configured time between two samples of a GPU"`
	Notes    []string  `json:"notes,omitempty" jsonschema:"notes of the nodes: why samples are missing or stopped, or why nvidia-smi took them instead of NVML"`
	GPUs     []GPUUse  `json:"gpus" jsonschema:"every GPU that a role was given, and every other that was seen on the nodes"`
}

// GPUUse is one GPU in that window. What its driver does not say is absent.
type GPUUse struct {
	Node    string `json:"node"`
	Index   int    `json:"index" jsonschema:"index in the order of the PCI bus"`
	UUID    string `json:"uuid,omitempty"`
	Role    string `json:"role,omitempty" jsonschema:"role that was given this GPU; absent if none"`
	Replica int    `json:"replica,omitempty" jsonschema:"0 for the first"`

	Samples     int      `json:"samples"`
	Utilization *float64 `json:"utilization,omitempty" jsonschema:"percent of the time in which a kernel ran, mean over the samples"`
	Power       *float64 `json:"power_w,omitempty" jsonschema:"energy divided by the length of the window"`
	PeakPower   *float64 `json:"peak_power_w,omitempty"`
	Energy      *float64 `json:"energy_j,omitempty"`
	EnergyFrom  string   `json:"energy_from,omitempty" jsonschema:"counter: difference of the GPU's energy counter; power: integral over the power samples"`
	PeakMemory  *float64 `json:"peak_memory_gb,omitempty"`
	SMClock     *float64 `json:"sm_clock_mhz,omitempty" jsonschema:"mean over the samples in which the GPU was in use, ten or more"`
	PeakTemp    *float64 `json:"peak_temperature_c,omitempty"`
	Slowed      *float64 `json:"slowed,omitempty" jsonschema:"share of the samples in which heat or a lack of power slowed the GPU down, 0 to 1"`
	SlowedBy    []string `json:"slowed_by,omitempty" jsonschema:"NVML's reasons: hw-slowdown, sw-thermal, hw-thermal, hw-power-brake"`
	PowerCapped *float64 `json:"power_capped,omitempty" jsonschema:"share of the samples in which the GPU was at its power limit, 0 to 1; not a fault"`
	Coverage    float64  `json:"coverage" jsonschema:"share of the window near power samples, 0 to 1"`
	LongestGap  float64  `json:"longest_gap_s" jsonschema:"longest part of the window without a power sample"`
}

// Energy is what the GPUs that served drew in the client's window. It is there if it
// is known of every one of them.
type Energy struct {
	GPUEnergy            *float64 `json:"gpu_energy_j,omitempty" jsonschema:"energy of all GPUs that served, in the client's window"`
	GPUPower             *float64 `json:"gpu_power_w,omitempty" jsonschema:"power of all GPUs that served, mean over the client's window"`
	JoulesPerOutputToken *float64 `json:"joules_per_output_token,omitempty" jsonschema:"gpu_energy_j divided by total_output_tokens: GPUs only, including the roles' idle GPUs, without hosts and switches"`
}

// Price is what the site says that its GPUs cost. Costs are computed from it where they are shown.
type Price struct {
	GPUHourUSD *float64 `json:"gpu_hour_usd,omitempty" jsonschema:"price of an hour of one GPU, USD, by gpu_hour_usd of the system file"`
}

// EnergyKeys returns the keys of Energy in a record.
func EnergyKeys() []string {
	return []string{"gpu_energy_j", "gpu_power_w", "joules_per_output_token"}
}

// SetGPUs puts the samples into the record, with what follows from them. Call it when
// the client's numbers are there.
func (r *Result) SetGPUs(s *GPUSamples) {
	if r.System == nil {
		r.System = &System{}
	}
	r.System.GPUSamples = s
	var energy, use float64
	planned, metered, seen := 0, 0, 0
	for _, u := range s.GPUs {
		if u.Role == "" {
			continue
		}
		planned++
		if u.Energy != nil {
			metered++
			energy += *u.Energy
		}
		if u.Utilization != nil {
			seen++
			use += *u.Utilization
		}
		if m := u.PeakMemory; m != nil && (r.System.PeakGPUMemoryGB == nil || *r.System.PeakGPUMemoryGB < *m) {
			r.System.PeakGPUMemoryGB = m
		}
	}
	if seen > 0 && seen == planned {
		r.System.AvgGPUUtilization = new(use / float64(seen))
	}
	seconds := s.End.Sub(s.Begin).Seconds()
	if metered == 0 || metered < planned || seconds <= 0 {
		return
	}
	m := &r.Results
	m.GPUEnergy, m.GPUPower = &energy, new(energy/seconds)
	if n := m.TotalOutputTokens; n != nil && *n > 0 {
		m.JoulesPerOutputToken = new(energy / float64(*n))
	}
}
