package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPICheck(t *testing.T) {
	load := func(line string) (APICheck, error) {
		s, err := Load(File{Name: "s.toml",
			Data: []byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n" + line)}, nil, HookFiles{})
		if err != nil {
			return APICheck{}, err
		}
		return s.Tests[0].APICheck, nil
	}
	for line, want := range map[string]APICheck{
		"": {}, "api_check = false": {}, "api_check = true": {On: true},
		`api_check = ["models", 6]`: {On: true, Only: []string{"models", "6"}},
	} {
		got, err := load(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for line, want := range map[string]string{
		"api_check = []":       "s.toml:5:1: api_check is an empty list",
		"api_check = [[1]]":    "is not the name or number of a check",
		`api_check = "models"`: "api_check must be true, false or a list of checks",
	} {
		_, err := load(line)
		require.ErrorContains(t, err, want, line)
	}
}
