package records_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report/reporttest"
)

// covers: PL-Q16
func TestKey(t *testing.T) {
	reporttest.InTemp(t)
	reporttest.Runs(t, "one", 2, 1000, 50, 1)
	base := reporttest.Load(t, "one")[0]
	require.Equal(t, base.Key(), reporttest.Load(t, "one")[1].Key())
	for name, c := range map[string]struct {
		edit func(*records.Run)
		same bool
	}{
		"image":  {func(r *records.Run) { r.Settings["cmd_args.docker_image_url"] = "image:9" }, true},
		"digest": {func(r *records.Run) { r.Result.Provenance.ImageDigest = "sha256:1" }, true},
		"nodes":  {func(r *records.Run) { r.Result.Placement.Nodes = []string{"n9"} }, true},
		"driver": {func(r *records.Run) { r.Result.System.HardwareInfo.Driver = "570" }, true},
		"gpu":    {func(r *records.Run) { r.Result.System.HardwareInfo.GPU = "H200" }, false},
		"engine": {func(r *records.Run) { r.Result.Provenance.Engine = "sglang" }, false},
		"model":  {func(r *records.Run) { r.Settings["cmd_args.model"] = "n" }, false},
		"load":   {func(r *records.Run) { r.Settings["bench_cmd_args.max_concurrency"] = "1" }, false},
	} {
		run := reporttest.Load(t, "one")[0]
		c.edit(&run)
		require.Equal(t, c.same, run.Key() == base.Key(), name)
	}
	require.NotEmpty(t, (&records.Run{}).Key())
}
