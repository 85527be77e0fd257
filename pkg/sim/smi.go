package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Exit codes of nvidia-smi (its manual page, "RETURN VALUE").
const (
	smiInvalid  = 2
	smiNoDevice = 6
)

// MaxGPUs is how many GPUs a simulated node may have.
const MaxGPUs = 64

// smiFaults are what GPUs are made to say, by their index, and drivers, by host.
type smiFaults struct {
	use, clock, heat map[int]float64 // percent, MHz, share of the looks
	driver           map[string]string
	skip             float64 // share of the looks that are left out
}

// set reads a fault whose value is that of one GPU, or of one host.
func (f *smiFaults) set(name, value string) error {
	if name == "skip" {
		var err error
		if f.skip, err = parseShare(value); err != nil {
			return fmt.Errorf("%s=%q: want a number from 0 to 1", name, value)
		}
		return nil
	}
	who, what, _ := strings.Cut(value, "/")
	if name == "driver" {
		if who == "" || what == "" {
			return fmt.Errorf("driver=%q: want HOST/VERSION", value)
		}
		if f.driver == nil {
			f.driver = map[string]string{}
		}
		f.driver[who] = what
		return nil
	}
	index, err := strconv.Atoi(who)
	x, bad := strconv.ParseFloat(what, 64)
	most := map[string]float64{"use": 100, "clock": 1e5, "heat": 1}[name]
	if err != nil || bad != nil || index < 0 || index >= MaxGPUs || !(x >= 0 && x <= most) {
		return fmt.Errorf("%s=%q: want GPU/NUMBER, such as 0/%g, the number from 0 to %g", name, value, most/2, most)
	}
	into := map[string]*map[int]float64{"use": &f.use, "clock": &f.clock, "heat": &f.heat}[name]
	if *into == nil {
		*into = map[int]float64{}
	}
	(*into)[index] = x
	return nil
}

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
			ms, err := count("-lms", args[i], 1<<31)
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

// smi is nvidia-smi on a node with as many GPUs as PROFLLM_SIM_GPUS says.
func (p Process) smi(ctx context.Context, args []string) int {
	q, err := parseSMI(args)
	n := 0
	if text := p.Env("PROFLLM_SIM_GPUS"); text != "" && err == nil {
		n, err = count("PROFLLM_SIM_GPUS", text, MaxGPUs)
	}
	f, bad := parseFaults(p.Env("PROFLLM_SIM_FAULTS"), "gpu", false)
	if err = errors.Join(err, bad); err != nil {
		return p.fail(exitUsage, err)
	}
	if n == 0 {
		fmt.Fprintln(p.Stdout, "No devices were found")
		return smiNoDevice
	}
	if q.fields == nil {
		return exitOK
	}
	began := time.Now()
	for look := 0; ; look++ {
		at := began.Add(time.Duration(look) * q.every) // when it was due, however busy this machine is
		var text strings.Builder
		for i := range n {
			line, unknown := p.smiLine(q.fields, at, i, look, f.smi)
			if unknown != "" {
				fmt.Fprintf(p.Stdout, "Field %q is not a valid field to query.\n", unknown)
				return smiInvalid
			}
			fmt.Fprintln(&text, line)
		}
		if q.every == 0 || !due(look, f.smi.skip) {
			if _, err := fmt.Fprint(p.Stdout, text.String()); err != nil {
				return exitFailed
			}
		}
		if q.every == 0 || !wait(ctx, time.Until(at.Add(q.every))) {
			return exitOK
		}
	}
}

// smiLine is what one GPU says: it is at work, 400 W of it, unless a fault gives it
// nothing to do.
func (p Process) smiLine(fields []string, at time.Time, index, look int, f smiFaults) (line, unknown string) {
	host := p.Env("SLURMD_NODENAME")
	use, power, clock, reasons, driver := 95.0, 400.0, 1980.0, 0, Version
	if u, ok := f.use[index]; ok {
		use = u
	}
	if use == 0 {
		power, clock, reasons = 70, 345, 1
	}
	if c, ok := f.clock[index]; ok {
		clock = c
	}
	if due(look, f.heat[index]) {
		reasons |= 0x40
	}
	if d, ok := f.driver[host]; ok {
		driver = d
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	says := map[string]string{
		"timestamp": at.Format("2006/01/02 15:04:05.000"), "index": strconv.Itoa(index),
		"uuid": fmt.Sprintf("GPU-sim-%s-%d", host, index), "name": "profllm sim GPU", "driver_version": driver,
		"memory.total": "81559", "memory.used": "1024", "utilization.gpu": number(use), "power.draw": number(power),
		"clocks.sm": number(clock), "clocks.mem": "2619", "temperature.gpu": "60", "clocks_event_reasons.active": fmt.Sprintf("0x%016x", reasons),
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
