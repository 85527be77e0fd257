package load

import (
	"errors"
	"math/rand/v2"
)

// adapterStream is the stream of random numbers that LoRA adapters are drawn from. Package dataset
// draws from low numbers and from multiples of 1<<48.
const adapterStream = 1 << 32

// adapters returns the adapter that each of n requests asks for as its model; nil without adapters.
// vLLM's client draws them from its own random numbers, so that only the share of each is the same.
func (o *Options) adapters(n int) []string {
	names := o.LoraModules
	if len(names) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(uint64(o.Seed), adapterStream))
	list := make([]string, n)
	for i := range list {
		if o.LoraAssignment == "round-robin" {
			list[i] = names[i%len(names)]
		} else {
			list[i] = names[rng.IntN(len(names))]
		}
	}
	return list
}

func (o *Options) checkAdapters() error {
	if o.LoraAssignment != "random" && len(o.LoraModules) == 0 {
		return errors.New("--lora-assignment has no effect without --lora-modules")
	}
	for _, name := range o.LoraModules {
		if name == "" {
			return errors.New("--lora-modules has an empty name")
		}
	}
	return nil
}
