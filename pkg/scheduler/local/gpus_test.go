package local

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/quantity"
)

func machineOf(n int) (list []gpu.Device) {
	for i := range n {
		list = append(list, gpu.Device{Index: i, UUID: string(rune('a' + i))})
	}
	return list
}

// Free GPUs are chosen: nobody leases them, nobody computes on them, and their memory is unused.
//
// covers: LRES-1, LRES-4, HW-1
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		want   request
		leased string
		change func([]gpu.Device)
		got    []int
		busy   []string
	}{
		"the first":                {request{count: 2}, "", nil, []int{0, 1}, nil},
		"an aligned pair":          {request{count: 2}, "a", nil, []int{2, 3}, []string{"GPU 0: job x"}},
		"what is left":             {request{count: 2}, "acdeg", nil, []int{1, 5}, nil},
		"an aligned four":          {request{count: 4}, "d", nil, []int{4, 5, 6, 7}, nil},
		"four, not aligned":        {request{count: 4}, "dh", nil, []int{0, 1, 2, 4}, nil},
		"too few":                  {request{count: 8}, "d", nil, nil, []string{"GPU 3: job x"}},
		"named":                    {request{2, []int{6, 1}}, "", nil, []int{1, 6}, nil},
		"named, and another's":     {request{2, []int{6, 1}}, "b", nil, nil, []string{"GPU 1: job x"}},
		"a process computes":       {request{count: 1}, "", func(d []gpu.Device) { d[0].Processes = []gpu.Process{{PID: 7, Name: "python"}} }, []int{1}, []string{"GPU 0: process 7 python"}},
		"memory in use":            {request{count: 1}, "", func(d []gpu.Device) { d[0].Used = 3 * quantity.GiB }, []int{1}, []string{"GPU 0: 3 GiB in use"}},
		"what a driver holds":      {request{count: 1}, "", func(d []gpu.Device) { d[0].Used = 600 << 20 }, []int{0}, nil},
		"of whom nothing is known": {request{count: 1}, "z", nil, []int{0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			devices, of := machineOf(8), leases{}
			for _, uuid := range c.leased {
				of[gpuName(string(uuid))] = holder{Job: "x"}
			}
			if c.change != nil {
				c.change(devices)
			}
			got, busy := c.want.choose(devices, of, 0)
			var numbers []int
			for _, d := range got {
				numbers = append(numbers, d.Index)
			}
			require.Equal(t, c.got, numbers)
			if c.busy != nil && c.got == nil {
				require.Equal(t, c.busy, busy)
			}
		})
	}
}

// What no wait can fulfil is said at once.
func TestPossible(t *testing.T) {
	require.NoError(t, request{count: 8}.possible(machineOf(8)))
	require.EqualError(t, request{count: 9}.possible(machineOf(8)), "the job needs 9 GPUs, but this machine has 8 that it may use")
	require.EqualError(t, request{1, []int{2}}.possible(machineOf(2)),
		"the test names GPU 2, which is not among those that it may use: 0, 1")
	require.EqualError(t, request{1, []int{2}}.possible(nil), "the test names GPU 2, which this machine does not have")
}

// A job's own numbers of GPUs become the machine's, and nothing else does.
func TestRenumbered(t *testing.T) {
	environ := func(devices []gpu.Device, named bool) []gpu.Shown {
		list := variables(devices, named)
		return View(func(name string) string { return lookup(list, name) })
	}
	devices := []gpu.Device{{Index: 4, UUID: "e"}, {Index: 6, UUID: "g"}}
	view := environ(devices, false)
	require.Equal(t, []gpu.Shown{{Index: 0, UUID: "e"}, {Index: 1, UUID: "g"}}, view)
	named := environ(devices, true)
	require.Equal(t, []gpu.Shown{{Index: 4, UUID: "e"}, {Index: 6, UUID: "g"}}, named, "as the test names them")
	own := []string{"env", "CUDA_VISIBLE_DEVICES=6"}
	require.Equal(t, own, renumbered(own, named, "4,6"))
	require.Equal(t, own, renumbered(own, nil, "0,1,2,3"), "in a rehearsal")
	for in, want := range map[string]string{
		"CUDA_VISIBLE_DEVICES=0,1":       "CUDA_VISIBLE_DEVICES=4,6",
		"CUDA_VISIBLE_DEVICES=1":         "CUDA_VISIBLE_DEVICES=6",
		"CUDA_VISIBLE_DEVICES=2":         "CUDA_VISIBLE_DEVICES=2",
		"CUDA_VISIBLE_DEVICES=":          "CUDA_VISIBLE_DEVICES=",
		"CUDA_VISIBLE_DEVICES=GPU-a":     "CUDA_VISIBLE_DEVICES=GPU-a",
		"NOT_CUDA_VISIBLE_DEVICES=0":     "NOT_CUDA_VISIBLE_DEVICES=0",
		"--env=CUDA_VISIBLE_DEVICES=0,1": "--env=CUDA_VISIBLE_DEVICES=0,1",
	} {
		argv := []string{"env", "A=0", in, "vllm", "serve"}
		require.Equal(t, []string{"env", "A=0", want, "vllm", "serve"}, renumbered(argv, view, "4,6"))
		require.Equal(t, in, argv[2], "the argument itself stays")
	}
	require.Equal(t, []string{"vllm"}, renumbered([]string{"vllm"}, view, "4,6"))
}

// Leases go from the command to the job, whoever of them dies when.
func TestTakeOver(t *testing.T) {
	leasesIn(t)
	command := ourselves()
	ours := holder{command.Job, t.TempDir()}
	require.NoError(t, changeLeases(t.Context(), func(of leases) bool {
		of[gpuName("a")], of[gpuName("b")] = command, command
		return true
	}))
	require.NoError(t, ours.takeOver(command, []string{gpuName("a"), gpuName("b")}))
	require.NoError(t, command.release(t.Context()), "nothing is the command's any more")
	other := holder{command.Job, t.TempDir()}
	require.ErrorContains(t, other.takeOver(command, []string{gpuName("b")}), "gpu b is now used by job ")

	gone := holder{Job: newID(1, "an earlier start")}
	require.NoError(t, other.takeOver(gone, []string{gpuName("c")}), "the command died meanwhile")
	require.NoError(t, changeLeases(t.Context(), func(of leases) bool {
		require.Equal(t, leases{gpuName("a"): ours, gpuName("b"): ours, gpuName("c"): other}, of)
		return false
	}))
}
