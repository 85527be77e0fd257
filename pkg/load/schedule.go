package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// arrivalStream is the stream of random numbers that arrivals are drawn from; package dataset
// draws from others of the same seed.
const arrivalStream = 1

// schedule returns when each of n requests is due, counted from the start of the run, and at which
// rate it was drawn.
//
// Intervals follow a Gamma law of mean 1/rate and coefficient of variation 1/sqrt(burstiness).
// Without ramp-up all times are stretched by one factor so that the last request leaves exactly
// n/RequestRate after the start.
func schedule(o *Options, n int) (due []time.Duration, rates []float64) {
	rng := rand.New(rand.NewPCG(uint64(o.Seed), arrivalStream))
	at := make([]float64, n) // seconds
	rates = make([]float64, n)
	sum := 0.0
	for i := range at {
		rates[i] = o.rate(i, n)
		switch {
		case math.IsInf(rates[i], 1):
		case math.IsInf(o.Burstiness, 1):
			sum += 1 / rates[i]
		default:
			sum += gamma(rng, o.Burstiness) / (rates[i] * o.Burstiness)
		}
		at[i] = sum
	}
	stretch := 1.0
	if o.RampUpStrategy == "" && sum > 0 {
		stretch = float64(n) / o.RequestRate / sum
	}
	due = make([]time.Duration, len(at))
	for i, s := range at {
		due[i] = time.Duration(math.Round(s * stretch * 1e9))
	}
	return due, rates
}

// rate returns the rate at which request i of n is drawn, in requests per second.
func (o *Options) rate(i, n int) float64 {
	if o.RampUpStrategy == "" {
		return o.RequestRate
	}
	progress := float64(i) / float64(max(n-1, 1))
	start, end := float64(*o.RampUpStartRPS), float64(*o.RampUpEndRPS)
	if o.RampUpStrategy == "linear" {
		return start + (end-start)*progress
	}
	return start * math.Pow(end/start, progress)
}

// gamma draws from the Gamma law of that shape and scale 1: Marsaglia and Tsang, "A simple
// method for generating gamma variables", ACM TOMS 26 (2000); below shape 1 by their note on
// boosting with a power of a uniform number.
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		u := 1 - rng.Float64() // in (0, 1]
		return gamma(rng, shape+1) * math.Pow(u, 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// A rateChange says when a ramp-up first reached a whole number of requests per second.
type rateChange struct {
	RPS int    `json:"rps"`
	At  string `json:"timestamp"` // local time as Python's isoformat prints it
}

// rateChanges lists the whole rates a ramp-up reached. sent is how many requests of the
// schedule were reached.
func rateChanges(o *Options, started time.Time, due []time.Duration, rates []float64, sent int) []rateChange {
	if o.RampUpStrategy == "" {
		return nil
	}
	const iso = "2006-01-02T15:04:05.000000"
	last := *o.RampUpStartRPS
	out := []rateChange{{last, started.Local().Format(iso)}}
	for i := range min(sent, len(due)) {
		for whole := int(rates[i]); last < whole; {
			last++
			out = append(out, rateChange{last, started.Add(due[i]).Local().Format(iso)})
		}
	}
	return out
}
