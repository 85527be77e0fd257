package collect

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/host"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// addHosts adds what the nodes' CPUs, memory, network and disks did in the window of the client
// that measured. Nothing is judged by it, so a node without samples is left out.
func addHosts(e *evidence, d *draft) {
	if e.plan == nil || e.place == nil || e.plan.Telemetry == nil || len(e.load.Clients) == 0 || e.load.Client == "" {
		return
	}
	begin, end, from := windowOf(e, new(warnings), d.record) // addGPUs has warned of it
	if from == "" {
		return
	}
	var hosts []result.HostUse
	for _, n := range e.place.Nodes {
		name := run.TelemetryDir + "/" + job.HostFile(n.Host)
		f, err := regular.Open(filepath.Join(e.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		t := hostTrack{begin: begin, end: end, use: result.HostUse{Node: n.Host}}
		if err == nil {
			err = host.Read(f, t.add)
			f.Close()
		}
		d.late.unread(name, err)
		if t.use.Samples > 0 {
			hosts = append(hosts, t.finish())
		}
	}
	d.record.SetHosts(hosts)
}

// hostTrack follows one node through a window. A sample just outside of the window is not in it,
// so that nothing before the load counts.
type hostTrack struct {
	begin, end time.Time
	use        result.HostUse
	last       *host.Sample
	cpu        growth
	rates      [4]growth // in, out, read, written
}

// growth is how much a counter grew by what it is divided by, in sum and at most.
type growth struct {
	by, over float64
	peak     *float64
}

// add takes what a counter grew by over so much: seconds, or ticks. One that fell began anew.
func (g *growth) add(from, to *uint64, over float64) {
	if from == nil || to == nil || *to < *from || !(over > 0) {
		return
	}
	by := float64(*to - *from)
	g.by, g.over = g.by+by, g.over+over
	highest(&g.peak, new(by/over), 1)
}

// mean is the growth over all of it, nil if there is none.
func (g *growth) mean() *float64 {
	if g.over == 0 {
		return nil
	}
	return new(g.by / g.over)
}

// add takes the next sample. One from before the last one, of a clock that was set back, is left
// out.
func (t *hostTrack) add(s host.Sample) {
	if s.Time.Before(t.begin) || s.Time.After(t.end) || t.last != nil && !s.Time.After(t.last.Time) {
		return
	}
	u := &t.use
	u.Samples++
	const kib = 1024 / 1e9
	if s.Used != nil {
		highest(&u.PeakMemory, new(float64(*s.Used)), kib)
	}
	if s.Total != nil {
		u.Memory = new(float64(*s.Total) * kib)
	}
	if l := t.last; l != nil {
		if l.Ticks != nil && s.Ticks != nil && *s.Ticks > *l.Ticks {
			t.cpu.add(l.Busy, s.Busy, float64(*s.Ticks-*l.Ticks))
		}
		seconds := s.Time.Sub(l.Time).Seconds()
		for i, c := range [4][2]*uint64{{l.In, s.In}, {l.Out, s.Out}, {l.Read, s.Read}, {l.Write, s.Write}} {
			t.rates[i].add(c[0], c[1], seconds)
		}
	}
	t.last = &s
}

// finish is what the node did.
func (t *hostTrack) finish() result.HostUse {
	u := t.use
	percent := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		return new(min(100, 100**v))
	}
	u.CPU, u.PeakCPU = percent(t.cpu.mean()), percent(t.cpu.peak)
	for i, into := range [4][2]**float64{{&u.NetIn, &u.PeakIn}, {&u.NetOut, &u.PeakOut}, {&u.DiskRead, &u.PeakRead},
		{&u.DiskWrite, &u.PeakWrite}} {
		*into[0], *into[1] = t.rates[i].mean(), t.rates[i].peak
	}
	return u
}
