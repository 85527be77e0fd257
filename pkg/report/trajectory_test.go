package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRewards(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "trajectory.csv"))
	require.NoError(t, err)
	defer f.Close()
	got, err := rewards(f)
	require.NoError(t, err)
	require.Equal(t, map[int]float64{1: 0.0025, 2: -1, 4: 0.5}, got)

	_, err = rewards(strings.NewReader("a,b\n1,2\n"))
	require.ErrorContains(t, err, "no columns step and reward")
}

func FuzzRewards(f *testing.F) {
	seed, err := os.ReadFile(filepath.Join("testdata", "trajectory.csv"))
	require.NoError(f, err)
	f.Add(string(seed))
	f.Add("step,reward\n1,NaN\n2,\"")
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := rewards(strings.NewReader(text))
		for _, v := range got {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
		}
	})
}

func TestPlace(t *testing.T) {
	for dir, want := range map[string]Case{
		"/r/night_2026-01-02_03-04-05/a/0":   {Scenario: "night", Test: "a"},
		"/r/night_2026-01-02_03-04-05/a/3/7": {Scenario: "night", Test: "a", Iteration: 3, Step: 7},
		"/r/a/-1":                            {Test: "-1"},
		"/r/plain":                           {Test: "plain"},
		"/7":                                 {Test: "", Iteration: 7},
	} {
		require.Equal(t, want, place(dir), dir)
	}
}

func TestPrice(t *testing.T) {
	for gpu, want := range map[string]float64{"NVIDIA H100 80GB HBM3": 3, "NVIDIA B200": 5.5, "NVIDIA GB200": 11, "nvidia gb300": 8} {
		usd, ok := price(gpu)
		require.True(t, ok)
		require.Equal(t, want, usd, gpu)
	}
	for _, gpu := range []string{"", "NVIDIA A100-SXM4-80GB", "NVIDIA H200"} {
		_, ok := price(gpu)
		require.False(t, ok, gpu)
	}
}
