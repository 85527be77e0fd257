package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// prepareMounts makes the folders that profllm itself mounts into containers: on a
// fresh site nobody else does. It names what the user mounts and is not on this host,
// which may be right: the job looks for it on its nodes.
func (u *Unit) prepareMounts(log func(format string, args ...any)) error {
	var missing []string
	err := u.eachPlan(func(_ string, p *plan.Plan) error {
		for _, dir := range p.Folders {
			if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
				continue // one that cannot be looked at from here may be whole on the nodes
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("create a folder to mount into containers: %w\n\thint: set install_path and hf_home_path to writable folders, or have the folders created", err)
			}
			log("created %s, which is mounted into containers", dir)
		}
		for _, dir := range p.MountSources() {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && !slices.Contains(missing, dir) {
				missing = append(missing, dir)
			}
		}
		return nil
	})
	if len(missing) > 0 {
		log("note: mount sources missing on this machine: %s (each node checks them before servers start)",
			strings.Join(missing, ", "))
	}
	return err
}
