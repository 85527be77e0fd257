package verify

import (
	"fmt"

	"github.com/profllm/profllm/pkg/quantity"
)

// Line is the line of a file.
func (v Found) Line(name string) string {
	switch {
	case v.Err != nil:
		return fmt.Sprintf("bad  %-8s %s", v.Kind, name)
	case v.NotRunnable != "":
		return fmt.Sprintf("ok   %-8s %s: not runnable: %s", v.Kind, name, v.NotRunnable)
	}
	return fmt.Sprintf("ok   %-8s %s", v.Kind, name)
}

// Count counts the files that are bad and those that are in order and cannot run.
func Count(files, bad, idle int) string {
	of := fmt.Sprintf(" of %s ", quantity.Count(files, "file"))
	switch {
	case bad == 0:
		return fmt.Sprintf("%d%snot runnable", idle, of)
	case idle > 0:
		return fmt.Sprintf("%d%sbad, %d not runnable", bad, of, idle)
	}
	return fmt.Sprintf("%d%sbad", bad, of)
}
