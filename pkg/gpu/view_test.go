package gpu

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func machineOf(n int) (list []Device) {
	for i := range n {
		list = append(list, Device{Index: i, UUID: "GPU-" + strings.Repeat(string(rune('a'+i)), 4)})
	}
	return list
}

func indices(devices []Device) (list []int) {
	for _, d := range devices {
		list = append(list, d.Index)
	}
	return list
}

// An environment leaves some GPUs to its programs, as CUDA and Slurm say it.
//
// covers: LRES-1
func TestAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want []int
		err  string
	}{
		"nothing said":         {nil, []int{0, 1, 2, 3}, ""},
		"numbers":              {map[string]string{"CUDA_VISIBLE_DEVICES": "3, 1"}, []int{3, 1}, ""},
		"UUIDs":                {map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-cccc,GPU-a"}, []int{2, 0}, ""},
		"none":                 {map[string]string{"CUDA_VISIBLE_DEVICES": ""}, nil, ""},
		"none, in CUDA's way":  {map[string]string{"CUDA_VISIBLE_DEVICES": "-1"}, nil, ""},
		"up to a wrong one":    {map[string]string{"CUDA_VISIBLE_DEVICES": "1,-1,2"}, []int{1}, ""},
		"not there":            {map[string]string{"CUDA_VISIBLE_DEVICES": "4"}, nil, `CUDA_VISIBLE_DEVICES is "4", but there is no GPU 4 here`},
		"no such UUID":         {map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-x"}, nil, "there is no GPU GPU-x here"},
		"none, in Slurm's way": {map[string]string{"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, nil, ""},
		"twice":                {map[string]string{"CUDA_VISIBLE_DEVICES": "0,1,0"}, nil, `CUDA_VISIBLE_DEVICES is "0,1,0", but GPU 0 is named twice`},
		"Slurm":                {map[string]string{"SLURM_JOB_GPUS": "2,3"}, []int{2, 3}, ""},
		"a step of Slurm":      {map[string]string{"SLURM_JOB_GPUS": "2,3", "SLURM_STEP_GPUS": "3"}, []int{3}, ""},
		"numbers of a node whose other GPUs are hidden": {map[string]string{"SLURM_JOB_GPUS": "4,5,6,7"}, []int{0, 1, 2, 3}, ""},
		"CUDA before Slurm":                             {map[string]string{"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_GPUS": "2,3"}, []int{0}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Allowed(machineOf(4), func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, indices(got))
		})
	}
}

// A view shows its GPUs and no others, under its own numbers.
func TestView(t *testing.T) {
	devices := machineOf(4)
	require.Equal(t, devices, shown(nil, devices))
	got := shown([]Shown{{0, "GPU-dddd"}, {1, "GPU-gone"}, {5, "GPU-aaaa"}}, devices)
	require.Equal(t, []Device{{Index: 0, UUID: "GPU-dddd"}, {Index: 5, UUID: "GPU-aaaa"}}, got)
	require.Equal(t, 3, devices[3].Index, "the list itself stays")
	samples := []Sample{{Index: 0, UUID: "GPU-aaaa"}, {Index: 3, UUID: "GPU-dddd"}, {Index: 1, UUID: "GPU-bbbb"}}
	require.Equal(t, samples, shownSamples(nil, samples))
	require.Equal(t, []Sample{{Index: 0, UUID: "GPU-dddd"}, {Index: 1, UUID: "GPU-aaaa"}},
		shownSamples([]Shown{{0, "GPU-dddd"}, {1, "GPU-aaaa"}}, samples))
}
