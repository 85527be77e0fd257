// Package synthetic makes up records of runs that never were, to show what a full store looks
// like and to measure how fast one answers. Every record says that it is simulated.
//
// The numbers follow a small model of serving, so that questions have answers: throughput grows
// with tensor parallelism and concurrency until the memory's bandwidth is used up, the time to the
// first token grows with the load, quantisation and newer GPUs help, and some releases of an
// engine are slower than the ones before. One run in twenty is invalid, and says why.
//
//	g := synthetic.New(1, 100_000, time.Now())
//	for i := range g.Len() {
//		run := g.Run(i) // the oldest first
//	}
//
// The same seed, number and time give the same records.
package synthetic

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// Span is the time over which runs are spread.
const Span = 2 * 365 * 24 * time.Hour

// Generator makes runs. It is safe for concurrent use.
type Generator struct {
	seed uint64
	n    int
	end  time.Time
}

// New makes n runs in the Span before a time.
func New(seed uint64, n int, end time.Time) *Generator {
	return &Generator{seed: seed, n: n, end: end.UTC().Truncate(time.Second)}
}

// Len is the number of runs.
func (g *Generator) Len() int { return g.n }

// Record is the record of a run, from 0, the oldest.
func (g *Generator) Record(i int) *result.Result { return g.Run(i).Result }

// Query is the run for a query.Engine.
func (g *Generator) Query(i int) query.Run {
	r := g.Run(i)
	return query.Run{ID: r.Result.RunID, Cells: field.Of(&r)}
}

// Run is the run with its case and settings, as if it had been read from a folder.
func (g *Generator) Run(i int) records.Run {
	d := g.draw(i)
	r := d.record()
	return records.Run{
		Dir: fmt.Sprintf("synthetic/%s/%s", d.began.Format("2006-01"), r.RunID),
		Case: records.Case{
			Scenario: d.suite.scenario, Test: d.suite.test, Step: d.step,
			Point: d.title(), Repeat: d.repeat,
		},
		Result: r, Settings: r.Config.Settings,
	}
}

// title is what a sweep chose; nothing of a service.
func (d *drawn) title() string {
	if d.step == 0 {
		return ""
	}
	return fmt.Sprintf("max_concurrency=%d tensor_parallel_size=%d", d.concurrency, d.tp)
}

// drawn is what chance decided of a run.
type drawn struct {
	*rand.Rand            // of this run alone
	fixed      *rand.Rand // of all runs of its service or sweep
	id         string
	began      time.Time
	suite      suite
	engine     engine
	release
	gpu                     gpu
	model                   model
	tp, dp, concurrency     int
	input, output, prompts  int
	rate                    float64 // 0: all at once
	seqs, batched, maxLen   int     // maxLen 0: auto
	utilization             float64
	quantized, eager, cache bool
	spec                    bool
	launcher                string
	step, repeat            int
	fault                   *fault // nil of most runs
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// draw decides what a run is. Every third is of a service that is measured again and again with the
// same settings; the others are points of sweeps.
func (g *Generator) draw(i int) *drawn {
	r := rand.New(rand.NewPCG(g.seed, uint64(i)))
	step := Span / time.Duration(max(g.n, 1))
	began := g.end.Add(-Span + time.Duration(i)*step + time.Duration(r.Float64()*float64(step))).Truncate(time.Second)
	var d *drawn
	if i%3 == 0 {
		d = g.service(i / 3 % services)
	} else {
		at := i - i/3 - 1 // among the points of sweeps
		d = g.sweep(at / points)
		d.point(at/points, at%points)
	}
	d.Rand, d.began = r, began
	d.id = fmt.Sprintf("exp_%s_%06x", began.Format("20060102_150405"), (i^r.IntN(1<<4)<<20)&0xffffff)
	d.release = d.engine.at(1 - float64(g.end.Sub(began))/float64(Span))
	if r.Float64() < 0.05 {
		d.fault = &faults[zipf(r, len(faults))]
	}
	return d
}

// What there is of each: services that are measured for all of the time, and points of a sweep.
const (
	services = 6
	points   = 40
)

// service is one that runs every night.
func (g *Generator) service(n int) *drawn {
	d := settings(rand.New(rand.NewPCG(g.seed+1, uint64(n))))
	d.suite, d.rate, d.step, d.repeat = suites[n%len(suites)], 0, 0, 0
	d.suite.scenario, d.suite.name = "nightly", "nightly/"+d.suite.test
	d.engine, d.model = engines[n%2], models[n%len(models)] // not two of the same
	d.tp = max(d.model.leastTP, d.tp)
	return d
}

// sweep is a sweep without its point.
func (g *Generator) sweep(n int) *drawn { return settings(rand.New(rand.NewPCG(g.seed+2, uint64(n)))) }

// point sets what the points of a sweep differ in: the concurrency, and one setting besides.
func (d *drawn) point(sweep, n int) {
	d.rate, d.repeat, d.step = 0, 0, n+1
	d.concurrency = 1 << (n % 10)
	d.prompts = 10 * d.concurrency
	switch other := n / 10; sweep % 4 {
	case 0:
		d.tp, d.dp = max(d.model.leastTP, 1)<<other, 1
	case 1:
		d.quantized, d.cache = other%2 == 1, other/2 == 1
	case 2:
		d.seqs = 32 << other
	case 3:
		d.eager, d.spec = other%2 == 1, other/2 == 1
	}
}

// settings are those of a service.
func settings(r *rand.Rand) *drawn {
	d := &drawn{fixed: r, suite: suites[zipf(r, len(suites))], engine: engines[zipf(r, len(engines))]}
	d.gpu, d.model = gpus[zipf(r, len(gpus))], models[zipf(r, len(models))]
	d.tp, d.dp = max(d.model.leastTP, 1<<r.IntN(4)), 1
	if r.Float64() < 0.25 {
		d.dp = 2 << r.IntN(2)
	}
	d.concurrency = 1 << r.IntN(10)
	d.input, d.output = 128<<r.IntN(7), 32<<r.IntN(6)
	d.prompts = 5 * d.concurrency * (1 + r.IntN(4))
	if r.Float64() < 0.3 {
		d.rate = float64(1+r.IntN(40)) / 2
	}
	d.seqs, d.batched = 64<<r.IntN(5), 2048<<r.IntN(4)
	if r.Float64() < 0.7 {
		d.maxLen = 8192 << r.IntN(5)
	}
	d.utilization = float64(80+r.IntN(16)) / 100
	d.quantized, d.eager = r.Float64() < 0.3, r.Float64() < 0.05
	d.cache, d.spec = r.Float64() < 0.8, r.Float64() < 0.1
	d.launcher = pick(r, []string{"pyxis", "pyxis", "apptainer", "docker", "bare"})
	return d
}

// zipf is a place in a list whose first entries are the most frequent.
func zipf(r *rand.Rand, n int) int {
	x := r.Float64()
	return int(float64(n) * x * x)
}
