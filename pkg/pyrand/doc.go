// Package pyrand draws the random numbers of Python programs: those of CPython's random module
// and of numpy, old and new, bit for bit. A sweep draws what CloudAI draws with it, and the load
// client the prompts that vLLM's client draws.
//
// None of it is for secrets.
//
//	pyrand.FromText("42:x:1").Below(4) // random.Random("42:x:1").choice(range(4))
package pyrand
