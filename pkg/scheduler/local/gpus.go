package local

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/quantity"
)

// GPUs say how local jobs get the GPUs of this machine.
type GPUs struct {
	Reader   gpu.Reader
	Environ  func(string) (string, bool) // may leave only some of them to us
	Patience time.Duration               // how long a job waits for them; 0: not at all
	Waits    func(string)                // is told what a job waits for, once; may be nil
}

// mostUsed is the memory that a GPU may have in use and still be free: what drivers, monitors
// and desktops hold.
const mostUsed = 2 * quantity.GiB

// Variables of a job that say which GPUs it has.
const (
	gpusVar = "PROFLLM_LOCAL_GPUS" // their numbers on this machine
	viewVar = "PROFLLM_LOCAL_VIEW" // the job's own numbers and the UUIDs: 0=GPU-…,1=GPU-…; "" in a rehearsal
)

// View is the GPUs that a job of this environment sees, see [gpu.Reader]; nil: all.
func View(environ func(string) string) (view []gpu.Shown) {
	for item := range strings.SplitSeq(environ(viewVar), ",") {
		index, uuid, ok := strings.Cut(item, "=")
		if n, err := strconv.Atoi(index); ok && err == nil {
			view = append(view, gpu.Shown{Index: n, UUID: uuid})
		}
	}
	return view
}

// request is what a job asks for: so many GPUs, or these.
type request struct {
	count int
	ids   []int
}

func (r request) String() string {
	if len(r.ids) == 0 {
		return quantity.Count(r.count, "GPU")
	}
	words := make([]string, len(r.ids))
	for i, id := range r.ids {
		words[i] = strconv.Itoa(id)
	}
	return "GPU " + strings.Join(words, ", ")
}

// size is the number of GPUs.
func (r request) size() int { return cmp.Or(len(r.ids), r.count) }

// takes reports whether a GPU may be one of them.
func (r request) takes(d gpu.Device) bool { return len(r.ids) == 0 || slices.Contains(r.ids, d.Index) }

// take leases GPUs for this process, and waits for them if they are not free. Who waits longest
// gets them first.
func (g *GPUs) take(ctx context.Context, want request) ([]gpu.Device, error) {
	end, h := time.Now().Add(g.Patience), ourselves()
	var ours turn // once this job waits
	defer func() {
		if ours.number != 0 {
			_ = changeLeases(context.WithoutCancel(ctx), func(of leases) bool { delete(of, ours.name()); return true }) // else it ends with this process
		}
	}()
	for {
		within, done := context.WithTimeout(ctx, gpu.Patience)
		listing, err := g.Reader.List(within)
		done()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted while it waited for %s", want)
		}
		if err != nil {
			return nil, fmt.Errorf("the job needs %s: %w", want, err)
		}
		allowed, err := gpu.Allowed(listing.Devices, g.Environ)
		if err != nil {
			return nil, err
		}
		if err := want.possible(allowed); err != nil {
			return nil, err
		}
		var got []gpu.Device
		var busy []string
		said := ours.number != 0
		err = changeLeases(ctx, func(of leases) bool {
			if got, busy = want.choose(allowed, of, ours.number); got == nil {
				if said || g.Patience == 0 {
					return false
				}
				ours = of.nextTurn(want, allowed)
				of[ours.name()] = h
				return true
			}
			for _, d := range got {
				of[gpuName(d.UUID)] = h
			}
			return true
		})
		if err != nil || got != nil {
			return got, err
		}
		if !time.Now().Before(end) {
			return nil, fmt.Errorf("%s not free: %s", isOrAre(want), strings.Join(busy, "; "))
		}
		if !said && g.Waits != nil {
			g.Waits(fmt.Sprintf("waiting for %s (%s)", want, strings.Join(busy, "; ")))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("interrupted while it waited for %s", want)
		case <-time.After(time.Second):
		}
	}
}

