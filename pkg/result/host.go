package result

// HostUse is one node in the client's window, with everything that ran there. Means are over the
// time between the first and the last sample of the window, peaks over the time between two samples.
type HostUse struct {
	Node       string   `json:"node"`
	Samples    int      `json:"samples"`
	CPU        *float64 `json:"cpu,omitempty" jsonschema:"percent of the time of all CPUs that was in use, mean"`
	PeakCPU    *float64 `json:"peak_cpu,omitempty" jsonschema:"the same, highest between two samples"`
	PeakMemory *float64 `json:"peak_memory_gb,omitempty" jsonschema:"most memory that was not available (MemTotal less MemAvailable)"`
	Memory     *float64 `json:"memory_gb,omitempty" jsonschema:"memory of the node"`

	NetIn     *float64 `json:"net_in_bytes_per_s,omitempty" jsonschema:"bytes per s that its network devices received, mean; without RDMA, which the kernel does not count"`
	PeakIn    *float64 `json:"peak_net_in_bytes_per_s,omitempty"`
	NetOut    *float64 `json:"net_out_bytes_per_s,omitempty" jsonschema:"bytes per s that they sent, mean"`
	PeakOut   *float64 `json:"peak_net_out_bytes_per_s,omitempty"`
	DiskRead  *float64 `json:"disk_read_bytes_per_s,omitempty" jsonschema:"bytes per s read from local disks, mean; without network file systems"`
	PeakRead  *float64 `json:"peak_disk_read_bytes_per_s,omitempty"`
	DiskWrite *float64 `json:"disk_write_bytes_per_s,omitempty" jsonschema:"bytes per s written to them, mean"`
	PeakWrite *float64 `json:"peak_disk_write_bytes_per_s,omitempty"`
}

// SetHosts puts what the nodes did into the record.
func (r *Result) SetHosts(hosts []HostUse) {
	if len(hosts) == 0 {
		return
	}
	if r.System == nil {
		r.System = &System{}
	}
	r.System.Host = hosts
}
