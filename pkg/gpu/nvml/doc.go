//go:build linux && cgo

// Package nvml reads GPUs by the driver's own library, for cmd/profllm-nvml alone:
// everything else asks that program, because a static binary cannot open a library. The
// library is opened when it is first used; neither building nor starting needs it.
package nvml