// isOrAre begins a sentence about a request.
func isOrAre(r request) string {
	if max(r.count, len(r.ids)) == 1 {
		return r.String() + " is"
	}
	return r.String() + " are"
}

// possible refuses a request that no wait can fulfil.
func (r request) possible(devices []gpu.Device) error {
	for _, id := range r.ids {
		if !slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.Index == id }) {
			return fmt.Errorf("the test names GPU %d, which %s", id, notAmong(devices))
		}
	}
	if r.count > len(devices) {
		return fmt.Errorf("the job needs %s, but this machine has %d that it may use", r, len(devices))
	}
	return nil
}

func notAmong(devices []gpu.Device) string {
	if len(devices) == 0 {
		return "this machine does not have"
	}
	words := make([]string, len(devices))
	for i, d := range devices {
		words[i] = strconv.Itoa(d.Index)
	}
	return "is not among those that it may use: " + strings.Join(words, ", ")
}

// choose picks free GPUs, or says who has the others. It prefers a block that begins at a
// multiple of its size: such GPUs are closest to each other on most machines. Those that are kept
// for jobs in front of a turn are not free.
func (r request) choose(devices []gpu.Device, of leases, turn int) (got []gpu.Device, busy []string) {
	var free []gpu.Device
	kept := of.promised(devices, turn)
	for _, d := range devices {
		if !r.takes(d) {
			continue
		}
		if who := cmp.Or(inUse(d, of), kept[d.UUID]); who != "" {
			busy = append(busy, fmt.Sprintf("GPU %d: %s", d.Index, who))
		} else {
			free = append(free, d)
		}
	}
	n := r.size()
	if len(free) < n {
		return nil, busy
	}
	for i := 0; i+n <= len(free); i++ {
		if free[i].Index%n == 0 && free[i+n-1].Index == free[i].Index+n-1 {
			return free[i : i+n], nil
		}
	}
	return free[:n], nil
}

// inUse says who has a GPU, "" if it is free.
func inUse(d gpu.Device, of leases) string {
	if h, ok := of[gpuName(d.UUID)]; ok {
		return "job " + h.Job
	}
	for _, p := range d.Processes {
		return strings.TrimSpace(fmt.Sprintf("process %d %s", p.PID, p.Name))
	}
	if d.Used > mostUsed {
		return quantity.Bytes(d.Used) + " in use"
	}
	return ""
}

// ourselves is this process as a holder.
func ourselves() holder {
	pid := os.Getpid()
	return holder{Job: newID(pid, process.Start(pid))}
}

// variables tell a job which GPUs it has. A job that named them numbers them as the machine
// does, which is by their place on the PCI bus.
func variables(devices []gpu.Device, named bool) []string {
	var numbers, view []string
	for i, d := range devices {
		if named {
			i = d.Index
		}
		numbers, view = append(numbers, strconv.Itoa(d.Index)), append(view, fmt.Sprintf("%d=%s", i, d.UUID))
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", gpusVar + "=" + strings.Join(numbers, ","),
		viewVar + "=" + strings.Join(view, ",")}
}

// renumbered puts the machine's numbers of GPUs in the place of the job's own, which Slurm
// leaves to the kernel. Without a view the job has the machine's numbers.
func renumbered(argv []string, view []gpu.Shown, numbers string) []string {
	const visible = "CUDA_VISIBLE_DEVICES="
	i := slices.IndexFunc(argv, func(word string) bool { return strings.HasPrefix(word, visible) })
	if i < 0 {
		return argv
	}
	devices := map[string]string{} // by the job's number
	for i, number := range strings.Split(numbers, ",") {
		if i < len(view) {
			devices[strconv.Itoa(view[i].Index)] = number
		}
	}
	var list []string
	for word := range strings.SplitSeq(strings.TrimPrefix(argv[i], visible), ",") {
		number, ok := devices[word]
		if !ok {
			return argv
		}
		list = append(list, number)
	}
	argv = slices.Clone(argv)
	argv[i] = visible + strings.Join(list, ",")
	return argv
}
