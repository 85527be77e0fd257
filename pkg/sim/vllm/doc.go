// Package vllm stands in for `vllm serve`: the flags of vLLM 0.32.0 in front of the simulated
// engine.
package vllm
