package synthetic

import (
	"math"

	"github.com/profllm/profllm/pkg/result"
)

// measured is what the model says of a run.
type measured struct {
	ttft, tpot  float64 // medians, ms
	requests    float64 // per s
	duration    float64 // s
	utilization float64 // of the GPUs, percent
	power       float64 // of all GPUs, W
	memory      float64 // of one GPU, GB
	hits        float64 // of the prefix cache, 0 to 1
}

// noise is a factor near 1.
func (d *drawn) noise(sigma float64) float64 { return math.Exp(sigma * d.NormFloat64()) }

// run computes the numbers: decoding is bound by reading the weights, and prefill by computing.
func (d *drawn) run() measured {
	bytes := 2.0
	if d.quantized {
		bytes = 1.05
	}
	shared := math.Pow(float64(d.tp), 0.88) // what communication leaves of perfect scaling
	perReplica := float64(min(d.concurrency, d.seqs*d.dp)) / float64(d.dp)
	weights := d.model.active * bytes / (d.gpu.bandwidth * 0.7 * shared) * 1000 // ms for one token of one request
	if d.model.active < d.model.total {                                         // more experts are read for more requests
		weights *= min(d.model.total/d.model.active, 1+math.Log2(1+perReplica)/3)
	}
	compute := 2 * d.model.active / (d.gpu.compute * 0.45 * shared) // ms for each request of a step
	m := measured{}
	m.tpot = (weights + compute*perReplica + 0.4*math.Log2(float64(1+d.tp)) + 1.5) / d.speed * d.slower
	if d.eager {
		m.tpot *= 1.35
	}
	if d.spec {
		m.tpot *= 0.72 + perReplica/1024
	}
	m.tpot *= d.noise(0.03)
	prompt := float64(d.input)
	if d.cache && d.input > 1024 {
		m.hits = 0.1 + 0.3*d.Float64()
		prompt *= 1 - m.hits
	}
	prefill := 2 * d.model.active * prompt / (d.gpu.compute * 0.5 * shared) // ms
	waiting := 1 + perReplica*prompt/float64(d.batched)/8
	if over := float64(d.concurrency) / float64(d.seqs*d.dp); over > 1 {
		waiting *= over * over // requests wait for a place in the batch
	}
	m.ttft = (prefill*waiting + 6) / d.speed * d.noise(0.06)
	e2el := m.ttft + m.tpot*float64(d.output-1)
	m.requests = float64(d.concurrency) / e2el * 1000 * 0.97
	if d.rate > 0 {
		m.requests = min(m.requests, d.rate*0.985)
	}
	m.duration = float64(d.prompts) / m.requests
	busy := perReplica / (perReplica + 12)
	m.utilization = min(100, (35+62*busy)*d.noise(0.02))
	gpus := float64(d.tp * d.dp)
	m.power = gpus * d.gpu.power * (0.25 + 0.6*busy) * d.noise(0.02)
	m.memory = d.gpu.memory * d.utilization * d.noise(0.004)
	return m
}

// latency is a distribution around a median; one of many requests has a longer tail.
func (d *drawn) latency(n int, median, sigma float64) result.Distribution {
	at := func(z float64) float64 { return median * math.Exp(sigma*z) * d.noise(0.01) }
	p90 := at(1.2816)
	p95 := max(p90, at(1.6449))
	p99 := max(p95, at(2.3263))
	mean := median * math.Exp(sigma*sigma/2) * d.noise(0.003)
	low := min(median, at(-2.5))
	return result.Distribution{
		N: &n, Mean: &mean, Median: &median, Std: new(mean * math.Sqrt(math.Exp(sigma*sigma)-1)),
		Min: &low, Max: new(max(p99, at(3.2))),
		Percentiles: map[float64]float64{50: median, 90: p90, 95: p95, 99: p99},
	}
}
