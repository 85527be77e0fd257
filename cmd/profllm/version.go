package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/profllm/profllm/pkg/buildinfo"
)

// commit and date are of the build, set with -ldflags "-X main.commit=… -X main.date=…"
// where it is made without a repository. Otherwise Go knows them.
var commit, date string

// built is what Go knows of this build, nil if nothing.
func built() *debug.BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return info
}

func version() string { return buildinfo.Version(built()) }

// build is the line that --version prints.
func build() string { return buildinfo.Line("profllm", built(), commit, date) }

type versionCmd struct{}

// Run also says which program would read the GPUs of this machine.
func (versionCmd) Run(ctx context.Context, a *app) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // a driver may hang
	defer cancel()
	reader, note := gpuReader().Which(ctx)
	if reader == "" {
		reader = "none"
	}
	if note != "" {
		note = " (" + note + ")"
	}
	_, err := fmt.Fprintf(a.stdout, "%s\nGPU reader: %s%s\n", build(), reader, note)
	return err
}
