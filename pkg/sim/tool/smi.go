package tool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Exit codes of nvidia-smi (its manual page, "RETURN VALUE").
const (
	smiInvalid  = 2
	smiNoDevice = 6
)

// due reports whether the look of that number is one of a share of all, evenly spread.
func due(look int, share float64) bool {
	return math.Floor(float64(look+1)*share) > math.Floor(float64(look)*share)
}

// smiQuery is what nvidia-smi is asked.
type smiQuery struct {
	fields []string      // of --query-gpu; nil: who computes, which nobody does
	every  time.Duration // 0: once
}

func parseSMI(args []string) (q smiQuery, err error) {
	asked := false
	for i := 0; i < len(args); i++ {
		name, value, _ := strings.Cut(args[i], "=")
		switch {
		case name == "--query-gpu":
			q.fields, asked = strings.Split(value, ","), true
		case name == "--query-compute-apps":
			asked = true
		case args[i] == "--format=csv,noheader,nounits":
		case name == "-lms" && i+1 < len(args):
			i++
			ms, err := knobs.Count("-lms", args[i], 1<<31)
			if err != nil {
				return q, err
			}
			q.every = time.Duration(ms) * time.Millisecond
		default:
			return q, fmt.Errorf("nvidia-smi %s is not simulated", args[i])
		}
	}
	if !asked {
		err = errors.New("nvidia-smi is simulated with --query-gpu=… or --query-compute-apps=… only")
	}
	return q, err
}

// SMI is nvidia-smi on a node with as many GPUs as PROFLLM_SIM_GPUS says.
func SMI(ctx context.Context, p program.Process, args []string) int {
	q, err := parseSMI(args)
	n := 0
	if text := p.Env("PROFLLM_SIM_GPUS"); text != "" && err == nil {
		n, err = knobs.Count("PROFLLM_SIM_GPUS", text, knobs.MaxGPUs)
	}
	f, bad := knobs.ParseFaults(p.Env("PROFLLM_SIM_FAULTS"), "gpu", false)
	if err = errors.Join(err, bad); err != nil {
		return p.Fail(program.Usage, err)
	}
	if n == 0 {
		fmt.Fprintln(p.Stdout, "No devices were found")
		return smiNoDevice
	}
	if q.fields == nil {
		return program.OK
	}
	began := time.Now()
	for look := 0; ; look++ {
		at := began.Add(time.Duration(look) * q.every) // when it was due, however busy this machine is
		var text strings.Builder
		for i := range n {
			line, unknown := smiLine(p, q.fields, at, i, look, f.SMI)
			if unknown != "" {
				fmt.Fprintf(p.Stdout, "Field %q is not a valid field to query.\n", unknown)
				return smiInvalid
			}
			fmt.Fprintln(&text, line)
		}
		if q.every == 0 || !due(look, f.SMI.Skip) {
			if _, err := fmt.Fprint(p.Stdout, text.String()); err != nil {
				return program.Failed
			}
		}
		if q.every == 0 || !program.Wait(ctx, time.Until(at.Add(q.every))) {
			return program.OK
		}
	}
}

// smiLine is what one GPU says: it is at work, 400 W of it, unless a fault gives it
// nothing to do.
func smiLine(p program.Process, fields []string, at time.Time, index, look int,
	f knobs.SMIFaults) (line, unknown string) {
	host := p.Env("SLURMD_NODENAME")
	if host == "" { // outside of a job, where the machine is its only node
		name, _ := os.Hostname()
		host, _, _ = strings.Cut(name, ".")
	}
	host += p.Env(knobs.MachineVar)
	use, power, clock, reasons, driver := 95.0, 400.0, 1980.0, 0, program.Version
	if u, ok := f.Use[index]; ok {
		use = u
	}
	if use == 0 {
		power, clock, reasons = 70, 345, 1
	}
	if c, ok := f.Clock[index]; ok {
		clock = c
	}
	if due(look, f.Heat[index]) {
		reasons |= 0x40
	}
	if d, ok := f.Driver[host]; ok {
		driver = d
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	says := map[string]string{
		"timestamp": at.Format("2006/01/02 15:04:05.000"), "index": strconv.Itoa(index),
		"uuid": fmt.Sprintf("GPU-sim-%s-%d", host, index), "name": "profllm sim GPU", "driver_version": driver,
		"memory.total": "81559", "memory.used": "1024", "utilization.gpu": number(use), "power.draw": number(power),
		"clocks.sm": number(clock), "clocks.mem": "2619", "temperature.gpu": "60",
		"clocks_event_reasons.active": fmt.Sprintf("0x%016x", reasons),
	}
	words := slices.Clone(fields)
	for i, name := range words {
		text, ok := says[name]
		if !ok {
			return "", name
		}
		words[i] = text
	}
	return strings.Join(words, ", "), ""
}
