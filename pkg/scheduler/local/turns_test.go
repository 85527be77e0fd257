package local

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
)

func numbers(devices []gpu.Device) (list []int) {
	for _, d := range devices {
		list = append(list, d.Index)
	}
	return list
}

// Who waits longest gets free GPUs first, so that a job that needs many is not passed for ever by
// those that need few. What is free besides goes to whoever can use it.
//
// covers: LRES-1, LRES-4
func TestTurns(t *testing.T) {
	devices, of := machineOf(8), leases{}
	for i := range 6 {
		of[gpuName(devices[i].UUID)] = holder{Job: "x"}
	}
	first := of.nextTurn(request{count: 4}, devices)
	of[first.name()] = holder{Job: "many"}
	second := of.nextTurn(request{count: 1}, devices)
	of[second.name()] = holder{Job: "few"}
	require.Equal(t, []int{1, 2}, []int{first.number, second.number})

	_, busy := request{count: 1}.choose(devices, of, second.number)
	require.Contains(t, busy, "GPU 6: kept for job many, which waits for it")
	got, _ := request{count: 1}.choose(devices, of, 0)
	require.Nil(t, got, "whoever does not wait comes last")
	got, _ = request{count: 4}.choose(devices, of, first.number)
	require.Nil(t, got)

	for i := range 3 { // five are free: four for the first, one for the second
		delete(of, gpuName(devices[i].UUID))
	}
	got, _ = request{count: 1}.choose(devices, of, second.number)
	require.Equal(t, []int{7}, numbers(got))
	got, _ = request{count: 4}.choose(devices, of, first.number)
	require.Equal(t, []int{0, 1, 2, 6}, numbers(got))
	got, _ = request{count: 1}.choose(devices, of, 0)
	require.Nil(t, got)
}

// GPUs that those in front cannot use are not kept for them.
func TestTurnsOfOtherGPUs(t *testing.T) {
	devices, of := machineOf(4), leases{gpuName("a"): {Job: "x"}}
	of[of.nextTurn(request{ids: []int{0, 1}}, devices).name()] = holder{Job: "named"}
	of[of.nextTurn(request{count: 2}, devices[2:3]).name()] = holder{Job: "limited"}
	got, busy := request{count: 2}.choose(devices, of, 0)
	require.Nil(t, got)
	require.Equal(t, []string{"GPU 0: job x", "GPU 1: kept for job named, which waits for it",
		"GPU 2: kept for job limited, which waits for it"}, busy)
	got, _ = request{count: 1}.choose(devices, of, 0)
	require.Equal(t, []int{3}, numbers(got))
}

func TestTurnNames(t *testing.T) {
	want := turn{12, 2, []string{"GPU-1", "GPU-2"}}
	got, ok := readTurn(want.name())
	require.True(t, ok)
	require.Equal(t, want, got)
	for _, name := range []string{"", "turn", "port 8000", "gpu GPU-1", "turn x: 2 of a", "turn 1: x of a", "turn 1: 2 to a", "turn 1: 2 of"} {
		got, ok := readTurn(name)
		require.True(t, !ok || len(got.among) == 0, name)
	}
}

// A turn ends with its process.
func TestTurnsOfTheDead(t *testing.T) {
	leasesIn(t)
	require.NoError(t, changeLeases(t.Context(), func(of leases) bool {
		of[of.nextTurn(request{count: 1}, machineOf(1)).name()] = holder{Job: newID(1, "an earlier start")}
		return true
	}))
	require.NoError(t, changeLeases(t.Context(), func(of leases) bool {
		require.Empty(t, of, fmt.Sprint(of))
		return false
	}))
}
