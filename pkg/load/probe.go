package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/dataset"
	"github.com/profllm/profllm/pkg/load/sender"
	"github.com/profllm/profllm/pkg/stats"
)

// probeText is the prompt of a probe, as in vLLM's client.
const probeText = "Hi"

// Probes are what the requests of --probe-request-rate came to.
type Probes struct {
	Completed, Failed int
	Latencies         []float64 // of the completed ones, s, ascending
	firstError        string
}

// A prober sends short requests beside a load, over connections of its own and outside of its
// limit, one after the other with a pause between them.
type prober struct {
	snd    sender.Sender
	load   func() *sender.Load
	pause  time.Duration
	probes Probes
}

// openProber returns what will probe, or nil if nothing is to be probed.
func (r *runner) openProber(ctx context.Context) (*prober, error) {
	if r.o.ProbeRequestRate == 0 {
		return nil, nil
	}
	to, err := r.o.target()
	if err != nil {
		return nil, err
	}
	to.Streams = 1
	snd, err := sender.Open(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("open a connection for probes: %w", err)
	}
	base := *r.o
	base.LoraModules = nil // as in vLLM
	request := dataset.Request{Prompt: base.protocol().prompt.prompt(probeText, nil), Input: 1, Output: 1}
	bodies := bodiesOf(&base, r.model.name, []dataset.Request{request})
	return &prober{snd: snd, pause: time.Duration(1e9 / r.o.ProbeRequestRate),
		load: func() *sender.Load { return r.load(opener{traffic{bodies, ""}}, 1) }}, nil
}

// probePatience is how long the probe in flight may take once the load is over.
const probePatience = 5 * time.Second

// start begins to probe. The function it returns ends that, after the probe in flight or soon.
func (p *prober) start(ctx context.Context) (stop func() *Probes) {
	if p == nil {
		return func() *Probes { return nil }
	}
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { p.run(ctx, over) })
	return func() *Probes {
		close(over)
		defer time.AfterFunc(probePatience, cancel).Stop()
		defer cancel()
		wg.Wait()
		slices.Sort(p.probes.Latencies)
		return &p.probes
	}
}

// run sends probes until it is over.
func (p *prober) run(ctx context.Context, over <-chan struct{}) {
	for {
		one := p.load()
		one.Outcomes[0].Due = one.Clock()
		p.snd.Run(ctx, one)
		p.take(&one.Outcomes[0])
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-time.After(p.pause):
		}
	}
}

// take counts a probe. One that was interrupted with the run says nothing.
func (p *prober) take(o *answer.Outcome) {
	switch o.State {
	case answer.Completed:
		p.probes.Completed++
		p.probes.Latencies = append(p.probes.Latencies, o.Latency())
	case answer.Failed:
		if p.probes.Failed++; p.probes.firstError == "" {
			p.probes.firstError = o.Err
		}
	}
}

// put writes the keys of vLLM's client. If no probe completed, that one writes none of them, and
// this one how many failed.
func (p *Probes) put(w *keyWriter) {
	w.put("probe_completed", p.Completed)
	w.put("probe_failed", p.Failed)
	if p.Completed > 0 {
		w.put("probe_median_e2el_ms", number(p.quantile(0.5)))
		w.put("probe_p99_e2el_ms", number(p.quantile(0.99)))
		w.put("probe_max_e2el_ms", number(p.quantile(1)))
	}
}

// quantile returns a quantile of the latencies, in ms.
func (p *Probes) quantile(q float64) float64 { return stats.PercentileFromBelow(p.Latencies, q) * 1000 }
