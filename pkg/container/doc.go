// Package container is what container runtimes share: how an image is named, the
// file it is staged in and whether that file is whole, mounts, and the part of a
// step's command that every runtime needs.
//
// It runs no runtime: a launcher writes the command, `profllm job contain` runs it.
//
//	ref, err := container.ParseReference("nvcr.io#nvidia/vllm:26.01")
//	ref.Plain()  // nvcr.io/nvidia/vllm:26.01
//	ref.Enroot() // nvcr.io#nvidia/vllm:26.01
package container
