package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"time"
)

// commit and date are of the build, set with -ldflags "-X main.commit=… -X main.date=…"
// where it is made without a repository. Otherwise Go knows them.
var commit, date string

// pseudoVersion is a version that Go makes of a commit: its date and its hash.
var pseudoVersion = regexp.MustCompile(`[-.](\d{14})-([0-9a-f]{12})(\+|$)`)

// version comes from the build: a tag, or the revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// build is the line that --version prints: name, version, commit and its date.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildLine(version(), commit, date, info.Settings)
}

func buildLine(version, commit, date string, settings []debug.BuildSetting) string {
	set := map[string]string{}
	for _, s := range settings {
		set[s.Key] = s.Value
	}
	commit, date = cmp.Or(commit, set["vcs.revision"]), cmp.Or(date, set["vcs.time"])
	if m := pseudoVersion.FindStringSubmatch(version); m != nil {
		commit = cmp.Or(commit, m[2])
		if at, err := time.Parse("20060102150405", m[1]); err == nil {
			date = cmp.Or(date, at.Format(time.RFC3339))
		}
	}
	if at, err := time.Parse(time.RFC3339, date); err == nil {
		date = at.UTC().Format(time.DateOnly)
	}
	if set["vcs.modified"] == "true" && commit != "" {
		commit += " (modified)"
	}
	return fmt.Sprintf("profllm %s, commit %s, %s", version, cmp.Or(commit, "unknown"), cmp.Or(date, "date unknown"))
}

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
