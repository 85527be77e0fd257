// Package vllmsweep reads sweeps as `vllm bench sweep serve`, `serve_workload` and `startup`
// describe them, by commands and parameter files, makes a scenario of each, and writes the
// folder of results that vLLM's own command would leave.
//
//	s, err := vllmsweep.Serve{ServeCmd: "vllm serve m", BenchCmd: "vllm bench serve", Runs: 3, …}.Sweep()
//	scenario, err := s.Scenario(nil) // a test for each server, a phase for each load
//	…
//	err = s.Write(tree) // run=0.json, summary.json, summary.csv
//
// It runs nothing. What vLLM's commands do is in vllm/benchmarks/sweep of vLLM 0.32.
package vllmsweep
