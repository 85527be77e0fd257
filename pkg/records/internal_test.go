package records

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
