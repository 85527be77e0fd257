// Package buildinfo says which version of a program runs: its version, its commit and the
// commit's date, as Go notes them in a binary, or as they are set where the binary is built
// without a repository.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// pseudoVersion is a version that Go makes of a commit: its date and its hash.
var pseudoVersion = lazyregexp.New(`[-.](\d{14})-([0-9a-f]{12})(\+|$)`)

// Version is the version of a build: a tag, or the revision; "unknown" without either.
func Version(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// Line is name, version, commit and its date. commit and date come before those of the build;
// "" for none.
func Line(name string, info *debug.BuildInfo, commit, date string) string {
	version := Version(info)
	set := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			set[s.Key] = s.Value
		}
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
	return fmt.Sprintf("%s %s, commit %s, %s", name, version, cmp.Or(commit, "unknown"), cmp.Or(date, "date unknown"))
}
