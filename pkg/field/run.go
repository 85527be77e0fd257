package field

import (
	"cmp"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// about is a field that reads one text or number of a run.
func about(g Group, k Kind, name, help string, read func(*records.Run) Value) *Field {
	return &Field{Name: name, Group: g, Kind: k, Help: help, read: read}
}

// recorded reads from a record; a run without one has no value.
func recorded(read func(*result.Result) Value) func(*records.Run) Value {
	return func(r *records.Run) Value {
		if r.Result == nil {
			return Value{}
		}
		return read(r.Result)
	}
}

func textOf(read func(*result.Result) string) func(*records.Run) Value {
	return recorded(func(r *result.Result) Value { return OfText(read(r)) })
}

// ofRuns are the fields that are neither settings nor metrics.
func ofRuns() []*Field {
	list := append(identity(), verdicts()...)
	list = append(list, places()...)
	list = append(list, hardware()...)
	return append(list, software()...)
}

func identity() []*Field {
	return []*Field{
		about(Run, Text, "run_id", "name of the run, exp_DATE_TIME_HEX",
			textOf(func(r *result.Result) string { return r.RunID })),
		about(Run, Text, "suite", "group of runs, as the record has it",
			textOf(func(r *result.Result) string { return r.Suite })),
		about(Run, Text, "scenario", "", func(r *records.Run) Value { return OfText(r.Case.Scenario) }),
		about(Run, Text, "test", "", func(r *records.Run) Value { return OfText(r.Case.Test) }),
		about(Run, Text, "case", "test, iteration, point of a sweep, phase and repeat",
			func(r *records.Run) Value { return OfText(r.Case.Title()) }),
		about(Run, Text, "dir", "folder of the run", func(r *records.Run) Value { return OfText(r.Dir) }),
		about(Run, Time, "timestamp", "start of the run", func(r *records.Run) Value { return OfTime(r.Began()) }),
		{Name: "duration", Group: Run, Kind: Number, Unit: "s", Help: "duration of the whole run",
			read: recorded(func(r *result.Result) Value { return pointer(r.Duration) })},
		about(Run, Text, "status", "how the run ended", textOf(func(r *result.Result) string { return string(r.Status) })),
		about(Run, Text, "kind", "measured, simulated or profiled",
			textOf(func(r *result.Result) string { return records.KindOf(r).Word() })),
		about(Run, Text, "source", "other program that measured", textOf(func(r *result.Result) string {
			return r.Provenance.From()
		})),
	}
}

func verdicts() []*Field {
	return []*Field{
		about(Validity, Text, "verdict", "valid, suspect or invalid; without a value: not judged",
			textOf(func(r *result.Result) string {
				if r.Validity == nil {
					return ""
				}
				return string(r.Validity.Verdict)
			})),
		about(Validity, Text, "cause", "cause of the failure", textOf(func(r *result.Result) string {
			if r.Failure == nil {
				return ""
			}
			return r.Failure.Cause
		})),
		about(Validity, Text, "cause_line",
			"log line that shows the cause of the failure; if the cause is unknown, the last line", textOf(causeLine)),
	}
}

// causeLine is the line to look at first after a failure.
func causeLine(r *result.Result) string {
	if r.Failure == nil {
		return ""
	}
	if tail := r.Failure.Tail; r.Failure.Line == "" && len(tail) > 0 {
		return tail[len(tail)-1]
	}
	return r.Failure.Line
}

func places() []*Field {
	slurm := func(read func(*result.Slurm) string) func(*records.Run) Value {
		return textOf(func(r *result.Result) string {
			if r.Slurm == nil {
				return ""
			}
			return read(r.Slurm)
		})
	}
	return []*Field{
		about(Placement, Number, "nodes", "number of nodes", func(r *records.Run) Value { return count(len(r.Nodes())) }),
		about(Placement, Text, "hosts", "nodes by name", func(r *records.Run) Value {
			return OfText(hostlist.Format(r.Nodes()))
		}),
		about(Placement, Text, "topology", "roles on nodes and GPUs",
			textOf(func(r *result.Result) string { return r.Placement.Topology() })),
		about(Placement, Number, "gpus", "GPUs that served, over all nodes", recorded(func(r *result.Result) Value {
			if r.Results.GPUs == nil {
				return Value{}
			}
			return count(*r.Results.GPUs)
		})),
		{Name: "gpu_hours", Group: Placement, Kind: Number, Unit: "h", Title: "GPU-hours",
			Help: "GPUs that served, times the duration of the whole run", read: recorded(func(r *result.Result) Value {
				if r.Results.GPUs == nil || r.Duration == nil {
					return Value{}
				}
				return OfNumber(float64(*r.Results.GPUs) * *r.Duration / 3600)
			})},
		about(Placement, Text, "partition", "Slurm's partition", slurm(func(s *result.Slurm) string { return s.Partition })),
		about(Placement, Text, "account", "Slurm's account", slurm(func(s *result.Slurm) string { return s.Account })),
		about(Placement, Text, "job", "id of the job", slurm(func(s *result.Slurm) string { return s.JobID })),
	}
}

func hardware() []*Field {
	has := func(read func(*result.Hardware) Value) func(*records.Run) Value {
		return recorded(func(r *result.Result) Value {
			if r.System == nil || r.System.HardwareInfo == nil {
				return Value{}
			}
			return read(r.System.HardwareInfo)
		})
	}
	text := func(name, help string, read func(*result.Hardware) string) *Field {
		return about(Hardware, Text, name, help, has(func(h *result.Hardware) Value { return OfText(read(h)) }))
	}
	return []*Field{
		about(Hardware, Text, "gpu", "model of the GPUs", func(r *records.Run) Value { return OfText(r.Result.GPU()) }),
		text("driver", "version of the GPUs' driver", func(h *result.Hardware) string { return h.Driver }),
		text("cuda", "newest CUDA version that the driver supports", func(h *result.Hardware) string { return h.CUDA }),
		{Name: "gpu_power_limit_w", Group: Hardware, Kind: Number, Unit: "W", Help: "power limit of the GPUs",
			read: has(func(h *result.Hardware) Value { return pointer(h.GPUPowerLimitW) })},
		text("gpu_mig", "the driver's value, such as Disabled", func(h *result.Hardware) string { return h.GPUMIG }),
		text("cpu", "", func(h *result.Hardware) string { return h.CPU }),
		text("kernel", "", func(h *result.Hardware) string { return h.Kernel }),
		text("os", "", func(h *result.Hardware) string { return h.OS }),
	}
}

func software() []*Field {
	text := func(name, help string, read func(*result.Provenance) string) *Field {
		return about(Software, Text, name, help, textOf(func(r *result.Result) string {
			if r.Provenance == nil {
				return ""
			}
			return read(r.Provenance)
		}))
	}
	return []*Field{
		text("engine", "", func(p *result.Provenance) string { return p.Engine }),
		text("engine_version", "version that the servers report, or that is installed",
			func(p *result.Provenance) string { return cmp.Or(p.EngineVersion, p.EngineInstalled) }),
		text("image", "image of the containers", func(p *result.Provenance) string { return p.Image }),
		text("image_digest", "", func(p *result.Provenance) string { return p.ImageDigest }),
		text("model_revision", "snapshot of the model at Hugging Face",
			func(p *result.Provenance) string { return p.ModelRevision }),
		text("launcher", "", func(p *result.Provenance) string { return p.Launcher }),
		text("profllm", "version of profllm", func(p *result.Provenance) string { return p.Profllm }),
		text("git", "revision of the definitions", func(p *result.Provenance) string { return p.Git }),
		text("fingerprint", "hash of what should make two runs give the same numbers",
			func(p *result.Provenance) string { return p.Fingerprint }),
		text("series", "hash that the runs of a series share", func(p *result.Provenance) string { return p.Series }),
		about(Load, Text, "client", "load client", textOf(func(r *result.Result) string { return r.Config.Benchmark.Kind })),
	}
}

// ofChecks are the checks that failed, with their severity. What passed is the rule, and has no field.
func ofChecks(r *records.Run) []Cell {
	if r.Result == nil || r.Result.Validity == nil {
		return nil
	}
	var cells []Cell
	had := map[string]bool{}
	for _, c := range r.Result.Validity.Checks {
		if c.Outcome != result.Fail || c.Word == "" || had[c.Word] {
			continue
		}
		had[c.Word] = true
		f := &Field{Name: checkHead + c.Word, Group: Validity, Kind: Text, Title: c.Word, Help: c.Why, Free: true}
		cells = append(cells, Cell{f, OfText(string(c.Severity))})
	}
	return cells
}

const checkHead = "check."

func pointer(x *float64) Value {
	if x == nil {
		return Value{}
	}
	return OfNumber(*x)
}

func count(n int) Value {
	if n == 0 {
		return Value{}
	}
	return OfNumber(float64(n))
}
